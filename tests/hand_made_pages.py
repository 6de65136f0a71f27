"""Parquet files of one required column of longs, page by page, as pyarrow would not write them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from puffin.files.parquet import thrift
from puffin.files.parquet.page_codecs import UNCOMPRESSED
from puffin.files.parquet.parquet_footer import DATA_PAGE, INT64, PLAIN, REQUIRED, RLE

NAME, FIELD_ID = b"id", 1


def file_of_pages(pages: Sequence[Sequence[int]], num_rows: int | None = None) -> bytes:
    """A file of one row group; ``num_rows`` is what it says to have, by default as many rows as values."""
    values = sum(map(len, pages))
    rows = values if num_rows is None else num_rows
    content = b"".join(map(_page, pages))
    chunk = {
        1: thrift.i32(INT64),
        2: thrift.items([thrift.i32(PLAIN)]),
        3: thrift.items([thrift.binary(NAME)]),
        4: thrift.i32(UNCOMPRESSED),
        5: thrift.i64(values),
        6: thrift.i64(len(content)),
        7: thrift.i64(len(content)),
        9: thrift.i64(len(b"PAR1")),
    }
    columns = thrift.items([thrift.struct({2: thrift.i64(len(b"PAR1")), 3: thrift.struct(chunk)})])
    group = {1: columns, 2: thrift.i64(len(content)), 3: thrift.i64(rows)}
    root = {4: thrift.binary(b"schema"), 5: thrift.i32(1)}
    leaf = {1: thrift.i32(INT64), 3: thrift.i32(REQUIRED), 4: thrift.binary(NAME), 9: thrift.i32(FIELD_ID)}
    _, footer = thrift.struct(
        {
            1: thrift.i32(2),
            2: thrift.items([thrift.struct(root), thrift.struct(leaf)]),
            3: thrift.i64(rows),
            4: thrift.items([thrift.struct(group)]),
        }
    )
    return b"PAR1" + content + footer + struct.pack("<I", len(footer)) + b"PAR1"


def _page(values: Sequence[int]) -> bytes:
    content = struct.pack(f"<{len(values)}q", *values)
    encodings = {2: thrift.i32(PLAIN), 3: thrift.i32(RLE), 4: thrift.i32(RLE)}
    header = {
        1: thrift.i32(DATA_PAGE),
        2: thrift.i32(len(content)),
        3: thrift.i32(len(content)),
        5: thrift.struct({1: thrift.i32(len(values)), **encodings}),
    }
    return thrift.struct(header)[1] + content
