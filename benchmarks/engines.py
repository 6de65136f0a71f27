"""
The engines that count distinct values: ours, and what is used today.

All of them are warm: one Spark session for ours and for Spark's own, one DuckDB connection, decoders that are kept.
What ``run`` does is timed, what ``prepare`` and ``counts`` do is not.

Spark's ``theta_sketch_agg`` takes no decimals, dates or timestamps. They are given to it in the cheapest form that has
as many distinct values: as a string, as days and as microseconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks.data import Dataset
from benchmarks.decode import balanced, decode
from benchmarks.processes import warm_processes
from benchmarks.session import CATALOG
from puffin.kernels import load_kernels
from puffin.load import load_table
from puffin.statistics.kinds import DISTRIBUTION
from puffin.statistics.kinds.kind import Kind
from stats_jobs import Options, Report, SparkStarter, analyze

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField

CORES = 2  # of every engine; the bars are for such a machine

OURS, OURS_COMMIT, OURS_ON_EXECUTORS = "ours", "ours, with commit", "ours, on executors"
OURS_UNCOMMITTED, OURS_SKETCHES = "ours, without commit", "ours, without row counts and distributions"
OURS_COUNTS = "ours, without distributions"
COMPUTE_TABLE_STATS = "compute_table_stats"
THETA_SKETCH_AGG = "theta_sketch_agg"
SPARK_APPROX, DUCKDB_APPROX = "Spark approx_count_distinct", "DuckDB approx_count_distinct"
DECODE = "pyarrow decode"


class _WithoutDistributions(Options):
    """What nobody can ask for, since estimates need both; to see what distributions cost beside row counts."""

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        return tuple(kind for kind in super().kinds if kind != DISTRIBUTION)


# Beside engines that only count distinct values, ours makes only sketches.
_OPTIONS = {
    OURS: Options(mode="full", dry_run=True, row_counts=False),
    OURS_COMMIT: Options(mode="full"),
    OURS_ON_EXECUTORS: Options(mode="full", dry_run=True, row_counts=False, driver_bytes=0),
    OURS_UNCOMMITTED: Options(mode="full", commit=False),
    OURS_SKETCHES: Options(mode="full", commit=False, row_counts=False),
    OURS_COUNTS: _WithoutDistributions(mode="full", commit=False),
}

_THETA_ERROR = 1 / 64  # one standard deviation, relative: 1 / sqrt(k) with k = 4096
_SPARK_RSD = 0.0163
_DUCKDB_ERROR = 1.04 / 8  # its HyperLogLog has 64 registers
_SIGMAS, _OUR_SIGMAS = 4, 3
_EXACT_UP_TO = 4096  # distinct values, which a theta sketch keeps all


class Engine(ABC):
    """
    One way to count the distinct values of columns.

    Attributes:
        tolerance: How far off a count may be, relative to the exact one.
        exact_up_to: Up to this many distinct values a count has to be exact.
    """

    tolerance: float = 0.0
    exact_up_to: int = 0

    def __init__(self, name: str, table: Dataset, columns: Sequence[str]) -> None:
        self.name = name
        self.table = table
        self.columns = columns

    def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Be warm again, after other engines have run for minutes."""

    @abstractmethod
    def run(self) -> None:
        """Do the work."""

    def processor_seconds(self) -> float:
        """Processor time so far, of what the engine runs in: this process, unless it says otherwise."""
        return time.process_time()

    @abstractmethod
    def counts(self) -> Mapping[str, int]:
        """What the last run found, by column; empty for an engine that does not count."""


@dataclasses.dataclass(frozen=True, slots=True)
class Session:
    """A Spark session, and what lends it to jobs."""

    starter: SparkStarter
    spark: SparkSession


class WarmEngines:
    """What engines need, started once."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> WarmEngines:
        starter = self._cleanup.enter_context(SparkStarter(session=self._spark))
        starter.start()
        self._session = Session(starter, self._spark)
        self._duckdb = self._cleanup.enter_context(duckdb.connect(config={"threads": CORES}))
        self._workers = self._cleanup.enter_context(warm_processes(CORES))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._cleanup.close()

    def engine(self, name: str, table: Dataset, columns: Sequence[str]) -> Engine:
        """The engine of this name, for these columns of a table."""
        if name in _OPTIONS:
            options = dataclasses.replace(_OPTIONS[name], columns=tuple(columns))
            return Ours(name, table, columns, options, self._session)
        if name == COMPUTE_TABLE_STATS:
            return ComputeTableStats(name, table, columns, self._spark)
        if name in (THETA_SKETCH_AGG, SPARK_APPROX):
            return SparkQuery(name, table, columns, self._spark)
        if name == DUCKDB_APPROX:
            return DuckDbQuery(name, table, columns, self._duckdb)
        return DecodeFloor(name, table, columns, self._workers, CORES)


class Ours(Engine):
    """
    The statistics job: small work in this process, larger work on the executors of a session.

    Args:
        options: Of the job; they name the columns, or are for all.
        session: None if there is only small work.
    """

    tolerance = _OUR_SIGMAS * _THETA_ERROR
    exact_up_to = _EXACT_UP_TO

    def __init__(
        self, name: str, table: Dataset, columns: Sequence[str], options: Options, session: Session | None = None
    ) -> None:
        super().__init__(name, table, columns)
        self._options = options
        self._session = session
        self._report: Report | None = None
        size = sum(Path(file).stat().st_size for file in table.files) * len(columns) // len(table.exact)
        self._is_small = size <= options.driver_bytes

    def prepare(self) -> None:
        if self._session is None or self._is_small:
            return  # what they have just done would go on beside work of a few milliseconds in this process

        def import_(module: str) -> None:
            importlib.import_module(module)
            load_kernels()

        # Spark ends a Python worker that has been idle for a minute; what it imported goes with it.
        modules = self._session.spark.sparkContext.parallelize(["stats_jobs.execute"] * CORES, CORES)
        modules.foreach(import_)

    def run(self) -> None:
        starter = None if self._session is None else self._session.starter
        self._report = analyze(load_table(self.table.directory), self._options, starter)

    def counts(self) -> Mapping[str, int]:
        return {} if self._report is None else {a.column.name: a.ndv or 0 for a in self._report.columns}


class ComputeTableStats(Engine):
    """Iceberg's own procedure, which commits."""

    tolerance = _SIGMAS * _THETA_ERROR

    def __init__(self, name: str, table: Dataset, columns: Sequence[str], spark: SparkSession) -> None:
        super().__init__(name, table, columns)
        self._spark = spark

    def run(self) -> None:
        columns = ", ".join(f"'{column}'" for column in self.columns)
        asked = f"table => '{self.table.identifier}', columns => array({columns})"
        self._spark.sql(f"CALL {CATALOG}.system.compute_table_stats({asked})").collect()

    def counts(self) -> Mapping[str, int]:
        state = load_table(self.table.directory).open().state
        names = {column.field_id: column.name for column in state.columns}
        entry = state.statistics[state.document["current-snapshot-id"]]
        return {names[blob.fields[0]]: int(blob.properties["ndv"]) for blob in entry.blobs}


class SparkQuery(Engine):
    """One of Spark's aggregate functions, over all columns in one query."""

    def __init__(self, name: str, table: Dataset, columns: Sequence[str], spark: SparkSession) -> None:
        super().__init__(name, table, columns)
        self.tolerance = _SIGMAS * (_THETA_ERROR if name == THETA_SKETCH_AGG else _SPARK_RSD)
        fields = spark.table(table.full_name).schema
        aggregates = ", ".join(f"{_aggregate(name, fields[column])} AS {column}" for column in columns)
        self._spark = spark
        self._query = f"SELECT {aggregates} FROM {table.full_name}"
        self._found: Mapping[str, int] = {}

    def run(self) -> None:
        (row,) = self._spark.sql(self._query).collect()
        self._found = {column: round(row[column]) for column in self.columns}

    def counts(self) -> Mapping[str, int]:
        return self._found


class DuckDbQuery(Engine):
    """DuckDB's aggregate function over the table's files, all columns in one query."""

    tolerance = _SIGMAS * _DUCKDB_ERROR

    def __init__(
        self, name: str, table: Dataset, columns: Sequence[str], connection: duckdb.DuckDBPyConnection
    ) -> None:
        super().__init__(name, table, columns)
        self._connection = connection
        self._found: Mapping[str, int] = {}

    def run(self) -> None:
        aggregates = ", ".join(f"approx_count_distinct({column})" for column in self.columns)
        rows = self._connection.execute(
            f"SELECT {aggregates} FROM read_parquet(?)", [list(self.table.files)]
        ).fetchall()
        self._found = dict(zip(self.columns, rows[0], strict=True))

    def counts(self) -> Mapping[str, int]:
        return self._found


class DecodeFloor(Engine):
    """Decoding alone; counts nothing but the rows."""

    def __init__(
        self, name: str, table: Dataset, columns: Sequence[str], workers: ProcessPoolExecutor, processes: int
    ) -> None:
        super().__init__(name, table, columns)
        self._workers = workers
        self._processes = processes

    def run(self) -> None:
        shares = balanced(self.table.files, self.columns, self._processes)
        rows = sum(self._workers.map(functools.partial(decode, columns=self.columns), shares))
        if rows != self.table.rows:
            raise SystemExit(f"{self.table.name}: expected {self.table.rows} rows, decoded {rows}")

    def counts(self) -> Mapping[str, int]:
        return {}


def _aggregate(name: str, field: StructField) -> str:
    if name == SPARK_APPROX:
        return f"approx_count_distinct({field.name}, {_SPARK_RSD})"
    cast = _CASTS.get(field.dataType.typeName(), "{}")
    return f"theta_sketch_estimate(theta_sketch_agg({cast.format(field.name)}, 12))"


_CASTS = {
    "decimal": "CAST({} AS STRING)",
    "date": "unix_date({})",
    "timestamp": "unix_micros({})",
}
