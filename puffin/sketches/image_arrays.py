"""
The numpy side of sketch images: sorting, unpacking, byte planes, and finding a hash that breaks a rule.

Hashes are read-only memory of 64-bit words, as in `puffin.sketches.theta_image`. Nothing here raises: the images add
offsets and messages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_UNPACK_ROWS = 1 << 13  # a multiple of 8, so that every slice of packed numbers begins at a byte


def first_outside(hashes: memoryview, theta: int) -> int | None:
    """The index of the first hash that is zero, or not below theta."""
    values = np.frombuffer(hashes, np.uint64)
    return _first((values == 0) | (values >= np.uint64(theta)))


def first_not_above_the_one_before(hashes: memoryview) -> int | None:
    """The index of the first hash that does not exceed its predecessor."""
    values = np.frombuffer(hashes, np.uint64)
    index = _first(values[1:] <= values[:-1])
    return None if index is None else index + 1


def ascending(hashes: memoryview) -> memoryview:
    return _read_only(np.sort(np.frombuffer(hashes, np.uint64)))


def running_sums(packed: memoryview, count: int, width: int) -> memoryview:
    """The sums of the first 1, 2, ... ``count`` numbers, packed ``width`` bits each, most significant bit first."""
    data = np.frombuffer(packed, np.uint8)
    numbers = np.empty(count, np.uint64)
    for start in range(0, count, _UNPACK_ROWS):
        rows = min(_UNPACK_ROWS, count - start)
        bits = np.zeros((rows, 64), np.uint8)
        bits[:, 64 - width :] = np.unpackbits(data[start * width // 8 :], count=rows * width).reshape(rows, width)
        numbers[start : start + rows] = np.packbits(bits).view(">u8")
    return _read_only(np.cumsum(numbers, dtype=np.uint64))


def to_planes(numbers: npt.NDArray[Any]) -> bytes:
    """Write the lowest bytes of all little-endian numbers, then their second bytes, up to their highest."""
    return numbers.view(np.uint8).reshape(-1, numbers.itemsize).T.tobytes()


def from_planes(planes: memoryview, width: int) -> npt.NDArray[Any]:
    """Undo `to_planes` for numbers of ``width`` bytes."""
    bytes_of_each = np.ascontiguousarray(np.frombuffer(planes, np.uint8).reshape(width, -1).T)
    return bytes_of_each.view(f"<u{width}").reshape(-1)


def _first(broken: npt.NDArray[np.bool_]) -> int | None:
    return int(broken.argmax()) if broken.any() else None


def _read_only(values: npt.NDArray[Any]) -> memoryview:
    values.setflags(write=False)
    return values.data
