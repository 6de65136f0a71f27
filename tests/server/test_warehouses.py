"""Several catalogs behind one REST face: clients choose one by the name of a warehouse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog

from puffin.cli import main
from tests.server.conftest import Process
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


@pytest.mark.parametrize(
    ("query", "prefix", "name"),
    [({}, None, "one"), ({"warehouse": "one"}, None, "one"), ({"warehouse": "two"}, "two", "two")],
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


def test_plans_of_all_catalogs_are_counted_and_those_of_the_first_by_table(make_face: Callable[..., Face]) -> None:
    face = make_face()
    for base in ("", "/two"):
        assert face.send("POST", f"{base}{TABLE}/plan", json={}).status_code == 200
    assert "puffin_plans_total 2\n" in face.client.get("/metrics").text
    tables = face.client.get("/v1/plans").json()["tables"]
    assert [(each["table"], each["plans"]) for each in tables] == [("db.t", 1)]


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
        (["--catalog", "a", "--catalog", "b"], "expected one catalog, or --iceberg, found a, b"),
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
