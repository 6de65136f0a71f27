"""A REST catalog that accepts commits and ignores them: Iceberg's own, behind a proxy that drops statistics."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest

from puffin.cli import main

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})


@pytest.fixture
def silent(rest):
    """The properties of the catalog behind the proxy."""

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.forward(None)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            updates = [update for update in body["updates"] if "statistics" not in update["action"]]
            self.forward(json.dumps({**body, "updates": updates}).encode())

        def forward(self, body: bytes | None) -> None:
            headers = {"Content-Type": "application/json"}
            with urlopen(Request(rest.properties["uri"] + self.path, data=body, headers=headers)) as answer:
                data = answer.read()
                self.send_response(answer.status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield {**rest.properties, "uri": f"http://127.0.0.1:{proxy.server_port}"}
    proxy.shutdown()
    thread.join()
    proxy.server_close()


def test_job_fails_if_committed_statistics_are_missing(rest, silent, capsys):
    """The exit code is 1, one line says so, and the statistics file stays."""
    catalog = rest.open()
    catalog.create_namespace("silent")
    catalog.create_table("silent.t", ROWS.schema).append(ROWS)
    properties = [word for item in silent.items() for word in ("--catalog-property", "=".join(item))]
    with pytest.raises(SystemExit) as left:
        main(["analyze", "silent.t", "--catalog", "silent", *properties])
    said = capsys.readouterr().err.strip()
    assert left.value.code == 1
    assert "the commit was reported as done, but" in said
    assert "\n" not in said
    assert said.endswith(".stats")
    assert catalog.load_table("silent.t").metadata.statistics == []
