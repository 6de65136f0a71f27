"""
Read the records of an Avro file as Arrow columns, batch by batch.

Writers end a block after some kilobytes, so several blocks are processed together, and large blocks in parts. First
their values are found, then whole columns are built.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.files.avro.column_program import Finder, FoundValues, Leaf, Longs, Program, Struct
from puffin.files.avro.container import Block
from puffin.files.rows import record_batch
from puffin.kernels import kernels_ready

GROUP_BYTES = 4 * 1024 * 1024  # of blocks that are processed together
MAX_BATCH_ROWS = 64 * 1024
MAX_PLACES = 4 * 1024 * 1024  # of values, in a batch; each takes 16 bytes

_DECIMAL_BYTES = 16


def read_columns(blocks: Iterable[Block], program: Program, most: int) -> Iterator[pa.RecordBatch]:
    """Read all records, with the program's columns; ValueError if there are more than ``most``."""
    for group in _groups(blocks, most):
        yield from _batches(group, program)


def _groups(blocks: Iterable[Block], most: int) -> Iterator[list[Block]]:
    group: list[Block] = []
    size = total = 0
    for block in blocks:
        if block.records == 0:
            if block.content:
                raise ValueError(f"expected an empty block without records, found {len(block.content)} bytes")
            continue
        total += block.records
        if total > most:  # before allocating anything: records may have no bytes
            raise ValueError(f"expected {most} records, found {total} or more")
        group.append(block)
        size += len(block.content)
        if size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _batches(group: Sequence[Block], program: Program) -> Iterator[pa.RecordBatch]:
    finder = Finder(group, program)
    left = sum(block.records for block in group)
    most = min(MAX_BATCH_ROWS, max(1, MAX_PLACES // max(1, program.slots)))
    while left > 0:
        rows = min(left, most)
        values = finder.find(rows)
        left -= rows
        columns = [_column(node, values) for node in program.columns.values()]
        yield record_batch(columns, list(program.columns), rows)


# --- columns ------------------------------------------------------------------------------------------------------


def _column(node: Leaf | Struct, values: FoundValues) -> pa.Array:
    words, lengths = values.words[node.slot], values.lengths[node.slot]
    valid = lengths >= 0
    if isinstance(node, Struct):
        children = [_column(child, values) for child in node.children.values()]
        if not children:
            return pa.Array.from_buffers(pa.struct([]), len(valid), [_bitmap(valid)])
        return pa.StructArray.from_arrays(children, list(node.children), mask=pa.array(~valid))
    type_ = node.arrow_type
    if pa.types.is_null(type_):
        return pa.nulls(len(words))
    if pa.types.is_boolean(type_):
        return pa.array(words != 0, mask=~valid)
    if pa.types.is_decimal(type_):
        return _of_buffer(type_, valid, _decimals(values.data, words, lengths))
    if pa.types.is_fixed_size_binary(type_):
        fixed = np.zeros((len(words), type_.byte_width), np.uint8)
        fixed[valid] = _strings(values.data, words[valid], lengths[valid])[0].reshape(-1, type_.byte_width)
        return _of_buffer(type_, valid, fixed)
    if pa.types.is_large_string(type_) or pa.types.is_large_binary(type_):
        data, bounds = _strings(values.data, words, np.maximum(lengths, 0))
        buffers = [_bitmap(valid), pa.py_buffer(bounds), pa.py_buffer(data)]
        return pa.Array.from_buffers(type_, len(words), buffers)
    return _of_buffer(type_, valid, words if type_.bit_width == 64 else _narrow(words, valid))


def _narrow(words: Longs, valid: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    narrow = words.astype(np.int32)
    wrong = (narrow != words) & valid
    if wrong.any():
        raise ValueError(f"expected an int of 32 bits, found {words[wrong.argmax()]}")
    return narrow


def _decimals(data: bytes, begins: Longs, lengths: Longs) -> npt.NDArray[np.uint8]:
    """Convert big-endian two's complements to little-endian ones of 16 bytes."""
    wrong = (lengths == 0) | (lengths > _DECIMAL_BYTES)
    if wrong.any():
        raise ValueError(f"expected a decimal of 1 to {_DECIMAL_BYTES} bytes, found one of {lengths[wrong.argmax()]}")
    stored = np.frombuffer(data, np.uint8)
    valid = lengths > 0
    first = stored[np.where(valid, begins, 0)] if len(stored) else np.zeros(len(begins), np.uint8)
    sign = np.where(first >= 0x80, 0xFF, 0).astype(np.uint8)
    words = np.repeat(sign, _DECIMAL_BYTES).reshape(-1, _DECIMAL_BYTES)
    for place in range(lengths.max(initial=0)):
        has_byte = lengths > place
        words[has_byte, place] = stored[(begins + lengths - 1 - place)[has_byte]]
    return words


def _strings(data: bytes, begins: Longs, lengths: Longs) -> tuple[npt.NDArray[np.uint8], Longs]:
    """Concatenate strings; returns the bytes and the n + 1 bounds."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    if not kernels_ready():
        pieces = [data[begin : begin + length] for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True)]
        return np.frombuffer(b"".join(pieces), np.uint8), bounds
    from puffin.kernels.avro import gather_bytes

    gathered = np.empty(int(bounds[-1]), np.uint8)
    gather_bytes(np.frombuffer(data, np.uint8), np.ascontiguousarray(begins), bounds, gathered)
    return gathered, bounds


def _of_buffer(type_: pa.DataType, valid: npt.NDArray[np.bool_], values: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(type_, len(valid), [_bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))])


def _bitmap(valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
