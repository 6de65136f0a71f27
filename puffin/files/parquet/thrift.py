"""
Thrift's compact protocol, as far as Parquet's headers need it: structs by field id, read and written.

::

    field:   id delta << 4 │ type      delta 0: the id follows, zigzag       ┐ a struct is its fields
    list:    size << 4 │ type          size 15: the size follows, varint     │ and a zero byte
    integer: varint of the zigzag      binary: varint length, bytes          ┘

A shape names the wanted fields. The reader steps over everything else without decoding it, since most of a footer is
statistics. It does not support maps, which Parquet does not use. Nothing is trusted: lengths and counts are checked
against the available bytes, and nesting is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from puffin.files.varints import read_varint, varint, zigzag

Shape: TypeAlias = "Mapping[int, Shape | None]"
"""The wanted fields of a struct and of structs inside it; under None a struct stays bytes."""

Written: TypeAlias = tuple[int, bytes]
"""An encoded value: its type and its bytes."""

MALFORMED = (ValueError, IndexError)  # what readers raise for invalid bytes
MAX_DEPTH = 32  # of structs and lists; Parquet's own go to eight

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_BOOLEANS = frozenset((_TRUE, _FALSE))
_INTEGERS = frozenset((_I16, _I32, _I64))
_SEQUENCES = frozenset((_LIST, _SET))
_FIXED_SIZES = {_BYTE: 1, _DOUBLE: 8}
_LONG_COUNT = 15


# --- reading ------------------------------------------------------------------------------------------------------


def read_struct(data: bytes, at: int, shape: Shape, depth: int = MAX_DEPTH) -> tuple[dict[int, Any], int]:
    """
    Read the wanted fields of the struct at an offset, as far as present; also returns the offset after it.

    Integers are int, booleans bool, binaries bytes, lists list.
    """
    if depth <= 0:
        raise ValueError(f"more than {MAX_DEPTH} levels at offset {at}")
    fields: dict[int, Any] = {}
    field_id = 0
    while header := data[at]:
        at += 1
        if header > 0x0F:
            field_id += header >> 4
        else:
            field_id, at = _zigzag(data, at)
        kind = header & 0x0F
        if field_id not in shape:
            at = _skip(data, at, kind, depth - 1)
        elif kind in _INTEGERS:
            fields[field_id], at = _zigzag(data, at)
        elif kind in _BOOLEANS:
            fields[field_id] = kind == _TRUE
        else:
            fields[field_id], at = _read(data, at, kind, shape[field_id], depth - 1)
    return fields, at + 1


def _read(data: bytes, at: int, kind: int, shape: Shape | None, depth: int) -> tuple[Any, int]:
    if kind in _INTEGERS:
        return _zigzag(data, at)
    if kind == _BINARY:
        size, at = read_varint(data, at)
        return data[at : _end(data, at, size)], at + size
    if kind == _STRUCT and shape is not None:
        return read_struct(data, at, shape, depth)
    if kind == _STRUCT:
        end = _skip(data, at, kind, depth)
        return data[at:end], end
    if kind in _SEQUENCES and depth > 0:
        count, kind, at = _list_header(data, at)
        values = []
        for _ in range(count):
            value, at = _read(data, at, kind, shape, depth - 1)
            values.append(value)
        return values, at
    raise ValueError(f"unexpected value of type {kind} before offset {at}")


def _skip(data: bytes, at: int, kind: int, depth: int) -> int:
    if kind in _INTEGERS:
        while data[at] >= 0x80:
            at += 1
        return at + 1
    if kind == _BINARY:
        size, at = read_varint(data, at)
        return _end(data, at, size)
    if kind in _BOOLEANS:
        return at
    if kind in _FIXED_SIZES:
        return _end(data, at, _FIXED_SIZES[kind])
    if depth <= 0:
        raise ValueError(f"more than {MAX_DEPTH} levels at offset {at}")
    if kind == _STRUCT:
        return _skip_fields(data, at, depth)
    if kind in _SEQUENCES:
        count, kind, at = _list_header(data, at)
        for _ in range(count):
            # A field's header holds its boolean, but in a list a boolean takes a byte.
            at = _skip(data, at, _BYTE if kind in _BOOLEANS else kind, depth - 1)
        return at
    raise ValueError(f"unknown type {kind} before offset {at}")


def _skip_fields(data: bytes, at: int, depth: int) -> int:
    # This loop steps over most of a footer, so it handles integers and short binaries without a call.
    while header := data[at]:
        at += 1
        kind = header & 0x0F
        if header <= 0x0F:
            at = _skip(data, at, _I16, depth)  # the field's id
        if kind in _INTEGERS:
            while data[at] >= 0x80:
                at += 1
            at += 1
        elif kind == _BINARY and data[at] < min(0x80, len(data) - at):
            at += 1 + data[at]
        elif kind not in _BOOLEANS:
            at = _skip(data, at, kind, depth - 1)
    return at + 1


def _list_header(data: bytes, at: int) -> tuple[int, int, int]:
    header = data[at]
    count, at = (header >> 4, at + 1) if header >> 4 != _LONG_COUNT else read_varint(data, at + 1)
    _end(data, at, count)  # each item takes at least one byte
    return count, header & 0x0F, at


def _end(data: bytes, at: int, size: int) -> int:
    if size > len(data) - at:
        raise ValueError(f"expected {size} bytes at offset {at}, found {len(data) - at}")
    return at + size


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_varint(data, at) if data[at] >= 0x80 else (data[at], at + 1)
    return zigzag(value), at


# --- writing ------------------------------------------------------------------------------------------------------


def i32(value: int) -> Written:
    return _I32, varint(value << 1 if value >= 0 else ~value << 1 | 1)


def i64(value: int) -> Written:
    return _I64, i32(value)[1]


def binary(value: bytes) -> Written:
    return _BINARY, varint(len(value)) + value


def items(values: Sequence[Written]) -> Written:
    """A list of at least one value, all of one type."""
    kind = values[0][0]
    return _LIST, bytes([_LONG_COUNT << 4 | kind]) + varint(len(values)) + b"".join(value for _, value in values)


def struct(fields: Mapping[int, Written]) -> Written:
    """A struct of fields by ascending id, with gaps of at most 15."""
    parts = []
    previous = 0
    for field_id, (kind, value) in fields.items():
        parts += [bytes([field_id - previous << 4 | kind]), value]
        previous = field_id
    return _STRUCT, b"".join([*parts, b"\0"])


def struct_bytes(data: bytes) -> Written:
    return _STRUCT, data
