"""The values of a chunk's pages and their rows equal those that pyarrow reads, or there are none."""

import dataclasses
import datetime
import decimal
import functools
import io
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from puffin import kernels
from puffin.errors import CorruptDataFileError
from puffin.files.parquet import page_batches
from puffin.files.parquet.parquet_footer import read_footer
from tests.page_counts import agrees_with_pyarrow, counted, page_counts, written

pytestmark = pytest.mark.usefixtures("compiled")

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parquet-writers"
CODECS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")
SMALL_PAGES = {"data_page_size": 64, "write_batch_size": 50, "row_group_size": 700}
NUMBERS = np.random.default_rng(0)


def storage_of(arrow_type):
    return getattr(arrow_type, "storage_type", arrow_type)


def leaf(column, path):
    for name in path:
        column = pa.chunked_array([chunk.flatten()[chunk.type.get_field_index(name)] for chunk in column.chunks])
    return pa.chunked_array([getattr(chunk, "storage", chunk) for chunk in column.chunks], storage_of(column.type))


def row_group_counts(file, path=("c",), **options):
    """Return for each row group what its pages give and what pyarrow reads, both as a Counter or None."""
    parquet = pq.ParquetFile(pa.BufferReader(file), **options)
    for index, group in enumerate(read_footer(parquet.metadata)):
        (chunk,) = (chunk for chunk in group if chunk.leaf.path == path)
        column = leaf(parquet.read_row_group(index, columns=[".".join(path)]).column(0), path[1:])
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        yield page_counts(pa.BufferReader(file), chunk, column.type), counted(column)


def check(file, path=("c",), **options):
    """Check that every row group with rows has the counts of its rows."""
    num_rows = [group.num_values for (group, *_) in read_footer(pq.read_metadata(pa.BufferReader(file)))]
    pairs = list(row_group_counts(file, path, **options))
    for rows, (ours, theirs) in zip(num_rows, pairs, strict=True):
        assert ours == theirs or (rows == 0 and ours is None)
    return pairs


# --- pages, codecs, nesting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("nulls", ["required", "none", "some", "only"])
def test_counts_with_every_codec_and_page_version(codec, page_version, nulls):
    texts = [f"text {i}" for i in NUMBERS.integers(0, 60, 2000)]
    if nulls in ("some", "only"):
        texts = [None if nulls == "only" or i % 3 == 0 else text for i, text in enumerate(texts)]
    table = pa.table({"c": texts}, schema=pa.schema([pa.field("c", pa.string(), nullable=nulls != "required")]))
    file = written(table, compression=codec, data_page_version=page_version, **SMALL_PAGES)
    chunk = read_footer(pq.read_metadata(pa.BufferReader(file)))[0][0]
    assert (sum(stats.count for stats in chunk.encoding_stats) > 3) == (nulls != "only")
    assert len(check(file)) == 3


@pytest.mark.parametrize("bits", range(21))
def test_counts_with_indices_of_every_width(bits):
    """Half of the rows carry one value, and the largest index is used."""
    entries = 1 << bits
    indices = NUMBERS.integers(0, entries, max(3000, entries // 4))
    indices[::2] = entries // 3
    indices[5] = entries - 1
    dictionary = pa.array(range(entries), pa.int32())
    column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), dictionary).cast(pa.int32())
    check(written(column, dictionary_pagesize_limit=1 << 26))


@pytest.mark.parametrize("run", [1, 3, 8, 20, 1000])
def test_counts_of_runs_of_equal_values(run):
    check(written([i // run % 7 for i in range(5000)]))


@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
def test_counts_of_leaves_in_structs(page_version):
    """A row is null at the leaf, in the inner struct or in the outer one; the leaf itself may be required."""
    rows = 900
    masks = [pa.array(NUMBERS.random(rows) < share) for share in (0.3, 0.5)]
    for nullable in (True, False):
        child = pa.array([None if nullable and i % 4 == 0 else i % 11 for i in range(rows)])
        inner = pa.StructArray.from_arrays([child], fields=[pa.field("x", pa.int64(), nullable)], mask=masks[0])
        outer = pa.StructArray.from_arrays([inner], ["i"], mask=masks[1])
        check(written(outer, data_page_version=page_version, **SMALL_PAGES), ("c", "i", "x"))


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["only one"],
        ["one"] * 5000,
        [None, "", "a", ""],
        [1.5, float("nan"), -0.0, 0.0] * 9,
        [decimal.Decimal("1.25"), None, decimal.Decimal("-7.00")] * 9,
        [datetime.date(2024, 2, 29), None] * 9,
        [datetime.datetime(2024, 2, 29, 1, 2, 3, 4)] * 9,
        [b"\x00\xff", b""] * 9,
    ],
    ids=repr,
)
def test_counts_of_values_of_any_type(values):
    check(written(pa.array(values) if values else pa.array([], pa.string())))


@pytest.mark.parametrize(
    "arrow_type", [pa.large_string(), pa.string_view(), pa.large_binary(), pa.binary_view(), pa.binary(2), pa.uuid()]
)
def test_counts_of_bytes_of_any_arrow_type(arrow_type):
    storage = storage_of(arrow_type)
    width = storage.byte_width if pa.types.is_fixed_size_binary(storage) else 2
    values = pa.array([bytes([65 + i]) * width for i in (0, 3, 3, 8)] + [None])
    column = values.take(pa.array([0, 1, 4, 2, 3] * 40)).cast(storage)
    if arrow_type != storage:
        column = pa.ExtensionArray.from_storage(arrow_type, column)
    check(written(column))


def test_counts_of_a_view_with_unused_values():
    """Views cannot be filtered."""
    indices = pa.array([0, 2] * 50, pa.int32())
    file = written(pa.DictionaryArray.from_arrays(indices, ["a", "unused", "b"]), store_schema=False)
    chunk = read_footer(pq.read_metadata(pa.BufferReader(file)))[0][0]
    assert page_counts(pa.BufferReader(file), chunk, pa.string_view()) == {b"a": 50, b"b": 50}


@settings(max_examples=40)
@given(
    st.lists(st.none() | st.integers(0, 40), max_size=300),
    st.integers(1, 30),
    st.sampled_from(["1.0", "2.0"]),
    st.sampled_from([7, 100, 10_000]),
)
def test_counts_of_any_column(values, repeated, page_version, row_group_size):
    column = pa.array([value for value in values for _ in range(repeated)], pa.int64())
    options = SMALL_PAGES | {"row_group_size": row_group_size, "data_page_version": page_version}
    check(written(column, **options))


# --- writers ------------------------------------------------------------------------------------------------------


def test_unused_dictionary_values_are_not_counted():
    indices = pa.array([0, 2, None] * 300, pa.int32())
    file = written(pa.DictionaryArray.from_arrays(indices, ["used", "unused", "also used"]), store_schema=False)
    assert check(file, read_dictionary=["c"])[0][0] == {b"used": 300, b"also used": 300}


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("*.parquet")))
def test_counts_of_polars_files(name):
    """Polars lists its encodings only in its pages."""
    file = (FIXTURES / name).read_bytes()
    parquet = pq.ParquetFile(pa.BufferReader(file))
    paths = [tuple(parquet.schema.column(i).path.split(".")) for i in range(len(parquet.schema))]
    for path in paths:
        check(file, path)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_counts_of_duckdb_files(tmp_path, version):
    """Its bit-packed runs are padded to 256 values, and its dictionary of an ENUM holds all members."""
    import duckdb

    path = str(tmp_path / "duck.parquet")
    with duckdb.connect() as connection:
        connection.sql("create type letters as enum ('a', 'unused', 'b')")
        connection.sql(f"""
            copy (
                select (if(i % 2 = 0, 'a', 'b'))::letters as enum, 'text ' || (i * i % 97) as text,
                    (i // 20 % 7)::int as int, if(i % 3 = 0, null, i % 5) as holes
                from range(5003) as r(i)
            ) to '{path}' (format parquet, parquet_version {version})
        """)
    file = Path(path).read_bytes()
    for column in ("enum", "text", "int", "holes"):
        check(file, (column,))


# --- no counts ----------------------------------------------------------------------------------------------------


def counts_of(file, **changes):
    chunk = read_footer(pq.read_metadata(pa.BufferReader(file)))[0][0]
    return page_counts(pa.BufferReader(file), dataclasses.replace(chunk, **changes), pa.string())


def test_chunk_of_lists_has_no_counts():
    file = written(pa.array([["a", "b"], []] * 9))
    chunk = read_footer(pq.read_metadata(pa.BufferReader(file)))[0][0]
    assert page_counts(pa.BufferReader(file), chunk, pa.string()) is None


def test_page_too_large_to_hold_has_no_counts(monkeypatch):
    file = written([f"text {i % 50}" for i in range(900)])
    assert counts_of(file) is not None
    monkeypatch.setattr(page_batches, "MAX_PAGE_BYTES", 100)
    assert counts_of(file) is None


def test_there_are_no_counts_without_kernels(monkeypatch):
    file = written(["a", "b"] * 9)
    monkeypatch.setattr(kernels, "_is_ready", False)
    assert counts_of(file) is None


@pytest.mark.parametrize("num_values", [17, 19, 0x7FFF])
def test_chunk_whose_rows_contradict_its_pages_has_no_counts(num_values):
    file = written(["a", "b"] * 9)
    assert counts_of(file, num_values=18) is not None
    assert counts_of(file, num_values=num_values) is None


def test_null_count_of_the_page_header_is_used():
    """Only headers of version 2 have one."""
    file = written(["a", None] * 9, data_page_version="2.0", compression="none")
    num_nulls = b"\x15\x24\x15\x12\x15\x24"  # num_values 18, num_nulls 9, num_rows 18, all zigzag
    assert file.count(num_nulls) == 1
    assert counts_of(file) is not None
    assert counts_of(file.replace(num_nulls, b"\x15\x24\x15\x10\x15\x24")) is None


def test_storage_errors_are_passed_on():
    file = written(["a", "b"] * 9)
    chunk = read_footer(pq.read_metadata(pa.BufferReader(file)))[0][0]

    class Failing(io.BytesIO):
        def read(self, _=-1):
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        page_counts(pa.PythonFile(Failing(file), "r"), chunk, pa.string())


# --- hostile pages ------------------------------------------------------------------------------------------------


@functools.cache
def small_file(codec, page_version):
    texts = [None if i % 7 == 3 else f"t{i * i % 5}" for i in range(60)] + ["t1"] * 40
    file = written(texts, compression=codec, data_page_version=page_version, data_page_size=20, write_batch_size=40)
    return file, read_footer(pq.read_metadata(pa.BufferReader(file)))[0][0]


def agree(file, chunk):
    try:
        found = page_counts(pa.BufferReader(file), chunk, pa.string())
    except CorruptDataFileError:
        return True
    return agrees_with_pyarrow(found, file)


@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", CODECS)
def test_truncated_chunk_has_no_counts(codec, page_version):
    file, chunk = small_file(codec, page_version)
    end = chunk.dictionary_page_offset + chunk.total_compressed_size
    assert page_counts(pa.BufferReader(file[:end]), chunk, pa.string()) is not None
    for cut in range(chunk.data_page_offset, end):
        assert page_counts(pa.BufferReader(file[:cut]), chunk, pa.string()) is None


@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_changing_any_byte_of_the_data_pages_gives_equal_counts_or_none(codec, page_version):
    file, chunk = small_file(codec, page_version)
    for at in range(chunk.data_page_offset, chunk.dictionary_page_offset + chunk.total_compressed_size):
        for byte in (0, file[at] ^ 1, file[at] ^ 0x80, (file[at] + 2) % 256, 0xFF):
            assert agree(file[:at] + bytes([byte]) + file[at + 1 :], chunk), (at, byte)


@settings(max_examples=200)
@given(st.sampled_from(["none", "gzip", "brotli", "lz4"]), st.sampled_from(["1.0", "2.0"]), st.data())
def test_changing_several_bytes_gives_equal_counts_or_none(codec, page_version, data):
    file, chunk = small_file(codec, page_version)
    changed = bytearray(file)
    place = st.integers(chunk.dictionary_page_offset, chunk.dictionary_page_offset + chunk.total_compressed_size - 1)
    for at in data.draw(st.lists(place, min_size=2, max_size=5)):
        changed[at] = data.draw(st.integers(0, 255))
    assert agree(bytes(changed), chunk)
