"""Namespaces and tables of the REST face: of a catalog, and directories below roots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from tests.server.iceberg_face import JAVA, PYTHON, Face, namespace, problem_of, table_of_files, table_path
from tests.table_directory import publish

NO_NAMESPACE = (404, "NoSuchNamespaceException")
NO_TABLE = (404, "NoSuchTableException")


@pytest.fixture(scope="module")
def catalog_face(tmp_path_factory: pytest.TempPathFactory, lasting_client_of: Callable[..., Any]) -> Face:
    """The face of a catalog with tables in ``db``, ``db.inner`` and ``other``, and of a root with ``db/below``."""
    tmp_path = tmp_path_factory.mktemp("catalog")
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": (tmp_path / "w").as_uri()}
    catalog = SqlCatalog("c", **properties)
    for name in ("db", "db.inner", "other"):
        catalog.create_namespace(name)
    for name in ("db.t", "db.u", "db.inner.t", "other.t"):
        catalog.create_table(name, pa.schema([("a", pa.int64())]))
    table_of_files(tmp_path / "root" / "db" / "below", "f")
    return Face(lasting_client_of(tmp_path / "root", iceberg=True, catalog="c", catalog_properties=properties))


def names_in(face: Face, *levels: str) -> list[str]:
    """The names of a namespace's tables, each with the right namespace."""
    identifiers = face.get(f"/namespaces/{namespace(*levels)}/tables").json()["identifiers"]
    assert all(each["namespace"] == list(levels) for each in identifiers)
    return [each["name"] for each in identifiers]


def namespaces_in(face: Face, **query: str) -> list[list[str]]:
    found: list[list[str]] = face.get("/namespaces", params=query).json()["namespaces"]
    return found


def test_namespaces_of_a_catalog_are_listed_level_by_level(catalog_face: Face) -> None:
    assert namespaces_in(catalog_face) == [["db"], ["other"]]
    assert namespaces_in(catalog_face, parent="db") == [["db", "inner"]]
    assert namespaces_in(catalog_face, parent="db\x1finner") == []


def test_empty_parent_is_the_top(catalog_face: Face) -> None:
    """As the protocol has it."""
    assert namespaces_in(catalog_face, parent="") == [["db"], ["other"]]


def test_parent_is_found_that_pyiceberg_encodes_twice(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    for name in ("né e", "a%20b"):
        table_of_files(tmp_path / "root" / name / "inner" / "t", "f")
    face = face_of(tmp_path / "root")
    for name in ("né e", "a%20b"):
        for asked, headers in ((name, JAVA), (quote(name, safe=""), PYTHON)):
            answer = face.get("/namespaces", params={"parent": asked}, headers=headers)
            assert answer.json() == {"namespaces": [[name, "inner"]]}


def test_tables_of_a_catalog_and_below_a_root_share_namespaces(catalog_face: Face) -> None:
    assert names_in(catalog_face, "db") == ["below", "t", "u"]
    assert names_in(catalog_face, "db", "inner") == ["t"]
    for levels in (("db", "t"), ("db", "inner", "t"), ("db", "below")):
        assert catalog_face.load(*levels).status_code == 200


def test_lists_leave_out_names_that_cannot_be_asked_for(tmp_path: Path, lasting_client_of: Callable[..., Any]) -> None:
    """Clients that go through a catalog would fail at the first one."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": (tmp_path / "w").as_uri()}
    catalog = SqlCatalog("c", **properties)
    for number, (space, name) in enumerate(
        [("db", "t"), ("db", "a.b"), ("db", "a/b"), ("b\\c", "t"), ("s/l", "t"), ("c:db", "t")]
    ):
        catalog.create_namespace_if_not_exists((space,))
        place = (tmp_path / "w" / str(number)).as_uri()
        catalog.create_table((space, name), pa.schema([("a", pa.int64())]), location=place)
    for name in ("below/a\\b", "below/c", "d\\e/t"):
        table_of_files(tmp_path / "root" / name, "f")
    face = Face(lasting_client_of(tmp_path / "root", iceberg=True, catalog="c", catalog_properties=properties))
    assert namespaces_in(face) == [["below"], ["db"]]
    assert [names_in(face, name) for name in ("below", "db")] == [["c"], ["t"]]


def test_namespace_is_shown_with_its_levels_and_properties(catalog_face: Face) -> None:
    answer = catalog_face.get(f"/namespaces/{namespace('db', 'inner')}")
    assert answer.json() == {"namespace": ["db", "inner"], "properties": {"exists": "true"}}


@pytest.mark.parametrize("path", ["/namespaces/nope", "/namespaces/nope/tables", "/namespaces?parent=nope"])
def test_missing_namespace_is_told_by_its_type(catalog_face: Face, path: str) -> None:
    assert problem_of(catalog_face.get(path)) == NO_NAMESPACE


@pytest.mark.parametrize("levels", [("db", "nope"), ("nope", "t"), ("db", "t", "files"), ("db.inner", "t")])
def test_missing_table_is_told_by_its_type_even_without_its_namespace(
    catalog_face: Face, levels: tuple[str, ...]
) -> None:
    """Spark looks for metadata tables in a namespace that is named like the table."""
    assert problem_of(catalog_face.load(*levels)) == NO_TABLE
    assert problem_of(catalog_face.plan(*levels)) == NO_TABLE


def test_pages_follow_each_other_without_gaps(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    for i in range(5):
        table_of_files(tmp_path / "db" / f"t{i}", "f")
    face = face_of(tmp_path)
    found, token = [], ""
    for _ in range(3):
        page = face.get("/namespaces/db/tables", params={"pageToken": token, "pageSize": "2"}).json()
        found.append([each["name"] for each in page["identifiers"]])
        token = page.get("next-page-token")
    assert (found, token) == ([["t0", "t1"], ["t2", "t3"], ["t4"]], None)
    assert "next-page-token" not in face.get("/namespaces/db/tables").json()


@pytest.mark.parametrize("query", ["pageToken=nope", "pageToken=-1", "pageToken=99999999999999999999", "pageSize=0"])
def test_odd_pages_are_answered(tmp_path: Path, face_of: Callable[..., Face], query: str) -> None:
    table_of_files(tmp_path / "db" / "t", "f")
    assert face_of(tmp_path).get(f"/namespaces/db/tables?{query}").json()["identifiers"]


@pytest.mark.parametrize("query", ["pageSize=x", "pageToken=1&pageToken=2"])
def test_pages_that_cannot_be_read_are_refused(tmp_path: Path, face_of: Callable[..., Face], query: str) -> None:
    assert problem_of(face_of(tmp_path).get(f"/namespaces?{query}")) == (400, "BadRequestException")


def test_directories_below_a_root_are_tables_of_the_namespaces_above_them(
    tmp_path: Path, face_of: Callable[..., Face]
) -> None:
    root = tmp_path / "lake"
    for place in ("db/t", "db/inner/deep/t", "flat"):
        table_of_files(root / place, "f")
    face = face_of(root)
    assert namespaces_in(face) == [["db"], ["roots"]]
    assert namespaces_in(face, parent="db") == [["db", "inner"]]
    assert namespaces_in(face, parent="db\x1finner") == [["db", "inner", "deep"]]
    assert names_in(face, "db") == ["t"]
    assert names_in(face, "db", "inner") == []
    assert names_in(face, "db", "inner", "deep") == ["t"]
    assert names_in(face, "roots") == ["flat"]
    for levels in (("db", "t"), ("db", "inner", "deep", "t"), ("flat",)):
        for first in ((), ("roots",), ("lake",)):
            if first or len(levels) > 1:
                assert face.load(*first, *levels).json()["metadata"]["location"] == str(root.joinpath(*levels))


def test_root_that_is_a_table_belongs_to_roots(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    table_of_files(tmp_path / "db" / "t", "f")
    face = face_of(f"{tmp_path / 'db' / 't'}/")
    assert (namespaces_in(face), names_in(face, "roots")) == ([["roots"]], ["t"])
    assert face.load("roots", "t").json()["metadata"]["location"] == str(tmp_path / "db" / "t")


def test_first_root_counts_where_two_have_a_table_of_one_name(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    for root in ("one", "two"):
        table_of_files(tmp_path / root / "db" / "t", "f")
    face = face_of(tmp_path / "one", tmp_path / "two")
    assert names_in(face, "db") == ["t"]
    assert face.load("db", "t").json()["metadata"]["location"] == str(tmp_path / "one" / "db" / "t")


def test_table_that_appears_in_the_first_root_counts_from_then_on(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    table_of_files(tmp_path / "two" / "db" / "t", "f")
    (tmp_path / "one").mkdir()
    face = face_of(tmp_path / "one", tmp_path / "two")
    for root in ("two", "one"):
        table_of_files(tmp_path / root / "db" / "t", "f")
        assert face.load("db", "t").json()["metadata"]["location"] == str(tmp_path / root / "db" / "t")


def test_delta_table_is_no_table_of_the_face(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    """It is not listed either, nor is a namespace that has no other table."""
    for name in ("db/d", "delta/d"):
        write_deltalake(tmp_path / name, pa.table({"a": [1]}))
    table_of_files(tmp_path / "db" / "t", "f")
    face = face_of(tmp_path)
    assert (namespaces_in(face), names_in(face, "db")) == ([["db"]], ["t"])
    for answer in (face.load("db", "d"), face.plan("db", "d"), face.send("HEAD", table_path("db", "d"))):
        assert answer.status_code == 404
    assert problem_of(face.load("db", "d")) == NO_TABLE


@pytest.mark.parametrize(
    "name", ["a b", "ä€😀", "می\u200cروم", "a+b", "a%2Fb", "a.b", "a'b\"c", "<b>", "a&b=c#d?e", "-", "A"]
)
def test_odd_names_are_found_as_they_are(tmp_path: Path, face_of: Callable[..., Face], name: str) -> None:
    table_of_files(tmp_path / name / name, "f")
    face = face_of(tmp_path)
    assert namespaces_in(face) == [[name]]
    assert names_in(face, name) == [name]
    assert face.load(name, name).status_code == 200
    assert len(face.plan(name, name).json()["file-scan-tasks"]) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/namespaces/%2E%2E/tables/t",
        "/namespaces/db/tables/%2E%2E",
        "/namespaces/db%1F%2E/tables/t",
        table_path("db", "", "t"),
        table_path("db", "a\\b"),
        table_path("db", "a\0b"),
        table_path("db", "a\nb"),
        table_path("db\u2028", "t"),
        "/namespaces/%FF/tables/t",
        "/namespaces/db%2F..%2F../tables/t",
    ],
)
def test_names_that_are_none_are_refused(tmp_path: Path, face_of: Callable[..., Face], path: str) -> None:
    table_of_files(tmp_path / "root" / "db" / "t", "f")
    table_of_files(tmp_path / "t", "f")
    assert problem_of(face_of(tmp_path / "root").get(path))[0] in (400, 404)


def test_link_to_a_table_outside_of_the_root_is_not_served(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    table_of_files(tmp_path / "secret", "f")
    (tmp_path / "root" / "db").mkdir(parents=True)
    (tmp_path / "root" / "db" / "t").symlink_to(tmp_path / "secret")
    face = face_of(tmp_path / "root")
    for answer in (face.load("db", "t"), face.plan("db", "t")):
        assert problem_of(answer) == (403, "ForbiddenException")


def test_manifests_outside_of_the_roots_are_not_read(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    """Whoever can write a table's metadata may name any file in it."""
    secret = table_of_files(tmp_path / "secret", "f")
    publish(tmp_path / "root" / "db" / "t", secret.document)
    answer: Any = face_of(tmp_path / "root").plan("db", "t")
    assert problem_of(answer)[0] == 404
    assert "outside of its roots" in answer.json()["error"]["message"]
