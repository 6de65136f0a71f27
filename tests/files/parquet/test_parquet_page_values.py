"""The values in the pages of a chunk, of whatever type and encoding, are those that pyarrow reads row by row."""

import collections
import dataclasses
import decimal

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from puffin.errors import CorruptDataFileError
from puffin.files.parquet import delta_pages, page_batches, page_codecs, plain_pages
from puffin.files.parquet.page_rows import has_readable_rows, read_page_rows
from puffin.files.parquet.page_values import read_page_values
from puffin.files.parquet.parquet_footer import INT64, PLAIN, PLAIN_DICTIONARY, read_footer
from tests.page_counts import agrees_with_pyarrow, counted, of_bytes, page_counts, written

pytestmark = pytest.mark.usefixtures("compiled")

AS_INTEGER = {"store_decimal_as_integer": True}


def digits(most):
    return st.integers(1 - 10**most, 10**most - 1).map(decimal.Decimal)


def within(bits, least=None):
    return st.integers(-(2 ** (bits - 1)) if least is None else least, 2 ** (bits - 1) - 1)


# name: (Arrow type, values, how to write them)
TYPES = {
    "boolean": (pa.bool_(), st.booleans(), {}),
    "int8": (pa.int8(), within(8), {}),
    "int16": (pa.int16(), within(16), {}),
    "uint8": (pa.uint8(), within(9, 0), {}),
    "uint16": (pa.uint16(), within(17, 0), {}),
    "uint32": (pa.uint32(), within(33, 0), {}),
    "int32": (pa.int32(), within(32), {}),
    "int64": (pa.int64(), within(64), {}),
    "float": (pa.float32(), st.floats(width=32), {}),
    "double": (pa.float64(), st.floats(), {}),
    "date": (pa.date32(), st.dates(), {}),
    "time": (pa.time64("us"), st.times(), {}),
    "time in ms": (pa.time32("ms"), within(32, 0).map(lambda number: number % 86_400_000), {}),
    "timestamp": (pa.timestamp("us"), within(50), {}),
    "timestamp in s": (pa.timestamp("s"), within(30), {}),
    "timestamptz": (pa.timestamp("ns", "UTC"), within(64), {}),
    **{f"decimal({p})": (pa.decimal128(p), digits(p), {}) for p in (1, 2, 7, 9, 12, 18, 19, 21, 28, 38)},
    **{f"decimal({p}) as integer": (pa.decimal128(p), digits(p), AS_INTEGER) for p in (9, 18)},
    "string": (pa.string(), st.text(max_size=20), {}),
    "large_string": (pa.large_string(), st.text(max_size=9), {}),
    "string_view": (pa.string_view(), st.text(max_size=9), {}),
    "binary": (pa.binary(), st.binary(max_size=40), {}),
    "large_binary": (pa.large_binary(), st.binary(max_size=9), {}),
    "binary_view": (pa.binary_view(), st.binary(max_size=9), {}),
    "fixed": (pa.binary(5), st.binary(min_size=5, max_size=5), {}),
    "uuid": (pa.binary(16), st.binary(min_size=16, max_size=16), {}),
}  # fmt: skip
NUMBERS = ("int8", "int16", "uint8", "uint16", "uint32", "int32", "int64", "date", "time", "time in ms", "timestamp",
           "timestamp in s", "timestamptz", "decimal(9) as integer", "decimal(18) as integer")  # fmt: skip
ENCODINGS = {
    "DELTA_BINARY_PACKED": NUMBERS,
    "BYTE_STREAM_SPLIT": (*NUMBERS, "float", "double", "fixed", "uuid", "decimal(12)", "decimal(38)"),
    "DELTA_LENGTH_BYTE_ARRAY": ("string", "large_string", "binary", "large_binary"),
    "DELTA_BYTE_ARRAY": ("string", "large_string", "binary", "large_binary", "fixed", "uuid", "decimal(12)"),
}
LAYOUTS = {
    "plain": {"use_dictionary": False},
    "dictionary": {},
    "both": {"dictionary_pagesize_limit": 40},
}


def first_chunk(file):
    return read_footer(pq.read_metadata(pa.BufferReader(file)))[0][0]


def total_of(file, arrow_type):
    """The values of all row groups, from their pages, which are read together or not, and as pyarrow reads them."""
    chunks = [group[0] for group in read_footer(pq.read_metadata(pa.BufferReader(file))) if group[0].num_values]
    together = page_counts(pa.BufferReader(file), chunks[0], arrow_type, *chunks[1:]) if chunks else {}
    found = collections.Counter()
    for chunk in chunks:
        found += page_counts(pa.BufferReader(file), chunk, arrow_type)
    assert together == found
    return found, counted(pq.read_table(pa.BufferReader(file)).column(0))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(("arrow_type", "values", "options"), TYPES.values(), ids=TYPES)
@settings(max_examples=5)
@given(data=st.data())
def test_pages_of_any_type_have_the_values_of_their_rows(arrow_type, values, options, layout, data):
    check_drawn_file(arrow_type, values, options | layout, data)


@pytest.mark.parametrize(("encoding", "name"), [(encoding, name) for encoding, of in ENCODINGS.items() for name in of])
@settings(max_examples=4)
@given(data=st.data())
def test_pages_of_any_encoding_have_the_values_of_their_rows(encoding, name, data):
    arrow_type, values, options = TYPES[name]
    check_drawn_file(arrow_type, values, options | LAYOUTS["plain"] | {"column_encoding": encoding}, data)


def check_drawn_file(arrow_type, values, options, data):
    rows = data.draw(st.lists(values, max_size=30)) * data.draw(st.integers(1, 9))
    gaps = data.draw(st.sampled_from([0, 2, 3, 9]))
    if gaps:
        rows = [None if i % gaps == 0 or i % 50 < 9 else value for i, value in enumerate(rows)]
    is_nullable = bool(gaps) or data.draw(st.booleans())
    schema = pa.schema([pa.field("c", arrow_type, is_nullable)])
    file = written(
        pa.table([pa.array(rows, arrow_type)], schema=schema),
        compression=data.draw(st.sampled_from(["none", "snappy", "gzip", "brotli", "zstd", "lz4"])),
        data_page_version=data.draw(st.sampled_from(["1.0", "2.0"])),
        data_page_size=data.draw(st.sampled_from([1, 100, 1 << 20])),
        write_batch_size=data.draw(st.sampled_from([1, 7, 1000])),
        row_group_size=data.draw(st.sampled_from([20, 1000])),
        **options,
    )
    stored = pq.read_schema(pa.BufferReader(file)).field(0).type
    found, expected = total_of(file, stored)
    assert found == expected
    if not pa.types.is_boolean(stored):
        assert rows_of_pages(file, stored) == rows_of(pq.read_table(pa.BufferReader(file)).column(0).chunks)


def rows_of_pages(file, arrow_type):
    rows = []
    for (chunk,) in read_footer(pq.read_metadata(pa.BufferReader(file))):
        assert chunk.num_values == 0 or has_readable_rows(chunk, arrow_type)
        rows += rows_of(read_page_rows(pa.BufferReader(file), chunk, arrow_type)) if chunk.num_values else []
    return rows


def rows_of(arrays):
    """Every value, comparable, or null."""
    rows = []
    for array in arrays:
        is_float = pa.types.is_floating(array.type)
        bits = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()) if is_float else array
        rows += of_bytes(bits).to_pylist()
    return rows


@pytest.mark.parametrize("levels", [1, 2, 3, 9])
def test_leaves_below_optional_structs_have_levels_of_several_bits(levels):
    column = pa.array([None if i % 5 == 0 else f"text {i}" for i in range(500)])
    for level in range(levels):
        mask = pa.array([i % 11 == level for i in range(500)])
        column = pa.StructArray.from_arrays([column], ["x"], mask=mask)
    file = written(column, use_dictionary=False, data_page_size=300, write_batch_size=30)
    expected = collections.Counter()
    for row in column.to_pylist():
        for _ in range(levels):
            row = row and row["x"]
        expected[row and row.encode()] += 1
    del expected[None]
    assert page_counts(pa.BufferReader(file), first_chunk(file), pa.string()) == expected


def test_dictionaries_of_neighbours_may_name_their_encoding_differently():
    """PLAIN and PLAIN_DICTIONARY are the same on a dictionary page; a merged file has those of all its writers."""
    values = pa.array([1] * 90 + [2] * 10 + [3] * 50 + [4] * 30 + [5] * 20)
    file = bytearray(written(values, row_group_size=100, compression="none"))
    encoding = file.index(b"\x4c\x15", first_chunk(bytes(file)).dictionary_page_offset) + 4  # a header's seventh field
    assert file[encoding] == PLAIN << 1
    file[encoding] = PLAIN_DICTIONARY << 1
    found, expected = total_of(bytes(file), pa.int64())
    assert found == expected


def test_header_of_the_dictionary_page_may_be_missing_from_the_size_of_the_chunk():
    """As in files of parquet-mr before 1.2.9 (PARQUET-816)."""
    values = pa.array([i % 50 for i in range(3000)])
    chunk = first_chunk(file := written(values, compression="none", dictionary_pagesize_limit=40))
    chunk = dataclasses.replace(chunk, total_compressed_size=chunk.total_compressed_size - 20)
    assert page_counts(pa.BufferReader(file), chunk, pa.int64()) == counted(pa.chunked_array([values]))


# --- large chunks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [1, 700, 5000])
@pytest.mark.parametrize("arrow_type", [pa.int64(), pa.string(), pa.decimal128(12, 2)], ids=str)
def test_chunk_is_read_in_parts_and_batches(arrow_type, part, monkeypatch):
    """A part may end anywhere, also in the header of a page, and is longer where a page is."""
    monkeypatch.setattr(page_batches, "_PART_BYTES", part)
    monkeypatch.setattr(page_batches, "BATCH_VALUES", 100)
    monkeypatch.setattr(page_batches, "_INDEX_BYTES", 200)
    monkeypatch.setattr(page_batches, "_PAGES_AT_ONCE", 7)
    values = pa.array([None if i % 7 == 0 else i % 900 for i in range(3000)], pa.int32()).cast(arrow_type)
    for layout in LAYOUTS.values():
        file = written(values, compression="zstd", data_page_size=300, write_batch_size=40, **layout)
        found, expected = total_of(file, arrow_type)
        assert found == expected


def test_small_zstd_pages_are_decompressed_together(monkeypatch):
    file = written(pa.array(range(3000)), compression="zstd", data_page_size=300, **LAYOUTS["plain"])
    monkeypatch.setattr(page_batches, "decompress", lambda *_: pytest.fail("a page was decompressed by itself"))
    assert len(page_counts(pa.BufferReader(file), first_chunk(file), pa.int64())) == 3000


@pytest.mark.parametrize(("place", "is_read"), [(0, False), (2999, True)])
def test_larger_page_is_read_where_values_before_it_came(place, is_read, monkeypatch):
    """Before the first value, such a page is left to pyarrow, which needs less memory for it."""
    for name, size in (("_PART_BYTES", 2000), ("MAX_PAGE_BYTES", 5000), ("_MAX_OVERHEAD", 100)):
        monkeypatch.setattr(page_batches, name, size)
    values = pa.array(["x" * 90_000 if i == place else f"value {i}" for i in range(3000)])
    file = written(values, compression="none", data_page_size=300, write_batch_size=40, **LAYOUTS["plain"])
    found = page_counts(pa.BufferReader(file), first_chunk(file), pa.string())
    assert found == (counted(pa.chunked_array([values])) if is_read else None)


def test_page_that_breaks_later_is_reported(monkeypatch):
    """Values that came before it were right, but they cannot be taken back."""
    monkeypatch.setattr(page_batches, "BATCH_VALUES", 100)
    file = written(pa.array(range(3000)), compression="zstd", data_page_size=300, **LAYOUTS["plain"])
    chunk = first_chunk(file)
    broken = bytearray(file)
    broken[chunk.data_page_offset + chunk.total_compressed_size - 20] ^= 0xFF
    with pytest.raises(CorruptDataFileError, match="reading pages: expected a sound page"):
        page_counts(pa.BufferReader(bytes(broken)), chunk, pa.int64())


def test_page_of_another_encoding_is_found_before_the_first_value(monkeypatch):
    monkeypatch.setattr(page_batches, "BATCH_VALUES", 100)
    options = {"column_encoding": "DELTA_BINARY_PACKED"} | LAYOUTS["plain"]
    file = written(pa.array(range(3000)), compression="zstd", data_page_size=300, **options)
    chunk = dataclasses.replace(first_chunk(file), encodings=frozenset((PLAIN,)))
    assert len(page_counts(pa.BufferReader(file), chunk, pa.int64())) == 3000
    monkeypatch.setitem(plain_pages.ENCODINGS, INT64, frozenset((PLAIN,)))
    assert page_counts(pa.BufferReader(file), chunk, pa.int64()) is None


def test_page_of_too_many_differences_is_left_to_pyarrow(monkeypatch):
    """They may take no bytes, so a small page can have any number of them."""
    file = written(pa.array([7] * 3000), column_encoding="DELTA_BINARY_PACKED", **LAYOUTS["plain"])
    chunk = first_chunk(file)
    assert page_counts(pa.BufferReader(file), chunk, pa.int64()) == {7: 3000}
    monkeypatch.setattr(page_batches, "_MAX_DELTAS", 2999)
    assert page_counts(pa.BufferReader(file), chunk, pa.int64()) is None


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
@pytest.mark.parametrize(("piece", "batch"), [(1, 100), (50, 7), (1 << 20, 64)])
def test_strings_are_put_together_in_pieces(encoding, piece, batch, monkeypatch):
    """A string may share its first bytes with the last one of the piece before."""
    monkeypatch.setattr(delta_pages, "PIECE_BYTES", piece)
    monkeypatch.setattr(delta_pages, "BATCH_VALUES", batch)
    values = pa.array([None if i % 11 == 0 else f"{'prefix' * (i % 5)}{i // 3}" for i in range(600)])
    file = written(values, column_encoding=encoding, data_page_size=900, write_batch_size=50, **LAYOUTS["plain"])
    found, expected = total_of(file, pa.string())
    assert found == expected


# --- legacy times -------------------------------------------------------------------------------------------------


def legacy_times(file):
    """What the pages have, and what pyarrow reads with the unit that we ask for."""
    source, type_ = pa.BufferReader(file), pa.timestamp("us")
    rows = pq.read_table(source, coerce_int96_timestamp_unit="us").column(0)
    found = read_page_values(source, [first_chunk(file)], type_)
    total = collections.Counter()
    for values in found:
        rows_of = [1] * len(values.array) if values.rows is None else values.rows.tolist()
        for value, count in zip(values.array.cast(pa.int64()).to_pylist(), rows_of, strict=True):
            total[value] += count
    return total, collections.Counter(rows.cast(pa.timestamp("us")).cast(pa.int64()).drop_null().to_pylist())


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@settings(max_examples=10)
@given(rows=st.lists(st.none() | within(58), min_size=1, max_size=50))
def test_legacy_times_are_those_that_pyarrow_reads(rows, layout):
    values = pa.array(rows * 3, pa.timestamp("us"))
    found, expected = legacy_times(written(values, use_deprecated_int96_timestamps=True, **layout))
    assert found == expected


@settings(max_examples=50)
@given(st.binary(min_size=120, max_size=120))
def test_legacy_times_of_any_bytes_are_those_that_pyarrow_reads(content):
    file = bytearray(
        written(
            pa.array([5] * 10, pa.timestamp("us")),
            use_deprecated_int96_timestamps=True,
            compression="none",
            **LAYOUTS["plain"],
        )
    )
    chunk = first_chunk(bytes(file))
    end = chunk.data_page_offset + chunk.total_compressed_size
    file[end - 120 : end] = content
    found, expected = legacy_times(bytes(file))
    assert found == expected


# --- hostile pages ------------------------------------------------------------------------------------------------


def small_file(arrow_type, version, encoding):
    """Of three pages; their headers have statistics, which nobody reads, in one of the types only."""
    values = pa.array([None if i % 5 == 3 else i * i % 7 for i in range(27)], pa.int8())
    values = values.cast(pa.string()).cast(arrow_type) if pa.types.is_binary(arrow_type) else values.cast(arrow_type)
    options = {"data_page_version": version, "data_page_size": 20, "write_batch_size": 13, "column_encoding": encoding}
    options["write_statistics"] = arrow_type == pa.bool_()
    file = written(values, compression="none", **options, **LAYOUTS["plain"])
    return file, first_chunk(file)


def agree(file, chunk, arrow_type):
    try:
        found = page_counts(pa.BufferReader(file), chunk, arrow_type)
    except (CorruptDataFileError, pa.ArrowException, OSError):
        return True
    return agrees_with_pyarrow(found, file)


HOSTILE = [
    *((arrow_type, "PLAIN") for arrow_type in (pa.bool_(), pa.int64(), pa.binary(), pa.decimal128(12, 0))),
    (pa.int64(), "DELTA_BINARY_PACKED"),
    *((pa.binary(), encoding) for encoding in ("DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")),
    (pa.float32(), "BYTE_STREAM_SPLIT"),
]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(("arrow_type", "encoding"), HOSTILE, ids=str)
def test_truncated_chunk_has_no_values(arrow_type, encoding, version):
    file, chunk = small_file(arrow_type, version, encoding)
    end = chunk.data_page_offset + chunk.total_compressed_size
    assert sum(page_counts(pa.BufferReader(file[:end]), chunk, arrow_type).values()) == 22
    for cut in range(chunk.data_page_offset, end):
        assert page_counts(pa.BufferReader(file[:cut]), chunk, arrow_type) is None


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(("arrow_type", "encoding"), HOSTILE, ids=str)
def test_changing_any_byte_gives_pyarrows_values_or_none(arrow_type, encoding, version):
    file, chunk = small_file(arrow_type, version, encoding)
    for at in range(chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size):
        for byte in (0, file[at] ^ 1, file[at] ^ 0x80, 0xFF):
            assert agree(file[:at] + bytes([byte]) + file[at + 1 :], chunk, arrow_type), (at, byte)


@settings(max_examples=200)
@given(st.binary(max_size=40), st.integers(1, 40), st.data())
def test_large_lz4_blocks_are_decompressed_as_by_the_library(content, times, data):
    whole = content * times + bytes(range(100))
    block = bytearray(pa.compress(whole, "lz4_raw", asbytes=True))
    for at in data.draw(st.lists(st.integers(0, len(block) - 1), max_size=3)):
        block[at] = data.draw(st.integers(0, 255))
    block = bytes(block[: data.draw(st.integers(0, len(block)) | st.just(len(block)))])
    found = []
    for limit in (0, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(page_codecs, "_LARGE_PAGE", limit)
            try:
                found.append(bytes(page_codecs.decompress(page_codecs.LZ4_RAW, block, len(whole))))
            except ValueError:
                found.append(None)
    assert found[0] == found[1]
