"""
The two forms of serialized values between Arrow buffers and the hash.

Short values are words, which the hash takes directly. All others are bytes and offsets, which is how Arrow holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from puffin.kernels import kernels_ready

WordArray: TypeAlias = npt.NDArray[np.uint64]
_Number = TypeVar("_Number", bound=np.generic)

SLICE_ROWS = 1 << 14
COMPILED_SLICE_ROWS = 1 << 17


def slice_rows() -> int:
    """
    Rows to process at a time, so that arrays of this many words fit into a processor's cache.

    Kernels use longer slices than numpy: threads wait for each other between slices, because Python runs one at a time.
    """
    return COMPILED_SLICE_ROWS if kernels_ready() else SLICE_ROWS


@dataclass(frozen=True, slots=True)
class Words:
    """
    Values of 1 to 16 bytes, each as little-endian words padded with zeros.

    Attributes:
        low: The first eight bytes of each value.
        high: The next eight bytes; None if no value has more than eight.
        length: Bytes per value: one number for all, or one per value. Hashing takes those only if all are below 16.
    """

    low: WordArray
    high: WordArray | None
    length: int | WordArray


@dataclass(frozen=True, slots=True)
class ByteStrings:
    """Values of any length, one after the other: value ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]


SerializedValues: TypeAlias = Words | ByteStrings


def for_kernel(numbers: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Contiguous and at addresses that kernels expect; mostly the same array."""
    flags = numbers.flags
    return numbers if flags.c_contiguous and flags.aligned else np.require(numbers, requirements=["C", "A"])


def words_at(data: Any) -> WordArray:
    """A little-endian word at every byte of a buffer with seven more bytes after it; nothing is copied."""
    return np.ndarray((max(0, len(data) - 7),), np.uint64, data, strides=(1,))


def words_at_every_byte(data: bytes | memoryview) -> WordArray:
    """The little-endian word at each byte and at the end, padded with zeros."""
    return words_at(b"".join((data, bytes(8))))
