"""Avro records are read by field id, and nothing in the file is trusted."""

import io
import itertools
import json
import struct
import zlib

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptMetadataError, UnsupportedTableError
from puffin.files.avro import container
from puffin.files.avro import records as avro_records
from puffin.files.avro.records import read_records
from puffin.files.avro.texts import SoughtTexts
from tests.compiled_kernels import using_kernels

pytestmark = pytest.mark.usefixtures("compiled")

SYNC = b"0123456789abcdef"
PAIR = {
    "type": "record",
    "name": "k_v",
    "fields": [{"name": "key", "type": "int", "field-id": 5}, {"name": "value", "type": "bytes", "field-id": 6}],
}
SCHEMA = {
    "type": "record",
    "name": "entry",
    "fields": [
        {"name": "flag", "type": "boolean", "field-id": 0},
        {"name": "skipped", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "n", "type": ["null", "long"], "default": None, "field-id": 1},
        {"name": "fixed", "type": {"type": "fixed", "name": "f3", "size": 3}, "field-id": 2},
        {"name": "same", "type": "f3", "field-id": 3},
        {"name": "pairs", "type": {"type": "array", "logicalType": "map", "items": PAIR}, "field-id": 4},
        {"name": "f", "type": "float", "field-id": 7},
        {"name": "d", "type": {"type": "double"}, "field-id": 8},
        {"name": "nanos", "type": {"type": "long", "logicalType": "timestamp-nanos"}, "field-id": 9},
    ],
}
EVERYTHING = {0: None, 1: None, 2: None, 3: None, 4: None, 7: None, 8: None, 9: None}


def long(value):
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def sized(data):
    return long(len(data)) + data


def record(flag, skipped, n, fixed, pairs, f, d, nanos):
    """Encode one record as the Avro specification says."""
    parts = [bytes([flag])]
    parts += [long(len(skipped)), *(sized(k.encode()) + long(1) + sized(v.encode()) for k, v in skipped.items())]
    parts.append(long(0) if skipped else b"")
    parts.append(long(0) if n is None else long(1) + long(n))
    parts += [fixed, fixed]
    items = [long(k) + sized(v) for k, v in pairs]
    parts += [long(-len(items)), long(sum(map(len, items))), *items] if items else []
    parts += [long(0), struct.pack("<f", f), struct.pack("<d", d), long(nanos)]
    return b"".join(parts)


def avro_file(*blocks, schema=SCHEMA, codec="null", compress=bytes):
    header = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    out = io.BytesIO()
    out.write(b"Obj\x01" + long(len(header)))
    out.write(b"".join(sized(key.encode()) + sized(value) for key, value in header.items()) + long(0) + SYNC)
    for records in blocks:
        out.write(long(len(records)) + sized(compress(b"".join(records))) + SYNC)
    return out.getvalue()


def deflate(data):
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


def snappy(data):
    return pa.compress(data, "snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big")


ONE = record(True, {"a": "b"}, -(2**63), b"abc", [(1, b"x"), (-2, b"")], 1.5, 0.1, 2**63 - 1)
ONE_READ = {
    0: True,
    1: -(2**63),
    2: b"abc",
    3: b"abc",
    4: [{5: 1, 6: b"x"}, {5: -2, 6: b""}],
    7: 1.5,
    8: 0.1,
    9: 2**63 - 1,
}
CODECS = {"null": bytes, "deflate": deflate, "snappy": snappy}


def test_reader_finds_wanted_fields_by_id_and_skips_the_rest():
    data = avro_file([ONE, ONE], [ONE])
    assert list(read_records(data, EVERYTHING, "x")) == [ONE_READ] * 3
    assert list(read_records(data, {8: None, 4: {6: None}, 77: None}, "x")) == [{4: [{6: b"x"}, {6: b""}], 8: 0.1}] * 3


OUTER = {
    "type": "record",
    "name": "outer",
    "fields": [{"name": "entry", "type": SCHEMA, "field-id": 20}, {"name": "last", "type": "long", "field-id": 21}],
}
RECORDS = st.builds(
    lambda last, *fields: record(*fields) + long(last),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.binary(min_size=3, max_size=3),
    st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3) | st.just(bytes(64))), max_size=4),
    *(st.floats(width=width, allow_nan=False) for width in (32, 64)),
    st.integers(-(2**63), 2**63 - 1),
)


@settings(max_examples=60)
@given(st.lists(st.lists(RECORDS, max_size=3), max_size=3), st.sets(st.sampled_from([*EVERYTHING])), st.integers(0, 60))
def test_unwanted_fields_are_skipped_alike_with_and_without_kernels(blocks, fields, cut):
    """With kernels, places after unwanted fields are found before records are read; so are cut records."""
    found = []
    for data in (avro_file(*blocks, schema=OUTER), avro_file(*blocks, [ONE[:cut]], schema=OUTER)):
        for is_ready, wanted in itertools.product((False, True), (EVERYTHING, dict.fromkeys(fields))):
            with using_kernels(is_ready), pytest.MonkeyPatch.context() as patch:
                patch.setattr(avro_records, "_SMALLEST_BLOCK", 0)
                read = read_records(data, {20: wanted}, "x")
                try:
                    found.append([entry[20] for entry in read])
                except CorruptMetadataError as exc:
                    found.append(str(exc))
    everything, wanted, everything_compiled, wanted_compiled, *cut_short = found
    assert everything == everything_compiled
    assert wanted == wanted_compiled == [{i: v for i, v in entry.items() if i in fields} for entry in everything]
    assert len(everything) == sum(map(len, blocks))
    assert all(isinstance(said, str) for said in cut_short)
    assert cut_short[:2] == cut_short[2:]


def text_file(*blocks):
    schema = {"type": "record", "name": "r", "fields": [{"name": "s", "type": "string", "field-id": 1}]}
    return avro_file(*([sized(text.encode()) for text in block] for block in blocks), schema=schema)


@settings(max_examples=150)
@given(
    st.lists(st.lists(st.text("ab/", max_size=4).map("s3://bucket/".__add__) | st.text(max_size=3), max_size=4)),
    st.sets(st.text("ab/", max_size=4).map("s3://bucket/".__add__) | st.text(max_size=3), max_size=4),
)
def test_reader_keeps_records_that_contain_the_searched_text(blocks, texts):
    texts |= {text for block in blocks[:1] for text in block[:1]}
    found = list(read_records(text_file(*blocks), EVERYTHING, "x", SoughtTexts(texts)))
    everything = [{1: text} for block in blocks for text in block]
    assert all(one in ({}, other) for one, other in zip(found, everything, strict=True))
    assert [record for record in everything if record[1] in texts] == [r for r in found if r.get(1) in texts]


def test_reader_counts_but_does_not_decode_blocks_without_the_searched_text():
    data = text_file(["path/to/1", "path/to/2"], ["path/to/5", "other"], ["path/to/4"])
    two = SoughtTexts({"path/to/3", "path/to/4"})
    assert list(read_records(data, EVERYTHING, "x", two)) == [{}, {}, {}, {}, {1: "path/to/4"}]
    assert list(read_records(data, EVERYTHING, "x", SoughtTexts(set()))) == [{}] * 5
    with pytest.raises(CorruptMetadataError):
        list(read_records(data[:-1], EVERYTHING, "x", two))


def test_file_without_blocks_has_no_records():
    assert list(read_records(avro_file(), EVERYTHING, "x")) == []


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.binary(min_size=3, max_size=3),
            st.lists(
                st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3) | st.just(bytes(64))), max_size=3
            ),
            st.floats(width=32, allow_nan=False),
            st.floats(allow_nan=False),
            st.integers(-(2**63), 2**63 - 1),
        ),
        max_size=5,
    ),
    st.sampled_from(sorted(CODECS)),
)
def test_reader_returns_what_was_written(records, codec):
    data = avro_file([record(*values) for values in records], codec=codec, compress=CODECS[codec])
    read = list(read_records(data, EVERYTHING, "x"))
    assert read == [
        {0: flag, 1: n, 2: fixed, 3: fixed, 4: [{5: k, 6: v} for k, v in pairs], 7: f, 8: d, 9: nanos}
        for flag, _, n, fixed, pairs, f, d, nanos in records
    ]


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "bzip2", "null"])
def test_we_and_pyiceberg_read_each_others_files_with_each_codec(tmp_path, codec):
    from pyiceberg.avro.file import AvroOutputFile
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record
    from pyiceberg.types import LongType, NestedField, StringType

    path = tmp_path / "x.avro"
    schema = Schema(NestedField(1, "n", LongType(), required=True), NestedField(2, "s", StringType()))
    output = PyArrowFileIO().new_output(str(path))
    with AvroOutputFile(output, schema, "r", metadata={"avro.codec": codec}) as file:
        file.write_block([Record(i, "x" * i if i else None) for i in range(100)])
    data = path.read_bytes()
    assert list(read_records(data, {1: None, 2: None}, "x")) == [{1: i, 2: "x" * i if i else None} for i in range(100)]


def test_reader_names_an_unknown_codec_when_it_rejects_it():
    with pytest.raises(UnsupportedTableError, match=r"m\.avro: Avro codec 'xz9': expected one of null, deflate"):
        list(read_records(avro_file(codec="xz9"), EVERYTHING, "m.avro"))


@pytest.mark.parametrize("codec", ["deflate", "snappy"])
def test_reader_rejects_blocks_that_decompress_beyond_the_limit(monkeypatch, codec):
    monkeypatch.setattr(container, "MAX_BLOCK_BYTES", 1000)
    bomb = avro_file([b"\0" * 100_000], codec=codec, compress=CODECS[codec])
    with pytest.raises(CorruptMetadataError, match="a block of more than 1000 bytes"):
        list(read_records(bomb, EVERYTHING, "x"))


@pytest.mark.parametrize(("name", "compress"), CODECS.items(), ids=CODECS.keys())
def test_reader_rejects_files_cut_inside_a_block(name, compress):
    whole = avro_file([ONE, ONE], [ONE], codec=name, compress=compress)
    ends = {len(avro_file(codec=name)), len(avro_file([ONE, ONE], codec=name, compress=compress))}
    for length in set(range(len(whole))) - ends:
        with pytest.raises(CorruptMetadataError, match=r"^m\.avro: expected an Avro file: "):
            list(read_records(whole[:length], EVERYTHING, "m.avro"))


def test_reader_raises_only_our_errors_for_any_damaged_byte():
    whole = avro_file([ONE, ONE], [ONE])
    said = []
    for at in range(len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[at] ^= flip
            try:
                list(read_records(bytes(damaged), EVERYTHING, "m.avro"))
            except (CorruptMetadataError, UnsupportedTableError) as exc:
                said.append(str(exc))
    assert not [message for message in said if "\n" in message]


@pytest.mark.parametrize(
    "schema",
    ["nonsense", {"type": "enum"}, {"fields": []}, [], 7, {"type": "record", "name": "r", "fields": [{"type": "r"}]}],
    ids=str,
)
def test_reader_rejects_invalid_schemas(schema):
    with pytest.raises(CorruptMetadataError):
        list(read_records(avro_file([b"\0"], schema=schema), EVERYTHING, "x"))


@pytest.mark.parametrize("last", [b"\x02", b"\x7f", b"\xff\x01"])
def test_reader_rejects_integers_beyond_64_bits(last):
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long", "field-id": 1}]}
    with pytest.raises(CorruptMetadataError, match="an integer of more than 64 bits"):
        list(read_records(avro_file([b"\xff" * 9 + last], schema=schema), {1: None}, "x"))


def test_compressed_block_may_hold_more_records_than_bytes():
    data = avro_file([ONE] * 5000, codec="deflate", compress=deflate)
    assert len(data) < 5000
    assert list(read_records(data, {0: None}, "x")) == [{0: True}] * 5000


@pytest.mark.parametrize("count", [-1, 2**40])
def test_reader_rejects_counts_beyond_the_bytes_before_allocating(count):
    block = long(count) + sized(b"") + SYNC
    nothing = {"type": "record", "name": "r", "fields": []}
    with pytest.raises(CorruptMetadataError, match="a count of"):
        list(read_records(avro_file(schema=nothing) + block, EVERYTHING, "x"))
