"""
The filter of a file from the Bloom filters that Parquet has for its row groups.

Folded to the smallest of their sizes, they merge to the filter that the values would give in that size. If it is within
the rate of false positives, folding it on gives the very filter that reading the values would. Otherwise that one is
larger, and the values have to be read.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from puffin.errors import CorruptError
from puffin.index.bloom import BloomFilter


def lifted(bitsets: Sequence[bytes], fpp: float) -> BloomFilter | None:
    """
    The filter that a file's values give with this rate of false positives; None if these bitsets are too small for it.

    There is at least one bitset.
    """
    try:
        merged = functools.reduce(BloomFilter.merge, map(BloomFilter.from_bytes, bitsets))
    except CorruptError:
        return None
    return merged.folded(fpp) if merged.false_positive_rate() <= fpp else None
