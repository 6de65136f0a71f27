"""Errors of the REST face, as the protocol has them, and what no log may repeat."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin.server.settings import Limits
from tests.hand_made_table import HandMadeTable
from tests.server.iceberg_face import JAVA, Face, problem_of, publish, table_of_files, table_path

BAD_REQUEST = (400, "BadRequestException")
SECRET = "s3cretvalue"
TOKEN = "t0ken-of-a-caller"
PLAN = f"{table_path('db', 't')}/plan"


TYPES = {404: "NotFoundException", 405: "RESTException", 406: "UnsupportedOperationException"}


@pytest.fixture(scope="module")
def lasting_face(tmp_path_factory: pytest.TempPathFactory, lasting_client_of: Callable[..., Any]) -> Face:
    """One face for the tests that only ask."""
    root = tmp_path_factory.mktemp("lasting")
    table_of_files(root / "db" / "t", "f")
    return Face(lasting_client_of(root, iceberg=True, ttl_seconds=600))


@pytest.fixture(scope="module")
def guarded_face(tmp_path_factory: pytest.TempPathFactory, lasting_client_of: Callable[..., Any]) -> Face:
    return Face(lasting_client_of(tmp_path_factory.mktemp("guarded"), iceberg=True, token=b"right"))


@pytest.fixture
def face(tmp_path: Path, face_of: Callable[..., Face]) -> Face:
    table_of_files(tmp_path / "db" / "t", "f")
    return face_of(tmp_path)


def of_a(type_: str, **keys: Any) -> dict[str, Any]:
    return {"type": type_, "term": "a", **keys}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "", 404),
        ("GET", "/nope", 404),
        ("GET", "/config/", 404),
        ("GET", "/namespaces/db/views", 404),
        ("GET", f"{table_path('db', 't')}/credentials", 406),
        ("POST", f"{table_path('db', 't')}/metrics", 404),
        ("POST", "/oauth/tokens", 404),
        ("POST", "/transactions/commit", 404),
        ("POST", "/namespaces", 405),
        ("DELETE", "/namespaces/db", 405),
        ("POST", "/namespaces/db/tables", 405),
        ("POST", table_path("db", "t"), 405),
        ("DELETE", table_path("db", "t"), 405),
        ("GET", PLAN, 405),
        ("PATCH", "/config", 405),
    ],
)
def test_what_is_not_served_is_an_error_of_the_protocol(
    lasting_face: Face, method: str, path: str, status: int
) -> None:
    answer = lasting_face.send(method, path)
    assert problem_of(answer) == (status, TYPES[status])
    assert bool(answer.headers.get("allow")) == (status == 405)


def test_allowed_methods_are_those_of_the_path(lasting_face: Face) -> None:
    assert lasting_face.send("POST", f"{PLAN}/x").headers["allow"] == "GET, DELETE"
    assert lasting_face.send("POST", table_path("db", "t")).headers["allow"] == "GET"


def test_metrics_name_routes_and_no_tables(face: Face) -> None:
    face.plan("db", "t")
    face.plan("nope", "nope")
    text = face.client.get("/metrics").text
    route = 'route="/iceberg/v1/namespaces/{namespace}/tables/{table}/plan"'
    assert f'puffin_http_requests_total{{{route},status="200"}} 1' in text
    assert f'puffin_http_requests_total{{{route},status="404"}} 1' in text
    assert "nope" not in text


@pytest.mark.parametrize("path", ["/iceberg/", "/iceberg/v2/config", "/iceberg/x"])
def test_paths_outside_of_the_version_are_errors_of_the_protocol(lasting_face: Face, path: str) -> None:
    assert problem_of(lasting_face.client.get(path)) == (404, "NotFoundException")


def test_face_is_there_only_if_asked_for(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    answer = client_of(tmp_path).get("/iceberg/v1/config")
    assert problem_of(answer) == (404, "NotFoundException")
    assert "start the server with --iceberg" in answer.json()["error"]["message"]
    assert "--iceberg" not in client_of(tmp_path).get("/nope").text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/config"),
        ("GET", "/namespaces"),
        ("GET", "/namespaces/db"),
        ("GET", table_path("db", "t")),
        ("POST", PLAN),
        ("GET", f"{PLAN}/x"),
        ("DELETE", f"{PLAN}/x"),
        ("POST", f"{table_path('db', 't')}/tasks"),
        ("GET", "/nope"),
    ],
)
def test_every_path_needs_the_token(guarded_face: Face, method: str, path: str) -> None:
    for authorization in (None, "Bearer wrong", "Basic right", "right"):
        answer = guarded_face.send(
            method, path, headers={} if authorization is None else {"Authorization": authorization}
        )
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert problem_of(answer) == (401, "NotAuthorizedException")


def test_caller_with_the_token_is_answered(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    table_of_files(tmp_path / "db" / "t", "f")
    headers = {"Authorization": "Bearer right"}
    face = face_of(tmp_path, token=b"right")
    assert face.load("db", "t", headers=headers).status_code == 200
    assert face.plan("db", "t", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"filter": None},
        {"filter": 1},
        {"filter": "a = 1"},
        {"filter": []},
        {"filter": {}},
        {"filter": {"type": "like", "term": "a", "value": 1}},
        {"filter": of_a("eq")},
        {"filter": of_a("eq", value=None)},
        {"filter": of_a("eq", value="text")},
        {"filter": of_a("eq", value=True)},
        {"filter": of_a("eq", value=1.5)},
        {"filter": of_a("eq", value=[1])},
        {"filter": of_a("eq", value="1e1000")},
        {"filter": of_a("in", values=5)},
        {"filter": of_a("in", values=[1, None])},
        {"filter": of_a("starts-with", value="x")},
        {"filter": of_a("not-starts-with", value=1)},
        {"filter": of_a("in", values=[1] * 50_001)},
        {"filter": {"type": "eq", "term": "nope", "value": 1}},
        {"filter": {"type": "eq", "term": {"type": "reference", "id": 99}, "value": 1}},
        {"filter": {"type": "eq", "term": {"type": "transform", "transform": "zorder", "term": "a"}, "value": 1}},
        {"filter": {"type": "and", "left": True}},
        {"filter": {"type": "not", "child": None}},
        {"snapshot-id": "1"},
        {"snapshot-id": 1 << 64},
        {"select": "a"},
        {"select": [1]},
        {"stats-fields": ["nope"]},
        {"stats-fields": [None]},
        {"case-sensitive": "no"},
    ],
)
def test_request_that_cannot_be_read_is_refused(lasting_face: Face, body: dict[str, Any]) -> None:
    assert problem_of(lasting_face.send("POST", PLAN, json=body)) == BAD_REQUEST


@pytest.mark.parametrize(("type_", "missing"), [("eq", "term"), ("eq", "value"), ("in", "term"), ("is-nan", "term")])
def test_missing_key_of_a_filter_has_the_name_of_the_protocol(lasting_face: Face, type_: str, missing: str) -> None:
    whole = {"type": type_, "term": "a", "value": 1, "values": [1]}
    answer = lasting_face.send("POST", PLAN, json={"filter": {key: whole[key] for key in whole if key != missing}})
    assert f"expected '{missing}'" in answer.json()["error"]["message"]


def test_filter_of_too_many_tests_is_refused(lasting_face: Face) -> None:
    tests: Any = of_a("eq", value=5)
    for _ in range(11):
        tests = {"type": "or", "left": tests, "right": tests}
    answer = lasting_face.plan("db", "t", filter=tests)
    assert problem_of(answer) == BAD_REQUEST
    assert "2,000 tests" in answer.json()["error"]["message"]


@pytest.mark.parametrize("depth", [250, 985, 5_000])
@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ('{"type":"not","child":', "}"),
        ('{"type":"eq","value":1,"term":{"type":"transform","transform":"day","term":', "}}"),
        ("[", "]"),
    ],
)
def test_filter_that_is_nested_too_deep_is_refused(lasting_face: Face, opening: str, closing: str, depth: int) -> None:
    body = f'{{"filter":{opening * depth}true{closing * depth}}}'
    assert problem_of(lasting_face.send("POST", PLAN, content=body)) == BAD_REQUEST


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"null", b'"x"', b"\xff", b"nul", b'{"filter":NaN}'])
def test_body_that_is_no_object_is_refused(lasting_face: Face, body: bytes) -> None:
    for path in (PLAN, f"{table_path('db', 't')}/tasks"):
        assert problem_of(lasting_face.send("POST", path, content=body)) == BAD_REQUEST


@pytest.mark.parametrize(
    "body",
    [
        {"start-snapshot-id": 1, "end-snapshot-id": 1},
        {"end-snapshot-id": 1},
        {"select": ["a", "_last_updated_sequence_number"]},
    ],
)
def test_what_the_face_does_not_plan_is_406(lasting_face: Face, body: dict[str, Any]) -> None:
    assert problem_of(lasting_face.send("POST", PLAN, json=body)) == (406, "UnsupportedOperationException")


def test_missing_snapshot_is_404(lasting_face: Face) -> None:
    assert problem_of(lasting_face.plan("db", "t", snapshot_id=99)) == (404, "NoSuchSnapshotException")


def test_broken_table_is_an_error_that_says_what_is_broken(face: Face, tmp_path: Path) -> None:
    (tmp_path / "db" / "t" / "metadata" / "v1.metadata.json").write_text("{")
    for answer in (face.load("db", "t"), face.plan("db", "t")):
        assert problem_of(answer) == (422, "RESTException")
        assert "v1.metadata.json" in answer.json()["error"]["message"]


def test_encrypted_files_are_not_planned(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    table = HandMadeTable(tmp_path / "db" / "t", [(1, "a", "long")], version=3)
    table.snapshot(table.data(table.root / "f", key_metadata=b"key"))
    publish(table, properties={"encryption.key-id": "k"})
    assert problem_of(face_of(tmp_path).plan("db", "t")) == (406, "UnsupportedOperationException")


def test_catalog_that_fails_is_503(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": tmp_path.as_uri()}
    catalog = SqlCatalog("c", **properties)
    catalog.create_namespace("db")
    catalog.create_table("db.t", pa.schema([("a", pa.int64())]))
    face = face_of(catalog="c", catalog_properties=properties)
    assert face.load("db", "t").status_code == 200
    (tmp_path / "catalog.db").write_bytes(b"no database")
    for answer in (face.load("db", "t"), face.plan("db", "t"), face.get("/namespaces")):
        assert problem_of(answer) == (503, "ServiceUnavailableException")


def test_body_beyond_the_limit_is_413(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    answer = face_of(tmp_path, limits=Limits(body=1000)).send("POST", PLAN, content=b" " * 1001)
    assert problem_of(answer) == (413, "RESTException")


def test_other_host_is_421(shared: Any) -> None:
    answer = httpx.get(f"{shared.url}/iceberg/v1/config", headers={"Host": "evil.example"})
    assert problem_of(answer) == (421, "RESTException")


def test_defect_is_logged_without_the_message_of_its_error(
    face: Face, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        int(SECRET)

    monkeypatch.setattr("puffin.planning.plan.Planner.plan", fail)
    with caplog.at_level(logging.DEBUG):
        answer = face.plan("db", "t", headers={"Authorization": f"Bearer {TOKEN}"}, filter=of_a("eq", value=7))
    assert problem_of(answer) == (500, "RESTException")
    assert "ValueError" in caplog.text
    assert "in fail" in caplog.text
    assert SECRET not in caplog.text + answer.text
    assert TOKEN not in caplog.text + answer.text


def test_values_of_filters_and_tokens_reach_no_log_and_no_metric(
    process_of: Callable[..., Any], tmp_path: Path
) -> None:
    """Whatever becomes of the filter: an answer, a mistake of the caller, or files that cannot be read."""
    for name in ("t", "broken"):
        table = HandMadeTable(tmp_path / "root" / "db" / name, [(1, "a", "long"), (2, "s", "string"), (3, "u", "uuid")])
        table.snapshot(table.data(table.root / "f"))
        publish(table)
    for manifest in (tmp_path / "root" / "db" / "broken").glob("manifest*"):
        manifest.write_bytes(b"")
    (tmp_path / "token").write_text(TOKEN)
    process = process_of(tmp_path / "root", "--iceberg", "--verbose", "--token-file", tmp_path / "token")
    filters: list[Any] = [
        {"type": type_, "term": term, "value": value, "values": [value]}
        for type_ in ("eq", "in", "starts-with", SECRET)
        for term in ("s", "u", "nope")
        for value in (SECRET, [SECRET], {SECRET: SECRET})
    ]
    filters += [SECRET, [SECRET], {"type": "not", "child": SECRET}, {"type": "eq", "left": SECRET, "right": SECRET}]
    bodies: list[dict[str, Any]] = [{"json": {"filter": each}} for each in filters]
    bodies += [{"content": f'{{"filter": "{SECRET}'}, {"json": {"snapshot-id": SECRET}}, {"json": [SECRET]}]
    statuses = set()
    for authorization, sent in ((f"Bearer {TOKEN}", bodies), (f"Bearer {SECRET}", bodies[:2])):
        with httpx.Client(headers={**JAVA, "Authorization": authorization}, timeout=60) as client:
            for name in ("t", "broken", "nope"):
                path = f"{process.url}/iceberg/v1{table_path('db', name)}"
                statuses |= {client.post(f"{path}/plan", **body).status_code for body in sent}
                client.post(f"{path}/tasks", json={"plan-task": SECRET})
    told = httpx.get(f"{process.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text
    assert process.stop() == 0
    told += process.process.stdout.read() + process.logged()
    assert statuses == {200, 400, 401, 404, 422}
    assert "{table}/plan" in told
    assert TOKEN not in told
    assert SECRET not in told


def test_index_that_cannot_be_read_is_left_out_without_values_in_the_log(
    tmp_path: Path, face_of: Callable[..., Face], caplog: pytest.LogCaptureFixture
) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": tmp_path.as_uri()}
    catalog = SqlCatalog("c", **properties)
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", pa.schema([("s", pa.string())]))
    for value in "xy":
        made.append(pa.table({"s": ["a", value, "z"]}))
    index_of("db.t", properties)
    face = face_of(catalog="c", catalog_properties=properties)
    asked = {"type": "eq", "term": "s", "value": "x"}
    assert len(face.plan("db", "t", filter=asked).json()["file-scan-tasks"]) == 1
    for segment in tmp_path.rglob("segments/*/*"):
        segment.write_bytes(b"")
    with caplog.at_level(logging.DEBUG):
        document = face_of(catalog="c", catalog_properties=properties).plan(
            "db", "t", filter={**asked, "value": SECRET}
        )
    assert len(document.json()["file-scan-tasks"]) == 2
    assert "index" in caplog.text
    assert SECRET not in caplog.text


def index_of(table: str, properties: dict[str, str]) -> None:
    from stats_jobs.index import index
    from stats_jobs.options import IndexOptions

    index(table, IndexOptions(columns=("s",)), catalog="c", catalog_properties=properties)
