"""
The rows of a drawn table, as Arrow columns: each row draws the rank of a value, and the rank makes the value.

The same seed, column and file give the same rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.random_tables.drawing import BYTES, FLOATS, INTEGERS, TEXTS, DrawnColumn, DrawnTable

_Ranks = npt.NDArray[np.int64]

_SCATTER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that ranks stay apart
_LETTERS = np.frombuffer(b"etaoinshrdlucmfw", np.uint8)
_AT_ONCE = 1 << 16  # texts that are made at once, each of them as long as the longest
_DAY, _MOMENT = 10_000, 1_600_000_000_000_000  # the first date, the first timestamp in microseconds
_STEP = 1_000_003  # microseconds from one timestamp to the next


def arrow_type(column: DrawnColumn) -> pa.DataType:
    """The type of a column, as Iceberg has it or, of integers, narrower."""
    if column.kind in INTEGERS:
        return pa.type_for_alias(column.kind)
    if column.kind == "decimal":
        return pa.decimal128(column.precision, 2)
    if column.kind in TEXTS:
        return pa.string()
    return {
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "UTC"),
        "float": pa.float32(),
        "double": pa.float64(),
        "binary": pa.binary(),
        "fixed": pa.binary(column.lengths[1]),
        "uuid": pa.uuid(),
    }[column.kind]


def rows_of(table: DrawnTable, file: int) -> pa.Table:
    """The rows of a file; its fields have the ids 1, 2, …"""
    count = table.file_rows[file]
    fields, arrays = [], []
    for number, column in enumerate(table.columns):
        source = np.random.default_rng((table.seed, number, file))
        ranks = _ranks(source, column, count)
        is_null = source.random(count) < column.nulls if column.nulls else None
        values = _values(column, ranks)
        if is_null is not None:
            values = pc.if_else(pa.array(is_null), pa.scalar(None, values.type), values)
        type_ = arrow_type(column)
        if column.kind == "uuid":
            values = pa.ExtensionArray.from_storage(type_, values)
        fields.append(pa.field(column.name, type_, metadata={"PARQUET:field_id": str(number + 1)}))
        arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _ranks(source: np.random.Generator, column: DrawnColumn, count: int) -> _Ranks:
    if column.skew == 0:
        ranks = source.integers(0, column.distinct, count)
    else:
        drawn = source.random(count)
        power = 1 - column.skew
        if abs(power) < 1e-3:
            drawn = column.distinct**drawn
        else:
            drawn = ((column.distinct**power - 1) * drawn + 1) ** (1 / power)
        ranks = np.minimum(drawn.astype(np.int64) - 1, column.distinct - 1)
    return np.sort(ranks) if column.is_sorted else ranks


def _values(column: DrawnColumn, ranks: _Ranks) -> pa.Array:
    if column.kind == "boolean":
        return pa.array(ranks % 2 == 1)
    if column.kind in INTEGERS:
        bits = int(column.kind.removeprefix("int"))
        least = -(1 << bits - 1)
        numbers = ranks + least if bits < 32 else ranks if column.is_dense else _scattered(ranks).view(np.int64)
        return pa.array(numbers.astype(f"i{bits // 8}"))
    if column.kind == "date":
        return pa.array((ranks + _DAY).astype(np.int32)).cast(pa.date32())
    if column.kind in ("timestamp", "timestamptz"):
        return pa.array(_MOMENT + ranks % (1 << 32) * (1 if column.is_dense else _STEP)).cast(arrow_type(column))
    if column.kind in FLOATS:
        if column.kind == "float":
            return pa.array((ranks / 4).astype(np.float32))
        return pa.array(ranks / 100 if column.is_dense else (_scattered(ranks) >> np.uint64(11)) / 2.0**40)
    if column.kind == "decimal":
        return _decimals(column, ranks)
    return _texts(column, ranks)


def _scattered(ranks: _Ranks) -> npt.NDArray[np.uint64]:
    mixed = (ranks.astype(np.uint64) + np.uint64(1)) * _SCATTER
    mixed ^= mixed >> np.uint64(29)
    return mixed * _SCATTER


def _decimals(column: DrawnColumn, ranks: _Ranks) -> pa.Array:
    words = np.zeros((len(ranks), 2), np.uint64)  # of 128 bits, the low one first
    most = 10**column.precision
    low = ranks.astype(np.uint64) if column.is_dense else _scattered(ranks)
    if most <= 1 << 64:
        words[:, 0] = low % np.uint64(most)
    else:
        words[:, 0] = low
        words[:, 1] = _scattered(ranks) % np.uint64(most >> 64)
    return pa.Array.from_buffers(arrow_type(column), len(ranks), [None, pa.py_buffer(words)])


def _texts(column: DrawnColumn, ranks: _Ranks) -> pa.Array:
    known, places = np.unique(ranks, return_inverse=True)
    is_text = column.kind in TEXTS
    parts = [_each_text(known[at : at + _AT_ONCE], column.lengths, is_text) for at in range(0, len(known), _AT_ONCE)]
    texts = pa.concat_arrays(parts) if parts else pa.array([], pa.binary())
    type_ = pa.binary(column.lengths[1]) if column.kind in BYTES[1:] else arrow_type(column)
    return texts.take(pa.array(places)).cast(type_)


def _each_text(ranks: _Ranks, lengths: tuple[int, int], is_text: bool) -> pa.Array:
    least, most = lengths
    words = [_scattered(ranks + (place << 44)) for place in range(-(-most // 8))]
    content = np.stack(words, axis=1).view(np.uint8)[:, :most]
    if is_text:
        content = _LETTERS[content >> 4]
    sizes = least + (_scattered(ranks + (1 << 60)) >> np.uint64(40)) % np.uint64(most - least + 1)
    ends = np.cumsum(sizes).astype(np.int32)
    flat = content[np.arange(most) < sizes[:, None]]
    offsets = np.concatenate([np.zeros(1, np.int32), ends])
    return pa.Array.from_buffers(pa.binary(), len(ranks), [None, pa.py_buffer(offsets), pa.py_buffer(flat)])
