"""
Hashes of tuples: one for each row of some columns.

The hash of a tuple is that of a sketch (`puffin.sketches.hashing`) over the hashes of its values, eight bytes each, the
lowest first. Null and the empty string, which have no hash, count as two more values: 2^63 and 2^63 + 1, which are
never hashes. So equal tuples of equally hashed types have equal hashes in every table, and the order of the columns
matters. A hash of a tuple is above 0 and below 2^63.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin.sketches.hash_arrays import Hashes
from puffin.sketches.hashing import hash_serialized
from puffin.values.encoders import order_of_decimals
from puffin.values.plain_arrays import MAY_BE_EMPTY, plain_array
from puffin.values.serialized import ByteStrings, Words, slice_rows
from puffin.values.single_value import single_values

NULL, EMPTY = 1 << 63, (1 << 63) + 1
"""Stand for values without a hash."""

_WORD = 8


def tuple_hashes(arrays: Sequence[pa.Array], types: Sequence[str]) -> Hashes:
    """The hash of each row of two or more arrays of one length; raises as `row_hashes`."""
    return hashes_of([row_hashes(array, type_) for array, type_ in zip(arrays, types, strict=True)])


def hashes_of(columns: Sequence[Hashes]) -> Hashes:
    """The hash of each tuple of the hashes of its values, two or more arrays of one length."""
    if len(columns) == 2:
        hashes = hash_serialized(Words(columns[0], columns[1], 2 * _WORD))
    else:
        data = np.stack(columns, axis=1).astype("<u8", copy=False).view(np.uint8).reshape(-1)
        hashes = hash_serialized(ByteStrings(data, np.arange(len(columns[0]) + 1) * (_WORD * len(columns))))
    return np.maximum(hashes, np.uint64(1))


def row_hashes(array: pa.Array, type_string: str) -> Hashes:
    """
    The hash of each row of a column in order, `NULL` or `EMPTY` for one without; arguments and errors are those of
    `puffin.values.single_value.single_values`.
    """
    plain = plain_array(array)
    if pa.types.is_null(plain.type):
        return np.full(len(plain), NULL, np.uint64)
    if isinstance(plain, pa.DictionaryArray):
        return _taken(row_hashes(plain.dictionary, type_string), plain.indices)
    if pa.types.is_boolean(plain.type):
        entries = np.concatenate([_in_order(pa.array([each]), type_string) for each in (False, True)])
        return _taken(entries, plain.cast(pa.int8()))
    found = np.full(len(plain), NULL, np.uint64)
    has_hash = plain.is_valid()
    if plain.type in MAY_BE_EMPTY:
        is_empty = pc.equal(pc.binary_length(plain), 0).fill_null(False)
        found[is_empty.to_numpy(zero_copy_only=False)] = EMPTY
        has_hash = pc.and_not(has_hash, is_empty)
    mask = has_hash.to_numpy(zero_copy_only=False)
    found[mask] = _in_order(plain if mask.all() else plain.filter(has_hash), type_string)
    return found


def _taken(entries: Hashes, indices: pa.Array) -> Hashes:
    """The entries at these indices, `NULL` for a null."""
    found: Hashes = np.append(entries, np.uint64(NULL))[indices.cast(pa.int64()).fill_null(len(entries)).to_numpy()]
    return found


def _in_order(values: pa.Array, type_string: str) -> Hashes:
    """The hashes of values, all of which have one."""
    found = np.empty(len(values), np.uint64)
    step = slice_rows()
    for start in range(0, max(len(values), 1), step):
        some = values.slice(start, step)
        parts = [hash_serialized(part) for part in single_values(some, type_string)]
        here = found[start : start + step]
        if len(parts) > 1:
            here[order_of_decimals(some, type_string)] = np.concatenate(parts)
        elif parts:
            here[:] = parts[0]
    return found
