"""
The size of values in binary single-value form (table spec, appendix D), without serializing them.

Most types have a fixed width. Strings and binaries take their own bytes, decimals as few as possible.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin.values.encoders import decimal_words
from puffin.values.unscaled import minimal_sizes, total_minimal_size
from puffin.values.value_type import TIMES, ValueType

_WIDTHS = {
    "boolean": 1,
    **dict.fromkeys(("int", "float", "date"), 4),
    **dict.fromkeys(("long", "double", *TIMES), 8),
    "uuid": 16,
}


def value_width(column: ValueType) -> int | None:
    """Bytes of every value of a type; None if the size varies."""
    return column.length if column.name == "fixed" else _WIDTHS.get(column.name)


def total_size(values: pa.Array, column: ValueType, rows: npt.NDArray[np.int64] | None = None) -> int:
    """
    The total bytes of the values of a plain array, of a type without a fixed width; nulls take nothing.

    ``rows`` gives the rows of each value, if not one each; then there are no nulls.
    """
    if column.name != "decimal":
        sizes = pc.binary_length(values)
        return (pc.sum(sizes).as_py() or 0) if rows is None else int(sizes.to_numpy() @ rows)
    if not (pa.types.is_decimal128(values.type) and values.type.scale == column.scale):
        values = values.cast(pa.decimal128(column.precision, column.scale))
    if rows is not None:
        return int(minimal_sizes(decimal_words(values)) @ rows)
    return total_minimal_size(decimal_words(values.drop_null()))
