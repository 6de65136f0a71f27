"""
The two forms in which serialized values travel from Arrow buffers to the hash.

Short values are words, because that is how the hash takes them in and nothing has to be laid out as bytes first. All
others are bytes and offsets, because that is how Arrow holds them already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.kernels import kernels_ready

WordArray: TypeAlias = npt.NDArray[np.uint64]

SLICE_ROWS = 1 << 14
COMPILED_SLICE_ROWS = 1 << 16


def slice_rows() -> int:
    """
    Rows worked on at a time, so that the arrays of that many words fit a processor's cache.

    Kernels make fewer of these than numpy, and between them threads wait for each other: Python runs one at a time.
    """
    return COMPILED_SLICE_ROWS if kernels_ready() else SLICE_ROWS


@dataclass(frozen=True, slots=True)
class Words:
    """
    Values of 1 to 16 bytes, each as little-endian words padded with zeros.

    Attributes:
        low: The first eight bytes of each value.
        high: The next eight bytes, or None when no value is longer than eight.
        length: Bytes per value: one number for all, or one per value where all are shorter than 16.
    """

    low: WordArray
    high: WordArray | None
    length: int | WordArray


@dataclass(frozen=True, slots=True)
class ByteStrings:
    """
    Values of any length, one behind the other.

    Attributes:
        data: The bytes.
        offsets: Ascending; value ``i`` is ``data[offsets[i]:offsets[i + 1]]``.
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]


SerializedValues: TypeAlias = Words | ByteStrings
