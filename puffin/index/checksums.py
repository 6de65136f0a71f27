"""CRC-32 of the rows of a segment, each seeded with the number of its block; short rows are computed side by side."""

from __future__ import annotations

import zlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.kernels import kernels_ready

CRC_BYTES = 4

_Words: TypeAlias = npt.NDArray[np.uint32]
_LONG = 1024  # words of a row from which a call of zlib for each is faster
_ALL_ONES = np.uint32(0xFFFFFFFF)
_BYTE = np.uint32(0xFF)


def row_checksums(rows: _Words, first_block: int) -> _Words:
    """``zlib.crc32(row, block)`` of each row without its last word, where the checksum stands; rows are contiguous."""
    blocks = np.arange(first_block, first_block + len(rows), dtype=np.uint32)
    if rows.shape[1] > _LONG:
        pairs = zip(rows, blocks.tolist(), strict=True)
        return np.array([zlib.crc32(row[:-1], block) for row, block in pairs], np.uint32)
    if kernels_ready():
        from puffin.kernels import crc32

        return crc32.row_checksums(rows.ravel(), rows.shape[1], first_block, _TABLES.ravel())
    checksums: _Words = blocks ^ _ALL_ONES
    for word in np.ascontiguousarray(rows[:, :-1].T):
        mixed = checksums ^ word
        checksums = _TABLES[3][mixed & _BYTE] ^ _TABLES[2][(mixed >> np.uint32(8)) & _BYTE]
        checksums ^= _TABLES[1][(mixed >> np.uint32(16)) & _BYTE] ^ _TABLES[0][mixed >> np.uint32(24)]
    return checksums ^ _ALL_ONES


def _tables() -> _Words:
    """What a byte adds to a checksum when zero to three bytes follow it, as four tables."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & np.uint32(1), (table >> np.uint32(1)) ^ np.uint32(0xEDB88320), table >> np.uint32(1))
    tables = [table]
    for _ in range(3):
        tables.append((tables[-1] >> np.uint32(8)) ^ table[tables[-1] & _BYTE])
    return np.stack(tables)


_TABLES = _tables()
