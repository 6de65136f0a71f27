"""
Plan how to find the values of each column chunk: without its rows, or row by row.

The first page of a fully dictionary-encoded chunk has each value once. If only the set of values matters and the writer
stores no others, that page is enough; otherwise we also count the indices, unless there are as many values as rows
that have one. All this needs every row to be live. Where the footer does not say how pages are encoded, we try to count
the indices. Chunks of long strings, whose pages are huge, are read in pieces. Anything else is read row by row, as
dictionaries if that saves decoding strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as arrow_types

from puffin.errors import CorruptDataFileError
from puffin.files.data_file import Path
from puffin.files.parquet.dictionary_counts import DICTIONARY_ENCODINGS
from puffin.files.parquet.dictionary_page import has_readable_dictionary, read_dictionary_page
from puffin.files.parquet.long_strings import has_long_strings, read_long_strings
from puffin.files.parquet.page_values import has_readable_values, read_page_values
from puffin.files.parquet.parquet_footer import (
    BYTE_ARRAY,
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    OPTIONAL,
    REQUIRED,
    ColumnChunk,
    RowGroup,
    read_footer,
)
from puffin.files.parquet.writers import Writer, leaf_type
from puffin.values.column_chunk import Values
from puffin.values.plain_arrays import type_of_values

MAX_BYTES_AS_DICTIONARY = 256 * 1024
"""The largest page to read as a dictionary: every batch of rows carries all of it."""


class Route(Enum):
    """A way to the values of a column chunk."""

    DICTIONARY_PAGE = auto()  # its dictionary page alone
    PAGES = auto()  # its pages as they are: plain values, and the number of indices to each entry of the dictionary
    LONG_STRINGS = auto()  # its strings in pieces, without their rows
    ROWS = auto()  # row by row


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """
    The way to the values of one column chunk.

    Attributes:
        chunk: None if unknown; then it is read row by row.
        arrow_type: What pyarrow reads the column as, without extensions; None unless it is a leaf.
        pays_as_dictionary: Whether pyarrow's ``read_dictionary`` pays off row by row.
        is_collected: Whether the writer certainly collected the dictionary from the rows, each value once.
    """

    route: Route
    chunk: ColumnChunk | None
    arrow_type: pa.DataType | None
    pays_as_dictionary: bool = False
    is_collected: bool = False

    def read(self, source: pa.NativeFile, others: Sequence[ChunkPlan] = ()) -> Iterator[Values] | None:
        """
        The values of the chunk without their rows; CorruptDataFileError if a page of long strings is broken.

        None if it has to be read row by row, by the plan or because a page is unusual. ``others`` are those of other
        row groups to read with it, if all of them say that they can be joined.
        """
        if self.chunk is None or self.route is Route.ROWS:
            return None
        if self.route is Route.LONG_STRINGS:
            return (Values(strings, rows) for strings, rows in read_long_strings(source, self.chunk))
        if self.route is Route.PAGES:
            chunks = [self.chunk, *(other.chunk for other in others if other.chunk is not None)]
            is_collected = all(plan.is_collected for plan in (self, *others))
            return read_page_values(source, chunks, type_of_values(self.arrow_type), is_collected=is_collected)
        values = read_dictionary_page(source, self.chunk, self.arrow_type)
        return None if values is None else iter((Values(values, is_each_row=False),))

    def reads_as_dictionary(self, source: pa.NativeFile) -> bool:
        """
        Whether to use pyarrow's ``read_dictionary`` row by row.

        pyarrow merges equal entries but leaves the indices unchanged, so a repeated entry breaks them.
        """
        if self.chunk is None or not self.pays_as_dictionary or self.is_collected:
            return self.pays_as_dictionary
        stored = type_of_values(self.arrow_type)
        values = read_dictionary_page(source, self.chunk, stored) if has_readable_dictionary(self.chunk) else None
        return values is not None and len(values.unique()) == len(values)

    @property
    def joins(self) -> bool:
        """Whether the chunk can be read with those of the same column in other row groups."""
        return self.route is Route.PAGES

    @property
    def held_bytes(self) -> int:
        """The bytes that the chunk takes in memory if it is read with others."""
        return 0 if self.chunk is None else max(self.chunk.total_uncompressed_size, self.chunk.total_compressed_size, 0)

    @property
    def bytes_read(self) -> int:
        """The compressed bytes of the chunk that `read` opens."""
        if self.chunk is None or self.route is Route.ROWS:
            return 0
        is_page = self.route is Route.DICTIONARY_PAGE
        return self.chunk.dictionary_page_size if is_page else self.chunk.total_compressed_size


ROW_BY_ROW = ChunkPlan(Route.ROWS, None, None)
"""The plan for a column that is no leaf of the file."""


class ChunkPlanner:
    """
    Plans the chunks of one file; reads everything row by row if the footer is invalid.

    Attributes:
        row_groups: As `read_footer`; none if the footer is invalid.
    """

    row_groups: tuple[RowGroup, ...]

    def __init__(self, metadata: pq.FileMetaData, schema: pa.Schema) -> None:
        self._schema = schema
        self._types: dict[Path, pa.DataType | None] = {}
        self._writer = Writer.of(metadata)
        try:
            self.row_groups = read_footer(metadata)
        except CorruptDataFileError:
            self.row_groups = ()

    def plan(self, row_group: int, paths: Iterable[Path], *, all_live: bool, each_row: bool) -> dict[Path, ChunkPlan]:
        """
        Plan leaves of a row group; a path to no leaf, or to two, is read row by row.

        ``all_live`` says that no row of the group is deleted or filtered out; ``each_row`` is as in `Wants`.
        """
        plans = {}
        for path in paths:
            chunk, arrow_type = self.chunk(row_group, path), self._leaf_type(path)
            if chunk is None or arrow_type is None:
                plans[path] = ChunkPlan(Route.ROWS, None, arrow_type)
            else:
                is_encoded = _is_dictionary_encoded(chunk)
                is_collected = is_encoded and self._writer.stores_only_used_values(chunk)
                is_page_enough = is_collected and not each_row and has_readable_dictionary(chunk)
                route = _route(chunk, arrow_type, is_page_enough) if all_live else Route.ROWS
                pays_as_dictionary = is_encoded and _pays_as_dictionary(chunk, arrow_type)
                plans[path] = ChunkPlan(route, chunk, arrow_type, pays_as_dictionary, is_collected)
        return plans

    def chunk(self, row_group: int, leaf: int | Path) -> ColumnChunk | None:
        """The chunk of a leaf, by place or path; None if the footer or the chunk is invalid, or as in `RowGroup`."""
        try:
            group = self.row_groups[row_group] if row_group < len(self.row_groups) else None
            return None if group is None else group.find(leaf) if isinstance(leaf, tuple) else group[leaf]
        except CorruptDataFileError:
            return None

    def _leaf_type(self, path: Path) -> pa.DataType | None:
        # Files may have very many row groups, with the same leaves.
        if path not in self._types:
            self._types[path] = leaf_type(self._schema, path)
        return self._types[path]


def _route(chunk: ColumnChunk, arrow_type: pa.DataType, is_page_enough: bool) -> Route:
    if is_page_enough:
        return Route.DICTIONARY_PAGE
    if has_long_strings(chunk):
        return Route.LONG_STRINGS
    return Route.PAGES if has_readable_values(chunk, type_of_values(arrow_type)) else Route.ROWS


def _is_dictionary_encoded(chunk: ColumnChunk) -> bool:
    """Whether there is one dictionary page, and all data pages, at least one, hold indices into it."""
    dictionary_pages = [stats for stats in chunk.encoding_stats if stats.page_type == DICTIONARY_PAGE]
    data_pages = [stats for stats in chunk.encoding_stats if stats.page_type != DICTIONARY_PAGE]
    return (
        chunk.leaf.repetition_type in (REQUIRED, OPTIONAL)
        and [stats.count for stats in dictionary_pages] == [1]
        and len(data_pages) > 0
        and all(stats.page_type in (DATA_PAGE, DATA_PAGE_V2) for stats in data_pages)
        and all(stats.encoding in DICTIONARY_ENCODINGS for stats in data_pages)
    )


def _pays_as_dictionary(chunk: ColumnChunk, arrow_type: pa.DataType) -> bool:
    # pyarrow silently ignores the option for any other type.
    tests = (arrow_types.is_string, arrow_types.is_binary, arrow_types.is_large_string, arrow_types.is_large_binary)
    is_text = chunk.physical_type == BYTE_ARRAY and any(test(arrow_type) for test in tests)
    return is_text and 0 < chunk.dictionary_page_size <= MAX_BYTES_AS_DICTIONARY
