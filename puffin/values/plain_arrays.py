"""
Unwrap Arrow arrays down to their plain values, and their types likewise.

Extension types and views are layouts of the same values. Arrow neither filters nor compares views, and several buffers
hold a view's bytes. Durations are integers to table formats, which have no type for them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MAY_BE_EMPTY = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
"""The types of plain arrays whose values may have no bytes."""


def storage_of(array: pa.Array) -> pa.Array:
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array.view(pa.int64()) if pa.types.is_duration(array.type) else array


def storage_type(arrow_type: pa.DataType) -> pa.DataType:
    while isinstance(arrow_type, pa.BaseExtensionType):
        arrow_type = arrow_type.storage_type
    return pa.int64() if pa.types.is_duration(arrow_type) else arrow_type


def type_of_values(arrow_type: pa.DataType) -> pa.DataType:
    """The type without extensions; of a dictionary, that of its entries."""
    stored = storage_type(arrow_type)
    return type_of_values(stored.value_type) if pa.types.is_dictionary(stored) else stored


def plain_array(array: pa.Array) -> pa.Array:
    """The stored array in a layout that Arrow filters and compares; a dictionary array stays one."""
    return without_views(storage_of(array))


def rows_of_entries(array: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    """The rows of each entry of the dictionary."""
    indices, nulls = array.indices, array.indices.null_count
    if nulls == len(indices):
        return np.zeros(len(array.dictionary), np.int64)
    # Counting nulls as the first entry and subtracting them is faster than filtering them.
    positions = indices.fill_null(0).to_numpy().astype(np.int64, copy=False)
    rows = np.bincount(positions, minlength=len(array.dictionary))
    rows[0] -= nulls
    return rows


def comparable_array(array: pa.Array) -> pa.Array:
    """The plain array in a type that Arrow can order, which excludes short decimals."""
    plain = plain_array(array)
    if pa.types.is_decimal32(plain.type) or pa.types.is_decimal64(plain.type):
        return plain.cast(pa.decimal128(plain.type.precision, plain.type.scale))
    return plain


def without_views(array: pa.Array) -> pa.Array:
    """Copy the strings or bytes of a view; return any other array as it is."""
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(array.type) else array
