"""Find Avro's values and join their bytes. All integers are signed, because numba mixes signed and unsigned badly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puffin.kernels import avro_values
from puffin.kernels.compiler import BYTES, INT64, INT64S, NEW_BYTES, NEW_INT64S, NONE, compiled

_TAKES = (INT64S, BYTES, INT64S, INT64S, NEW_INT64S, NEW_INT64S, INT64, NEW_INT64S, NEW_INT64S)

find_values = compiled(INT64, *_TAKES)(avro_values.find_values)


@compiled(NONE, BYTES, INT64S, INT64S, NEW_BYTES)
def gather_bytes(
    data: npt.NDArray[np.uint8],
    begins: npt.NDArray[np.int64],
    bounds: npt.NDArray[np.int64],
    gathered: npt.NDArray[np.uint8],
) -> None:
    """Copy string ``i`` from ``data[begins[i]]`` on to ``gathered[bounds[i]:bounds[i + 1]]``."""
    for i in range(len(begins)):
        begin, to = begins[i], bounds[i]
        for k in range(bounds[i + 1] - to):
            gathered[to + k] = data[begin + k]
