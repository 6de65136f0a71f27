"""Long strings come in bounded pieces with their rows, and pages are never wholly in memory."""

import collections
import dataclasses
import functools
import io
import tracemalloc

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from puffin import kernels
from puffin.errors import CorruptDataFileError
from puffin.files.parquet import long_strings as parquet_long_strings
from puffin.files.parquet import pages as parquet_pages
from puffin.files.parquet.long_strings import has_long_strings, read_long_strings
from puffin.files.parquet.parquet_footer import read_footer
from puffin.sketches.theta_sketch import ThetaSketch, ThetaSketchBuilder
from tests.page_counts import agrees_with_pyarrow

pytestmark = pytest.mark.usefixtures("both_ways")

CODECS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")
RANDOM = np.random.default_rng(0)
LETTERS = RANDOM.integers(97, 123, 400_000, np.uint8).tobytes().decode()


@pytest.fixture
def small_limits(monkeypatch):
    """Limits scaled down, as if these files were thousands of times as large."""
    monkeypatch.setattr(parquet_pages, "MAX_HELD_BYTES", 2000)
    monkeypatch.setattr(parquet_long_strings, "PIECE_BYTES", 5000)
    monkeypatch.setattr(parquet_long_strings, "MIN_CHUNK_BYTES", 0)
    monkeypatch.setattr(parquet_long_strings, "MIN_AVERAGE_BYTES", 0)


def text(i):
    begin = i * 7919 % 300_000
    return LETTERS[begin : begin + i * 37 % 3000]


def written(column, *, nullable=True, **options):
    sink = io.BytesIO()
    table = pa.table({"c": column})
    pq.write_table(table.cast(pa.schema([pa.field("c", table["c"].type, nullable=nullable)])), sink, **options)
    return sink.getvalue()


def chunks_of(file):
    return [group[0] for group in read_footer(pq.read_metadata(pa.BufferReader(file)))]


def pieces_of(file):
    source = pa.BufferReader(file)
    for chunk in chunks_of(file):
        assert has_long_strings(chunk)
        yield from read_long_strings(source, chunk)


def total(pieces):
    rows = collections.Counter()
    for strings, counts in pieces:
        assert (counts > 0).all()
        for string, count in zip(strings.to_pylist(), counts.tolist(), strict=True):
            rows[string] += count
    return rows


def test_piece_of_empty_strings_is_bounded_too(small_limits):
    """A page of a gigabyte may hold only empty strings; each has a length there and an offset in memory."""
    pieces = list(pieces_of(written(pa.array([""] * 5000), use_dictionary=False)))
    assert [len(strings) for strings, _ in pieces] == [1250] * 4


def rows_of(values):
    return collections.Counter(value.encode() for value in values if value is not None)


# --- values -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_strings_with_every_codec_and_version(codec, page_version, nullable, use_dictionary):
    values = [None if nullable and i % 5 == 2 else text(i % 70) for i in range(200)]
    options = {"compression": codec, "data_page_version": page_version, "use_dictionary": use_dictionary}
    file = written(values, nullable=nullable, row_group_size=150, **options)
    assert total(pieces_of(file)) == rows_of(values)


@pytest.mark.usefixtures("small_limits")
def test_chunk_that_fell_back_has_indices_and_values():
    values = [text(i % 150) for i in range(300)]
    file = written(values, dictionary_pagesize_limit=20_000, write_batch_size=20, data_page_size=1000)
    (chunk,) = chunks_of(file)
    encodings = {stats.encoding for stats in chunk.encoding_stats if stats.page_type == 0}
    assert len(encodings) == 2
    assert total(pieces_of(file)) == rows_of(values)


@pytest.mark.usefixtures("small_limits")
def test_dictionary_page_may_be_where_the_footer_has_the_first_data_page():
    """parquet-mr before 1.12 and polars before 1.39 do not tell of it otherwise."""
    file = written([text(i % 70) for i in range(200)])
    (chunk,) = chunks_of(file)
    chunk = dataclasses.replace(chunk, data_page_offset=chunk.dictionary_page_offset, dictionary_page_offset=None)
    assert total(read_long_strings(pa.BufferReader(file), chunk)) == total(pieces_of(file))


@pytest.mark.usefixtures("small_limits")
def test_unused_dictionary_strings_are_left_out():
    indices = pa.array([0, 2, None, 2] * 50, pa.int32())
    file = written(pa.DictionaryArray.from_arrays(indices, [text(60), text(61), text(62)]), store_schema=False)
    assert total(pieces_of(file)) == {text(60).encode(): 50, text(62).encode(): 100}


@pytest.mark.usefixtures("small_limits")
def test_strings_of_a_leaf_in_structs():
    values = [text(i) for i in range(100)]
    inner = pa.StructArray.from_arrays([pa.array(values)], ["x"], mask=pa.array([i % 3 == 0 for i in range(100)]))
    for version in ("1.0", "2.0"):
        file = written(pa.StructArray.from_arrays([inner], ["i"]), data_page_version=version)
        assert total(pieces_of(file)) == rows_of(value for i, value in enumerate(values) if i % 3)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("values", [[None] * 9, [""], ["", None, ""], [LETTERS], [LETTERS, "a"] * 3])
def test_few_values_need_few_pieces(values):
    for options in ({}, {"use_dictionary": False}, {"data_page_version": "2.0"}):
        assert total(pieces_of(written(pa.array(values, pa.string()), **options))) == rows_of(values)


@pytest.mark.usefixtures("small_limits")
def test_piece_is_bounded_or_a_single_string():
    values = [text(i) for i in range(300)] + [LETTERS]
    pieces = list(pieces_of(written(values, use_dictionary=False)))
    sizes = [sum(map(len, strings.to_pylist())) for strings, _ in pieces]
    assert all(size <= 5000 or len(strings) == 1 for size, (strings, _) in zip(sizes, pieces, strict=True))
    assert len(pieces) <= 2 * sum(sizes) / 5000 + 2


@pytest.mark.usefixtures("small_limits")
def test_sketch_equals_that_of_the_column():
    values = pa.array([text(i % 70) for i in range(200)])
    builder = ThetaSketchBuilder()
    for strings, _ in pieces_of(written(values)):
        builder.update(strings, "string")
    assert builder.compact() == ThetaSketch.from_arrow(values, "string")


# --- which chunks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "num_values", "are_meant"),
    [(1 << 26, 1, True), ((1 << 26) - 1, 1, False), (1 << 28, 1 << 16, True), (1 << 28, (1 << 16) + 1, False)],
)
def test_only_large_chunks_of_long_strings_are_streamed(size, num_values, are_meant):
    """64 MiB of strings that take 4 KiB on average."""
    (chunk,) = chunks_of(written(["a"]))
    chunk = dataclasses.replace(chunk, total_uncompressed_size=size, num_values=num_values)
    assert has_long_strings(chunk) == are_meant


@pytest.mark.usefixtures("small_limits")
def test_other_chunks_are_not_streamed():
    assert has_long_strings(*chunks_of(written(["a"])))
    assert not has_long_strings(*chunks_of(written([1])))
    assert not has_long_strings(*chunks_of(written([["a"]])))
    other = {"use_dictionary": False, "column_encoding": {"c": "DELTA_LENGTH_BYTE_ARRAY"}}
    assert not has_long_strings(*chunks_of(written(["a"], **other)))


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd"])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_memory_does_not_grow_with_the_page(codec, use_dictionary, monkeypatch):
    if codec == "snappy":
        monkeypatch.setattr(kernels, "_is_ready", True)  # without them it does
    monkeypatch.setattr(parquet_long_strings, "PIECE_BYTES", 1 << 20)
    values = [f"{i}{LETTERS}" for i in range(30)]  # in one page, 12 MB
    file = written(values, compression=codec, use_dictionary=use_dictionary)
    held = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        strings_read = most = 0
        for strings, _ in pieces_of(file):
            strings_read += len(strings)
            most = max(most, pa.total_allocated_bytes() - held)
        assert tracemalloc.get_traced_memory()[1] + most < 8 << 20
    finally:
        tracemalloc.stop()
    assert strings_read == len(values)


# --- hostile pages ------------------------------------------------------------------------------------------------


@functools.cache
def small_file(codec, use_dictionary):
    values = [None if i % 6 == 3 else f"{i}" * (i % 5 * 40) for i in range(25)]
    return written(values, compression=codec, use_dictionary=use_dictionary)


def strings_or_error(file, chunk):
    try:
        return total(read_long_strings(pa.BufferReader(file), chunk))
    except (CorruptDataFileError, pa.ArrowException, OSError):
        return None


def agree(file, chunk):
    return agrees_with_pyarrow(strings_or_error(file, chunk), file)


@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize("codec", CODECS)
def test_truncated_chunk_is_an_error(codec, use_dictionary, monkeypatch):
    file = small_file(codec, use_dictionary)
    (chunk,) = chunks_of(file)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    for held in (100, 1 << 20):
        monkeypatch.setattr(parquet_pages, "MAX_HELD_BYTES", held)
        assert strings_or_error(file[: begin + chunk.total_compressed_size], chunk) is not None
        for cut in range(begin, begin + chunk.total_compressed_size, 3):
            assert strings_or_error(file[:cut], chunk) is None


def page_size(string):
    return len(pa.compress(len(string).to_bytes(4, "little") + string.encode(), "gzip", asbytes=True))


@pytest.mark.usefixtures("small_limits")
def test_checksum_after_the_last_string_is_read():
    """GZIP's comes last, here in other 64 KiB, which pyarrow reads at a time, than all the rest."""
    about = 100_000 * (1 << 16) // page_size(LETTERS[:100_000])
    length = next(i for i in range(about - 500, about + 500, 5) if 0 < page_size(LETTERS[:i]) - (1 << 16) <= 8)
    file = written([LETTERS[:length]], nullable=False, use_dictionary=False, compression="gzip")
    (chunk,) = chunks_of(file)
    end = chunk.data_page_offset + chunk.total_compressed_size
    assert strings_or_error(file, chunk) is not None
    for at in range(end - 8, end):
        assert strings_or_error(file[:at] + bytes([file[at] ^ 1]) + file[at + 1 :], chunk) is None


@settings(max_examples=200)
@given(st.sampled_from(CODECS), st.booleans(), st.sampled_from([100, 1 << 20]), st.data())
def test_changed_bytes_give_equal_strings_or_an_error(codec, use_dictionary, held, data):
    file = small_file(codec, use_dictionary)
    (chunk,) = chunks_of(file)
    changed = bytearray(file)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    place = st.integers(begin, begin + chunk.total_compressed_size - 1)
    for at in data.draw(st.lists(place, min_size=1, max_size=4)):
        changed[at] = data.draw(st.integers(0, 255))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_pages, "MAX_HELD_BYTES", held)
        assert agree(bytes(changed), chunk)


@pytest.mark.usefixtures("small_limits")
def test_length_beyond_the_page_is_refused_before_allocating():
    file = written(["x" * 5000], use_dictionary=False, compression="none")
    length = (5000).to_bytes(4, "little")
    broken = file.replace(length + b"xx", (0xFFFFFFF0).to_bytes(4, "little") + b"xx")
    with pytest.raises(CorruptDataFileError, match="expected 4294967280 more bytes in a page that has"):
        total(pieces_of(broken))
