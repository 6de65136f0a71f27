"""
Scans planned over Iceberg's REST protocol, by a server in a process of its own, and a whole query of Spark.

A client keeps its connection and pins the snapshot, as Spark does. Warm, metadata and manifests are in memory and the
key was never asked before. Beside the query through the service stands the same one through a catalog of the table's
directory, where Spark plans by the bounds alone.
"""

from __future__ import annotations

import http.client
import itertools
import json
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.indexed_tables import keyed_table, made_table
from benchmarks.results import HIGHER, LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say
from tools.serving import Server

NAMES = _PLAN, _QUERY, _MANY = "rest-plan", "rest-query", "million-rest-plan"

_COLD_STARTS = 3
_ASKED = 50  # keys in a round


def measure(run: Run, results: Results) -> None:
    """Plan on the tables that are wanted."""
    keyed = run.sizes.keyed_files
    if run.wants(_PLAN):
        directory, _ = keyed_table(keyed)
        cold = tuple(_cold(directory) for _ in range(_COLD_STARTS))
        _plans(directory, "uid", run, results, Bar(LOWER, 20, 3))
        results.rows.append(
            Row(_PLAN, f"the first plan of a server that just started; {keyed} files", Sample("ours", "ms", cold), None,
                Bar(LOWER, 200))
        )  # fmt: skip
        _plans(made_table(run.sizes.manifest_entries, 2), "id", run, results, Bar(LOWER, 50, 10))
    if run.wants(_QUERY):
        _query(keyed, run, results)
    if run.wants(_MANY):
        million = made_table(run.sizes.manifest_entries, run.sizes.million_manifests)
        _plans(million, "id", run, results, Bar(LOWER, 2000, 200), _MANY)


def _plans(directory: Path, column: str, run: Run, results: Results, bar: Bar, name: str = _PLAN) -> None:
    with _serving(directory) as server:
        client = _Client(server.port, directory)
        say(f"planning on {directory.name} over HTTP")
        client.wait_until_planned(column)
        new, again = [], []
        keys = itertools.count(1001, 2)
        for _ in range(run.rounds):
            taken = [client.plan(column, key) for key in itertools.islice(keys, _ASKED)]
            new.append(statistics.median(taken) * 1e3)
            key = next(keys)
            client.plan(column, key)
            again.append(statistics.median(client.plan(column, key) for _ in range(_ASKED)) * 1e3)
    files = f"{directory.name.removeprefix('index-')}"
    title = f"/plan of a key that was not asked before; {files}"
    results.rows.append(Row(name, title, Sample("ours", "ms", tuple(new)), None, bar))
    title = f"/plan of a key that was asked before; {files}"
    results.rows.append(Row(name, title, Sample("ours", "ms", tuple(again)), None, Bar(LOWER)))


def _cold(directory: Path) -> float:
    with _serving(directory) as server:
        return _Client(server.port, directory).plan("uid", 1001) * 1e3


def _query(files: int, run: Run, results: Results) -> None:
    from benchmarks.session import spark_session

    directory, keys = keyed_table(files)
    warehouse = _warehouse_of(directory)
    with _serving(directory) as server, spark_session(2) as spark:
        for name, settings in {
            "own": {"type": "hadoop", "warehouse": warehouse.as_uri()},
            "fast": {"type": "rest", "uri": f"{server.url}/iceberg"},
        }.items():
            spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
            for key, value in settings.items():
                spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
        seconds: dict[str, list[float]] = {"own": [], "fast": []}
        for key in keys[: run.rounds + 1].tolist():
            for name, table in (("own", "own.db.keyed"), ("fast", f"fast.data.`{directory.name}`")):
                started = time.perf_counter()
                rows = spark.sql(f"SELECT * FROM {table} WHERE uid = {key}").collect()
                seconds[name].append(time.perf_counter() - started)
                if len(rows) != 1:
                    raise SystemExit(f"{table}: expected 1 row of key {key}, found {len(rows)}")
    own, ours = (Sample(name, "s", tuple(values[1:])) for name, values in seconds.items())
    title = f"Spark reads the rows of a key: through a catalog of the directory / through ours; {files} files"
    results.rows.append(Row(_QUERY, title, ours, own, Bar(HIGHER, 3, 10)))


def _warehouse_of(directory: Path) -> Path:
    """A directory in which Spark finds the table as ``db.keyed``."""
    warehouse = HOME / "data" / "rest-warehouse"
    shutil.rmtree(warehouse, ignore_errors=True)
    (warehouse / "db").mkdir(parents=True)
    (warehouse / "db" / "keyed").symlink_to(directory)
    return warehouse


class _Client:
    """One connection to a server, with the table's current snapshot."""

    def __init__(self, port: int, directory: Path) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._path = f"/iceberg/v1/namespaces/{directory.parent.name}/tables/{directory.name}"
        loaded = self._ask("GET", self._path)
        self._snapshot_id = loaded["metadata"]["current-snapshot-id"]

    def plan(self, column: str, key: int) -> float:
        """Plan a scan of one key; returns its seconds."""
        filter_ = {"type": "eq", "term": column, "value": key}
        body = json.dumps({"snapshot-id": self._snapshot_id, "filter": filter_, "case-sensitive": False})
        started = time.perf_counter()
        answer = self._ask("POST", f"{self._path}/plan", body)
        if answer["status"] != "completed":
            raise SystemExit(f"expected a plan, found {answer}")
        return time.perf_counter() - started

    def wait_until_planned(self, column: str) -> None:
        """Plan once, however long the manifests take."""
        while True:
            try:
                self.plan(column, 999)
            except TimeoutError:
                time.sleep(1)
            else:
                return

    def _ask(self, method: str, path: str, body: str | None = None) -> Any:
        self._connection.request(method, path, body)
        with self._connection.getresponse() as response:
            read = response.read()
        if response.status != http.HTTPStatus.OK:
            slow = response.status == http.HTTPStatus.GATEWAY_TIMEOUT
            raise (TimeoutError if slow else SystemExit)(f"{path}: {response.status} {read[:200]!r}")
        return json.loads(read)


def _serving(directory: Path) -> Server:
    return Server("--iceberg", "--allow-root", directory.parent, "--ttl", 3600)
