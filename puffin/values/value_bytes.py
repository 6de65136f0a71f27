"""
Single values in binary form (table spec, appendix D), a few at a time: picked out of a column, and compared.

Bytes of up to `MOST_BYTES` are kept; longer strings are cut, and a cut value stands for all that begin with it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin.kernels import kernels_ready
from puffin.values.decimals import unscaled_bytes
from puffin.values.serialized import ByteStrings, Words
from puffin.values.value_type import TIMES, ValueType

MOST_BYTES = 64
"""The longest value that is kept whole."""

Positions: TypeAlias = npt.NDArray[np.int64]

_NUMBERS = {
    **dict.fromkeys(("int", "date"), "<i4"),
    **dict.fromkeys(("long", *TIMES), "<i8"),
    "boolean": "u1",
    "float": "<f4",
    "double": "<f8",
}
_FORMATS = {"<i4": "<i", "<i8": "<q", "u1": "?", "<f4": "<f", "<f8": "<d"}


def pick(values: ByteStrings, positions: Positions) -> pa.LargeBinaryArray:
    """The values at these positions, cut to one byte more than `MOST_BYTES`, so that cut values can be recognized."""
    if kernels_ready():
        from puffin.kernels.heavy import pick_strings

        ends = np.empty(len(positions) + 1, np.int64)
        return _binary(ends, pick_strings(values.data, values.offsets, positions, MOST_BYTES + 1, ends))
    every = _binary(np.ascontiguousarray(values.offsets), np.ascontiguousarray(values.data))
    picked = every.take(pa.array(positions))
    return cut_to(picked, MOST_BYTES + 1) if contents(picked)[0].max(initial=0) > MOST_BYTES + 1 else picked


def pick_words(values: Words, positions: Positions) -> Words:
    """The values at these positions."""
    high, length = values.high, values.length
    return Words(
        values.low[positions],
        None if high is None else high[positions],
        length if isinstance(length, int) else length[positions],
    )


def join_words(parts: Sequence[Words]) -> Words:
    """The values of all parts, one after the other; at least one part."""
    low = np.concatenate([part.low for part in parts])
    high = None
    if any(part.high is not None for part in parts):
        high = np.concatenate([np.zeros_like(part.low) if part.high is None else part.high for part in parts])
    length = parts[0].length
    if not isinstance(length, int) or any(not isinstance(part.length, int) or part.length != length for part in parts):
        length = np.concatenate([np.broadcast_to(np.asarray(part.length, np.uint64), len(part.low)) for part in parts])
    return Words(low, high, length)


def words_as_binary(words: Words) -> pa.LargeBinaryArray:
    each = np.stack([words.low] if words.high is None else [words.low, words.high], axis=1)
    data = each.astype("<u8", copy=False).view(np.uint8).reshape(len(words.low), -1)
    if isinstance(words.length, int):
        return binary_array(np.full(len(data), words.length), data[:, : words.length].reshape(-1))
    lengths = words.length.astype(np.int64)
    return binary_array(lengths, data[np.arange(data.shape[1]) < lengths[:, None]])


def binary_array(lengths: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    """Values of these lengths, one after the other in ``data``."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return _binary(offsets, np.ascontiguousarray(data))


def _binary(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def contents(values: pa.LargeBinaryArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The lengths of values, and their bytes one after the other."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(values) + 1, values.offset * 8)
    everything = np.frombuffer(data or b"", np.uint8)
    return np.diff(bounds), everything[int(bounds[0]) : int(bounds[-1])]


def cut_to(values: pa.LargeBinaryArray, most: int) -> pa.LargeBinaryArray:
    return pc.binary_slice(values, 0, most) if len(values) else values


def to_comparables(values: pa.LargeBinaryArray, type_string: str) -> npt.NDArray[Any]:
    """
    The values as `puffin.values.column_bounds.comparable` has them, in an array that numpy compares.

    Numbers, dates and times are arrays of numbers. Decimals are unscaled Python integers, strings are their UTF-8
    bytes, which have the order of their code points; these are arrays of objects.
    """
    name = ValueType.parse(type_string).name
    if name in _NUMBERS:
        _, data = contents(values)
        numbers = data.view(_NUMBERS[name])
        return numbers.astype(np.bool_) if name == "boolean" else numbers
    found = np.empty(len(values), object)
    of_decimals = name == "decimal"
    found[:] = [int.from_bytes(v, "big", signed=True) if of_decimals else v for v in values.to_pylist()]
    return found


def serializer(type_string: str) -> Callable[[Any], bytes]:
    """A function from a value as `to_comparables` has it to its bytes."""
    name = ValueType.parse(type_string).name
    if name in _NUMBERS:
        return struct.Struct(_FORMATS[_NUMBERS[name]]).pack
    return unscaled_bytes if name == "decimal" else bytes
