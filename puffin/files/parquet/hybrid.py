"""
Count the numbers in RLE / bit-packing hybrid data, which encodes levels and dictionary indices, or unpack them.

The compiled kernel adds to counters as it goes, and never unpacks all values into an array. Without it numpy does the
same run by run, which is far slower if runs are short.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from puffin.kernels import kernels_ready
from puffin.values.serialized import words_at_every_byte

MAX_BIT_WIDTH = 32

_LANES = 8  # counters for one number: see the kernel
_FEW_NUMBERS = 1 << 9  # up to here the counters of all lanes stay in a processor's first cache
_SLICE = 1 << 14  # bit-packed values that numpy unpacks at a time
_MAX_HEADER_BYTES = 5


class HybridCounts:
    """Counters for the numbers from 0 up to, but not including, a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lanes = _LANES if limit <= _FEW_NUMBERS else 1
        self._counts = np.zeros(limit * self._lanes, np.int64)

    def add(self, data: bytes | memoryview, num_values: int, bit_width: int) -> None:
        """Count the values at the start of encoded data; ignores what follows them."""
        if bit_width > MAX_BIT_WIDTH:
            raise ValueError(f"expected at most {MAX_BIT_WIDTH} bits a value, found {bit_width}")
        if kernels_ready():
            self._add_compiled(data, num_values, bit_width)
        else:
            self._add_run_by_run(data, num_values, bit_width)

    def add_pages(self, words_at: npt.NDArray[np.uint64], spans: npt.NDArray[np.int64]) -> None:
        """Count the indices of pages, each with their width in front; ``spans`` is as the kernel wants it."""
        from puffin.kernels.page_values import count_indices

        if count_indices(words_at, spans, self._lanes, self._counts) < 0:
            raise ValueError(f"expected indices below {self._limit}")

    def totals(self) -> npt.NDArray[np.int64]:
        if self._lanes == 1:  # numpy adds up rows of one number slower than the kernel counts
            return self._counts
        totals: npt.NDArray[np.int64] = self._counts.reshape(self._limit, self._lanes).sum(axis=1)
        return totals

    def _add_compiled(self, data: bytes | memoryview, num_values: int, bit_width: int) -> None:
        from puffin.kernels.parquet import count_hybrid

        if count_hybrid(words_at_every_byte(data), num_values, bit_width, self._lanes, self._counts) < 0:
            raise ValueError(f"expected {num_values} values of {bit_width} bits below {self._limit}")

    def _add_run_by_run(self, data: bytes | memoryview, num_values: int, bit_width: int) -> None:
        for numbers, times in _runs(data, num_values, bit_width):
            self._add_numbers(numbers, times, bit_width)

    def _add_numbers(self, numbers: npt.NDArray[np.int64], times: int, bit_width: int) -> None:
        largest = int(numbers.max())
        if largest >= min(self._limit, 1 << bit_width):
            raise ValueError(f"expected numbers of {bit_width} bits below {self._limit}, found {largest}")
        np.add.at(self._counts, numbers * self._lanes, times)


def unpacked(data: bytes | memoryview, num_values: int, bit_width: int) -> npt.NDArray[np.int64]:
    """The values at the start of encoded data; ignores what follows them. ValueError if there are fewer."""
    if bit_width > MAX_BIT_WIDTH:
        raise ValueError(f"expected at most {MAX_BIT_WIDTH} bits a value, found {bit_width}")
    runs = [np.repeat(numbers, times) for numbers, times in _runs(data, num_values, bit_width)]
    return np.concatenate([np.empty(0, np.int64), *runs])


def _runs(data: bytes | memoryview, num_values: int, bit_width: int) -> Iterator[tuple[npt.NDArray[np.int64], int]]:
    """The values run by run: some numbers, and how often each of them comes."""
    at, left = 0, num_values
    while left > 0:
        header, at = _header(data, at)
        run = header >> 1
        is_packed = bool(header & 1)
        stop = at + (run * bit_width if is_packed else (bit_width + 7) // 8)
        if run == 0 or stop > len(data) or (run > left and not is_packed):
            raise ValueError(f"expected {left} values in the run before offset {at}, found another number of them")
        if is_packed:
            run = min(8 * run, left)
        if is_packed and bit_width > 0:
            for numbers in _packed(data[at:stop], run, bit_width):
                yield numbers, 1
        else:
            yield np.array([int.from_bytes(data[at:stop], "little")]), run
        at, left = stop, left - run


def _packed(packed: bytes | memoryview, num_values: int, bit_width: int) -> Iterator[npt.NDArray[np.int64]]:
    places = 1 << np.arange(bit_width)
    for first in range(0, num_values, _SLICE):
        values = min(_SLICE, num_values - first)
        groups = packed[first // 8 * bit_width : -(-(first + values) // 8) * bit_width]
        bits = np.unpackbits(np.frombuffer(groups, np.uint8), count=values * bit_width, bitorder="little")
        yield bits.reshape(values, bit_width) @ places


def _header(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + _MAX_HEADER_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError(f"expected the header of a run at offset {at}")
