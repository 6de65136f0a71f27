"""
The two floors of a table: what reading it costs before anything is counted.

*Decompress only* reads the bytes of the column chunks and decompresses every page, with the fastest library there is.
Where the pages are is found before: finding them is no work that a reader could not do without Python. *Decode* is
that of `benchmarks.decode`. Both do it in warm processes, each with its own share of the row groups.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeAlias

import deflate
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from benchmarks.data import Dataset
from benchmarks.decode import Share, balanced, decode
from benchmarks.engines import Engine
from puffin.files.parquet.page_codecs import GZIP, LZ4_RAW, SNAPPY, UNCOMPRESSED, ZSTD
from puffin.files.parquet.page_header import parse_page_header
from puffin.files.parquet.parquet_footer import ColumnChunk, read_footer

DECOMPRESS = "decompress only"

_HEADER_BYTES = 1 << 16
_ARROW_CODECS = {SNAPPY: "snappy", LZ4_RAW: "lz4_raw"}

_Page: TypeAlias = tuple[int, int, int, int]  # where its body begins in the chunk, its bytes, uncompressed, codec
_Chunk: TypeAlias = tuple[int, int, tuple[_Page, ...]]  # where it begins, its bytes, its pages


def decompress(share: Share, columns: Sequence[str]) -> int:
    """Decompress all pages of these columns of row groups; returns the uncompressed bytes of their bodies."""
    total = 0
    for file, groups in share.items():
        with pa.OSFile(file) as source:
            for begin, size, pages in _chunks(file, tuple(groups), tuple(columns)):
                content = source.read_at(size, begin)
                total += _decompressed(memoryview(content), pages)
    return total


def uncompressed_bytes(files: Sequence[str], columns: Sequence[str]) -> tuple[int, int]:
    """The uncompressed bytes of all page bodies, by their headers, and those before them: headers and bare levels."""
    bodies = before = 0
    for file in files:
        groups = tuple(range(pq.read_metadata(file).num_row_groups))
        for _, size, pages in _chunks(file, groups, tuple(columns)):
            bodies += sum(page[2] for page in pages)
            before += size - sum(page[1] for page in pages)
    return bodies, before


class Floor(Engine):
    """One of the floors, as an engine that counts nothing; each process keeps its share."""

    def __init__(
        self,
        name: str,
        table: Dataset,
        workers: Sequence[ProcessPoolExecutor],
        work: Callable[[Share, Sequence[str]], int] = decode,
    ) -> None:
        super().__init__(name, table, tuple(table.exact))
        self._workers = workers
        self._work = functools.partial(_timed, work, columns=self.columns)
        self._shares = [dict(share) for share in balanced(table.files, self.columns, len(workers))]
        self._used = 0.0
        self._expected = uncompressed_bytes(table.files, self.columns)[0] if work is decompress else table.rows

    def run(self) -> None:
        pending = [pool.submit(self._work, share) for pool, share in zip(self._workers, self._shares, strict=True)]
        done = [each.result() for each in pending]
        self._used += sum(used for _, used in done)
        amount = sum(amount for amount, _ in done)
        if amount != self._expected:
            raise SystemExit(f"{self.table.name}: {self.name}: expected {self._expected}, found {amount}")

    def processor_seconds(self) -> float:
        return self._used

    def counts(self) -> Mapping[str, int]:
        return {}


def _timed(work: Callable[..., int], share: Share, columns: Sequence[str]) -> tuple[int, float]:
    before = time.process_time()
    return work(share, columns), time.process_time() - before


def _decompressed(content: memoryview, pages: Sequence[_Page]) -> int:
    total = 0
    zstd = zstandard.ZstdDecompressor()
    for at, stored, size, codec in pages:
        body: Any = content[at : at + stored]
        if codec == ZSTD:
            body = zstd.decompress(body, max_output_size=size) if size else b""
        elif codec == GZIP:
            body = deflate.gzip_decompress(body, size) if size else b""
        elif codec != UNCOMPRESSED:
            body = pa.decompress(body, size, _ARROW_CODECS[codec]) if size else b""
        total += len(body)
    return total


@functools.lru_cache(maxsize=64)
def _chunks(file: str, groups: tuple[int, ...], columns: tuple[str, ...]) -> tuple[_Chunk, ...]:
    row_groups = read_footer(pq.read_metadata(file))
    with pa.OSFile(file) as source:
        return tuple(
            (_begin(chunk), chunk.total_compressed_size, tuple(_pages(source, chunk)))
            for group in groups
            for column in columns
            if (chunk := row_groups[group].find((column,))) is not None
        )


def _begin(chunk: ColumnChunk) -> int:
    return chunk.data_page_offset - chunk.dictionary_page_size


def _pages(source: pa.NativeFile, chunk: ColumnChunk) -> Iterator[_Page]:
    begin = at = _begin(chunk)
    end = begin + chunk.total_compressed_size
    while at < end:
        page = parse_page_header(source.read_at(min(_HEADER_BYTES, end - at), at), at, end, chunk.codec)
        yield page.body_offset - begin, page.compressed_size, page.size, page.codec
        at = page.end
