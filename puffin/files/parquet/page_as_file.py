"""
Let pyarrow decode a dictionary page, in a file made of the page.

A dictionary page holds plain-encoded values without levels, just like a plain data page. So this module puts the page's
bytes, still compressed, under the header of a data page, into a file of one column without nulls:

::

    "PAR1" │ PageHeader, levels │ the dictionary page's bytes │ FileMetaData │ its size │ "PAR1"

pyarrow thus handles all codecs and types, and the values are those that it would find through the indices.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq

from puffin.files.parquet import thrift
from puffin.files.parquet.parquet_footer import DATA_PAGE_V2, OPTIONAL, PLAIN, RLE, ColumnChunk
from puffin.files.varints import varint

_MAGIC = b"PAR1"


def read_as_file(chunk: ColumnChunk, num_values: int, uncompressed_size: int, payload: bytes) -> pa.Array:
    """Read the values of a chunk's dictionary page, still compressed, as pyarrow reads a column without nulls."""
    page = _data_page(chunk, num_values, uncompressed_size, payload) if num_values else b""
    footer = _file_meta_data(chunk, num_values, len(page))
    file = b"".join((_MAGIC, page, footer, struct.pack("<I", len(footer)), _MAGIC))
    column = pq.ParquetFile(pa.BufferReader(file)).read(use_threads=False).column(0)
    return column.combine_chunks()


def _data_page(chunk: ColumnChunk, num_values: int, uncompressed_size: int, payload: bytes) -> bytes:
    # A version 2 page has its levels before the compressed part; one run says that no value is null.
    levels = varint(num_values << 1) + b"\1" if chunk.leaf.repetition_type == OPTIONAL else b""
    header = thrift.struct(
        {
            1: thrift.i32(DATA_PAGE_V2),
            2: thrift.i32(len(levels) + uncompressed_size),
            3: thrift.i32(len(levels) + len(payload)),
            8: thrift.struct(
                {
                    1: thrift.i32(num_values),
                    2: thrift.i32(0),  # num_nulls
                    3: thrift.i32(num_values),  # num_rows
                    4: thrift.i32(PLAIN),
                    5: thrift.i32(len(levels)),  # definition_levels_byte_length
                    6: thrift.i32(0),  # repetition_levels_byte_length
                }
            ),
        }
    )
    return header[1] + levels + payload


def _file_meta_data(chunk: ColumnChunk, num_values: int, page_size: int) -> bytes:
    meta_data = thrift.struct(
        {
            1: thrift.i32(chunk.physical_type),
            2: thrift.items([thrift.i32(PLAIN), thrift.i32(RLE)]),
            3: thrift.items([thrift.binary(chunk.leaf.path[-1].encode())]),
            4: thrift.i32(chunk.codec),
            5: thrift.i64(num_values),
            6: thrift.i64(page_size),  # total_uncompressed_size
            7: thrift.i64(page_size),  # total_compressed_size
            9: thrift.i64(len(_MAGIC)),  # data_page_offset
        }
    )
    column = thrift.struct({2: thrift.i64(len(_MAGIC)), 3: meta_data})  # file_offset
    root = thrift.struct({4: thrift.binary(b"schema"), 5: thrift.i32(1)})  # name, num_children
    row_group = thrift.struct({1: thrift.items([column]), 2: thrift.i64(page_size), 3: thrift.i64(num_values)})
    file = thrift.struct(
        {
            1: thrift.i32(2),  # version
            2: thrift.items([root, thrift.struct_bytes(chunk.leaf.schema_element)]),
            3: thrift.i64(num_values),
            4: thrift.items([row_group]),
        }
    )
    return file[1]
