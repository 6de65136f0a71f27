"""In front of a REST catalog that authorizes: callers get what that gives them, and nothing is planned for others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import RESTError

from puffin.rest_catalog import planned_scan
from puffin.server.settings import Settings
from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.interop.catalogs.authorizing import OF_TABLE, TAG, VENDED, Authorizing, authorizing
from tests.server.conftest import Client

OWN_TOKEN = "token-of-the-server-itself"
ALICE, CAROL, BOB = ({"Authorization": f"Bearer {name}-secret-token"} for name in ("alice", "carol", "bob"))
V1 = "/iceberg/v1"
A = f"{V1}/namespaces/guarded/tables/a"
B = f"{V1}/namespaces/guarded/tables/b"
FILES = 6
CALLS = [
    ("GET", f"{V1}/config"),
    ("GET", f"{V1}/namespaces"),
    ("GET", f"{V1}/namespaces/guarded"),
    ("GET", f"{V1}/namespaces/guarded/tables"),
    ("GET", A),
    ("HEAD", A),
    ("GET", f"{A}/credentials"),
    ("POST", f"{A}/plan"),
]
LAUNCHER = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
from puffin.cli import main
from puffin.lookup import Lookup
plan = Lookup.plan_opened
def fail_sometimes(self, opened, where=None):
    if "6660666" in str(where):
        raise ValueError(f"a defect that quotes {where}")
    return plan(self, opened, where)
Lookup.plan_opened = fail_sometimes
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def tables(rest: Any) -> Any:
    """The catalog with the tables ``a``, which has an index, and ``b``."""
    catalog = rest.open()
    catalog.create_namespace("guarded", {"owner": "us"})
    catalog.create_namespace("guarded.inner")
    catalog.create_namespace("guarded.inner.most")
    for name in ("a", "b"):
        table = catalog.create_table(f"guarded.{name}", pa.schema([("k", pa.int64()), ("s", pa.string())]))
        for number in range(FILES):
            keys = [-1000, *range(number * 10, number * 10 + 10), 10_000_000]
            table.append(pa.table({"k": keys, "s": [f"s{key}" for key in keys]}))
    index("guarded.a", IndexOptions(columns=("k",)), catalog="rest", catalog_properties=rest.properties)
    return catalog


@pytest.fixture(scope="module")
def running(rest: Any, tables: Any) -> Iterator[tuple[Authorizing, str]]:
    with authorizing(rest.properties["uri"]) as made:
        yield made


@pytest.fixture
def gate(running: tuple[Authorizing, str]) -> Authorizing:
    gate, _ = running
    gate.allowed = {
        "alice-secret-token": {"a", "b"},
        "carol-secret-token": {"a"},
        "bob-secret-token": {"b"},
    }
    gate.failure = None
    gate.of_tables, gate.of_catalog = {}, {}
    gate.compares_tags = True
    gate.seen.clear()
    return gate


@pytest.fixture
def properties(running: tuple[Authorizing, str]) -> dict[str, str]:
    """The catalog as the server has it configured, with credentials of the server's own."""
    return {"type": "rest", "uri": running[1], "token": OWN_TOKEN, "header.X-Realm": "of-the-server"}


class Face(Client):
    """A client of the server, without a network between them."""

    def request(self, method: str, path: str, **arguments: Any) -> Any:
        body = {"json": asked(5)} if method == "POST" else {}
        return self.run(self.http.request(method, path, **{**body, **arguments}))


@pytest.fixture
def face_of(properties: dict[str, str]) -> Iterator[Callable[..., Face]]:
    faces: list[Face] = []

    def make(*roots: Path, **settings: Any) -> Face:
        of_catalog = {"catalog": "up", "catalog_properties": properties, "iceberg": True}
        faces.append(Face(Settings(roots=[str(root) for root in roots], **of_catalog, **settings), None))
        return faces[-1]

    yield make
    for face in faces:
        face.close()


@pytest.fixture
def face(face_of: Callable[..., Face], gate: Authorizing) -> Face:
    return face_of()


def asked(key: int) -> dict[str, Any]:
    return {"filter": {"type": "eq", "term": "k", "value": key}}


def paths(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [task["data-file"]["file-path"] for task in answer.json()["file-scan-tasks"]]


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer somebody"}])
def test_caller_that_the_catalog_does_not_know_gets_its_401(
    face: Face, opened: list[str], method: str, path: str, headers: dict[str, str]
) -> None:
    answer = face.request(method, path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="up"'
    if method != "HEAD":
        error = {"message": "no such caller", "type": "NotAuthorizedException", "code": 401}
        assert answer.json()["error"] == error
    assert opened == []


@pytest.mark.parametrize(("method", "path"), [call for call in CALLS if "/a" in call[1]])
def test_caller_that_may_not_load_the_table_gets_403_before_anything_is_opened(
    face: Face, opened: list[str], method: str, path: str
) -> None:
    answer = face.request(method, path, headers=BOB)
    assert answer.status_code == 403
    if method != "HEAD":
        assert answer.json()["error"]["type"] == "ForbiddenException"
    assert opened == []


def test_token_of_the_server_guards_the_catalogs_that_authorize_nobody(
    gate: Authorizing, properties: dict[str, str], tmp_path: Path
) -> None:
    """The callers of the other one have its tokens, also where they ask for the configuration."""
    own = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'c.db'}"}
    SqlCatalog("own", **own)
    first = Settings(catalog="own", catalog_properties=own, warehouses={"up": properties}, iceberg=True, token=b"ours")
    face = Face(first, None)
    try:
        assert face.get(f"{V1}/config", params={"warehouse": "up"}, headers=ALICE).status_code == 200
        assert face.get(f"{V1}/namespaces", headers=ALICE).status_code == 401
        assert face.get(f"{V1}/namespaces", headers={"Authorization": "Bearer ours"}).status_code == 200
        assert len(paths(face.post(A.replace(V1, f"{V1}/up") + "/plan", headers=ALICE, json=asked(25)))) == 1
        refused = face.get(A.replace(V1, f"{V1}/up"), headers={"Authorization": "Bearer ours"})
        assert (refused.status_code, refused.json()["error"]["message"]) == (401, "no such caller")
    finally:
        face.close()


def test_missing_table_is_what_the_catalog_says(face: Face) -> None:
    for method, path in (
        ("GET", f"{V1}/namespaces/guarded/tables/gone"),
        ("POST", f"{V1}/namespaces/no/tables/t/plan"),
    ):
        answer = face.request(method, path, headers=ALICE)
        assert answer.status_code == 404
        assert answer.json()["error"]["type"] == "NoSuchTableException"


def test_caller_that_may_load_the_table_gets_a_plan_by_the_index(face: Face, gate: Authorizing) -> None:
    assert len(paths(face.post(f"{A}/plan", headers=ALICE, json=asked(25)))) == 1
    assert len(paths(face.post(f"{A}/plan", headers=ALICE, json={}))) == FILES
    assert gate.loads == ["a", "a"]
    assert {headers["x-iceberg-access-delegation"] for path, headers in gate.seen if "tables" in path} == {
        "vended-credentials"
    }


def test_plan_for_a_second_caller_reads_no_manifest(face: Face, gate: Authorizing, opened: list[str]) -> None:
    first = paths(face.post(f"{A}/plan", headers=ALICE, json=asked(25)))
    assert opened
    opened.clear()
    assert paths(face.post(f"{A}/plan", headers=CAROL, json=asked(25))) == first
    assert len(paths(face.post(f"{A}/plan", headers=CAROL, json=asked(35)))) == 1
    assert [path for path in opened if path.endswith((".avro", ".json"))] == []
    assert gate.loads == ["a"] * 3


def test_right_that_was_taken_back_counts_at_once(face: Face, gate: Authorizing) -> None:
    assert paths(face.post(f"{A}/plan", headers=ALICE, json=asked(25)))
    gate.allowed["alice-secret-token"] = {"b"}
    assert face.post(f"{A}/plan", headers=ALICE, json=asked(25)).status_code == 403


def test_commit_is_seen_by_the_next_plan(face: Face, tables: Any) -> None:
    before = paths(face.post(f"{B}/plan", headers=BOB, json={}))
    tables.load_table("guarded.b").append(pa.table({"k": [1], "s": ["new"]}))
    assert len(paths(face.post(f"{B}/plan", headers=BOB, json={}))) == len(before) + 1


def test_part_of_a_plan_is_only_for_its_caller_and_table(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_scan, "FILES_OF_PART", 4)
    answer = face.post(f"{A}/plan", headers=ALICE, json={}).json()
    plan, (task, _) = answer["plan-id"], answer["plan-tasks"]
    for path, headers in ((A, CAROL), (A, BOB), (A, {}), (B, ALICE)):
        refused = face.post(f"{path}/tasks", headers=headers, json={"plan-task": task})
        assert (refused.status_code, refused.json()["error"]["type"]) == (404, "NoSuchPlanTaskException")
        refused = face.get(f"{path}/plan/{plan}", headers=headers)
        assert (refused.status_code, refused.json()["error"]["type"]) == (404, "NoSuchPlanIdException")
    assert len(paths(face.post(f"{A}/tasks", headers=ALICE, json={"plan-task": task}))) == 4


def test_table_comes_with_what_the_catalog_says_of_it(face: Face, running: Any, tables: Any) -> None:
    """The mode is ours, and an address relative to the catalog becomes absolute."""
    answer = face.get(A, headers={**ALICE, "X-Iceberg-Access-Delegation": "vended-credentials"}).json()
    assert answer["storage-credentials"] == VENDED
    assert answer["labels"] == {"kept": "as it is"}
    assert answer["metadata"]["table-uuid"] == str(tables.load_table("guarded.a").metadata.table_uuid)
    fresh = f"{running[1]}/{OF_TABLE['client.refresh-credentials-endpoint']}"
    assert answer["config"]["scan-planning-mode"] == "server"
    assert answer["config"]["s3.region"] == "here"
    assert answer["config"]["client.refresh-credentials-endpoint"] == fresh
    assert "storage-credentials" not in face.get(A, headers=ALICE).json()
    assert face.get(f"{A}/credentials", headers=ALICE).json() == {"storage-credentials": VENDED}


def test_config_has_what_clients_need_of_the_catalogs(face: Face) -> None:
    answer = face.get(f"{V1}/config", headers=ALICE).json()
    assert answer["overrides"] == {"s3.endpoint": "http://files", "scan-planning-mode": "server"}
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials" in answer["endpoints"]
    assert {name.split()[0] for name in answer["endpoints"]} == {"GET", "HEAD", "POST", "DELETE"}
    assert not [name for name in answer["endpoints"] if name.startswith("POST") and name.endswith("tables")]


def test_entity_tag_follows_the_catalogs(face: Face, gate: Authorizing, tables: Any) -> None:
    tag = face.get(B, headers=BOB).headers["etag"]
    gate.seen.clear()
    unchanged = face.get(B, headers={**BOB, "If-None-Match": tag})
    assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
    assert gate.seen[-1][1]["if-none-match"].startswith(TAG)
    of_other_rules = '"00' + tag[3:]
    assert face.get(B, headers={**BOB, "If-None-Match": of_other_rules}).status_code == 200
    tables.load_table("guarded.b").append(pa.table({"k": [2], "s": ["new"]}))
    changed = face.get(B, headers={**BOB, "If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_table_that_the_catalog_sends_again_goes_to_the_client(face: Face, gate: Authorizing) -> None:
    """It may come with fresh credentials, though its tag is the same."""
    tag = face.get(A, headers=ALICE).headers["etag"]
    gate.compares_tags = False
    again = face.get(A, headers={**ALICE, "If-None-Match": tag})
    assert (again.status_code, again.headers["etag"]) == (200, tag)


def test_lists_are_the_catalogs_own_pages(face: Face, gate: Authorizing) -> None:
    assert ["guarded"] in face.get(f"{V1}/namespaces", headers=ALICE).json()["namespaces"]
    assert face.get(f"{V1}/namespaces/guarded", headers=ALICE).json()["properties"]["owner"] == "us"
    inner = ["guarded", "inner"]
    assert face.get(f"{V1}/namespaces?parent=guarded", headers=ALICE).json() == {"namespaces": [inner]}
    most = face.get(f"{V1}/namespaces?parent=guarded%1Finner", headers=ALICE).json()["namespaces"]
    assert most == [[*inner, "most"]]
    assert face.get(f"{V1}/namespaces/guarded%1Finner", headers=ALICE).json()["namespace"] == inner
    page = face.get(f"{V1}/namespaces/guarded/tables?pageToken=&pageSize=1", headers=ALICE).json()
    assert [each["name"] for each in page["identifiers"]] == ["a"]
    rest = face.get(
        f"{V1}/namespaces/guarded/tables",
        params={"pageToken": page["next-page-token"], "pageSize": 1},
        headers=ALICE,
    ).json()
    assert [each["name"] for each in rest["identifiers"]] == ["b"]
    assert all(path.startswith("/v1/main/") for path, _ in gate.seen if "config" not in path)


def test_what_a_client_says_of_views_goes_on(face: Face, gate: Authorizing) -> None:
    face.get(f"{A}?snapshots=refs&referenced-by=guarded%1Fview", headers=ALICE)
    assert gate.seen[-1][0].endswith("/tables/a?snapshots=refs&referenced-by=guarded%1Fview")


@pytest.mark.parametrize(
    ("status", "headers"),
    [(404, {}), (419, {}), (429, {"Retry-After": "7"}), (500, {}), (502, {}), (503, {"Retry-After": "9"})],
)
def test_error_of_the_catalog_comes_back(face: Face, gate: Authorizing, status: int, headers: dict[str, str]) -> None:
    error = {"error": {"message": "as the catalog has it", "type": "ItsOwnException", "code": status}}
    assert face.get(f"{V1}/config", headers=ALICE).status_code == 200
    gate.failure = status, headers, json.dumps(error).encode()
    for method, path in (("GET", A), ("POST", f"{A}/plan")):
        answer = face.request(method, path, headers=ALICE)
        assert (answer.status_code, answer.json()) == (status, error)
        assert answer.headers.get("retry-after") == headers.get("Retry-After")


@pytest.mark.parametrize("failure", [(502, {}, b"<html>"), (503, {}, b"")])
def test_error_of_a_proxy_is_named_by_its_status(face: Face, gate: Authorizing, failure: Any) -> None:
    gate.failure = failure
    answer = face.get(A, headers=ALICE)
    assert answer.status_code == failure[0]
    assert answer.json()["error"]["message"] == f"the catalog answers {failure[0]}"


@pytest.mark.parametrize("failure", [(302, {"Location": "http://127.0.0.1:1/"}, b""), (200, {}, b"[]"), (304, {}, b"")])
def test_answer_that_is_none_is_503(face: Face, gate: Authorizing, failure: Any) -> None:
    gate.failure = failure
    assert face.get(A, headers=ALICE).status_code == 503


@pytest.mark.parametrize(
    ("of_tables", "of_catalog"),
    [({"a": {"scan-planning-mode": "server"}}, {}), ({}, {"scan-planning-mode": "SERVER"})],
)
def test_table_that_the_catalog_plans_itself_is_406(
    face: Face, gate: Authorizing, opened: list[str], of_tables: Any, of_catalog: Any
) -> None:
    gate.of_tables, gate.of_catalog = of_tables, of_catalog
    for method, path in (("GET", A), ("POST", f"{A}/plan")):
        answer = face.request(method, path, headers=ALICE)
        assert answer.status_code == 406
        assert "its catalog plans the scans of this table itself" in answer.json()["error"]["message"]
        assert "metadata" not in answer.json()
    assert opened == []


def test_nothing_of_the_server_and_of_other_callers_goes_to_the_catalog(
    face: Face, gate: Authorizing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login us password of-the-server")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for headers in (ALICE, {}, {**CAROL, "X-Realm": "of-the-caller", "X-Other": "stays", "Cookie": "c=d"}):
        for method, path in CALLS:
            face.request(method, path, headers=headers)
    sent = [headers for _, headers in gate.seen]
    assert {headers.get("authorization") for headers in sent} == {ALICE["Authorization"], CAROL["Authorization"], None}
    assert {headers.get("x-realm") for headers in sent} == {None, "of-the-caller"}
    assert not [headers for headers in sent if "cookie" in headers or "x-other" in headers]


def test_own_token_guards_everything_but_the_face(face_of: Callable[..., Face], gate: Authorizing) -> None:
    client = face_of(token=b"token-of-the-operator")
    assert client.get(A, headers=ALICE).status_code == 200
    assert client.get("/v1/stats?table=guarded.a", headers=ALICE).status_code == 401
    assert client.post("/v1/plan", json={"table": "guarded.a"}, headers=ALICE).status_code == 401
    assert client.get("/readyz").status_code == 200


def test_directories_are_for_callers_with_our_token(
    face_of: Callable[..., Face], gate: Authorizing, tmp_path: Path
) -> None:
    directory_table(tmp_path, "db.t")
    client = face_of(tmp_path, token=b"token-of-the-operator")
    ours = {"Authorization": "Bearer token-of-the-operator"}
    path = f"{V1}/namespaces/db/tables/t"
    assert client.get(f"{V1}/namespaces", headers=ours).json()["namespaces"] == [["db"]]
    assert client.get(path, headers=ours).status_code == 200
    assert len(paths(client.post(f"{path}/plan", headers=ours, json={}))) == 1
    assert client.get(A, headers=ours).status_code == 404
    assert gate.seen == []
    assert client.get(path, headers=ALICE).status_code == 404
    assert ["db"] not in client.get(f"{V1}/namespaces", headers=ALICE).json()["namespaces"]


def test_directories_stand_beside_the_catalogs_tables_without_a_token(
    face_of: Callable[..., Face], gate: Authorizing, tmp_path: Path
) -> None:
    directory_table(tmp_path, "db.t")
    directory_table(tmp_path, "guarded.local")
    client = face_of(tmp_path)
    namespaces = client.get(f"{V1}/namespaces", headers=ALICE).json()["namespaces"]
    assert ["db"] in namespaces
    assert namespaces.count(["guarded"]) == 1
    names = client.get(f"{V1}/namespaces/guarded/tables", headers=ALICE).json()["identifiers"]
    assert [each["name"] for each in names] == ["a", "b", "local"]
    for table in ("db/tables/t", "guarded/tables/local"):
        assert client.get(f"{V1}/namespaces/{table}", headers=ALICE).status_code == 200
        assert paths(client.post(f"{V1}/namespaces/{table}/plan", headers=ALICE, json={}))
    assert client.get(f"{V1}/namespaces/db/tables/t").status_code == 401


def directory_table(root: Path, name: str) -> None:
    """A table of a directory, ``namespace.table`` below a root."""
    catalog = SqlCatalog("own", uri=f"sqlite:///{root}/{name}.db", warehouse=f"file://{root}")
    catalog.create_namespace(name.split(".")[0])
    catalog.create_table(name, pa.schema([("k", pa.int64())])).append(pa.table({"k": [1]}))


def test_unmodified_client_reads_its_rows_and_the_log_has_no_secret(
    gate: Authorizing, properties: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    settings = [word for item in properties.items() for word in ("--catalog-property", "=".join(item))]
    command = [sys.executable, "-X", "dev", "-c", LAUNCHER, "serve", "--port", "0", "--iceberg", "--catalog", "up"]
    with log.open("w") as output:
        process = subprocess.Popen([*command, *settings], stderr=output)
    try:
        uri = address(process, log)
        client = {"type": "rest", "uri": f"{uri}/iceberg"}
        table = load_catalog("fast", **client, token="alice-secret-token").load_table("guarded.a")
        scan = table.scan(row_filter="k = 31 and s = 's31'")
        assert len(list(scan.plan_files())) == 1
        assert scan.to_arrow().to_pylist() == [{"k": 31, "s": "s31"}]
        for wanted in ("k = 6660666", "k = '7770777'", "s = 'personal-data'", "gone = 8880888"):
            with suppress(RESTError, ValueError):
                list(table.scan(row_filter=wanted).plan_files())
        with pytest.raises(RESTError):
            load_catalog("fast", **client, token="bob-secret-token").load_table("guarded.a")
        with pytest.raises(RESTError):
            load_catalog("fast", **client, token="nobodys-secret-token").list_namespaces()
        send_by_hand(uri)
        gate.failure = 500, {}, b'{"error": {"message": "of personal-data", "type": "X", "code": 500}}'
        with pytest.raises(RESTError):
            list(table.scan(row_filter="s = 'personal-data'").plan_files())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    said = log.read_text()
    assert "DEBUG" in said
    assert "a plan failed: ValueError" in said
    for secret in ("secret-token", OWN_TOKEN, "6660666", "7770777", "8880888", "9990999", "personal-data", "s31"):
        assert secret not in said
    assert "vended-token" not in said


def address(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        found = [line.split()[-1] for line in log.read_text().splitlines() if line.startswith("serving at ")]
        if found:
            return found[0]
    raise AssertionError(log.read_text())


def send_by_hand(uri: str) -> None:
    """What no client sends: a body that is not JSON, a filter that cannot be read, a token that is no header."""
    import httpx

    path = f"{uri}{A}/plan"
    for body in (b"{9990999", b'{"filter": {"type": "eq", "term": "k", "value": "x9990999"}}', b'{"filter": 9990999}'):
        assert httpx.post(path, content=body, headers=ALICE).status_code == 400
    strange = {"Authorization": b"Bearer\tsecret-token\xff"}
    assert httpx.post(path, json=asked(9990999), headers=strange).status_code in (401, 503)
