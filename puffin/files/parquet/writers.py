"""
Which writers put a value into a dictionary only if a row has it.

For those a dictionary page tells all values of a chunk; for all others we have to read the indices. These rules come
from files of each writer:

* parquet-mr drops dictionary entries of a page that fell back. But it also copies row groups of other writers
  under its own name (``appendFile``, ``ParquetRewriter``). So a chunk must list the encodings that parquet-mr
  lists, which differ from those of all others, and the file must not name an original writer.
* Arrow C++ writes the dictionary of a string or binary DictionaryArray whole, and collects any other from the
  rows. The file's ``ARROW:schema`` tells which it was; without it there is no trace.
* parquet-rs, also as delta-rs and DataFusion, collects that of a DictionaryArray from the rows too; but it does not
  promise to, so the rule is the same.
* DuckDB gives every member of an ENUM an entry, empty if no row has it, and collects the dictionary of any other
  type from the rows; an ENUM is always a BYTE_ARRAY.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as arrow_types

from puffin.files.data_file import Path
from puffin.files.parquet.parquet_footer import (
    BIT_PACKED,
    BYTE_ARRAY,
    PLAIN,
    PLAIN_DICTIONARY,
    RLE,
    RLE_DICTIONARY,
    ColumnChunk,
)
from puffin.values.plain_arrays import storage_type


@dataclass(frozen=True, slots=True)
class Writer:
    """What a file tells about its writer; ``keys`` are those of the footer's key-value metadata."""

    created_by: str
    keys: Collection[bytes]
    arrow_schema: pa.Schema | None

    @classmethod
    def of(cls, metadata: pq.FileMetaData) -> Writer:
        key_values: Mapping[bytes, bytes] = metadata.metadata or {}
        return cls(str(metadata.created_by), key_values.keys(), _arrow_schema(key_values))

    def stores_only_used_values(self, chunk: ColumnChunk) -> bool:
        """Whether each dictionary entry of a chunk certainly occurs in a row, and no two are equal."""
        rule = next((rule for name, rule in _RULES.items() if self.created_by.startswith(f"{name} version ")), None)
        return rule is not None and rule(self, chunk)

    def _by_parquet_mr(self, chunk: ColumnChunk) -> bool:
        return chunk.encodings in _PARQUET_MR_ENCODINGS and _ORIGINAL_CREATED_BY not in self.keys

    def _by_arrow(self, chunk: ColumnChunk) -> bool:
        written = None if self.arrow_schema is None else leaf_type(self.arrow_schema, chunk.leaf.path)
        return written is not None and not arrow_types.is_dictionary(written)

    def _by_duckdb(self, chunk: ColumnChunk) -> bool:
        return chunk.physical_type != BYTE_ARRAY


def leaf_type(schema: pa.Schema, path: Path) -> pa.DataType | None:
    """The type at the end of a path of structs, without extensions; None if there is none, or two."""
    found: pa.Schema | pa.DataType = schema
    for name in path:
        is_parent = isinstance(found, pa.Schema) or arrow_types.is_struct(found)
        index = found.get_field_index(name) if is_parent else -1
        if index < 0:
            return None
        found = storage_type(found.field(index).type)
    return found if isinstance(found, pa.DataType) else None


_ARROW_SCHEMA = b"ARROW:schema"
_ORIGINAL_CREATED_BY = b"original.created.by"
_PARQUET_MR_ENCODINGS = (
    frozenset((PLAIN_DICTIONARY, BIT_PACKED)),  # version 1 pages of a required leaf
    frozenset((PLAIN_DICTIONARY, BIT_PACKED, RLE)),  # of one with definition levels
    frozenset((PLAIN, RLE_DICTIONARY)),  # version 2 pages
)

_RULES: Mapping[str, Callable[[Writer, ColumnChunk], bool]] = {
    "parquet-mr": Writer._by_parquet_mr,
    **dict.fromkeys(("parquet-cpp-arrow", "parquet-rs", "delta-rs", "datafusion"), Writer._by_arrow),
    "DuckDB": Writer._by_duckdb,
}


def _arrow_schema(key_values: Mapping[bytes, bytes]) -> pa.Schema | None:
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(key_values[_ARROW_SCHEMA])))
    except (KeyError, ValueError, pa.ArrowException, OSError):
        return None
