"""
Hash Arrow arrays and count the rows of each hash.

`puffin.sketches.hashing.hash_array` may return one hash for many rows. This module also counts the rows. A plain array
gives one hash for each row anyway. For a dictionary-encoded or boolean array, this module counts the indices and hashes
each entry once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin.errors import UsageError
from puffin.sketches.hash_arrays import Hashes, Rows
from puffin.sketches.hashing import hash_serialized
from puffin.values.encoders import order_of_decimals
from puffin.values.plain_arrays import MAY_BE_EMPTY, plain_array, rows_of_entries
from puffin.values.serialized import ByteStrings, SerializedValues, slice_rows
from puffin.values.single_value import single_values


class Hashed(NamedTuple):
    """Hashes of some values, the rows of each (None for one row each), and the serialized values in the same order."""

    hashes: Hashes
    rows: Rows | None
    values: SerializedValues


def hash_rows(array: pa.Array | pa.ChunkedArray, type_string: str) -> Iterator[Hashed]:
    """Hash a column in slices and count every row; arguments and errors are those of `hash_array`."""
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        plain = plain_array(chunk)
        if isinstance(plain, pa.DictionaryArray):
            yield from hash_counted(plain.dictionary, rows_of_entries(plain), type_string)
        elif pa.types.is_boolean(plain.type):
            rows = np.array([plain.false_count, plain.true_count])
            yield from hash_counted(pa.array([False, True]), rows, type_string)
        else:
            yield from (Hashed(hashes, None, values) for hashes, values in _hash_array(plain, type_string))


def hash_counted(values: pa.Array, rows: Rows, type_string: str) -> Iterator[Hashed]:
    """
    Hash values whose row counts are known, in slices: ``rows`` is int64, 0 or more for each value.

    Errors are those of `hash_array`, and UsageError if ``rows`` has another type or shape or a negative count.
    """
    if rows.dtype != np.int64 or rows.shape != (len(values),) or (rows < 0).any():
        raise UsageError(f"rows: expected {len(values)} int64 from 0 on, found {rows.dtype} of shape {rows.shape}")
    values = plain_array(values)
    if isinstance(values, pa.DictionaryArray):
        values, rows = _entries(values, rows)
    if pa.types.is_boolean(values.type):  # `hash_array` would drop repetitions
        values, rows = _entries(values.dictionary_encode(), rows)
    values, rows = _with_hash(values, rows)
    # Even without values there is one slice, which checks the types.
    step = slice_rows()
    for start in range(0, max(len(values), 1), step):
        yield from _hash_slice(values.slice(start, step), rows[start : start + step], type_string)


def _hash_slice(values: pa.Array, rows: Rows, type_string: str) -> Iterator[Hashed]:
    parts = list(_hash_array(values, type_string))
    if len(parts) > 1:
        rows = rows[order_of_decimals(values, type_string)]
    start = 0
    for hashes, of_part in parts:
        stop = start + len(hashes)
        yield Hashed(hashes, rows[start:stop], of_part)
        start = stop


def _hash_array(array: pa.Array, type_string: str) -> Iterator[tuple[Hashes, SerializedValues]]:
    for values in single_values(array, type_string):
        hashes = hash_serialized(values)
        if isinstance(values, ByteStrings) and len(values.offsets) > len(hashes) + 1:
            values = _without_empty(values)
        yield hashes, values


def _without_empty(values: ByteStrings) -> ByteStrings:
    is_kept = values.offsets[1:] > values.offsets[:-1]
    return ByteStrings(values.data, np.append(values.offsets[:-1][is_kept], values.offsets[-1]))


def _entries(array: pa.DictionaryArray, rows: Rows) -> tuple[pa.Array, Rows]:
    """Each entry of a dictionary once, with the sum of its rows."""
    totals = np.zeros(len(array.dictionary), np.int64)
    np.add.at(totals, array.indices.drop_null().to_numpy(), rows[_mask(array.indices.is_valid())])
    return plain_array(array.dictionary), totals


def _with_hash(values: pa.Array, rows: Rows) -> tuple[pa.Array, Rows]:
    """Keep the values that have both rows and a hash."""
    is_kept = rows > 0
    if values.null_count > 0:
        is_kept &= _mask(values.is_valid())
    if values.type in MAY_BE_EMPTY:
        is_kept &= pc.binary_length(values).fill_null(0).to_numpy() > 0
    return (values, rows) if is_kept.all() else (values.filter(pa.array(is_kept)), rows[is_kept])


def _mask(booleans: pa.Array) -> npt.NDArray[np.bool_]:
    return booleans.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
