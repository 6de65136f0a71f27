"""A catalog that does not answer when the server starts."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from puffin.server.service import check_catalogs
from puffin.server.settings import Settings
from tests.server.conftest import Client


class Catalog(BaseHTTPRequestHandler):
    """A REST catalog with one namespace, which has no tables."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        found = {"/v1/config": {"defaults": {}, "overrides": {}}, "/v1/namespaces": {"namespaces": [["db"]]}}
        body = json.dumps(found.get(path, {"identifiers": []})).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


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
    with ThreadingHTTPServer(("127.0.0.1", port), Catalog) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        assert client.get("/readyz").status_code == 200
        assert client.get("/v1/tables").json()["tables"] == []
        server.shutdown()
