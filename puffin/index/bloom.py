"""
Split-block Bloom filters, byte for byte those of the Parquet format ("Bloom Filter").

A filter has a power of two of blocks. Two filters of one size merge by OR. A filter of half the size is the OR of
neighbouring blocks, exactly as if it had been built so; that is how a filter built for all rows of a file shrinks to
what its distinct values need. The chance of a false positive is counted from the bits, so equal values give equal
filters whatever their order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from puffin.errors import CorruptError
from puffin.kernels import kernels_ready
from puffin.values.serialized import WordArray

BLOCK_BYTES = 32
WORDS = 8
MOST_LG_BLOCKS = 22  # 128 MiB, the largest filter in Parquet

SALTS = np.array(
    (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31), np.uint32
)
_HEADROOM = 1.25  # blocks fill unevenly, so they need more bits than the formula for one of average load

Bits = npt.NDArray[np.uint32]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BloomFilter:
    """A filter as an array of blocks by eight words."""

    blocks: Bits

    @classmethod
    def from_bytes(cls, data: bytes) -> BloomFilter:
        """Read the bitset of a filter; CorruptError if its size is not a power of two of blocks."""
        count, rest = divmod(len(data), BLOCK_BYTES)
        if rest or count < 1 or count & (count - 1):
            raise CorruptError(f"expected a power of two of {BLOCK_BYTES}-byte blocks, found {len(data)} bytes")
        return cls(np.frombuffer(data, "<u4").reshape(-1, WORDS))

    def to_bytes(self) -> bytes:
        return self.blocks.astype("<u4", copy=False).tobytes()

    @property
    def lg_blocks(self) -> int:
        return len(self.blocks).bit_length() - 1

    def false_positive_rate(self) -> float:
        """The chance that a value which was not inserted seems to be there."""
        shares = _bits_of(self.blocks) / 32
        return float(np.prod(shares, axis=1).mean())

    def halved(self) -> BloomFilter:
        return BloomFilter(self.blocks[0::2] | self.blocks[1::2])

    def folded(self, fpp: float) -> BloomFilter:
        """The smallest filter of the same values with at most this rate of false positives."""
        filter_ = self
        while len(filter_.blocks) > 1 and (half := filter_.halved()).false_positive_rate() <= fpp:
            filter_ = half
        return filter_

    def merge(self, other: BloomFilter) -> BloomFilter:
        """The filter of the values of both, in the smaller of their sizes."""
        one, two = self, other
        while one.lg_blocks > two.lg_blocks:
            one = one.halved()
        while two.lg_blocks > one.lg_blocks:
            two = two.halved()
        return BloomFilter(one.blocks | two.blocks)


class BloomFilterBuilder:
    """Takes hashes of the values in up to ``rows`` rows, in a filter that has room for all of them."""

    def __init__(self, rows: int, fpp: float) -> None:
        self._lg_blocks = lg_blocks_for(rows, fpp)
        self._words: Bits = np.zeros(WORDS << self._lg_blocks, np.uint32)

    def update(self, slices: Iterable[WordArray]) -> None:
        for hashes in slices:
            self._insert(hashes)

    def compact(self) -> BloomFilter:
        return BloomFilter(self._words.reshape(-1, WORDS))

    def _insert(self, hashes: WordArray) -> None:
        if kernels_ready():
            from puffin.kernels.bloom import insert

            insert(self._words.view(np.uint64), np.ascontiguousarray(hashes), np.uint64(32 - self._lg_blocks))
        else:
            blocks = self._words.reshape(-1, WORDS)
            np.bitwise_or.at(blocks, block_numbers(hashes, self._lg_blocks), masks(hashes))


def lg_blocks_for(values: int, fpp: float) -> int:
    """Base-2 logarithm of the blocks that so many distinct values need for a rate of false positives."""
    bits = -WORDS * max(values, 1) / math.log1p(-(fpp ** (1 / WORDS))) * _HEADROOM
    return min(max(math.ceil(math.log2(bits / (BLOCK_BYTES * 8))), 0), MOST_LG_BLOCKS)


def block_numbers(hashes: WordArray, lg_blocks: int) -> npt.NDArray[np.int64]:
    """The block of each hash: its high 32 bits, scaled to the number of blocks."""
    return (hashes >> np.uint64(64 - lg_blocks)).astype(np.int64) if lg_blocks else np.zeros(len(hashes), np.int64)


def masks(hashes: WordArray) -> Bits:
    """The bits that each hash sets in its block, as rows of eight words."""
    keys = hashes.astype(np.uint32)[:, None]
    return np.uint32(1) << ((keys * SALTS) >> np.uint32(27))


def has_all(blocks: Bits, mask: Bits) -> npt.NDArray[np.bool_]:
    """Which blocks have all bits of a mask, or of one each; takes words in pairs, since numpy is slow in short rows."""
    pairs, wanted = blocks.view("<u8"), mask.astype("<u4").view("<u8")
    each = ((pairs[:, i], wanted[..., i]) for i in range(wanted.shape[-1]))
    found: npt.NDArray[np.bool_] = np.logical_and.reduce([pair & bits == bits for pair, bits in each])
    return found


def _bits_of(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    """How many bits are set in each word."""
    counts: npt.NDArray[np.float64]
    if hasattr(np, "bitwise_count"):  # since numpy 2.0
        counts = np.bitwise_count(words).astype(np.float64)
    else:
        counts = np.unpackbits(words.view(np.uint8)).reshape(*words.shape, 32).sum(axis=-1, dtype=np.float64)
    return counts
