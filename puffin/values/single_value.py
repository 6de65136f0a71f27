"""
Serialize columns to the bytes of appendix D ("binary single-value serialization"), straight from Arrow buffers.

No value becomes a Python object. This module reduces columns of any encoding to plain arrays without nulls, in slices
that fit a processor's cache, so copies stay small. For a dictionary-encoded chunk it serializes only the entries that
the indices use, since a dictionary may hold values that no row has. `puffin.values.encoders` knows the bytes of each
type.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from puffin.values.encoders import Encoder, choose_encoder
from puffin.values.plain_arrays import storage_of, type_of_values, without_views
from puffin.values.serialized import SerializedValues, slice_rows
from puffin.values.value_type import ValueType


def single_values(array: pa.Array | pa.ChunkedArray, type_string: str) -> Iterator[SerializedValues]:
    """
    Serialize the non-null values of a column (table spec, appendix D) in slices.

    The order may change, and repetitions may disappear.

    Args:
        array: Plain, chunked, dictionary-encoded, view or extension array.
        type_string: The appendix C type of the table's column, which may be wider than the array's type.

    Raises:
        UnsupportedTypeError: The column type has no single-value bytes.
        CorruptDataFileError: The array cannot hold values of the column type.
    """
    encode = choose_encoder(ValueType.parse(type_string), type_of_values(array.type))
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    return (values for chunk in chunks for values in _encode_chunk(chunk, encode))


def _encode_chunk(chunk: pa.Array, encode: Encoder) -> Iterator[SerializedValues]:
    plain = _plain_array(chunk)
    rows = slice_rows()
    for start in range(0, len(plain), rows):
        present = without_views(plain.slice(start, rows))
        if present.null_count > 0:
            present = present.drop_null()
        if len(present) > 0:
            yield from encode(present)


def _plain_array(array: pa.Array) -> pa.Array:
    stored = storage_of(array)
    if isinstance(stored, pa.DictionaryArray):
        return _plain_array(stored.dictionary.take(stored.indices.unique().drop_null()))
    return stored
