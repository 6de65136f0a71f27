"""A catalog that does not answer when the server starts."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest

from puffin.server.service import check_catalogs
from puffin.server.settings import Settings
from tests.http_server import Answer, Asked, answering, json_answer
from tests.server.conftest import Client


def of_one_namespace(asked: Asked) -> Answer:
    """A REST catalog with one namespace, which has no tables."""
    found = {"/v1/config": {"defaults": {}, "overrides": {}}, "/v1/namespaces": {"namespaces": [["db"]]}}
    return json_answer(found.get(asked.path.partition("?")[0], {"identifiers": []}))


@pytest.mark.parametrize("iceberg", [False, True])
def test_server_starts_before_its_catalog_answers(
    client_of: Callable[..., Client], caplog: pytest.LogCaptureFixture, iceberg: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    properties = {"type": "rest", "uri": f"http://127.0.0.1:{port}"}
    client = client_of(catalog="late", catalog_properties=properties, iceberg=iceberg)
    check_catalogs(Settings(catalog="late", catalog_properties=properties, iceberg=iceberg))
    while not caplog.records:
        time.sleep(0.01)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.message.startswith("catalog 'late'")
    assert client.get("/readyz").status_code == 503
    with answering(of_one_namespace, port):
        assert client.get("/readyz").status_code == 200
        assert client.get("/v1/tables").json()["tables"] == []


@pytest.mark.parametrize("iceberg", [False, True])
def test_server_starts_beside_a_catalog_that_hangs(caplog: pytest.LogCaptureFixture, iceberg: bool) -> None:
    """It takes the connection, and answers nothing."""
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        properties = {"type": "rest", "uri": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        check_catalogs(Settings(catalog="slow", catalog_properties=properties, iceberg=iceberg), patience=0.1)
        assert caplog.messages == ["catalog 'slow': no answer for 0.1 seconds; its tables are served once it answers"]
    for asking in set(threading.enumerate()) - before:  # it logs that the catalog is gone
        asking.join()
