"""The values of a dictionary page equal those that pyarrow reads through the indices."""

import dataclasses
import datetime
import decimal
import functools
import io
import uuid
from contextlib import suppress

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from puffin.files.parquet import dictionary_page as parquet_dictionary
from puffin.files.parquet.dictionary_page import has_readable_dictionary, read_dictionary_page
from puffin.files.parquet.parquet_footer import read_footer
from puffin.sketches.theta_sketch import ThetaSketch
from tests.page_counts import agrees_with_pyarrow

ROWS = 600
D = decimal.Decimal
AS_INTEGER = {"store_decimal_as_integer": True}

# name: (values, Arrow type, Iceberg type, how to write them)
CASES = {
    "int": ([-1, 0, 2**31 - 1], pa.int32(), "int", {}),
    "int from int8": ([-128, 0, 127], pa.int8(), "int", {}),
    "int from uint16": ([0, 65535], pa.uint16(), "int", {}),
    "long": ([-(2**63), 0, 7], pa.int64(), "long", {}),
    "long from uint32": ([0, 2**32 - 1], pa.uint32(), "long", {}),
    "float": ([-0.0, 0.0, 1.5, float("nan"), float("inf")], pa.float32(), "float", {}),
    "double": ([-0.0, 0.0, 1.5, float("nan"), float("-inf")], pa.float64(), "double", {}),
    "date": ([datetime.date(1900, 1, 1), datetime.date(2024, 2, 29)], pa.date32(), "date", {}),
    "date from date64": ([datetime.date(1900, 1, 1), datetime.date(2024, 2, 29)], pa.date64(), "date", {}),
    "time": ([datetime.time(1, 2, 3, 4), datetime.time(23)], pa.time64("us"), "time", {}),
    "time in ms": ([datetime.time(1, 2, 3), datetime.time(23)], pa.time32("ms"), "time", {}),
    "timestamp": ([0, -5, 10**15], pa.timestamp("us"), "timestamp", {}),
    "timestamp in ms": ([0, -5, 10**12], pa.timestamp("ms"), "timestamp", {}),
    "timestamp in s": ([0, -5, 10**9], pa.timestamp("s"), "timestamp", {}),
    "timestamp in ns": ([0, -5000, 10**18], pa.timestamp("ns"), "timestamp_ns", {}),
    "timestamptz": ([0, -5, 10**15], pa.timestamp("us", "UTC"), "timestamptz", {}),
    "timestamptz elsewhere": ([0, -5, 10**15], pa.timestamp("us", "Europe/Berlin"), "timestamptz", {}),
    "decimal on fixed 4": ([D("-1.25"), D("99.99")], pa.decimal128(9, 2), "decimal(9, 2)", {}),
    "decimal on int32": ([D("-1.25"), D("99.99")], pa.decimal128(9, 2), "decimal(9, 2)", AS_INTEGER),
    "decimal on int64": ([D("-1.25"), D("99.99")], pa.decimal128(18, 2), "decimal(18, 2)", AS_INTEGER),
    "decimal on fixed 16": ([D(-(10**37)), D(10**37), D(0)], pa.decimal128(38, 0), "decimal(38, 0)", {}),
    "string": (["", "a", "ü" * 40, "x" * 5000], pa.string(), "string", {}),
    "large string": (["", "a", "ü" * 40], pa.large_string(), "string", {}),
    "binary": ([b"", b"\x00\xff", b"y" * 300], pa.binary(), "binary", {}),
    "large binary": ([b"", b"\x00\xff"], pa.large_binary(), "binary", {}),
    "fixed": ([b"\x00" * 5, b"\xff" * 5], pa.binary(5), "fixed[5]", {}),
    "uuid": ([uuid.UUID(int=i).bytes for i in (0, 1, 2**127)], pa.uuid(), "uuid", {}),
}  # fmt: skip


def written(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def read_both(file, column=0):
    """The column as pyarrow reads it, and the dictionary of its first chunk."""
    parquet = pq.ParquetFile(pa.BufferReader(file))
    plain = parquet.read().column(column)
    storage = getattr(plain.type, "storage_type", plain.type)
    chunk = read_footer(parquet.metadata)[0][column]
    assert has_readable_dictionary(chunk)
    return plain, read_dictionary_page(pa.BufferReader(file), chunk, storage)


def column_of(values, arrow_type, *, nulls=True):
    repeated = (values * ROWS)[:ROWS]
    if nulls:
        repeated[1::3] = [None] * len(repeated[1::3])
    if isinstance(arrow_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(arrow_type, pa.array(repeated, arrow_type.storage_type))
    return pa.array(repeated, arrow_type)


# --- types, codecs, versions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
@pytest.mark.parametrize("nulls", [True, False], ids=["nulls", "no nulls"])
@pytest.mark.parametrize(("values", "arrow_type", "type_string", "options"), CASES.values(), ids=CASES)
def test_dictionary_has_each_value_of_the_column_once(values, arrow_type, type_string, options, nulls, page_version):
    """The type, the values and the bytes of the sketch are equal."""
    table = pa.table({"c": column_of(values, arrow_type, nulls=nulls)})
    plain, found = read_both(written(table, data_page_version=page_version, **options))
    assert found.type == getattr(plain.type, "storage_type", plain.type)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, storage_of(plain).unique().drop_null().to_pylist()))
    sketch = ThetaSketch.from_arrow(found, type_string)
    assert sketch.to_bytes() == ThetaSketch.from_arrow(plain, type_string).to_bytes()
    assert not sketch.empty


def storage_of(column):
    return pa.chunked_array([getattr(chunk, "storage", chunk) for chunk in column.chunks])


@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("required", [True, False], ids=["required", "optional"])
def test_every_codec_is_decompressed(codec, page_version, required):
    schema = pa.schema([pa.field("c", pa.string(), nullable=not required)])
    table = pa.table({"c": [f"some text {i % 300}" for i in range(ROWS)]}, schema=schema)
    plain, found = read_both(written(table, compression=codec, data_page_version=page_version))
    assert found.to_pylist() == plain.unique().to_pylist()


def test_column_of_nulls_has_no_values():
    plain, found = read_both(written(pa.table({"c": pa.nulls(ROWS, pa.string())})))
    assert (len(plain), len(found), found.type) == (ROWS, 0, pa.string())


def test_null_typed_column_has_no_values():
    _, found = read_both(written(pa.table({"c": pa.nulls(ROWS)})))
    assert len(found) == 0


def test_leaf_in_structs_excludes_values_below_null_structs():
    child = pa.array(["a", "hidden", "b"] * 100)
    inner = pa.StructArray.from_arrays([child], ["y"], mask=pa.array([False, True, False] * 100))
    file = written(pa.table({"c": pa.StructArray.from_arrays([inner], ["x"])}))
    chunk = read_footer(pq.read_metadata(pa.BufferReader(file)))[0][0]
    assert read_dictionary_page(pa.BufferReader(file), chunk, pa.string()).to_pylist() == ["a", "b"]


def test_dictionary_of_many_values_is_read_whole():
    values = [f"{i:x}" for i in range(70_000)]
    _, found = read_both(written(pa.table({"c": values * 2}), dictionary_pagesize_limit=2**24))
    assert found.to_pylist() == values


def test_int96_is_left_to_the_plain_path():
    file = written(pa.table({"c": pa.array([0, 1], pa.timestamp("us"))}), use_deprecated_int96_timestamps=True)
    assert not has_readable_dictionary(read_footer(pq.read_metadata(pa.BufferReader(file)))[0][0])


def test_page_is_read_in_one_exact_range():
    file = written(pa.table({"c": ["a", "b"] * ROWS}))
    ranges = []

    class Source:
        def read_at(self, length, offset):
            ranges.append((offset, length))
            return file[offset : offset + length]

    chunk = read_footer(pq.read_metadata(pa.BufferReader(file)))[0][0]
    read_dictionary_page(Source(), chunk, pa.string())
    assert ranges == [(chunk.dictionary_page_offset, chunk.data_page_offset - chunk.dictionary_page_offset)]


def test_page_beyond_the_limit_is_left_to_the_plain_path(monkeypatch):
    file = written(pa.table({"c": ["x" * 100_000, "y"]}))
    monkeypatch.setattr(parquet_dictionary, "MAX_PAGE_BYTES", 50_000)
    _, found = read_both(file)  # compressed, it is within the limit
    assert found is None
    monkeypatch.setattr(parquet_dictionary, "MAX_PAGE_BYTES", 100)
    assert not has_readable_dictionary(read_footer(pq.read_metadata(pa.BufferReader(file)))[0][0])


# --- hostile pages ------------------------------------------------------------------------------------------------


@functools.cache
def small_file(codec):
    file = written(pa.table({"c": ["a", "bb", "", "dddd", None] * 5}), compression=codec)
    return file, read_footer(pq.read_metadata(pa.BufferReader(file)))[0][0]


def agree(file, chunk):
    found = read_dictionary_page(pa.BufferReader(file), chunk, pa.string())
    return agrees_with_pyarrow(None if found is None else distinct(found), file, distinct)


def distinct(texts):
    return set(texts.drop_null().cast(pa.binary()).to_pylist())  # they may not be UTF-8 any more


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_truncated_page_gives_no_values(codec):
    file, chunk = small_file(codec)
    for end in range(chunk.data_page_offset):
        with suppress(OSError):  # pyarrow's, for a range that is not in the file
            assert read_dictionary_page(pa.BufferReader(file[:end]), chunk, pa.string()) is None


def test_page_with_trailing_bytes_gives_no_values():
    """Only one page may precede the data pages; more bytes could be another dictionary."""
    file, chunk = small_file("none")
    longer = dataclasses.replace(chunk, data_page_offset=chunk.data_page_offset + 1)
    assert read_dictionary_page(pa.BufferReader(file), chunk, pa.string()) is not None
    assert read_dictionary_page(pa.BufferReader(file), longer, pa.string()) is None


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_changing_any_byte_of_a_page_gives_the_plain_values_or_none(codec):
    file, chunk = small_file(codec)
    for at in range(chunk.dictionary_page_offset, chunk.data_page_offset):
        for byte in (0, file[at] ^ 1, file[at] ^ 0x80, (file[at] + 2) % 256, 0xFF):
            assert agree(file[:at] + bytes([byte]) + file[at + 1 :], chunk), (at, byte)


@settings(max_examples=150)
@given(st.sampled_from(["none", "gzip", "lz4"]), st.data())
def test_changing_several_bytes_gives_the_plain_values_or_none(codec, data):
    file, chunk = small_file(codec)
    changed = bytearray(file)
    place = st.integers(chunk.dictionary_page_offset, chunk.data_page_offset - 1)
    for at in data.draw(st.lists(place, min_size=2, max_size=5)):
        changed[at] = data.draw(st.integers(0, 255))
    assert agree(bytes(changed), chunk)
