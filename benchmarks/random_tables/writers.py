"""The four programs that write the files of drawn tables, each told the same wishes in its own words."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.random_tables.drawing import DUCKDB, FLOATS, NO_CODEC, POLARS, PYARROW, SPARK, TEXTS, DrawnTable
from benchmarks.random_tables.values import rows_of
from benchmarks.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GROUP_MULTIPLE = 2048  # rows; DuckDB's row groups are of whole vectors
_DUCKDB_DICTIONARY = 1024 * 1024  # entries


def write_files(table: DrawnTable, directory: Path) -> list[Path]:
    """Write the files of a table into a directory, in order."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"{number:03}.parquet" for number in range(len(table.file_rows))]
    with contextlib.ExitStack() as cleanup:
        start, write = _WRITERS[table.writer]
        program = cleanup.enter_context(start())
        for number, path in enumerate(paths):
            write(program, table, rows_of(table, number), path)
    return paths


def _by_pyarrow(_: None, table: DrawnTable, rows: pa.Table, path: Path) -> None:
    encodings = {} if table.dictionary or not table.delta else {c.name: _delta(c.kind) for c in table.columns}
    pq.write_table(
        rows,
        path,
        compression=table.codec,
        data_page_size=table.page_bytes,
        row_group_size=table.group_rows,
        use_dictionary=table.dictionary,
        column_encoding={name: encoding for name, encoding in encodings.items() if encoding is not None} or None,
        data_page_version=f"{table.version}.0",
    )


def _delta(kind: str) -> str | None:
    if kind in FLOATS:
        return "BYTE_STREAM_SPLIT"
    if kind in ("int32", "int64", "date", "timestamp", "timestamptz"):
        return "DELTA_BINARY_PACKED"
    if kind in TEXTS:
        return "DELTA_LENGTH_BYTE_ARRAY"
    return "DELTA_BYTE_ARRAY" if kind == "binary" else None


def _by_polars(_: None, table: DrawnTable, rows: pa.Table, path: Path) -> None:
    import polars as pl

    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    codec: Any = "uncompressed" if table.codec == NO_CODEC else table.codec
    frame.write_parquet(path, compression=codec, data_page_size=table.page_bytes, row_group_size=table.group_rows)


def _by_duckdb(connection: duckdb.DuckDBPyConnection, table: DrawnTable, rows: pa.Table, path: Path) -> None:
    codec = {NO_CODEC: "uncompressed", "lz4": "lz4_raw"}.get(table.codec, table.codec)
    group = -(-table.group_rows // _GROUP_MULTIPLE) * _GROUP_MULTIPLE
    limit = _DUCKDB_DICTIONARY if table.dictionary else 1
    connection.register("drawn", rows)
    connection.execute(
        f"COPY drawn TO '{path}' (FORMAT parquet, COMPRESSION {codec}, ROW_GROUP_SIZE {group},"
        f" PARQUET_VERSION v{table.version}, DICTIONARY_SIZE_LIMIT {limit})"
    )


def _by_spark(spark: SparkSession, table: DrawnTable, rows: pa.Table, path: Path) -> None:
    staged, written = path.with_suffix(".staged"), path.with_suffix(".spark")
    pq.write_table(rows, staged, compression="lz4")
    group_bytes = max(64 * 1024, rows.nbytes * table.group_rows // max(1, rows.num_rows))
    options = {
        "compression": "lz4_raw" if table.codec == "lz4" else table.codec,
        "parquet.page.size": table.page_bytes,
        "parquet.block.size": group_bytes,
        "parquet.enable.dictionary": str(table.dictionary).lower(),
        "parquet.writer.version": f"PARQUET_{table.version}_0",
    }
    frame = spark.read.option("pathGlobFilter", "*").parquet(str(staged)).coalesce(1)
    frame.write.options(**options).parquet(str(written))
    (part,) = written.glob("part-*.parquet")
    part.replace(path)
    staged.unlink()
    for left in written.iterdir():
        left.unlink()
    written.rmdir()


def _duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


_WRITERS: dict[str, tuple[Callable[[], Any], Callable[[Any, DrawnTable, pa.Table, Path], None]]] = {
    PYARROW: (contextlib.nullcontext, _by_pyarrow),
    POLARS: (contextlib.nullcontext, _by_polars),
    DUCKDB: (_duckdb, _by_duckdb),
    SPARK: (lambda: spark_session(2), _by_spark),
}
