"""
Arrow arrays without what stands between a type and its values.

Extension types and views are layouts of the same values. Arrow does not filter views, nor compare them, and a view's
bytes are in many buffers.
"""

from __future__ import annotations

import pyarrow as pa


def storage_of(array: pa.Array) -> pa.Array:
    """The array as it is stored, whatever extension types it is wrapped in."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array


def plain_array(array: pa.Array) -> pa.Array:
    """The array as it is stored, in a layout that Arrow filters and compares; a dictionary array stays one."""
    return without_views(storage_of(array))


def comparable_array(array: pa.Array) -> pa.Array:
    """The plain array, in a type that Arrow has an order for: it has none for short decimals."""
    plain = plain_array(array)
    if pa.types.is_decimal32(plain.type) or pa.types.is_decimal64(plain.type):
        return plain.cast(pa.decimal128(plain.type.precision, plain.type.scale))
    return plain


def without_views(array: pa.Array) -> pa.Array:
    """The array itself, or what a view of strings or of bytes sees."""
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(array.type) else array
