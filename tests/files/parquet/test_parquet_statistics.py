"""Chunk statistics in the footer, as Arrow stores them, are trusted only as far as they go."""

import io
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin.files.parquet.footer_statistics import chunk_statistics
from puffin.files.parquet.parquet_footer import read_footer
from puffin.values.column_chunk import ChunkStatistics


def said_of(array, **options):
    file = io.BytesIO()
    pq.write_table(pa.table({"c": array}), file, **options)
    parquet = pq.ParquetFile(file)
    stored = parquet.schema_arrow.field(0).type
    stored = stored.storage_type if isinstance(stored, pa.BaseExtensionType) else stored
    ((chunk,),) = read_footer(parquet.metadata)
    return chunk_statistics(parquet.metadata.row_group(0).column(0), chunk, stored, parquet.metadata.created_by)


STORED = {
    "boolean": (pa.array([True, False, None]), (False, True)),
    "unsigned": (pa.array([1, 2**32 - 1], pa.uint32()), (1, 2**32 - 1)),
    "date": (pa.array([-1, 3], pa.date32()), (-1, 3)),
    "time": (pa.array([1, 3], pa.time32("ms")), (1, 3)),
    "timestamp": (pa.array([-5, 3], pa.timestamp("ns")), (-5, 3)),
    "decimal": (pa.array([-128, 5], pa.int32()).cast(pa.decimal128(20, 2)), (-12800, 500)),
    "string": (pa.array(["\u00fc", "a"]), (b"a", "\u00fc".encode())),
    "dictionary": (pa.array(["b", "a"]).dictionary_encode(), (b"a", b"b")),
    "uuid": (pa.array([b"\xff" * 16, b"\0" * 16], pa.uuid()), (b"\0" * 16, b"\xff" * 16)),
    "infinity": (pa.array([math.inf, math.nan, 0.0]), (-0.0, math.inf)),
}


@pytest.mark.parametrize(("array", "bounds"), STORED.values(), ids=STORED.keys())
def test_bounds_equal_those_that_arrow_stores(array, bounds):
    found = said_of(array)
    assert found.bounds == bounds
    assert [type(bound) for bound in found.bounds] == [type(bound) for bound in bounds]
    assert found.null_count == array.null_count
    assert not pa.types.is_dictionary(found.arrow_type)


def test_decimals_have_the_same_bounds_however_they_are_stored():
    values = pa.array([-128, 5], pa.int32()).cast(pa.decimal128(18, 2))
    assert said_of(values, store_decimal_as_integer=True).bounds == said_of(values).bounds == (-12800, 500)


@pytest.mark.parametrize(
    ("array", "options"),
    [
        (pa.array([1, 2]), {"write_statistics": False}),
        (pa.array([0, 1], pa.timestamp("us")), {"use_deprecated_int96_timestamps": True}),
        (pa.array([math.nan, None]), {}),
        (pa.array([None, None], pa.int64()), {}),
    ],
)
def test_footer_without_bounds_gives_none(array, options):
    assert said_of(array, **options).bounds is None


def test_required_column_has_no_nulls_whatever_the_footer_says():
    file = io.BytesIO()
    schema = pa.schema([pa.field("c", pa.int64(), nullable=False)])
    pq.write_table(pa.table({"c": [1, 2]}, schema=schema), file, write_statistics=False)
    metadata = pq.read_metadata(file)
    ((chunk,),) = read_footer(metadata)
    column = metadata.row_group(0).column(0)
    assert chunk_statistics(column, chunk, pa.int64(), "").null_count == 0
    assert chunk_statistics(column, None, pa.int64(), "").null_count is None


def test_string_bytes_count_rows_and_not_dictionary_entries():
    array = pa.array(["ab", "\u00fc\u00fc", None, ""] * 100)
    assert said_of(array).string_bytes == 600
    assert said_of(array, use_dictionary=False).string_bytes == 600
    assert said_of(pa.array([1, 2])).string_bytes is None


def test_string_bytes_with_delta_encoding_are_ignored():
    """Arrow C++ skips repeated strings, so the footer would say 2 of 200."""
    options = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}
    assert said_of(pa.array(["ab"] * 100), **options).string_bytes is None


@pytest.mark.parametrize(
    ("created_by", "string_bytes"),
    [
        ("parquet-mr version 1.16.0 (build 402c381)", 400),
        ("parquet-rs version 59.3.0", 400),
        ("ClickHouse version 26.9.2 (build bb16200)", None),
        ("parquet-mr", None),
    ],
)
def test_string_bytes_are_those_of_writers_that_add_them_up_right(created_by, string_bytes):
    """ClickHouse counts strings twice if its dictionary becomes too large."""
    file = io.BytesIO()
    pq.write_table(pa.table({"c": ["ab"] * 200}), file)
    metadata = pq.read_metadata(file)
    ((chunk,),) = read_footer(metadata)
    found = chunk_statistics(metadata.row_group(0).column(0), chunk, pa.string(), created_by)
    assert found.string_bytes == string_bytes


def test_partially_deleted_chunk_has_only_bounds():
    whole = said_of(pa.array(["a", None]))
    assert whole.of_some_rows() == ChunkStatistics(pa.string(), None, (b"a", b"a"), None)


class _Broken:
    """What pyarrow might return for a footer that lies."""

    has_min_max = has_null_count = True

    def __init__(self, low, high, nulls=0):
        self.min_raw, self.max_raw, self.null_count = low, high, nulls
        self.statistics, self.num_values = self, 2


@pytest.mark.parametrize(
    ("low", "high", "arrow_type"),
    [
        (5, 1, pa.int64()),
        (math.nan, 1.0, pa.float64()),
        (b"\0\0", b"\0\1", pa.float16()),
        (b"a", b"b", pa.int64()),
        (1, 2, pa.string()),
        (1, 2, pa.list_(pa.int64())),
    ],
)
def test_impossible_bounds_are_ignored(low, high, arrow_type):
    assert chunk_statistics(_Broken(low, high), None, arrow_type, "").bounds is None


def test_more_nulls_than_values_are_ignored():
    assert chunk_statistics(_Broken(1, 2, nulls=3), None, pa.int64(), "").null_count is None
