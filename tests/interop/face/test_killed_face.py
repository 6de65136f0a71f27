"""A server that is killed and started again under queries of Spark: each query is right, or it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from py4j.protocol import Py4JJavaError

from tests.interop.face.conftest import PLANNED_BY_SERVER, Face, add_catalog
from tests.server.conftest import Process
from tests.server.killed_server import FILES, ROWS, errors_of_queries

CATALOG = "killed"
CLIENTS = 3
"""More than Spark has cores here. That many more can query at once is proven by pyiceberg, in ``tests/server``."""
STEPS = (
    "CREATE TABLE {t} (k bigint, file bigint) USING iceberg TBLPROPERTIES ('write.distribution-mode' = 'none')",
    f"""INSERT INTO {{t}} SELECT explode(array(id, id + 1)), id % {FILES}
        FROM (SELECT /*+ REPARTITION({FILES}, id) */ id FROM range({FILES * ROWS}))""",
)


@pytest.fixture
def processes(face: Face) -> Iterator[Callable[..., Process]]:
    """Starts a server over the warehouse, and ends all of them after the test."""
    started: list[Process] = []

    def start(port: int = 0) -> Process:
        started.append(Process(face.warehouse, "--iceberg", "--port", str(port)))
        return started[-1]

    yield start
    for process in started:
        process.end()


def test_killed_server_costs_queries_of_spark_but_no_rows(
    face: Face, make_table: Callable[..., str], processes: Callable[..., Process]
) -> None:
    name, process = make_table("face.killed", *STEPS), processes()
    add_catalog(face.spark, CATALOG, process.url)
    assert face.planner(name, CATALOG) == PLANNED_BY_SERVER

    def ask(key: int) -> Sequence[tuple[int, int]]:
        return [tuple(row) for row in face.sql(f"SELECT k, file FROM {{t}} WHERE k = {key}", name, CATALOG).collect()]

    errors = errors_of_queries(process, processes, ask, CLIENTS)
    java_classes = {error.java_exception.getClass().getName() for error in errors if isinstance(error, Py4JJavaError)}
    assert [error for error in errors if not isinstance(error, Py4JJavaError)] == []
    assert java_classes == {"org.apache.iceberg.exceptions.RESTException"}
