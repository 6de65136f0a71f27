"""CRC-32 of the rows of a segment, each seeded with the number of its block; short rows are computed side by side."""

from __future__ import annotations

import zlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Checksums: TypeAlias = npt.NDArray[np.uint32]

_LONG = 4096  # bytes of a row from which a call of zlib for each is faster
_ALL_ONES = np.uint32(0xFFFFFFFF)
_BYTE = np.uint32(0xFF)


def row_checksums(rows: npt.NDArray[np.uint8], first_block: int) -> Checksums:
    """``zlib.crc32(row, block)`` for each row of bytes, whose number is a multiple of four."""
    blocks = np.arange(first_block, first_block + len(rows), dtype=np.uint32)
    if rows.shape[1] >= _LONG:
        return np.array([zlib.crc32(row, block) for row, block in zip(rows, blocks.tolist(), strict=True)], np.uint32)
    checksums: Checksums = blocks ^ _ALL_ONES
    for word in np.ascontiguousarray(rows.view("<u4").T):
        mixed = checksums ^ word
        checksums = _TABLES[3][mixed & _BYTE] ^ _TABLES[2][(mixed >> np.uint32(8)) & _BYTE]
        checksums ^= _TABLES[1][(mixed >> np.uint32(16)) & _BYTE] ^ _TABLES[0][mixed >> np.uint32(24)]
    return checksums ^ _ALL_ONES


def _tables() -> list[Checksums]:
    """What a byte adds to a checksum when zero to three bytes follow it."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & np.uint32(1), (table >> np.uint32(1)) ^ np.uint32(0xEDB88320), table >> np.uint32(1))
    tables = [table]
    for _ in range(3):
        tables.append((tables[-1] >> np.uint32(8)) ^ table[tables[-1] & _BYTE])
    return tables


_TABLES = _tables()
