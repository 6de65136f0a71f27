"""
How the values of each column chunk are best found: without a look at its rows, or row by row.

A chunk that is dictionary-encoded throughout has each value once, on its first page. Where it matters only which values
there are, that page alone is enough under writers known to store no other; in any other case the indices are counted.
Both need every row to be live. A chunk of strings so long that its pages are huge is read in pieces. Anything else is
read row by row, as dictionaries where that spares the decoding of strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as arrow_types

from puffin.errors import CorruptDataFileError
from puffin.files.parquet.dictionary_counts import DICTIONARY_ENCODINGS, dictionary_counts
from puffin.files.parquet.dictionary_page import has_readable_dictionary, read_dictionary_page
from puffin.files.parquet.long_strings import has_long_strings, read_long_strings
from puffin.files.parquet.pages import has_readable_pages
from puffin.files.parquet.parquet_footer import (
    BYTE_ARRAY,
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    OPTIONAL,
    REQUIRED,
    ColumnChunk,
    read_footer,
)
from puffin.files.parquet.writers import Path, Writer, leaf_type
from puffin.kernels import kernels_ready
from puffin.values.column_chunk import Values

MAX_BYTES_AS_DICTIONARY = 256 * 1024
"""The largest dictionary page that is read as a dictionary: every batch of rows carries all of it."""


class Route(Enum):
    """A way to the values of a column chunk."""

    DICTIONARY_PAGE = auto()
    """Its dictionary page alone."""

    INDICES = auto()
    """Its dictionary page, and how often each entry is referred to."""

    LONG_STRINGS = auto()
    """Its strings in pieces, without their rows."""

    ROWS = auto()
    """Row by row."""


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """
    The way to the values of one column chunk.

    Attributes:
        chunk: None if nothing is known of it; then it is read row by row.
        arrow_type: What pyarrow reads the column as, extensions as what they are stored as; None if it is no leaf.
        pays_as_dictionary: Whether pyarrow's ``read_dictionary`` pays if it is read row by row.
        is_collected: Whether the writer certainly made the dictionary of the rows' values, each of them once.
    """

    route: Route
    chunk: ColumnChunk | None
    arrow_type: pa.DataType | None
    pays_as_dictionary: bool = False
    is_collected: bool = False

    def read(self, source: pa.NativeFile) -> Iterator[Values] | None:
        """
        The values of the chunk, without a place for each row.

        Returns:
            None if they have to be read row by row, by the plan or because a page turns out odd.

        Raises:
            CorruptDataFileError: A page is broken.
        """
        if self.chunk is None or self.route is Route.ROWS:
            return None
        if self.route is Route.LONG_STRINGS:
            return (Values(strings, rows) for strings, rows in read_long_strings(source, self.chunk))
        if self.route is Route.INDICES:
            counted = dictionary_counts(source, self.chunk, self._stored_type)
            return None if counted is None else iter((Values(*counted),))
        values = read_dictionary_page(source, self.chunk, self.arrow_type)
        return None if values is None else iter((Values(values),))

    def reads_as_dictionary(self, source: pa.NativeFile) -> bool:
        """
        Whether to use pyarrow's ``read_dictionary`` if the chunk is read row by row.

        Of entries that are the same pyarrow keeps one, and leaves the indices as they are: they then mean others.
        """
        if self.chunk is None or not self.pays_as_dictionary or self.is_collected:
            return self.pays_as_dictionary
        stored = self._stored_type
        values = read_dictionary_page(source, self.chunk, stored) if has_readable_dictionary(self.chunk) else None
        return values is not None and len(values.unique()) == len(values)

    @property
    def bytes_read(self) -> int:
        """Compressed bytes of the chunk that `read` opens."""
        if self.chunk is None or self.route is Route.ROWS:
            return 0
        is_page = self.route is Route.DICTIONARY_PAGE
        return self.chunk.dictionary_page_size if is_page else self.chunk.total_compressed_size

    @property
    def _stored_type(self) -> pa.DataType:
        stored: pa.DataType = self.arrow_type
        return stored.value_type if arrow_types.is_dictionary(stored) else stored


class ChunkPlanner:
    """
    Plans the chunks of one file. A footer that cannot be understood is no error: everything is read row by row then.

    Args:
        metadata: The file's footer as pyarrow read it.
        schema: The file's schema as pyarrow reads it (``ParquetFile.schema_arrow``).
    """

    def __init__(self, metadata: pq.FileMetaData, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = Writer.of(metadata)
        try:
            self._row_groups = read_footer(metadata)
        except CorruptDataFileError:
            self._row_groups = ()

    def plan(self, row_group: int, paths: Iterable[Path], *, all_live: bool, each_row: bool) -> dict[Path, ChunkPlan]:
        """
        Plan leaves of a row group; a path that leads to no leaf, or to two, is read row by row.

        Args:
            all_live: Whether every row of the group counts: none is deleted, none is filtered out.
            each_row: Whether it matters how many rows have a value, and not only whether one has.
        """
        plans = {}
        for path in paths:
            chunk, arrow_type = self._chunk(row_group, path), leaf_type(self._schema, path)
            if chunk is None or arrow_type is None:
                plans[path] = ChunkPlan(Route.ROWS, None, arrow_type)
            else:
                is_encoded = _is_dictionary_encoded(chunk)
                is_collected = is_encoded and self._writer.stores_only_used_values(chunk)
                route = _route(chunk, is_encoded, is_collected and not each_row) if all_live else Route.ROWS
                pays_as_dictionary = is_encoded and _pays_as_dictionary(chunk, arrow_type)
                plans[path] = ChunkPlan(route, chunk, arrow_type, pays_as_dictionary, is_collected)
        return plans

    def _chunk(self, row_group: int, path: Path) -> ColumnChunk | None:
        try:
            return self._row_groups[row_group].find(path) if row_group < len(self._row_groups) else None
        except CorruptDataFileError:
            return None


def _route(chunk: ColumnChunk, is_dictionary_encoded: bool, is_page_enough: bool) -> Route:
    if is_dictionary_encoded and has_readable_dictionary(chunk):
        if is_page_enough:
            return Route.DICTIONARY_PAGE
        if kernels_ready() and has_readable_pages(chunk):
            return Route.INDICES
    return Route.LONG_STRINGS if has_long_strings(chunk) else Route.ROWS


def _is_dictionary_encoded(chunk: ColumnChunk) -> bool:
    """Whether there is one dictionary page and every data page, of which there are some, holds indices into it."""
    dictionary_pages = [stats for stats in chunk.encoding_stats if stats.page_type == DICTIONARY_PAGE]
    data_pages = [stats for stats in chunk.encoding_stats if stats.page_type != DICTIONARY_PAGE]
    return (
        chunk.repetition_type in (REQUIRED, OPTIONAL)
        and [stats.count for stats in dictionary_pages] == [1]
        and len(data_pages) > 0
        and all(stats.page_type in (DATA_PAGE, DATA_PAGE_V2) for stats in data_pages)
        and all(stats.encoding in DICTIONARY_ENCODINGS for stats in data_pages)
    )


def _pays_as_dictionary(chunk: ColumnChunk, arrow_type: pa.DataType) -> bool:
    # pyarrow reads any other type as it is, and says nothing.
    tests = (arrow_types.is_string, arrow_types.is_binary, arrow_types.is_large_string, arrow_types.is_large_binary)
    is_text = chunk.physical_type == BYTE_ARRAY and any(test(arrow_type) for test in tests)
    return is_text and 0 < chunk.dictionary_page_size <= MAX_BYTES_AS_DICTIONARY
