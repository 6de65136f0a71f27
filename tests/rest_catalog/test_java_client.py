"""Iceberg's Java client finds in our answers what it looks for, beyond what the protocol says."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tools.serving import Server

NAMESPACE = "/iceberg/v1/namespaces/db"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a process that serves a catalog with the table ``db.t``."""
    home = tmp_path_factory.mktemp("java client")
    properties = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}"}
    own = SqlCatalog("own", **properties)
    own.create_namespace("db", {"owner": "finance"})
    own.create_table("db.t", pa.schema([("k", pa.int64())]))
    settings = (f"--catalog-property={key}={value}" for key, value in properties.items())
    with Server("--iceberg", "--catalog", "own", *settings) as server:
        yield f"127.0.0.1:{server.port}"


def ask(address: str, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def test_etag_is_spelled_as_java_looks_for_it(address: str) -> None:
    """Its map of headers tells lower from upper case; without the header it loads a table's metadata each time."""
    status, headers, _ = ask(address, f"{NAMESPACE}/tables/t")
    assert status == 200
    status, again, body = ask(address, f"{NAMESPACE}/tables/t", **{"If-None-Match": headers["ETag"]})
    assert (status, again["ETag"], body) == (304, headers["ETag"], "")


def test_namespace_has_its_properties(address: str) -> None:
    status, _, body = ask(address, NAMESPACE)
    assert status == 200
    assert '"owner":"finance"' in body


def test_absences_are_told_in_the_words_of_icebergs_catalogs(address: str) -> None:
    assert "Table does not exist: db.gone" in ask(address, f"{NAMESPACE}/tables/gone")[2]
    for path in ("gone", "gone/tables"):
        status, _, body = ask(address, f"/iceberg/v1/namespaces/{path}")
        assert status == 404
        assert "Namespace does not exist: gone" in body
