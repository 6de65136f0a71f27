"""
What a table looks like that a seed draws: its columns, and how its files are written. Nothing here makes a row.

A writer cannot do everything. What it cannot is drawn nevertheless and then replaced, so that the rest of the table
does not depend on it.
"""

from __future__ import annotations

import dataclasses
import math
import random

PYARROW, SPARK, DUCKDB, POLARS = "pyarrow", "Spark", "DuckDB", "polars"
NO_CODEC = "none"
WRITERS = (PYARROW, SPARK, DUCKDB, POLARS)

INTEGERS = ("int8", "int16", "int32", "int64")
FLOATS = ("float", "double")
TEXTS = ("short", "medium", "long")
BYTES = ("binary", "fixed", "uuid")
TIMES = ("date", "timestamp", "timestamptz")
_KINDS = (*INTEGERS, "int64", "int64", *TIMES, "timestamp", "decimal", "decimal", *FLOATS, "double", *TEXTS, "short")
_ODD_KINDS = (*BYTES, "boolean")  # each as often as one of the others

_CODECS = {"snappy": 3, "zstd": 3, "gzip": 1, "lz4": 2, NO_CODEC: 1}  # and how often of ten
_LENGTHS = {
    "short": (1, 12),
    "medium": (20, 40),
    "long": (60, 300),
    "binary": (1, 24),
    "fixed": (8, 8),
    "uuid": (16, 16),
}
_WIDTHS = {"int8": 1, "int16": 2, "int32": 4, "date": 4, "float": 4, "boolean": 1 / 8}
_MOST_DISTINCT = {"boolean": 2, "int8": 200, "int16": 60_000, "date": 20_000, "float": 1 << 22}
_UNIQUE = 1 << 40  # so many values that hardly any comes twice
_DICTIONARY_BYTES = 1024 * 1024  # the largest that most writers keep
_LEAST_ROWS, _MOST_ROWS = 1_000, 8_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnColumn:
    """
    A column.

    Attributes:
        kind: One of the names above, or ``"decimal"``.
        distinct: The values to draw from; the rows have as many at most.
        skew: The exponent of a Zipf distribution; 0 draws each value equally often.
        nulls: The share of rows that have none.
        is_sorted: Whether the rows of a file have it in order.
        is_dense: Whether numbers are neighbours, and not scattered over their range.
        precision: Of a decimal.
        lengths: The least and the greatest number of bytes, of texts and bytes.
    """

    name: str
    kind: str
    distinct: int
    skew: float
    nulls: float
    is_sorted: bool
    is_dense: bool
    precision: int
    lengths: tuple[int, int]

    def stored_bytes(self, *, dictionary: bool) -> float:
        """About how many bytes a row takes in a file, which may have dictionaries."""
        whole = sum(self.lengths) / 2 if self.lengths[1] else _WIDTHS.get(self.kind, 8)
        if dictionary and self.distinct * whole < _DICTIONARY_BYTES:
            whole = min(whole, 0.2 + math.log2(self.distinct) / 8)
        return (1 - self.nulls) * whole


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnTable:
    """
    A table, and how its files are written.

    Attributes:
        files: Of equally many rows; the last one has the rest.
        codec: ``"none"``, ``"snappy"``, ``"zstd"``, ``"gzip"`` or ``"lz4"``.
        page_bytes: Uncompressed, as the writer is asked for; DuckDB takes no such wish.
        group_rows: Of a row group; Spark, which counts bytes, is told about as many.
        delta: Whether columns without a dictionary have DELTA and BYTE_STREAM_SPLIT encodings; Spark has them in
            version 2, DuckDB too, polars has none.
        version: 1 or 2, of data pages.
    """

    seed: int
    columns: tuple[DrawnColumn, ...]
    rows: int
    files: int
    codec: str
    writer: str
    page_bytes: int
    group_rows: int
    dictionary: bool
    delta: bool
    version: int

    @property
    def file_rows(self) -> list[int]:
        """The rows of each file."""
        each = -(-self.rows // self.files)
        return [min(each, self.rows - start) for start in range(0, self.rows, each)]

    @property
    def compresses(self) -> bool:
        """Whether its pages are compressed."""
        return self.codec != NO_CODEC

    @property
    def said(self) -> str:
        """The table in a few words."""
        encoded = "dictionary" if self.dictionary else "delta" if self.delta else "plain"
        kinds = ", ".join(column.kind for column in self.columns)
        return (
            f"{self.rows:,} rows, {self.files} files, {self.writer}, {self.codec}, {encoded}, pages v{self.version} of "
            f"{self.page_bytes // 1024} KiB, groups of {self.group_rows:,} rows: {kinds}"
        )


def draw(seed: int, size: int) -> DrawnTable:
    """The table of a seed, whose files take about ``size`` bytes, half of that or half as much again."""
    source = random.Random(seed)
    writer = source.choice(WRITERS)
    columns = tuple(_column(source, number, writer) for number in range(source.randint(4, 24)))
    wanted = size * source.uniform(0.5, 1.5)
    dictionary = source.random() < 0.75
    rows = int(wanted / sum(column.stored_bytes(dictionary=dictionary) for column in columns))
    rows = min(_MOST_ROWS, max(_LEAST_ROWS, rows))
    files = source.randint(2, 8)
    return DrawnTable(
        seed=seed,
        columns=columns,
        rows=rows,
        files=files,
        codec=source.choices(list(_CODECS), list(_CODECS.values()))[0],
        writer=writer,
        page_bytes=source.choice((8, 64, 256, 1024, 1024, 4096)) * 1024,
        group_rows=max(2048, rows // files // source.choice((1, 1, 2, 5, 12))),
        dictionary=dictionary,
        delta=source.random() < 0.5,
        version=source.choice((1, 1, 2)),
    )


def _column(source: random.Random, number: int, writer: str) -> DrawnColumn:
    kind = source.choice(_KINDS + _ODD_KINDS)
    if kind in ("fixed", "uuid") and writer != PYARROW and (writer, kind) != (DUCKDB, "uuid"):
        kind = "binary"
    most = _MOST_DISTINCT.get(kind, _UNIQUE)
    distinct = _UNIQUE if source.random() < 0.25 else int(2 ** source.uniform(1, 23))
    skew = source.choice((0.0, source.uniform(0.5, 1.5)))
    nulls = source.choices((0.0, source.uniform(0, 0.2), source.uniform(0.2, 0.95)), (6, 3, 1))[0]
    return DrawnColumn(
        name=f"c{number:02}_{kind}",
        kind=kind,
        distinct=min(distinct, most),
        skew=0.0 if distinct == _UNIQUE else skew,
        nulls=nulls,
        is_sorted=source.random() < 0.2,
        is_dense=source.random() < 0.5,
        precision=source.choice((7, 9, 12, 18, 18, 28, 38)),
        lengths=_LENGTHS.get(kind, (0, 0)),
    )
