"""
What an answer over HTTP costs beyond HTTP itself: ours beside the same bytes from an endpoint that does nothing else.

The server is a process of its own, and so is the load. The other endpoint is of the same server, in front of everything
that ours goes through, so that it has neither routes nor checks nor a lookup.
"""

from __future__ import annotations

import multiprocessing
import socket
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.handmade import analyzed_table
from benchmarks.load import latencies, throughput
from benchmarks.processes import in_fresh_process
from benchmarks.results import HIGHER, LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say

NAMES = _THROUGHPUT, _LATENCY = "serve-throughput", "serve-latency"

_COLUMNS = 16
_CONNECTIONS = 16
_SECONDS = 3.0  # for each endpoint, in each round
_WINDOWS = 5  # of a second each, in each round: a virtual machine that stands still for 50 ms spoils but one of them
_RATE = 1000.0  # requests a second
_THROUGHPUT_BAR = Bar(HIGHER, 0.7, 0.95)
_LATENCY_BAR = Bar(LOWER, 10, 3)  # ms
_BARE = "/bare"


def measure(run: Run, results: Results) -> None:
    """Ask both endpoints in turn."""
    if not any(run.wants(name) for name in NAMES):
        return
    table = HOME / "data" / "serve"
    analyzed_table(table, _COLUMNS)
    requests = {"/v1/stats": _request(f"/v1/stats?table={quote(str(table), safe='')}"), "bare": _request(_BARE)}
    each: dict[str, list[float]] = {what: [] for what in requests}
    slowest: list[float] = []
    with _server(table) as port:
        for number in range(run.rounds + 1):
            rates = {
                what: in_fresh_process(throughput, port, request, _CONNECTIONS, _SECONDS)
                for what, request in requests.items()
            }
            windows = [
                in_fresh_process(latencies, port, requests["/v1/stats"], _CONNECTIONS, _RATE, 1)
                for _ in range(_WINDOWS)
            ]
            p99 = [1e3 * statistics.quantiles(took, n=100)[98] for took in windows]
            told = ", ".join(f"{what} {rate:,.0f}/s" for what, rate in rates.items())
            say(f"serve: {told}, p99 {statistics.median(p99):.2f} ms (round {number} of {run.rounds})")
            if number > 0:  # the first round only warms up
                slowest += p99
                for what, rate in rates.items():
                    each[what].append(1e6 / rate)
    ours, bare = (Sample(what, "µs", tuple(values)) for what, values in each.items())
    if run.wants(_THROUGHPUT):
        title = f"/v1/stats, {_COLUMNS} columns, {_CONNECTIONS} connections: a bare endpoint / ours, time of a request"
        results.rows.append(Row(_THROUGHPUT, title, ours, bare, _THROUGHPUT_BAR))
    if run.wants(_LATENCY):
        title = f"/v1/stats: 99th percentile under {_RATE:,.0f} requests a second"
        results.rows.append(Row(_LATENCY, title, Sample("p99", "ms", tuple(slowest)), None, _LATENCY_BAR))


def serve_with_bare_endpoint(table: Path, port: Connection) -> None:
    """Serve a table, and the answer to the question for it at another path too; the port is sent once it is known."""
    from puffin.lookup import ndv
    from puffin.server.app import create_app
    from puffin.server.encoded import Encoded, encode
    from puffin.server.process import run
    from puffin.server.settings import Settings

    settings = Settings(roots=[str(table.parent)])
    app = create_app(settings)
    answer = Encoded(encode(ndv(str(table)).to_json()), b'"of-the-same-length-as-an-etag-is"')

    async def with_bare_endpoint(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != _BARE:
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": answer.headers})
        await send({"type": "http.response.body", "body": answer.body})

    with socket.create_server(("127.0.0.1", 0)) as listener:
        run(with_bare_endpoint, settings.limits, listener, lambda: port.send(listener.getsockname()[1]))


@contextmanager
def _server(table: Path) -> Iterator[int]:
    """The port of a server of its own process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_with_bare_endpoint, args=(table, theirs))
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _request(target: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n".encode()
