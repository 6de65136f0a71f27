"""CRC-32 of many short rows of words; `puffin.index.checksums` has it in numpy."""

from __future__ import annotations

import numpy as np

from puffin.kernels.compiler import INT64, NEW_UINT32S, UINT32S, Uint32s, compiled

_U32 = np.uint32
_ONES, _BYTE = _U32(0xFFFFFFFF), _U32(0xFF)


@compiled(NEW_UINT32S, UINT32S, INT64, INT64, UINT32S)
def row_checksums(words: Uint32s, per_row: int, first_block: int, tables: Uint32s) -> Uint32s:
    """The checksum of all words but the last of each row, which has ``per_row``; ``tables`` are four of 256."""
    found = np.empty(len(words) // per_row, np.uint32)
    for row in range(len(found)):
        checksum = _U32(first_block + row) ^ _ONES
        for i in range(row * per_row, (row + 1) * per_row - 1):
            mixed = checksum ^ words[i]
            checksum = (
                tables[np.int64(_U32(768) + (mixed & _BYTE))]
                ^ tables[np.int64(_U32(512) + ((mixed >> _U32(8)) & _BYTE))]
                ^ tables[np.int64(_U32(256) + ((mixed >> _U32(16)) & _BYTE))]
                ^ tables[np.int64(mixed >> _U32(24))]
            )
        found[row] = checksum ^ _ONES
    return found
