"""Find Avro's values and join their bytes. All integers are signed, because numba mixes signed and unsigned badly."""

from __future__ import annotations

from puffin.kernels import avro_values
from puffin.kernels.compiler import BYTES, INT64, INT64S, NEW_BYTES, NEW_INT64S, NONE, Bytes, Int64s, compiled

_TAKES = (INT64S, BYTES, INT64S, INT64S, NEW_INT64S, NEW_INT64S, INT64, NEW_INT64S, NEW_INT64S)

find_values = compiled(INT64, *_TAKES)(avro_values.find_values)


@compiled(NONE, BYTES, INT64S, INT64S, NEW_BYTES)
def gather_bytes(
    data: Bytes,
    begins: Int64s,
    bounds: Int64s,
    gathered: Bytes,
) -> None:
    """Copy string ``i`` from ``data[begins[i]]`` on to ``gathered[bounds[i]:bounds[i + 1]]``."""
    for i in range(len(begins)):
        begin, to = begins[i], bounds[i]
        for k in range(bounds[i + 1] - to):
            gathered[to + k] = data[begin + k]
