"""
The tables that engines are timed on: Iceberg and Delta tables in ``.bench/``, made once and found again.

What is known of a table stands in a JSON file beside it, the exact counts among it. That file is written last: where
it is, the table is whole, and where it is not, the table is made anew.

Spark writes the tables, as it does for most users, from Parquet that other programs make quickly. Each has a double
with the same rows, file by file, written by Arrow: a dictionary of Arrow's may hold values that no row has, so that a
reader has to take more care there.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq

from benchmarks.events import stage
from benchmarks.run import HOME, Run, say
from benchmarks.session import CATALOG, NAMESPACE, WAREHOUSE
from demo.data import tpch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINEITEM, EVENTS = "lineitem", "events"
ICEBERG, DELTA = "iceberg", "delta"

_INPUT_SPLIT = 32 * 1024 * 1024  # bytes of TPC-H's Parquet that become one file of lineitem


@dataclasses.dataclass(frozen=True, slots=True)
class Dataset:
    """
    A table.

    Attributes:
        name: In Spark's catalog, without the namespace.
        exact: The exact number of distinct values, by column.
        dictionary_columns: Those of which every data page of every file is dictionary-encoded.
    """

    name: str
    directory: str
    files: tuple[str, ...]
    rows: int
    exact: dict[str, int]
    dictionary_columns: tuple[str, ...]
    format: str = ICEBERG

    @property
    def identifier(self) -> str:
        """What a procedure of the catalog calls the table; `full_name` is what a query does."""
        return f"{NAMESPACE}.{self.name}"

    @property
    def full_name(self) -> str:
        """The table's name with its catalog; a Delta table has none, and is called by its path."""
        return f"{CATALOG}.{self.identifier}" if self.format == ICEBERG else f"delta.`{self.directory}`"


def dataset(spark: SparkSession, run: Run, table: str) -> Dataset:
    """``LINEITEM`` or ``EVENTS``, written by Spark."""
    if table == LINEITEM:
        name = f"lineitem_sf{run.sizes.scale:g}".replace(".", "_")
        return _found_or_made(spark, name, functools.partial(_make_lineitem, run.sizes.scale))
    return _found_or_made(spark, f"events_{run.sizes.rows}", functools.partial(_make_events, run.sizes.rows))


def rewritten(spark: SparkSession, original: Dataset) -> Dataset:
    """The same rows in files that Arrow wrote."""
    return _found_or_made(spark, f"{original.name}_arrow", functools.partial(_make_rewritten, original))


def as_delta(spark: SparkSession, original: Dataset) -> Dataset:
    """The same rows in a Delta table that Spark wrote."""
    make = functools.partial(_make_delta, original)
    return dataclasses.replace(_found_or_made(spark, f"{original.name}_delta", make), format=DELTA)


def _found_or_made(spark: SparkSession, name: str, make: Callable[[SparkSession, str], list[Path] | None]) -> Dataset:
    facts = WAREHOUSE / NAMESPACE / f"{name}.json"
    found = found_dataset(facts)
    if found is not None:
        return found
    say(f"making {name}")
    directory = WAREHOUSE / NAMESPACE / name
    shutil.rmtree(directory, ignore_errors=True)
    files = make(spark, f"{CATALOG}.{NAMESPACE}.{name}") or sorted(directory.glob("data/**/*.parquet"))
    return kept_dataset(facts, name, directory, tuple(map(str, files)))


def found_dataset(facts: Path) -> Dataset | None:
    """The table that this JSON file tells of; None unless it is there with all of its files."""
    if not facts.exists():
        return None
    document = json.loads(facts.read_text())
    found = Dataset(**{**document, **{key: tuple(document[key]) for key in ("files", "dictionary_columns")}})
    return found if all(Path(file).exists() for file in found.files) else None


def kept_dataset(facts: Path, name: str, directory: Path, files: tuple[str, ...]) -> Dataset:
    """A table that has just been made, counted exactly and told of in a JSON file."""
    made = _described(name, directory, files)
    facts.write_text(json.dumps(dataclasses.asdict(made), indent=2))
    return made


def _make_lineitem(scale: float, spark: SparkSession, full_name: str) -> None:
    spark.conf.set("spark.sql.files.maxPartitionBytes", _INPUT_SPLIT)
    spark.read.parquet(str(tpch(HOME / "data", scale)[LINEITEM])).writeTo(full_name).using("iceberg").create()


def _make_events(rows: int, spark: SparkSession, full_name: str) -> None:
    staging = HOME / "data" / f"events-{rows}"
    for number, path in enumerate(stage(staging, rows)):
        # One file of the table for each that is staged: read together, Spark would deal them out anew.
        writer = spark.read.parquet(str(path)).coalesce(1).writeTo(full_name)
        if number == 0:
            writer.using("iceberg").create()
        else:
            writer.append()
    shutil.rmtree(staging)


def _make_rewritten(original: Dataset, spark: SparkSession, full_name: str) -> list[Path]:
    directory = HOME / "data" / f"{original.name}-arrow"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for number, file in enumerate(original.files):
        # The field ids stay: pyarrow keeps them as metadata of the fields.
        pq.write_table(pq.ParquetFile(file).read(), directory / f"{number}.parquet", compression="zstd")
    spark.table(original.full_name).limit(0).writeTo(full_name).using("iceberg").create()
    table = full_name.removeprefix(f"{CATALOG}.")
    spark.sql(f"CALL {CATALOG}.system.add_files(table => '{table}', source_table => '`parquet`.`{directory}`')")
    return sorted(directory.glob("*.parquet"))


def _make_delta(original: Dataset, spark: SparkSession, full_name: str) -> list[Path]:
    directory = WAREHOUSE / NAMESPACE / full_name.rpartition(".")[2]
    spark.table(original.full_name).write.format("delta").save(str(directory))
    return sorted(directory.glob("*.parquet"))


def _described(name: str, directory: Path, files: tuple[str, ...]) -> Dataset:
    say(f"counting the distinct values of {name} exactly")
    with duckdb.connect(config={"threads": 2}) as connection:
        relation = connection.read_parquet(list(files))
        # One column at a time: all at once do not fit into memory.
        exact = {column: _single(relation.aggregate(f"count(DISTINCT {column})")) for column in relation.columns}
        # Of a column of which nothing else is known, the page statistics in the footers tell how it is encoded.
        encodings = connection.execute(
            """
            SELECT path_in_schema
            FROM (SELECT path_in_schema, column_id, unnest(encoding_stats) AS page FROM parquet_metadata(?))
            WHERE page.page_type LIKE 'DATA_PAGE%'
            GROUP BY path_in_schema
            HAVING bool_and(page.encoding IN ('PLAIN_DICTIONARY', 'RLE_DICTIONARY'))
            ORDER BY min(column_id)
            """,
            [list(files)],
        )
        dictionary_columns = tuple(column for (column,) in encodings.fetchall())
        rows = _single(relation.aggregate("count(*)"))
    return Dataset(name, str(directory), files, rows, exact, dictionary_columns)


def _single(relation: duckdb.DuckDBPyRelation) -> int:
    (value,) = relation.fetchall()[0]
    return int(value)
