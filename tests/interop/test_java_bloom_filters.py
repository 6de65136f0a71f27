"""Filters have the bytes of parquet-mr's, for every type that Spark writes and that can be indexed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin.files.parquet.thrift import read_struct
from puffin.index.bloom import BloomFilter, BloomFilterBuilder
from puffin.index.value_hashes import hash_values

ROWS = 3000
COLUMNS = {
    "int": "CAST(id * 7 - 3000 AS int)",
    "long": "id * 123456789012 - 7",
    "float": "CAST(id / 7 AS float)",
    "double": "-id / 7",
    "date": "date_add(DATE '1965-03-01', CAST(id AS int))",
    "timestamptz": "timestamp_micros(id * 12345678901 - 99)",
    "timestamp": "CAST(timestamp_micros(id * 12345678901 - 99) AS timestamp_ntz)",
    "decimal(9, 2)": "CAST(id - 1000.25 AS decimal(9, 2))",
    "decimal(18, 3)": "CAST(id * 1000001 - 0.125 AS decimal(18, 3))",
    "decimal(38, 4)": "CAST(id * 100000000001 - 0.0625 AS decimal(38, 4))",
    "string": "concat('zé-', id, repeat('x', CAST(id % 50 AS int)))",
    "binary": "unhex(sha2(string(id), 256))",
}


@pytest.fixture(scope="module")
def written(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A Parquet file of Spark, with a filter of each column."""
    path = tmp_path_factory.mktemp("bloom") / "written"
    columns = [f"CASE WHEN id % 10 < 9 THEN {sql} END AS c{i}" for i, sql in enumerate(COLUMNS.values())]
    writer = spark.range(ROWS).coalesce(1).selectExpr(*columns).write
    for i in range(len(COLUMNS)):
        writer = writer.option(f"parquet.bloom.filter.enabled#c{i}", "true")
        writer = writer.option(f"parquet.bloom.filter.expected.ndv#c{i}", str(ROWS))
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    try:
        writer.option("parquet.bloom.filter.adaptive.enabled", "false").parquet(str(path))
    finally:
        spark.conf.set("spark.sql.parquet.outputTimestampType", before)
    (file,) = Path(path).glob("*.parquet")
    return file.read_bytes()


@pytest.mark.parametrize("type_", COLUMNS)
def test_filter_has_the_bytes_of_parquet_mr(written: bytes, type_: str) -> None:
    place = list(COLUMNS).index(type_)
    theirs = filter_in(written, place)
    values = pq.read_table(pa.BufferReader(written))[f"c{place}"].combine_chunks()
    assert 0 < values.null_count < len(values)
    builder = BloomFilterBuilder(4 * ROWS, 0.001)
    builder.update(hash_values(values, type_))
    ours = builder.compact()
    assert ours.lg_blocks > theirs.lg_blocks > 3
    while ours.lg_blocks > theirs.lg_blocks:
        ours = ours.halved()
    assert np.array_equal(ours.blocks, theirs.blocks)


def filter_in(file: bytes, place: int) -> BloomFilter:
    """The filter of a column chunk in a file with one row group (``BloomFilterHeader`` and its bitset)."""
    footer_size = int.from_bytes(file[-8:-4], "little")
    footer, _ = read_struct(file, len(file) - 8 - footer_size, {4: {1: {3: {14: None}}}})
    header, begin = read_struct(file, footer[4][0][1][place][3][14], {1: None})
    return BloomFilter.from_bytes(file[begin : begin + header[1]])
