"""Plain values decoded here equal pyarrow's byte for byte, and other bytes are refused."""

import datetime
import decimal
import io

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from puffin.files.parquet import thrift
from puffin.files.parquet.page_as_file import read_as_file
from puffin.files.parquet.parquet_footer import (
    BYTE_ARRAY,
    DOUBLE,
    FIXED_LEN_BYTE_ARRAY,
    FLOAT,
    INT32,
    INT64,
    read_footer,
)
from puffin.files.parquet.plain_values import MAX_BYTE_ARRAYS, plain_decoder

D = decimal.Decimal
AS_INTEGER = {"store_decimal_as_integer": True}

# name: (values, Arrow type, physical type, how to write them)
CASES = {
    "int": ([-1, 0, 2**31 - 1], pa.int32(), INT32, {}),
    "long": ([-(2**63), 0, 7], pa.int64(), INT64, {}),
    "float": ([-0.0, 0.0, float("nan")], pa.float32(), FLOAT, {}),
    "double": ([-0.0, 0.0, float("-inf")], pa.float64(), DOUBLE, {}),
    "date": ([datetime.date(1900, 1, 1), datetime.date(2024, 2, 29)], pa.date32(), INT32, {}),
    "time in ms": ([datetime.time(1, 2, 3), datetime.time(23)], pa.time32("ms"), INT32, {}),
    "time": ([datetime.time(1, 2, 3, 4), datetime.time(23)], pa.time64("us"), INT64, {}),
    "timestamp": ([0, -5, 10**15], pa.timestamp("us"), INT64, {}),
    "timestamptz": ([0, -5, 10**15], pa.timestamp("us", "UTC"), INT64, {}),
    "decimal on int32": ([D("-1.25"), D("99.99")], pa.decimal128(9, 2), INT32, AS_INTEGER),
    "decimal on int64": ([D("-1.25"), D(10**15)], pa.decimal128(18, 2), INT64, AS_INTEGER),
    "string": (["", "a", "ü" * 40, "x" * 5000], pa.string(), BYTE_ARRAY, {}),
    "binary": ([b"", b"\x00\xff", b"y" * 300], pa.binary(), BYTE_ARRAY, {}),
    "fixed": ([b"\x00" * 5, b"\xff" * 5], pa.binary(5), FIXED_LEN_BYTE_ARRAY, {}),
    "fixed 16": ([b"\x00" * 16, b"\xff" * 16], pa.binary(16), FIXED_LEN_BYTE_ARRAY, {}),
}  # fmt: skip


def page_of(values, arrow_type, **options):
    """The chunk of a file of these values, and what follows the header of its dictionary page."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": pa.array(values, arrow_type)}), sink, compression="none", **options)
    chunk = read_footer(pq.read_metadata(sink))[0][0]
    page = sink.getvalue()[chunk.dictionary_page_offset : chunk.data_page_offset]
    return chunk, page[thrift.read_struct(page, 0, {})[1] :]


def decode(content, count, arrow_type, physical_type=BYTE_ARRAY):
    return plain_decoder(physical_type, arrow_type, 1)(content, count, arrow_type)


def byte_array(value):
    return len(value).to_bytes(4, "little") + value


@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
@pytest.mark.parametrize(("values", "arrow_type", "physical_type", "options"), CASES.values(), ids=CASES)
def test_values_equal_pyarrows_byte_for_byte(values, arrow_type, physical_type, options, page_version):
    chunk, content = page_of(values, arrow_type, data_page_version=page_version, **options)
    assert chunk.physical_type == physical_type
    found = decode(content, len(values), arrow_type, physical_type)
    found.validate(full=True)
    theirs = read_as_file(chunk, len(values), len(content), content)
    assert found.type == theirs.type == arrow_type
    assert [bytes(b) for b in found.buffers()[1:]] == [bytes(b)[: len(f)] for b, f in paired(theirs, found)]


def paired(theirs, found):
    """The buffers of both without null masks; pyarrow's may be padded."""
    return zip(theirs.buffers()[1:], found.buffers()[1:], strict=True)


@pytest.mark.parametrize(("values", "arrow_type", "physical_type", "options"), CASES.values(), ids=CASES)
def test_truncated_page_and_trailing_bytes_are_refused(values, arrow_type, physical_type, options):
    _, content = page_of(values, arrow_type, **options)
    for wrong in (*(content[:end] for end in range(len(content))), content + b"\0"):
        with pytest.raises(ValueError, match="expected"):
            decode(wrong, len(values), arrow_type, physical_type)


@pytest.mark.parametrize(("values", "arrow_type", "physical_type", "options"), CASES.values(), ids=CASES)
def test_wrong_count_is_refused(values, arrow_type, physical_type, options):
    _, content = page_of(values, arrow_type, **options)
    for count in {0, len(values) - 1, len(values) + 1, 1000} - {len(values)}:
        with pytest.raises(ValueError, match="expected"):
            decode(content, count, arrow_type, physical_type)


@pytest.mark.parametrize("arrow_type", [pa.string(), pa.binary()], ids=str)
def test_zero_values_take_no_bytes(arrow_type):
    assert decode(b"", 0, arrow_type).to_pylist() == []


@pytest.mark.parametrize("length", [2, 3, 4, 8, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1])
def test_length_beyond_the_page_or_into_the_next_value_is_refused(length):
    content = length.to_bytes(4, "little") + b"a" + byte_array(b"bcd")
    with pytest.raises(ValueError, match="expected plain values of"):
        decode(content, 2, pa.binary())


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=20), max_size=8), st.data())
def test_changed_lengths_give_other_values_of_the_same_bytes_or_none(values, data):
    content = bytearray(b"".join(map(byte_array, values)))
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3)) if content else ():
        content[at] = data.draw(st.integers(0, 30) | st.just(255))
    try:
        found = decode(bytes(content), len(values), pa.binary())
    except ValueError:
        return
    found.validate(full=True)
    assert b"".join(map(byte_array, found.to_pylist())) == content


def test_unsupported_types_are_left_to_pyarrow():
    assert plain_decoder(BYTE_ARRAY, pa.large_string(), 1) is None
    assert plain_decoder(BYTE_ARRAY, pa.decimal128(9, 2), 1) is None
    assert plain_decoder(FIXED_LEN_BYTE_ARRAY, pa.decimal128(38, 2), 1) is None
    assert plain_decoder(INT32, pa.int8(), 1) is None
    assert plain_decoder(INT64, pa.date32(), 1) is None


def test_many_byte_arrays_are_left_to_pyarrow():
    """Numbers are always decoded here."""
    assert plain_decoder(BYTE_ARRAY, pa.string(), MAX_BYTE_ARRAYS) is not None
    assert plain_decoder(BYTE_ARRAY, pa.string(), MAX_BYTE_ARRAYS + 1) is None
    assert plain_decoder(INT64, pa.int64(), 10**6) is not None
