"""Avro's values found, and their bytes put one behind the other. Integers are signed throughout: numba mixes badly."""

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
    """
    Copy strings to where they stand one behind the other in ``gathered``.

    ``begins`` is where in the data each begins, ``bounds`` where in the result, and where the last one ends.
    """
    for i in range(len(begins)):
        begin, to = begins[i], bounds[i]
        for k in range(bounds[i + 1] - to):
            gathered[to + k] = data[begin + k]
