"""
Values of CHAR columns of an ORC file without their padding.

Writers fill such values up with blanks to the length of the type. Java's reader, and with it Iceberg, Spark and Hive,
cuts off all blanks at the end, but pyarrow does not, and it calls these columns strings.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from puffin.files.orc.orc_footer import CHAR, STRUCT, Footer


def without_padding(array: pa.Array, number: int, footer: Footer) -> pa.Array:
    """The values of the column of this number, also those inside structs."""
    kind, inside = footer.types[number]
    if kind == CHAR:
        return pc.ascii_rtrim(array, " ")
    if kind != STRUCT or not inside:
        return array
    columns = [without_padding(of_one, at, footer) for of_one, at in zip(array.flatten(), inside, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(array.type), mask=array.is_null())
