"""
What questions are asked about: suites of tables, and which columns of them may be joined.

A table is an Iceberg table in a directory of its own, below that of its suite. Its data files are plain Parquet, so
that engines which do not read Iceberg are asked about the same files.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.estimates.iceberg_table import write_table
from benchmarks.run import HOME, say

WAREHOUSE = HOME / "estimates"


@dataclasses.dataclass(frozen=True, slots=True)
class BenchTable:
    """
    A table.

    Attributes:
        directory: Of the Iceberg table; ``data`` in it has the Parquet files.
        joint: Pairs of columns, ``a+b``, that the job is told of.
    """

    directory: Path
    joint: tuple[str, ...] = ()

    @property
    def files(self) -> list[Path]:
        """The data files, in the order of the rows."""
        return sorted((self.directory / "data").glob("*.parquet"))

    def read(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables(map(pq.read_table, self.files))


@dataclasses.dataclass(frozen=True, slots=True)
class Edge:
    """
    Two tables that may be joined, on columns that have to be equal; composite keys are ``a+b``.

    Attributes:
        kind: What a result is counted under: ``same`` or ``independent`` skew of the two sides, or ``plain``.
    """

    left: str
    left_column: str
    right: str
    right_column: str
    kind: str = "plain"

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The single columns, left and right."""
        return list(zip(self.left_column.split("+"), self.right_column.split("+"), strict=True))


@dataclasses.dataclass(frozen=True, slots=True)
class Suite:
    """Tables by name, and the edges between them."""

    name: str
    tables: dict[str, BenchTable]
    edges: tuple[Edge, ...]

    @property
    def directory(self) -> Path:
        """Where the tables of the suite are."""
        return WAREHOUSE / self.name


def made_table(suite: str, name: str, rows: pa.Table, joint: tuple[str, ...] = ()) -> BenchTable:
    """Write a table of a suite."""
    say(f"making {suite}.{name}: {rows.num_rows} rows")
    directory = WAREHOUSE / suite / name
    write_table(directory, rows)
    return BenchTable(directory, joint)


def found_table(suite: str, name: str, joint: tuple[str, ...] = ()) -> BenchTable | None:
    """The table, if it has been made before."""
    directory = WAREHOUSE / suite / name
    is_whole = (directory / "metadata" / "version-hint.text").exists()
    return BenchTable(directory, joint) if is_whole else None
