"""The columns of Avro files that fastavro wrote, decoded with and without numba kernels, whatever the bytes are."""

import io
import random

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.files.avro import columns
from puffin.files.avro.avro_schema import parse_schema
from puffin.files.avro.column_program import compile_schema
from puffin.files.avro.columns import read_columns
from puffin.files.avro.container import Block, Container
from tests.compiled_kernels import using_kernels

pytestmark = pytest.mark.usefixtures("compiled")

INNER = {
    "type": "record",
    "name": "inner",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "bytes"]}],
}
SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "skipped", "type": {"type": "map", "values": {"type": "array", "items": ["null", "long", INNER]}}},
        {"name": "b", "type": ["boolean", "null"]},
        {"name": "n", "type": ["null", "long"]},
        {"name": "f", "type": "float"},
        {"name": "d", "type": ["null", "double"]},
        {"name": "s", "type": ["null", "string"]},
        {"name": "fixed", "type": ["null", {"type": "fixed", "name": "f3", "size": 3}]},
        {"name": "st", "type": ["null", "inner"]},
    ],
}
WANTED = {**{name: {} for name in ("b", "n", "f", "d", "s", "fixed")}, "st": {"x": {}, "y": {}}}
LONGS, INTS = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
INNERS = st.fixed_dictionaries({"x": INTS, "y": st.none() | st.binary(max_size=20)})
RECORDS = st.fixed_dictionaries(
    {
        "skipped": st.dictionaries(st.text(max_size=3), st.lists(st.none() | LONGS | INNERS, max_size=3), max_size=2),
        "b": st.none() | st.booleans(),
        "n": st.none() | LONGS,
        "f": st.floats(width=32, allow_nan=False),
        "d": st.none() | st.floats(allow_nan=False),
        "s": st.none() | st.text(max_size=20),
        "fixed": st.none() | st.binary(min_size=3, max_size=3),
        "st": st.none() | INNERS,
    }
)


def written(records, **options):
    file = io.BytesIO()
    fastavro.writer(file, SCHEMA, records, **options)
    return file.getvalue()


def read(data, wanted, most, *, with_kernels):
    """Return the batches, or the error."""
    with using_kernels(with_kernels):
        container = Container(io.BytesIO(data), len(data))
        program = compile_schema(parse_schema(container.schema), wanted)
        try:
            return list(read_columns(container.blocks(), program, most))
        except ValueError as exc:
            return str(exc)


def values(batches):
    """Return values as text so that any NaN equals another; strings may be None."""
    strings = [batch.column("s").cast(pa.large_binary()).to_pylist() for batch in batches]
    return repr([strings, *(batch.drop_columns("s").to_pydict() for batch in batches)])


@settings(max_examples=40)
@given(st.lists(RECORDS, max_size=30), st.integers(1, 200), st.integers(1, 300))
def test_reader_returns_written_values_for_any_batch_size(records, group_bytes, batch_rows):
    data = written(records, sync_interval=100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "GROUP_BYTES", group_bytes)
        patch.setattr(columns, "MAX_BATCH_ROWS", batch_rows)
        batches = read(data, WANTED, len(records), with_kernels=False)
        assert batches == read(data, WANTED, len(records), with_kernels=True)
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    found = [row for batch in batches for row in batch.to_pylist()]
    assert found == [{name: record[name] for name in WANTED} for record in records]


def test_reader_skips_unwanted_fields_and_counts_rows():
    nothing = dict.fromkeys(("b", "d", "s", "fixed", "st"))
    records = [{"skipped": {"k": [1, None]}, "n": i, "f": 1.0, **nothing} for i in range(10)]
    assert sum(batch.num_rows for batch in read(written(records), {}, 10, with_kernels=True)) == 10
    (batch,) = read(written(records), {"n": {}}, 10, with_kernels=False)
    assert batch.to_pydict() == {"n": list(range(10))}
    (batch,) = read(written(records), {"st": {}}, 10, with_kernels=False)
    assert batch.column("st").null_count == 10


def test_kernels_and_plain_python_treat_damaged_files_alike():
    """numba checks no bounds, so kernels must never read outside the buffer, whatever the bytes say."""
    rng = random.Random(7)
    records = [
        {"skipped": {"k": [i, {"x": i, "y": b"y" * (i % 4)}]}, "b": i % 2 == 0, "n": -i, "f": 1.0, "d": i / 3}
        | {"s": "s" * (i % 70), "fixed": b"abc", "st": {"x": i, "y": None}}
        for i in range(20)
    ]
    whole = written(records)
    header = len(written([]))
    outcomes = set()
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 1, 1, 3))):
            at = rng.randrange(header + 3, len(whole) - 16)
            damaged[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        plain = read(bytes(damaged), WANTED, 20, with_kernels=False)
        compiled = read(bytes(damaged), WANTED, 20, with_kernels=True)
        if isinstance(plain, str):
            assert compiled == plain
            outcomes.add(plain.split(",")[0])
        else:
            assert values(compiled) == values(plain)
    assert {
        "a value that reaches past the end of its block",
        "a branch that its union does not have",
        "bytes behind the last record of a block",
        "a count beyond the bytes that are left",
    } <= outcomes


def test_reader_rejects_impossible_record_counts_before_allocating():
    nothing = parse_schema({"type": "record", "name": "r", "fields": []})
    blocks = [Block(2**60, b"")]
    with pytest.raises(ValueError, match=f"expected 3 records, found {2**60} or more"):
        list(read_columns(blocks, compile_schema(nothing, {}), 3))


def test_reader_rejects_bytes_in_a_block_without_records():
    schema = parse_schema({"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]})
    program = compile_schema(schema, {"n": {}})
    batches = list(read_columns([Block(0, b""), Block(1, b"\2"), Block(0, b"")], program, 1))
    assert pa.Table.from_batches(batches).to_pydict() == {"n": [1]}
    with pytest.raises(ValueError, match="expected an empty block without records, found 1 bytes"):
        list(read_columns([Block(0, b"\0")], program, 1))


@pytest.mark.parametrize(
    "schema",
    [
        "long",
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": "r"}]},
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "fixed", "name": "f", "size": -1}}]},
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "bytes", "logicalType": "decimal"}}]},
        {"type": "record", "name": "r", "fields": [
            {"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": 40}}]},
    ],
    ids=["no record", "inside itself", "a negative size", "no precision", "too many digits"],
)  # fmt: skip
def test_reader_rejects_schemas_that_describe_no_rows(schema):
    with pytest.raises((ValueError, LookupError)):
        parse_schema(schema)


def test_reader_resolves_names_within_their_namespace():
    schema = {
        "type": "record",
        "name": "a.b.r",
        "fields": [
            {"name": "one", "type": {"type": "fixed", "name": "f", "size": 1}},
            {"name": "other", "type": {"type": "fixed", "name": "f", "namespace": "c", "size": 2}},
            {"name": "again", "type": "f"},
            {"name": "whole", "type": "c.f"},
        ],
    }
    assert [field.type.size for field in parse_schema(schema).fields] == [1, 2, 1, 2]


def test_reader_rejects_ints_beyond_32_bits():
    schema = parse_schema({"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]})
    with pytest.raises(ValueError, match="expected an int of 32 bits, found 2147483648"):
        list(read_columns([Block(1, b"\x80\x80\x80\x80\x10")], compile_schema(schema, {"n": {}}), 1))


def test_reader_names_the_size_of_a_decimal_that_has_none():
    type_ = {"type": "bytes", "logicalType": "decimal", "precision": 9}
    schema = parse_schema({"type": "record", "name": "r", "fields": [{"name": "n", "type": type_}]})
    for size in (0, 17):
        block = Block(2, b"\x0a" + bytes(5) + bytes([2 * size]) + bytes(size))
        with pytest.raises(ValueError, match=f"expected a decimal of 1 to 16 bytes, found one of {size}$"):
            list(read_columns([block], compile_schema(schema, {"n": {}}), 2))


@pytest.mark.parametrize("block", [b"\xff" * 9 + b"\x02", b"\xff" * 10 + b"\x01"], ids=["65 bits", "71 bits"])
@pytest.mark.parametrize("with_kernels", [False, True])
def test_reader_rejects_integers_beyond_64_bits(block, with_kernels):
    schema = parse_schema({"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]})
    with using_kernels(with_kernels), pytest.raises(ValueError, match="an integer of more than 64 bits"):
        list(read_columns([Block(1, block)], compile_schema(schema, {"n": {}}), 1))
