"""
Parse the header of a Parquet page, as far as finding its values needs it.

::

    page:               PageHeader │ payload
    version 1 payload:  compressed(size of the levels, 4 bytes │ definition levels │ values)
    version 2 payload:  definition levels │ compressed(values)
    dictionary payload: compressed(values)

Names are those of ``parquet.thrift``; fields have their ids, as in the file. Every size is checked against the
available room before use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from puffin.errors import said_by
from puffin.files.parquet import thrift
from puffin.files.parquet.page_codecs import UNCOMPRESSED
from puffin.files.parquet.parquet_footer import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, RLE

_MAX_PAGE_BYTES = (1 << 31) - 1
_MAX_OVERHEAD = 1 << 10  # what a codec may add to a small, incompressible page

_DATA_PAGE_HEADER: thrift.Shape = {1: None, 2: None, 3: None}  # num_values, encoding, definition_level_encoding
_DICTIONARY_PAGE_HEADER: thrift.Shape = {1: None, 2: None}  # num_values, encoding
_DATA_PAGE_HEADER_V2: thrift.Shape = {
    1: None,  # num_values
    2: None,  # num_nulls
    4: None,  # encoding
    5: None,  # definition_levels_byte_length
    6: None,  # repetition_levels_byte_length
    7: None,  # is_compressed
}
_HEADER_FIELDS = {DATA_PAGE: 5, DICTIONARY_PAGE: 7, DATA_PAGE_V2: 8}
_PAGE_HEADER: thrift.Shape = {
    1: None,  # type
    2: None,  # uncompressed_page_size
    3: None,  # compressed_page_size
    5: _DATA_PAGE_HEADER,
    7: _DICTIONARY_PAGE_HEADER,
    8: _DATA_PAGE_HEADER_V2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """
    A page without repetition levels. Its body is the part that may be compressed.

    Attributes:
        type: ``DATA_PAGE``, ``DATA_PAGE_V2`` or ``DICTIONARY_PAGE``.
        num_values: Entries of a dictionary; rows of a data page, with nulls.
        num_nulls: None if only the levels tell.
        levels_size: Bytes of levels in front of the body.
        offset: Where the payload begins in the file.
        compressed_size: Bytes of the body in the file.
        size: Bytes of the body, uncompressed.
    """

    type: int
    encoding: int
    num_values: int
    num_nulls: int | None
    levels_encoding: int
    levels_size: int
    offset: int
    codec: int
    compressed_size: int
    size: int

    @property
    def body_offset(self) -> int:
        return self.offset + self.levels_size

    @property
    def end(self) -> int:
        return self.body_offset + self.compressed_size


def parse_page_header(data: bytes, offset: int, end: int, codec: int) -> Page:
    """Parse the page header at the start of ``data``; its chunk has this codec and ends at ``end``."""
    header, size = thrift.read_struct(data, 0, _PAGE_HEADER)
    try:
        page = _page(header, offset + size, codec)
        numbers = page.num_values, page.encoding, page.levels_size, page.compressed_size, page.size
        sizes_are_sound = min(numbers) >= 0
        is_in_bounds = page.end <= end and page.size <= _MAX_PAGE_BYTES
        is_in_bounds &= page.compressed_size <= 2 * page.size + _MAX_OVERHEAD
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"expected a page header at offset {offset}: {said_by(exc)}") from exc
    if not (sizes_are_sound and is_in_bounds):
        raise ValueError(f"expected a page inside its chunk at offset {offset}, found {page}")
    return page


def _page(header: dict[int, Any], offset: int, codec: int) -> Page:
    fields = header[_HEADER_FIELDS[header[1]]]
    is_v2 = header[1] == DATA_PAGE_V2
    if is_v2 and fields[6] != 0:
        raise ValueError(f"expected no repetition levels before offset {offset}, found {fields[6]} bytes")
    levels_size = fields[5] if is_v2 else 0
    return Page(
        type=header[1],
        encoding=fields[4] if is_v2 else fields[2],
        num_values=fields[1],
        num_nulls=fields[2] if is_v2 else None,
        levels_encoding=RLE if is_v2 else fields.get(3, RLE),
        levels_size=levels_size,
        offset=offset,
        codec=UNCOMPRESSED if is_v2 and fields.get(7, True) is False else codec,
        compressed_size=header[3] - levels_size,
        size=header[2] - levels_size,
    )
