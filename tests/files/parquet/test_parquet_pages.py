"""Pages are found and decompressed, their levels and indices are counted, and broken pages raise ValueError."""

import contextlib
import dataclasses
import io

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from puffin.files.parquet import thrift
from puffin.files.parquet.hybrid import HybridCounts, unpacked
from puffin.files.parquet.page_codecs import (
    BROTLI,
    CODECS,
    GZIP,
    LZ4_RAW,
    SNAPPY,
    UNCOMPRESSED,
    decompress,
    open_stream,
)
from puffin.files.parquet.page_header import parse_page_header
from puffin.files.parquet.pages import ChunkPages, has_readable_pages
from puffin.files.parquet.parquet_footer import DATA_PAGE, DATA_PAGE_V2, PLAIN, RLE, read_footer
from puffin.files.varints import varint
from tests.compiled_kernels import using_kernels

NAMES = {UNCOMPRESSED: None, SNAPPY: "snappy", GZIP: "gzip", BROTLI: "brotli", LZ4_RAW: "lz4_raw"}
TEXT = b"".join(b"%d, " % (i * i % 1009) for i in range(60_000))


# --- runs ---------------------------------------------------------------------------------------------------------


def rle(width, value, times):
    return varint(times << 1) + value.to_bytes((width + 7) // 8, "little")


def packed(width, values):
    """Bit-packed groups; the last one is padded with the highest number."""
    full = values + [(1 << width) - 1] * (-len(values) % 8)
    groups = (full[place : place + 8] for place in range(0, len(full), 8))
    bits = (sum(value << place * width for place, value in enumerate(group)) for group in groups)
    return varint(len(full) // 8 << 1 | 1) + b"".join(each.to_bytes(width, "little") for each in bits)


def counted(data, num_values, width, limit):
    """How often each number below a limit occurs; None if the data is refused."""
    counts = HybridCounts(limit)
    try:
        counts.add(data, num_values, width)
    except ValueError:
        return None
    return counts.totals().tolist()


@st.composite
def encoded(draw):
    """A width, values of it, and runs that encode them."""
    width = draw(st.integers(0, 20))
    number = st.integers(0, (1 << width) - 1)
    values, data = [], b""
    for is_packed in draw(st.lists(st.booleans(), max_size=5)):
        if is_packed:
            some = draw(st.lists(number, min_size=8, max_size=40))
            some = some[: len(some) & -8]
            data += packed(width, some)
        else:
            some = [draw(number)] * draw(st.integers(1, 300))
            data += rle(width, some[0], len(some))
        values += some
    last = draw(st.lists(number, max_size=20))
    return width, values + last, data + (packed(width, last) if last else b"")


@pytest.mark.usefixtures("both_ways")
@settings(max_examples=60)
@given(encoded())
def test_values_of_any_width_in_any_runs_are_counted(example):
    width, values, data = example
    limit = max(values, default=0) + 1
    expected = np.bincount(np.array(values, np.int64), minlength=limit).tolist()
    assert counted(data, len(values), width, limit) == expected
    assert counted(data + b"more", len(values), width, limit) == expected
    for end in range(len(data)):
        assert counted(data[:end], len(values), width, limit) is None
    if max(values, default=0) > 0:
        assert counted(data, len(values), width, limit - 1) is None


@settings(max_examples=60)
@given(encoded())
def test_values_of_any_width_in_any_runs_are_unpacked(example):
    width, values, data = example
    assert unpacked(data + b"more", len(values), width).tolist() == values
    for end in range(len(data)):
        with pytest.raises(ValueError, match="expected"):
            unpacked(data[:end], len(values), width)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("width", [*range(1, 21), 24, 32])
def test_long_bit_packed_runs_are_counted(width):
    """They are longer than what numpy unpacks at a time, and have more numbers than parallel counters."""
    limit = min(max(2, 3 << width >> 2), 70_000)
    draw = np.random.default_rng(width)
    values = draw.integers(0, limit, 20_003)
    expected = np.bincount(values, minlength=limit).tolist()
    assert counted(packed(width, values.tolist()), len(values), width, limit) == expected
    if limit < 1 << width:
        values[draw.integers(len(values))] = limit
        assert counted(packed(width, values.tolist()), len(values), width, limit) is None


@pytest.mark.usefixtures("both_ways")
def test_counts_of_several_runs_add_up():
    counts = HybridCounts(3)
    counts.add(rle(2, 2, 5), 5, 2)
    counts.add(packed(2, [0, 2, 1]), 3, 2)
    assert counts.totals().tolist() == [1, 1, 6]


@pytest.mark.usefixtures("both_ways")
def test_bit_packed_run_may_be_padded_beyond_one_group():
    """DuckDB writes 256 values at a time."""
    assert counted(packed(3, [5, 6] + [0] * 254), 2, 3, 8) == [0, 0, 0, 0, 0, 1, 1, 0]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    ("data", "width"),
    [
        (rle(3, 1, 9), 3),
        (varint(0) + b"\x01" + rle(3, 1, 8), 3),
        (varint(1) + rle(3, 1, 8), 3),
        (rle(3, 1, 7), 3),
        (rle(3, 9, 8), 3),
        (b"\x90\x80\x80\x80\x80\x00\x01", 3),
        (varint((1 << 34) | 1), 3),
        (packed(33, [1] * 8), 33),
        (packed(255, [1] * 8), 255),
        (b"", 3),
    ],
    ids=["run too long", "no times", "no groups", "run too short", "RLE value of more bits", "six bytes of header",
         "groups beyond the end", "33 bits", "255 bits", "nothing"],
)  # fmt: skip
def test_runs_that_contradict_the_page_are_refused(data, width):
    assert counted(data, 8, width, 8) is None


@settings(max_examples=400)
@given(st.binary(max_size=40), st.integers(0, 300), st.integers(0, 34), st.integers(1, 5000))
def test_both_implementations_agree_on_any_bytes(data, num_values, width, limit):
    outcomes = []
    for compiled in (False, True):
        with using_kernels(compiled):
            outcomes.append(counted(data, num_values, width, limit))
    assert outcomes[0] == outcomes[1]


# --- codecs -------------------------------------------------------------------------------------------------------


def compressed(codec, content):
    return content if codec == UNCOMPRESSED else pa.compress(content, NAMES.get(codec, "zstd"), asbytes=True)


def streamed(codec, payload, size, steps=(1, 70_000, 3)):
    """The page as a stream in the middle of a file."""
    stream = open_stream(codec, pa.BufferReader(b"before" + payload + b"behind"), 6, len(payload), size)
    parts = [stream.read(step) for step in steps]
    while parts[-1]:
        parts.append(stream.read(100_000))
    return b"".join(parts)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("content", [b"x", TEXT, bytes(5 << 20), np.random.default_rng(0).bytes(3 << 20)],
                         ids=["a byte", "text", "zeros", "random"])  # fmt: skip
@pytest.mark.parametrize("codec", sorted(CODECS))
def test_page_is_decompressed_whole_or_as_a_stream(codec, content):
    payload = compressed(codec, content)
    assert decompress(codec, payload, len(content)) == content
    assert streamed(codec, payload, len(content)) == content


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_truncated_page_or_wrong_size_is_refused(codec):
    """Memory that pyarrow leaves unwritten is never handed out."""
    payload = compressed(codec, TEXT)
    for size in (len(TEXT) - 1, len(TEXT) + 1, 2 * len(TEXT), 1):
        with pytest.raises(ValueError, match="expected"):
            decompress(codec, payload, size)
    with pytest.raises(ValueError, match="expected"):
        decompress(codec, payload[:-1], len(TEXT))


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("codec", sorted(CODECS))
def test_truncated_stream_is_broken_or_short(codec):
    payload = compressed(codec, TEXT)
    for end in (0, 1, 10, len(payload) // 2, len(payload) - 1):
        with contextlib.suppress(OSError, ValueError, pa.ArrowException):
            assert len(streamed(codec, payload[:end], len(TEXT))) < len(TEXT)


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_page_of_only_nulls_may_be_empty(codec):
    assert decompress(codec, b"", 0) == b""


def literal(content):
    return bytes([62 << 2]) + (len(content) - 1).to_bytes(3, "little") + content


def copy(length, offset):
    return bytes([(length - 1) << 2 | 3]) + offset.to_bytes(4, "little")


FOREIGN = {
    "a literal over the end of a block": (literal(TEXT[:70_000]), TEXT[:70_000]),
    "a copy over the end of a block": (literal(TEXT[:65_530]) + copy(20, 65_530), TEXT[:65_530] + TEXT[:20]),
    "a copy from another block": (literal(TEXT[:65_536]) + copy(64, 65_536), TEXT[:65_536] + TEXT[:64]),
    "the second block only": (
        literal(TEXT[:65_536]) + literal(TEXT[:65_530]) + copy(20, 100_000),
        TEXT[:65_536] + TEXT[:65_530] + (TEXT[:65_536] + TEXT)[31_066:31_086],
    ),
    "a block larger than what is fetched": (
        b"".join(bytes([63 << 2]) + (0).to_bytes(4, "little") + b"x" for _ in range(65_536 * 4)),
        b"x" * 65_536 * 4,
    ),
}  # fmt: skip


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(("elements", "content"), FOREIGN.values(), ids=FOREIGN)
def test_snappy_with_copies_across_blocks_is_decompressed(elements, content, monkeypatch):
    monkeypatch.setattr("puffin.files.parquet.snappy._STORED_AT_ONCE", 200_000)
    payload = varint(len(content)) + elements
    assert decompress(SNAPPY, payload, len(content)) == content
    assert streamed(SNAPPY, payload, len(content)) == content


def test_snappy_is_streamed_without_decompressing_the_page(monkeypatch):
    monkeypatch.setattr("puffin.files.parquet.snappy._STORED_AT_ONCE", 200_000)
    content = np.random.default_rng(0).bytes(2_000_000)
    sizes = []
    real = pa.decompress
    monkeypatch.setattr(pa, "decompress", lambda data, size, *a, **kw: sizes.append(size) or real(data, size, *a, **kw))
    with using_kernels(True):
        assert streamed(SNAPPY, compressed(SNAPPY, content), len(content)) == content
    assert sum(sizes) == len(content)
    assert max(sizes) <= 200_000


@pytest.mark.usefixtures("both_ways")
def test_snappy_of_another_size_is_refused_before_decompressing():
    payload = compressed(SNAPPY, TEXT)
    for size in (len(TEXT) - 1, len(TEXT) + 1):
        with pytest.raises(ValueError, match="another size in its header"):
            open_stream(SNAPPY, pa.BufferReader(payload), 0, len(payload), size).read(1)


@pytest.mark.usefixtures("both_ways")
def test_snappy_with_trailing_bytes_is_refused():
    payload = compressed(SNAPPY, TEXT) + literal(b"more")
    for read in (decompress, streamed):
        with pytest.raises((OSError, ValueError)):
            read(SNAPPY, payload, len(TEXT))


@settings(max_examples=200)
@given(st.data())
def test_changed_snappy_is_broken_or_equals_a_whole_decompression(data):
    content = TEXT[:200_000]
    changed = bytearray(compressed(SNAPPY, content))
    for at in data.draw(st.lists(st.integers(0, len(changed) - 1), min_size=1, max_size=3)):
        changed[at] = data.draw(st.integers(0, 255))
    outcomes = []
    with using_kernels(True):
        for read in (decompress, streamed):
            try:
                outcomes.append(read(SNAPPY, bytes(changed), len(content)))
            except (ValueError, OSError, pa.ArrowException):
                outcomes.append(None)
    assert outcomes[0] == outcomes[1]


# --- headers ------------------------------------------------------------------------------------------------------


def header_v1(**changes):
    fields = {"size": 100, "compressed_size": 80, "num_values": 10, "type": DATA_PAGE} | changes
    data_page = {1: thrift.i32(fields["num_values"]), 2: thrift.i32(PLAIN), 3: thrift.i32(RLE), 4: thrift.i32(RLE)}
    if "statistics" in fields:
        data_page[5] = thrift.struct({1: thrift.binary(fields["statistics"])})
    sizes = {2: thrift.i32(fields["size"]), 3: thrift.i32(fields["compressed_size"])}
    return thrift.struct({1: thrift.i32(fields["type"]), **sizes, 5: thrift.struct(data_page)})[1]


def header_v2(is_compressed=b"", **changes):
    fields = {"nulls": 4, "levels": 7, "repetition": 0, "size": 100, "compressed_size": 80} | changes
    names = (10, fields["nulls"], 10, PLAIN, fields["levels"], fields["repetition"])
    data_page = thrift.struct({i: thrift.i32(value) for i, value in enumerate(names, 1)})[1][:-1]
    sizes = {2: thrift.i32(fields["size"]), 3: thrift.i32(fields["compressed_size"])}
    struct = thrift.struct_bytes(data_page + is_compressed + b"\x00")
    return thrift.struct({1: thrift.i32(DATA_PAGE_V2), **sizes, 8: struct})[1]


def parsed(header, end=10_000):
    return parse_page_header(header, 500, end, GZIP)


def test_version_2_levels_are_not_part_of_the_body():
    header = header_v2()
    page = parsed(header)
    assert (page.offset, page.body_offset, page.end) == (500 + len(header), 507 + len(header), 580 + len(header))
    assert (page.levels_size, page.compressed_size, page.size, page.num_nulls) == (7, 73, 93, 4)


@pytest.mark.parametrize(("flag", "codec"), [(b"", GZIP), (b"\x11", GZIP), (b"\x12", UNCOMPRESSED)])
def test_version_2_header_says_whether_the_page_is_compressed(flag, codec):
    """The flag is field 7, a boolean inside its field header; without it the page is compressed."""
    assert parsed(header_v2(flag)).codec == codec


@pytest.mark.parametrize(
    "header",
    [
        header_v1(num_values=-1),
        header_v1(size=-1),
        header_v1(compressed_size=-1),
        header_v1(size=1 << 31),
        header_v1(compressed_size=1 << 40),
        header_v1(compressed_size=5000),
        header_v1(type=1),
        header_v1(type=DATA_PAGE_V2),
        header_v1()[:-1],
        header_v2(levels=-1),
        header_v2(levels=81),
        header_v2(levels=101, compressed_size=200),
        header_v2(repetition=3),
        b"\x00",
        b"",
    ],
)
def test_impossible_header_is_refused(header):
    assert parsed(header_v1()).num_values == 10
    with pytest.raises((ValueError, IndexError)):
        parsed(header)


def test_page_beyond_its_chunk_is_refused():
    header = header_v1()
    assert parsed(header, end=580 + len(header)).end == 580 + len(header)
    with pytest.raises(ValueError, match="inside its chunk"):
        parsed(header, end=579 + len(header))


# --- chunks -------------------------------------------------------------------------------------------------------


def file_of(column, **options):
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": column}), sink, **options)
    return sink.getvalue(), read_footer(pq.read_metadata(sink))[0][0]


class Reads:
    """A source that records its reads."""

    def __init__(self, file):
        self._file = file
        self.ranges = []

    def size(self):
        return len(self._file)

    def read_at(self, length, offset):
        self.ranges.append((offset, length))
        return self._file[offset : offset + length]


@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
def test_chunk_is_read_once_and_in_small_steps(page_version):
    options = {"use_dictionary": False, "compression": "none", "data_page_version": page_version}
    file, chunk = file_of(list(range(800_000)), **options)
    source = Reads(file)
    pages = ChunkPages(source, chunk)
    opened = [pages.open(page) for page in pages.data_pages()]
    values = b"".join(values.stream.read(values.size + 1) for values in opened)
    assert np.frombuffer(values, np.int64).tolist() == list(range(800_000))
    assert [values.count * 8 for values in opened] == [values.size for values in opened]
    assert sum(length for _, length in source.ranges) == chunk.end - chunk.first_page_offset
    assert max(length for _, length in source.ranges) <= 1 << 20
    assert len(source.ranges) <= chunk.total_compressed_size / (1 << 20) + 1


def test_long_header_is_read_whole():
    """It holds statistics, whose values may have any length."""
    _, chunk = file_of(["a"] * 10)
    for length in (0, 5000, 200_000):
        header = header_v1(statistics=b"x" * length)
        hand_made = b"PAR1" + header + bytes(80)
        of_hand = dataclasses.replace(
            chunk, data_page_offset=4, dictionary_page_offset=None, total_compressed_size=len(hand_made) - 4, codec=GZIP
        )
        (page,) = ChunkPages(pa.BufferReader(hand_made), of_hand).data_pages()
        assert page.offset == 4 + len(header)


@pytest.mark.parametrize("codec", [3, 5, 99])
def test_chunks_of_unknown_codecs_are_not_read(codec):
    _, chunk = file_of(["a"] * 10)
    assert has_readable_pages(chunk)
    assert not has_readable_pages(dataclasses.replace(chunk, codec=codec))


def test_chunks_with_repetition_are_not_read():
    _, chunk = file_of([["a"]] * 10)
    assert not has_readable_pages(chunk)


def test_levels_and_sizes_of_leaves_equal_pyarrows():
    """Behind groups that end at different depths, in lists and maps, optional or not."""
    deep = pa.struct(
        [pa.field("x", pa.int32(), False), ("y", pa.struct([("z", pa.list_(pa.struct([("w", pa.int8())])))]))]
    )
    fields = [
        pa.field("a", pa.int64(), False), pa.field("b", deep), pa.field("c", pa.map_(pa.string(), deep), False),
        pa.field("d", pa.struct([pa.field("e", deep, False)]), False), pa.field("f", pa.list_(pa.list_(pa.int64()))),
        pa.field("g", pa.string()),
    ]  # fmt: skip
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, pa.schema(fields)) as writer:
        writer.write_table(pa.schema(fields).empty_table())
    parquet = pq.ParquetFile(sink)
    (group,) = read_footer(parquet.metadata)
    assert len(group) == 10
    for i, chunk in enumerate(group):
        theirs = parquet.schema.column(i)
        expected = (theirs.path, theirs.max_definition_level, theirs.max_repetition_level)
        assert (".".join(chunk.leaf.path), chunk.leaf.max_definition_level, chunk.leaf.max_repetition_level) == expected
        assert chunk.total_uncompressed_size == parquet.metadata.row_group(0).column(i).total_uncompressed_size


def test_levels_count_present_values():
    """Of a required leaf inside optional fields too."""
    x = pa.array([1, 2, 3, 4])
    inner = pa.StructArray.from_arrays([x], fields=[pa.field("x", pa.int64(), nullable=False)],
                                       mask=pa.array([False, True, False, False]))  # fmt: skip
    outer = pa.StructArray.from_arrays([inner], ["i"], mask=pa.array([True, False, False, False]))
    for version in ("1.0", "2.0"):
        file, chunk = file_of(outer, data_page_version=version)
        assert (chunk.leaf.max_definition_level, chunk.leaf.max_repetition_level) == (2, 0)
        pages = ChunkPages(pa.BufferReader(file), chunk)
        (page,) = pages.data_pages()
        assert pages.open(page).count == 2


def test_deprecated_level_encoding_is_refused():
    file, chunk = file_of(["a", None] * 10)
    pages = ChunkPages(pa.BufferReader(file), chunk)
    (page,) = pages.data_pages()
    with pytest.raises(ValueError, match="levels of encoding 3, found 4"):
        pages.open(dataclasses.replace(page, levels_encoding=4))
