"""
How the values of each column chunk are best found: on its dictionary page, through its indices, or in full.

A chunk that is dictionary-encoded throughout has each value once, on its first page. But a dictionary may hold values
that no row has, and those must not be counted. So the page alone is enough only under writers known to store none;
under any other the indices are read as well. What is known was measured on files that each of them wrote:

* parquet-mr drops what a page that fell back left in the dictionary. But it also copies row groups of other writers
  under its own name (``appendFile``, ``ParquetRewriter``), so a chunk must list the encodings that parquet-mr lists,
  in which each of the others differs, and the file must not name an original writer.
* Arrow C++ writes the dictionary of a string or binary DictionaryArray whole, and collects that of anything else from
  the rows. The file's ``ARROW:schema`` tells which it was; without it there is no trace.
* parquet-rs, also as delta-rs and DataFusion, collects that of a DictionaryArray from the rows too; since nothing
  promises it, the rule is the same.
* DuckDB gives every member of an ENUM an entry, and collects the dictionary of any other type from the rows; an ENUM
  is always a BYTE_ARRAY.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as arrow_types

from puffin.errors import CorruptDataFileError
from puffin.tables.parquet_dictionary import has_readable_dictionary, read_dictionary_page
from puffin.tables.parquet_footer import (
    BIT_PACKED,
    BYTE_ARRAY,
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    OPTIONAL,
    PLAIN,
    PLAIN_DICTIONARY,
    REQUIRED,
    RLE,
    RLE_DICTIONARY,
    ColumnChunk,
    read_footer,
)

Path = tuple[str, ...]
"""The names of a leaf in its file, from the root."""

MAX_BYTES_AS_DICTIONARY = 256 * 1024
"""The largest page for `Route.READ_AS_DICTIONARY`: every batch of rows carries the whole dictionary."""


class Route(Enum):
    """A way to the values of a column chunk."""

    DICTIONARY_PAGE = auto()
    """`ChunkPlan.dictionary_values`: the dictionary page alone."""

    READ_AS_DICTIONARY = auto()
    """The column by pyarrow's ``read_dictionary``: a dictionary, and indices that tell which of it is used."""

    PLAIN = auto()
    """The column as it is."""


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """
    The way to the values of one column chunk.

    Attributes:
        chunk: None if nothing is known of it; then the route is plain.
        arrow_type: What pyarrow reads the column as, extensions as what they are stored as; None if it is no leaf.
    """

    route: Route
    chunk: ColumnChunk | None
    arrow_type: pa.DataType | None

    def dictionary_values(self, source: pa.NativeFile) -> pa.Array | None:
        """
        The distinct values of the chunk, read from its dictionary page.

        Returns:
            None if this is not the route, or if the page turns out odd: then read the column as it is.

        Raises:
            OSError: The file cannot be read.
        """
        if self.route is not Route.DICTIONARY_PAGE or self.chunk is None:
            return None
        return read_dictionary_page(source, self.chunk, self.arrow_type)


class ChunkPlanner:
    """
    Plans the chunks of one file. A footer that cannot be understood is no error: everything is plain then.

    Args:
        metadata: The file's footer as pyarrow read it.
        schema: The file's schema as pyarrow reads it (``ParquetFile.schema_arrow``).
    """

    def __init__(self, metadata: pq.FileMetaData, schema: pa.Schema) -> None:
        self._schema = schema
        key_values: Mapping[bytes, bytes] = metadata.metadata or {}
        self._writer = _Writer(str(metadata.created_by), key_values.keys(), _arrow_schema(key_values))
        try:
            row_groups = read_footer(metadata)
        except CorruptDataFileError:
            row_groups = ()
        self._row_groups = [{chunk.path: chunk for chunk in group if chunk is not None} for group in row_groups]

    def plan(self, row_group: int, paths: Iterable[Path], *, every_row: bool) -> dict[Path, ChunkPlan]:
        """
        Plan leaves of a row group; a path that leads to no leaf is plain, and so is one that leads to two.

        Args:
            every_row: Whether every row of the group counts: none is deleted, none is filtered out.
        """
        chunks = self._row_groups[row_group] if row_group < len(self._row_groups) else {}
        return {path: self._plan(chunks.get(path), _leaf_type(self._schema, path), every_row) for path in paths}

    def _plan(self, chunk: ColumnChunk | None, arrow_type: pa.DataType | None, every_row: bool) -> ChunkPlan:
        route = Route.PLAIN
        if chunk is not None and arrow_type is not None and _is_dictionary_encoded(chunk):
            if every_row and has_readable_dictionary(chunk) and self._writer.stores_only_used_values(chunk):
                route = Route.DICTIONARY_PAGE
            elif _pays_as_dictionary(chunk, arrow_type):
                route = Route.READ_AS_DICTIONARY
        return ChunkPlan(route, chunk, arrow_type)


# --- chunks -------------------------------------------------------------------------------------------------------

_DICTIONARY_ENCODINGS = frozenset((PLAIN_DICTIONARY, RLE_DICTIONARY))


def _is_dictionary_encoded(chunk: ColumnChunk) -> bool:
    """Whether there is one dictionary page and every data page, of which there are some, holds indices into it."""
    dictionary_pages = [stats for stats in chunk.encoding_stats if stats.page_type == DICTIONARY_PAGE]
    data_pages = [stats for stats in chunk.encoding_stats if stats.page_type != DICTIONARY_PAGE]
    return (
        chunk.repetition_type in (REQUIRED, OPTIONAL)
        and [stats.count for stats in dictionary_pages] == [1]
        and len(data_pages) > 0
        and all(stats.page_type in (DATA_PAGE, DATA_PAGE_V2) for stats in data_pages)
        and all(stats.encoding in _DICTIONARY_ENCODINGS for stats in data_pages)
    )


def _pays_as_dictionary(chunk: ColumnChunk, arrow_type: pa.DataType) -> bool:
    # pyarrow reads any other type as it is, and says nothing.
    tests = (arrow_types.is_string, arrow_types.is_binary, arrow_types.is_large_string, arrow_types.is_large_binary)
    is_text = chunk.physical_type == BYTE_ARRAY and any(test(arrow_type) for test in tests)
    return is_text and 0 < chunk.dictionary_page_size <= MAX_BYTES_AS_DICTIONARY


def _leaf_type(schema: pa.Schema, path: Path) -> pa.DataType | None:
    """What stands at the end of a path of structs, an extension as its storage; None if that is nothing, or two."""
    found: pa.Schema | pa.DataType = schema
    for name in path:
        is_parent = isinstance(found, pa.Schema) or arrow_types.is_struct(found)
        index = found.get_field_index(name) if is_parent else -1
        if index < 0:
            return None
        found = _storage_type(found.field(index).type)
    return found if isinstance(found, pa.DataType) else None


def _storage_type(arrow_type: pa.DataType) -> pa.DataType:
    return _storage_type(arrow_type.storage_type) if isinstance(arrow_type, pa.BaseExtensionType) else arrow_type


# --- writers ------------------------------------------------------------------------------------------------------

_ARROW_SCHEMA = b"ARROW:schema"
_ORIGINAL_CREATED_BY = b"original.created.by"
_PARQUET_MR_ENCODINGS = (
    frozenset((PLAIN_DICTIONARY, BIT_PACKED)),  # version 1 pages of a required leaf
    frozenset((PLAIN_DICTIONARY, BIT_PACKED, RLE)),  # of one with definition levels
    frozenset((PLAIN, RLE_DICTIONARY)),  # version 2 pages
)


@dataclass(frozen=True, slots=True)
class _Writer:
    """
    What a file tells of its writer.

    Attributes:
        keys: Of the footer's key-value metadata.
        arrow_schema: The schema of the Arrow data that was written, if the file has it.
    """

    created_by: str
    keys: Collection[bytes]
    arrow_schema: pa.Schema | None

    def stores_only_used_values(self, chunk: ColumnChunk) -> bool:
        """Whether each value in the dictionary of a chunk is certain to be in one of its rows."""
        rule = next((rule for name, rule in _RULES.items() if self.created_by.startswith(f"{name} version ")), None)
        return rule is not None and rule(self, chunk)

    def _by_parquet_mr(self, chunk: ColumnChunk) -> bool:
        return chunk.encodings in _PARQUET_MR_ENCODINGS and _ORIGINAL_CREATED_BY not in self.keys

    def _by_arrow(self, chunk: ColumnChunk) -> bool:
        written = None if self.arrow_schema is None else _leaf_type(self.arrow_schema, chunk.path)
        return written is not None and not arrow_types.is_dictionary(written)

    def _by_duckdb(self, chunk: ColumnChunk) -> bool:
        return chunk.physical_type != BYTE_ARRAY


_RULES: Mapping[str, Callable[[_Writer, ColumnChunk], bool]] = {
    "parquet-mr": _Writer._by_parquet_mr,
    **dict.fromkeys(("parquet-cpp-arrow", "parquet-rs", "delta-rs", "datafusion"), _Writer._by_arrow),
    "DuckDB": _Writer._by_duckdb,
}


def _arrow_schema(key_values: Mapping[bytes, bytes]) -> pa.Schema | None:
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(key_values[_ARROW_SCHEMA])))
    except (KeyError, ValueError, pa.ArrowException, OSError):
        return None
