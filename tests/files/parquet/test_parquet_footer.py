"""Footers give what pyarrow does not expose, and broken ones raise only our error."""

import dataclasses
import io
import time

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from puffin.errors import CorruptDataFileError
from puffin.files.parquet import thrift
from puffin.files.parquet.parquet_footer import (
    DATA_PAGE,
    DICTIONARY_PAGE,
    OPTIONAL,
    PLAIN,
    PLAIN_DICTIONARY,
    REQUIRED,
    RLE_DICTIONARY,
    PageEncoding,
    parse_footer,
    read_footer,
)

ROWS = 3000


def written(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def body(file):
    size = int.from_bytes(file[-8:-4], "little")
    return file[-8 - size : -8]


def footer(file):
    return read_footer(pq.read_metadata(pa.BufferReader(file)))


@pytest.fixture(scope="module")
def nested_file():
    table = pa.table(
        {
            "few": ["a", "b", "c"] * (ROWS // 3),
            "many": [f"a long value that overflows {i}" for i in range(ROWS)],
            "st": [{"x": i % 3, "deep": {"y": i % 5}} for i in range(ROWS)],
            "list": [[i % 2] for i in range(ROWS)],
        },
        schema=pa.schema(
            [
                pa.field("few", pa.string(), nullable=False),
                pa.field("many", pa.string()),
                pa.field("st", pa.struct([("x", pa.int64()), ("deep", pa.struct([("y", pa.int32())]))])),
                pa.field("list", pa.list_(pa.int64())),
            ]
        ),
    )
    return written(table, row_group_size=2000, dictionary_pagesize_limit=1000, data_page_size=1000)


def test_chunks_agree_with_everything_that_pyarrow_exposes(nested_file):
    metadata = pq.read_metadata(pa.BufferReader(nested_file))
    row_groups = footer(nested_file)
    assert len(row_groups) == metadata.num_row_groups == 2
    for number, row_group in enumerate(row_groups):
        for column, chunk in enumerate(row_group):
            theirs = metadata.row_group(number).column(column)
            assert ".".join(chunk.leaf.path) == theirs.path_in_schema
            assert chunk.num_values == theirs.num_values
            assert chunk.total_compressed_size == theirs.total_compressed_size
            assert chunk.data_page_offset == theirs.data_page_offset
            assert chunk.dictionary_page_offset == theirs.dictionary_page_offset
            assert len(chunk.encodings) == len(theirs.encodings)


def test_footer_in_the_file_equals_the_one_that_pyarrow_writes_again(nested_file):
    assert parse_footer(body(nested_file)) == footer(nested_file)


def test_encoding_stats_show_whether_a_chunk_fell_back(nested_file):
    few, many, *_ = footer(nested_file)[0]
    assert {(stats.page_type, stats.encoding) for stats in few.encoding_stats} == {
        (DICTIONARY_PAGE, PLAIN),
        (DATA_PAGE, RLE_DICTIONARY),
    }
    assert {(stats.page_type, stats.encoding) for stats in many.encoding_stats} == {
        (DICTIONARY_PAGE, PLAIN),
        (DATA_PAGE, RLE_DICTIONARY),
        (DATA_PAGE, PLAIN),
    }
    assert few.encodings == many.encodings


@pytest.mark.parametrize(
    ("version", "of_dictionary", "of_data"),
    [("1.0", PLAIN_DICTIONARY, PLAIN_DICTIONARY), ("2.6", PLAIN, RLE_DICTIONARY)],
)
def test_encodings_follow_the_format_version(version, of_dictionary, of_data):
    ((chunk,),) = footer(written(pa.table({"a": [1, 1]}), version=version))
    assert set(chunk.encoding_stats) == {
        PageEncoding(DICTIONARY_PAGE, of_dictionary, 1),
        PageEncoding(DATA_PAGE, of_data, 1),
    }


def test_leaves_in_structs_have_their_full_path_and_own_repetition(nested_file):
    few, many, x, y, _ = footer(nested_file)[0]
    assert [chunk.leaf.path for chunk in (few, many, x, y)] == [("few",), ("many",), ("st", "x"), ("st", "deep", "y")]
    assert [chunk.leaf.repetition_type for chunk in (few, x)] == [REQUIRED, OPTIONAL]


def test_chunk_is_found_by_the_path_of_its_leaf(nested_file):
    group, _ = footer(nested_file)
    assert [group.find(chunk.leaf.path) for chunk in group] == list(group)
    assert group.find(("st",)) is None
    assert group.find(("deep", "y")) is None


def test_leaves_are_not_shared_between_files_with_other_schemas():
    a, b = pa.field("a", pa.int64()), pa.field("b", pa.int64())
    schemas = [[a, b], [b, a], [a.with_nullable(False), b], [a, b]]
    groups = [footer(written(pa.table([[1], [2]], pa.schema(fields))))[0] for fields in schemas]
    assert [[chunk.leaf.path for chunk in group] for group in groups] == [
        [(field.name,) for field in fields] for fields in schemas
    ]
    assert [group.find(("a",)).leaf.repetition_type for group in groups] == [OPTIONAL, OPTIONAL, REQUIRED, OPTIONAL]


def test_unreadable_chunk_does_not_affect_the_others():
    """The first chunk has only its type and its encodings."""
    data = body(written(pa.table({"a": [1], "b": [2]}), compression="none"))
    whole, _ = thrift.read_struct(data, 0, {2: None, 4: {1: None}})
    _, sound = whole[4][0][1]
    broken = thrift.struct({2: thrift.i64(4), 3: thrift.struct({1: thrift.i32(2), 2: thrift.items([thrift.i32(0)])})})
    columns = thrift.items([broken, thrift.struct_bytes(sound)])
    schema = thrift.items([thrift.struct_bytes(element) for element in whole[2]])
    groups = thrift.items([thrift.struct({1: columns})])
    (group,) = parse_footer(thrift.struct({2: schema, 4: groups})[1])
    assert group[1].leaf.path == ("b",)
    with pytest.raises(CorruptDataFileError, match="expected a Parquet footer"):
        group[0]


def test_row_group_with_another_number_of_columns_is_refused():
    data = body(written(pa.table({"a": [1], "b": [2]})))
    whole, _ = thrift.read_struct(data, 0, {2: None, 4: {1: None}})
    schema = thrift.items([thrift.struct_bytes(element) for element in whole[2]])
    groups = thrift.items([thrift.struct({1: thrift.items([thrift.struct_bytes(whole[4][0][1][0])])})])
    with pytest.raises(CorruptDataFileError, match="expected 2 columns in a row group, found 1"):
        parse_footer(thrift.struct({2: schema, 4: groups})[1])


def test_chunk_without_a_dictionary_has_no_dictionary_page():
    ((chunk,),) = footer(written(pa.table({"a": [1, 1]}), use_dictionary=False))
    assert chunk.dictionary_page_offset is None
    assert chunk.dictionary_page_size == 0


@pytest.mark.parametrize(
    ("dictionary_page_offset", "data_page_offset"), [(0, 20), (-4, 20), (20, 20), (30, 20), (4, 104), (None, 4)]
)
def test_dictionary_page_that_is_not_before_the_data_pages_is_ignored(dictionary_page_offset, data_page_offset):
    ((chunk,),) = footer(written(pa.table({"a": [1, 1]})))
    sound = dataclasses.replace(chunk, dictionary_page_offset=4, data_page_offset=103, total_compressed_size=100)
    assert sound.dictionary_page_size == 99
    odd = dataclasses.replace(sound, dictionary_page_offset=dictionary_page_offset, data_page_offset=data_page_offset)
    assert odd.dictionary_page_size == 0


def test_file_without_row_groups_has_none():
    sink = io.BytesIO()
    pq.ParquetWriter(sink, pa.schema([("a", pa.int64())])).close()
    assert footer(sink.getvalue()) == ()


def test_long_statistics_are_skipped_quickly():
    """Twenty chunks with long minima and maxima take a millisecond or two; the bound is generous."""
    table = pa.table({f"c{i}": ["x" * 4000, "y" * 4000] for i in range(20)})
    metadata = pq.read_metadata(pa.BufferReader(written(table)))
    took = []
    for _ in range(5):
        begin = time.thread_time()
        read_footer(metadata)
        took.append(time.thread_time() - begin)
    assert min(took) < 0.02


# --- hostile bytes ------------------------------------------------------------------------------------------------


def parsed_or_refused(data):
    try:
        return [list(group) for group in parse_footer(data)]
    except CorruptDataFileError:
        return None


def test_footer_cut_at_any_byte_is_refused(nested_file):
    whole = body(nested_file)
    assert all(parsed_or_refused(whole[:end]) is None for end in range(len(whole)))


@settings(max_examples=150)
@given(st.data())
def test_changed_footer_is_read_or_refused(nested_file, data):
    changed = bytearray(body(nested_file))
    for at in data.draw(st.lists(st.integers(0, len(changed) - 1), min_size=1, max_size=4)):
        changed[at] = data.draw(st.integers(0, 255))
    parsed_or_refused(bytes(changed))


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    parsed_or_refused(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x29\xfc" + b"\xff" * 8 + b"\x7f",  # a list of 2^63 structs
        b"\x18\xff\xff\xff\xff\x0f",  # a binary of 4 GiB
        b"\x15" + b"\x80" * 100 + b"\x00",  # an endless integer
        b"\x29\x1c" + b"\x1c" * 5000,  # structs in structs
        b"\x19" * 5000,  # lists in lists
        b"\x1b\x01\x88\x00\x00",  # a map
        b"",
        b"\x00",
    ],
    ids=["count", "length", "integer", "structs", "lists", "map", "empty", "no fields"],
)
def test_lengths_and_nesting_are_bounded(data):
    with pytest.raises(CorruptDataFileError):
        parse_footer(data)


@pytest.mark.parametrize(
    "field",
    [b"\x19\xf1" + b"\xff" * 5 + b"\x0f", b"\x18\xff\xff\xff\xff\x0f", b"\x17" + bytes(7)],
    ids=["booleans", "binary", "double"],
)
def test_lengths_beyond_the_end_are_refused_before_reading(field):
    with pytest.raises(ValueError, match=r"expected \d+ bytes at offset \d, found \d"):
        thrift.read_struct(field, 0, {})


# --- the protocol -------------------------------------------------------------------------------------------------


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1), st.binary(max_size=300))
def test_written_thrift_is_read_back(wide, narrow, text):
    values = [narrow] * 20
    _, data = thrift.struct(
        {
            1: thrift.i64(wide),
            3: thrift.i32(narrow),
            4: thrift.binary(text),
            12: thrift.items([thrift.i32(value) for value in values]),
            13: thrift.struct({2: thrift.binary(text)}),
        }
    )
    shape = {1: None, 3: None, 4: None, 12: None, 13: {2: None}}
    assert thrift.read_struct(data, 0, shape) == ({1: wide, 3: narrow, 4: text, 12: values, 13: {2: text}}, len(data))
    assert thrift.read_struct(data, 0, {13: None})[0][13] == thrift.struct({2: thrift.binary(text)})[1]
    assert thrift.read_struct(data, 0, {}) == ({}, len(data))


def test_every_thrift_type_is_skipped():
    """Booleans in the header and in lists, a byte, a double and a set precede the wanted field."""
    before = b"\x11\x12\x13\xff\x17" + bytes(8) + b"\x19\x21\x00\x01" + b"\x1a\x13\x05"
    fields, end = thrift.read_struct(before + b"\x05\x14\x02\x00", 0, {10: None})
    assert (fields, end) == ({10: 1}, len(before) + 4)
