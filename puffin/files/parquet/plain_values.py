"""
Decode plain-encoded values to Arrow arrays, for types that Arrow stores in (nearly) the same bytes.

::

    number, fixed bytes:   as Arrow has it                  ┐
    decimal in a number:   the low half of Arrow's number   │ one value after the other
    byte array:            length, 4 bytes │ the bytes      ┘

pyarrow decodes all of them too, but only from a file, and opening one takes at least a tenth of a millisecond, even in
memory. In that time Python decodes some hundred byte arrays one by one; more of them are left to pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as arrow_types

from puffin.files.parquet.parquet_footer import BYTE_ARRAY, DOUBLE, FIXED_LEN_BYTE_ARRAY, FLOAT, INT32, INT64

Decoder: TypeAlias = Callable[[bytes, int, pa.DataType], pa.Array]
"""Decodes bytes, by the number of values and the Arrow type; ValueError if the size is wrong."""

MAX_BYTE_ARRAYS = 256

SAME_IN_MEMORY: dict[int, tuple[Callable[[pa.DataType], bool], ...]] = {
    INT32: (arrow_types.is_int32, arrow_types.is_date32, arrow_types.is_time32),
    INT64: (arrow_types.is_int64, arrow_types.is_timestamp, arrow_types.is_time64),
    FLOAT: (arrow_types.is_float32,),
    DOUBLE: (arrow_types.is_float64,),
    FIXED_LEN_BYTE_ARRAY: (arrow_types.is_fixed_size_binary,),
}
NUMBERS: dict[int, np.dtype[Any]] = {INT32: np.dtype("<i4"), INT64: np.dtype("<i8")}
LENGTH_SIZE = 4  # of the length before each byte array


def plain_decoder(physical_type: int, arrow_type: pa.DataType, count: int) -> Decoder | None:
    """The decoder for ``count`` values of a physical type; None if pyarrow is better."""
    if any(test(arrow_type) for test in SAME_IN_MEMORY.get(physical_type, ())):
        return _same_in_memory
    if physical_type in NUMBERS and arrow_types.is_decimal128(arrow_type):
        return partial(_decimals, stored=NUMBERS[physical_type])
    is_text = arrow_types.is_string(arrow_type) or arrow_types.is_binary(arrow_type)
    return _byte_arrays if physical_type == BYTE_ARRAY and is_text and count <= MAX_BYTE_ARRAYS else None


def _same_in_memory(content: bytes, count: int, arrow_type: pa.DataType) -> pa.Array:
    _check_size(content, count * arrow_type.byte_width)
    return pa.Array.from_buffers(arrow_type, count, [None, pa.py_buffer(content)])


def _decimals(content: bytes, count: int, arrow_type: pa.DataType, stored: np.dtype[Any]) -> pa.Array:
    _check_size(content, count * stored.itemsize)
    return decimals_of(np.frombuffer(content, stored), arrow_type)


def decimals_of(numbers: npt.NDArray[Any], arrow_type: pa.DataType) -> pa.Array:
    """Decimals of unscaled numbers."""
    halves = np.empty((len(numbers), 2), np.int64)
    halves[:, 0] = numbers
    halves[:, 1] = halves[:, 0] >> 63
    return pa.Array.from_buffers(arrow_type, len(numbers), [None, pa.py_buffer(halves)])


def _byte_arrays(content: bytes, count: int, arrow_type: pa.DataType) -> pa.Array:
    values, at = [], 0
    for _ in range(count):
        begin = at + LENGTH_SIZE
        at = begin + int.from_bytes(content[at:begin], "little")
        values.append(content[begin:at])
    _check_size(content, at)  # a truncated value has moved past the end
    return pa.array(values, pa.binary()).view(arrow_type)


def _check_size(content: bytes, size: int) -> None:
    if len(content) != size:
        raise ValueError(f"expected plain values of {size} bytes, found {len(content)}")
