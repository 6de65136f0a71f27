"""
Turn pages of other encodings into plain ones, or into strings: DELTA encodings and BYTE_STREAM_SPLIT.

::

    DELTA_BINARY_PACKED:      numbers                                            ┐
    DELTA_LENGTH_BYTE_ARRAY:  numbers: lengths │ the bytes of all strings        ├ numbers: see `puffin.kernels.deltas`
    DELTA_BYTE_ARRAY:         numbers: shared bytes │ numbers: others │ others   ┘
    BYTE_STREAM_SPLIT:        the first bytes of all values │ the second ones │ …

A page that is too short is a ValueError, as is one with another number of values than its levels tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.files.parquet.page_batches import BATCH_VALUES, PageBatch, Spans
from puffin.files.parquet.page_codecs import pooled_buffer
from puffin.files.parquet.parquet_footer import DELTA_LENGTH_BYTE_ARRAY, PLAIN
from puffin.values.serialized import WordArray, words_at, words_at_every_byte

Strings: TypeAlias = tuple[npt.NDArray[np.int64], Any]
"""Offsets, one more than there are strings, and a buffer."""

PIECE_BYTES = 4 * 1024 * 1024  # of strings in an array, unless one is longer
_MOST_BYTES = (1 << 31) - 1  # of a string


def plain_numbers(pages: PageBatch, width: int) -> PageBatch:
    """Numbers of DELTA_BINARY_PACKED pages as 4 or 8 bytes each."""
    numbers, _ = _numbers(pages, words_at_every_byte(pages.content), pages.spans.copy())
    return _plain(numbers if width == 8 else numbers.astype("<i4"), pages.count)


def plain_bytes(pages: PageBatch, width: int) -> PageBatch:
    """Values of BYTE_STREAM_SPLIT pages, of ``width`` bytes each."""
    parts = []
    for begin, end, count, *_ in pages.spans.tolist():
        if end - begin != count * width:
            raise ValueError(f"expected {count} values of {width} bytes in a page, found {end - begin} bytes")
        parts.append(pages.bytes[begin:end].reshape(width, count).T)
    return _plain(np.concatenate(parts), pages.count)


def plain_strings(pages: PageBatch, width: int) -> Iterator[PageBatch]:
    """Strings of DELTA_BYTE_ARRAY pages that all have ``width`` bytes."""
    for offsets, content in strings(pages):
        if (np.diff(offsets) != width).any():
            raise ValueError(f"expected strings of {width} bytes")
        count = len(offsets) - 1
        yield _plain(np.frombuffer(content, np.uint8, count * width), count)


def strings(pages: PageBatch) -> Iterator[Strings]:
    """The strings of DELTA_LENGTH_BYTE_ARRAY or DELTA_BYTE_ARRAY pages, in pieces of bounded length."""
    return _with_lengths(pages) if pages.encoding == DELTA_LENGTH_BYTE_ARRAY else _with_prefixes(pages)


def _plain(values: npt.NDArray[Any], count: int) -> PageBatch:
    content = memoryview(np.ascontiguousarray(values).tobytes())
    return PageBatch(False, PLAIN, content, np.array([(0, len(content), count, -1, -1)]), np.zeros(1, np.int64))


def _numbers(pages: PageBatch, words_at: WordArray, spans: Spans) -> tuple[npt.NDArray[np.int64], Spans]:
    """The numbers of all pages, and the spans of what follows them."""
    from puffin.kernels.deltas import decode_numbers

    numbers = np.empty(pages.count, np.int64)
    if decode_numbers(words_at, spans, numbers) < 0:
        raise ValueError(f"expected {pages.count} numbers in pages, found another number of them")
    return numbers, spans


def _with_lengths(pages: PageBatch) -> Iterator[Strings]:
    lengths, spans = _numbers(pages, words_at_every_byte(pages.content), pages.spans.copy())
    if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= _MOST_BYTES:
        raise ValueError(f"expected lengths of {_MOST_BYTES} at most")
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    sizes = np.diff(ends[np.cumsum(spans[:, 2])], prepend=0)
    if (sizes > spans[:, 1] - spans[:, 0]).any():
        raise ValueError("expected strings inside their page")
    content = memoryview(pages.content)
    parts = [content[begin : begin + size] for begin, size in zip(spans[:, 0].tolist(), sizes.tolist(), strict=True)]
    whole = pa.py_buffer(parts[0] if len(parts) == 1 else b"".join(parts))
    for start in range(0, max(1, len(lengths)), BATCH_VALUES):
        piece = ends[start : start + BATCH_VALUES + 1]
        yield piece - piece[0], whole.slice(piece[0], piece[-1] - piece[0])


def _with_prefixes(pages: PageBatch) -> Iterator[Strings]:
    from puffin.kernels.deltas import join_prefixes

    words = words_at_every_byte(pages.content)
    prefixes, spans = _numbers(pages, words, pages.spans.copy())
    suffixes, spans = _numbers(pages, words, spans)
    spans[:, 3] = 0
    last: bytes | memoryview = b""
    left, room = pages.count, PIECE_BYTES
    if left == 0:
        yield np.zeros(1, np.int64), pa.py_buffer(b"")
    while left > 0:
        offsets = np.empty(min(left, BATCH_VALUES) + 1, np.int64)
        offsets[0] = start = len(last)
        out = pooled_buffer(start + room + 8)
        content = memoryview(out).cast("B")
        content[:start] = last
        done = pages.count - left
        found = join_prefixes(words, spans, prefixes[done:], suffixes[done:], offsets, words_at(out))
        if found < 0 or (found == 0 and room > PIECE_BYTES):
            raise ValueError(f"expected {left} more strings in pages, found fewer")
        room = PIECE_BYTES if found else PIECE_BYTES + len(pages.content)
        if found:
            last = content[offsets[found - 1] : offsets[found]]
            yield offsets[: found + 1] - start, out.slice(start)
        left -= found
