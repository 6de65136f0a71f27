"""Several catalogs behind one server: clients of the REST face choose one by the name of a warehouse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog

from puffin.cli import main
from stats_jobs import analyze
from tests.server.conftest import Client, Process
from tests.server.iceberg_face import Face, problem_of, table_path

TABLE = table_path("db", "t")


@pytest.fixture
def catalogs(tmp_path: Path) -> dict[str, dict[str, str]]:
    """The properties of two catalogs; each has a table ``db.t`` with its own name in column ``name``."""
    found = {}
    for name in ("one", "two"):
        warehouse = (tmp_path / name).as_uri()
        found[name] = {"type": "sql", "uri": f"sqlite:///{tmp_path / name}.db", "warehouse": warehouse}
        catalog = SqlCatalog(name, **found[name])
        catalog.create_namespace("db")
        rows = pa.table({"name": [name]})
        catalog.create_table("db.t", rows.schema).append(rows)
    return found


@pytest.fixture
def make_face(catalogs: dict[str, dict[str, str]], face_of: Callable[..., Face]) -> Callable[..., Face]:
    def make(**settings: Any) -> Face:
        others = {"two": catalogs["two"]}
        return face_of(catalog="one", catalog_properties=catalogs["one"], warehouses=others, **settings)

    return make


@pytest.fixture
def make_client(catalogs: dict[str, dict[str, str]], client_of: Callable[..., Client]) -> Callable[..., Client]:
    """Makes a server without the REST face; settings may replace the properties of the second catalog."""

    def make(two: dict[str, str] | None = None, **settings: Any) -> Client:
        others = {"two": two or catalogs["two"]}
        return client_of(catalog="one", catalog_properties=catalogs["one"], warehouses=others, **settings)

    return make


def test_tables_of_other_catalogs_go_by_the_name_of_their_catalog(
    catalogs: dict[str, dict[str, str]], make_client: Callable[..., Client]
) -> None:
    for name, properties in catalogs.items():
        analyze("db.t", catalog=name, catalog_properties=properties)
    client = make_client()
    for table, name in (("db.t", "one"), ("one:db.t", "one"), ("two:db.t", "two")):
        answer = client.stats(table).json()
        assert (answer["table"], [column["min"] for column in answer["columns"]]) == (table, [name])
        assert name in client.post("/v1/plan", json={"table": table}).json()["files"][0]["path"]
    joined = {side: {"table": table, "column": "name"} for side, table in (("left", "db.t"), ("right", "two:db.t"))}
    assert client.post("/v1/estimate/join", json=joined).json()["overlap-ndv"] == 0
    for unknown in ("three:db.t", "one:one:db.t", "one:" * 1000 + "db.t"):
        assert client.stats(unknown).status_code == 404
    assert client.stats("two:db.t", column="none").json()["detail"].startswith("two:db.t: ")
    for path in ("/v1/tables", "/v1/status"):
        assert {each["table"] for each in client.get(path).json()["tables"]} == {"db.t", "two:db.t"}
    (only,) = client.get("/v1/tables", params={"namespace": "two:db"}).json()["tables"]
    assert only["table"] == "two:db.t"
    assert client.get("/v1/tables", params={"namespace": "two:none"}).status_code == 404


def test_verdicts_of_an_autopilot_stand_with_the_tables_of_their_catalogs(make_client: Callable[..., Client]) -> None:
    verdicts = {"one:db.t": ("fresh", "of one"), "two:db.t": ("due", "of two")}
    tables = make_client(verdicts=lambda: verdicts).get("/v1/status").json()["tables"]
    found = {each["table"]: (each["state"], each["state-reason"]) for each in tables}
    assert found == {"db.t": ("fresh", "of one"), "two:db.t": ("due", "of two")}


def test_catalog_that_fails_hides_no_other(
    catalogs: dict[str, dict[str, str]], make_client: Callable[..., Client]
) -> None:
    analyze("db.t", catalog="one", catalog_properties=catalogs["one"])
    client = make_client({"type": "sql", "uri": "sqlite:////nowhere/catalog.db"})
    listed = client.get("/v1/tables").json()
    assert ([each["table"] for each in listed["tables"]], listed["unreadable"]) == (["db.t"], ["two"])
    assert client.get("/readyz").status_code == 503


def test_face_of_a_catalog_has_no_tables_of_another(make_face: Callable[..., Face]) -> None:
    assert problem_of(make_face().get(table_path("two:db", "t")))[0] == 404


@pytest.mark.parametrize(
    ("query", "prefix", "name"),
    [
        ({}, None, "one"),
        ({"warehouse": ""}, None, "one"),  # of DuckDB's ATTACH ''
        ({"warehouse": "one"}, None, "one"),
        ({"warehouse": "two"}, "two", "two"),
    ],
)
def test_warehouse_chooses_the_catalog_by_a_prefix(
    make_face: Callable[..., Face], tmp_path: Path, query: dict[str, str], prefix: str | None, name: str
) -> None:
    face = make_face()
    assert face.get("/config", params=query).json()["overrides"].get("prefix") == prefix
    base = "" if prefix is None else f"/{prefix}"
    assert face.get(f"{base}/namespaces").json()["namespaces"] == [["db"]]
    location = face.get(f"{base}{TABLE}").json()["metadata"]["location"]
    assert location.startswith((tmp_path / name).as_uri())
    (task,) = face.send("POST", f"{base}{TABLE}/plan", json={}).json()["file-scan-tasks"]
    assert task["data-file"]["file-path"].startswith(location)


def test_unknown_warehouse_is_refused_with_those_that_are_known(make_face: Callable[..., Face]) -> None:
    answer = make_face().get("/config", params={"warehouse": "three"})
    assert problem_of(answer) == (400, "BadRequestException")
    assert "expected one of one, two, found 'three'" in answer.json()["error"]["message"]
    assert problem_of(make_face().get(f"/three{TABLE}"))[0] == 404


def test_server_of_one_catalog_takes_any_warehouse(
    catalogs: dict[str, dict[str, str]], face_of: Callable[..., Face]
) -> None:
    """Clients name the place of their own files so."""
    face = face_of(catalog="one", catalog_properties=catalogs["one"])
    assert "prefix" not in face.get("/config", params={"warehouse": "s3://lake"}).json()["overrides"]


def test_every_catalog_needs_the_token(make_face: Callable[..., Face]) -> None:
    face = make_face(token=b"right")
    for base in ("", "/two"):
        assert problem_of(face.get(f"{base}{TABLE}")) == (401, "NotAuthorizedException")
        assert face.get(f"{base}{TABLE}", headers={"Authorization": "Bearer right"}).status_code == 200


def test_plans_of_all_catalogs_are_counted_by_table(make_face: Callable[..., Face]) -> None:
    face = make_face()
    for base in ("", "/two"):
        assert face.send("POST", f"{base}{TABLE}/plan", json={}).status_code == 200
    assert "puffin_plans_total 2\n" in face.client.get("/metrics").text
    tables = face.client.get("/v1/plans").json()["tables"]
    assert [(each["table"], each["plans"]) for each in tables] == [("db.t", 1), ("two:db.t", 1)]


def test_pyiceberg_reads_the_catalog_that_it_names(
    catalogs: dict[str, dict[str, str]],
    tmp_path: Path,
    process_of: Callable[..., Process],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configured = ["catalog:"]
    for name, properties in catalogs.items():
        configured += [f"  {name}:", *(f"    {key}: {value}" for key, value in properties.items())]
    (tmp_path / ".pyiceberg.yaml").write_text("\n".join(configured))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    process = process_of(tmp_path, "--iceberg", "--catalog", "one", "--catalog", "two")
    for name in catalogs:
        client = load_catalog("served", type="rest", uri=f"{process.url}/iceberg", warehouse=name)
        assert client.load_table("db.t").scan(row_filter="name is not null").to_arrow()["name"].to_pylist() == [name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--iceberg", "--catalog", "a", "--catalog", "b c"], "catalog 'b c': expected a name of letters"),
        (["--iceberg", "--catalog", "a", "--catalog", "namespaces"], "and not config or namespaces"),
        (["--iceberg", "--catalog", "a", "--catalog", "a"], "catalog 'a': expected each catalog once"),
    ],
)
def test_catalogs_that_no_client_could_tell_apart_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--port", "0", *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
