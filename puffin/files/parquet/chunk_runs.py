"""
Chunks of one column in neighbouring row groups, which are read together.

Each chunk that is read alone costs Python as much as some thousand values do, so those of small row groups are joined.
A joined summary is that of its chunks: only chunks of which the footer leaves the same to be counted are joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from puffin.files.file_columns import FileColumn
from puffin.files.parquet.chunk_plan import ChunkPlan
from puffin.values.chunk_summary import ChunkSummary
from puffin.values.column_chunk import Values

MAX_JOINED_BYTES = 4 * 1024 * 1024
"""Of all chunks that are read together, uncompressed."""


@dataclass(frozen=True, slots=True)
class PlannedChunk:
    """
    A chunk and how to read it.

    Attributes:
        group: The place of its row group among those of the window.
        plan: None for a column whose value is a constant.
        summary: None if nobody wants it.
    """

    column: FileColumn
    group: int
    rows: int
    plan: ChunkPlan | None
    summary: ChunkSummary | None

    def goes_with(self, other: PlannedChunk) -> bool:
        """Whether both may be joined, whatever their size."""
        if self.plan is None or other.plan is None or not (self.plan.joins and other.plan.joins):
            return False
        one, two = self.summary, other.summary
        return one is None or two is None or one.lacks == two.lacks


@dataclass(frozen=True, slots=True)
class ChunkRun:
    """Chunks that are read together, at least one."""

    chunks: Sequence[PlannedChunk]

    @property
    def bytes_read(self) -> int:
        return sum(chunk.plan.bytes_read for chunk in self.chunks if chunk.plan is not None)

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def read(self, source: pa.NativeFile) -> Iterator[Values] | None:
        """The values, not row by row; None if the chunks have to be read row by row, or one by one."""
        first = self.chunks[0].plan
        return None if first is None else first.read(source, [c.plan for c in self.chunks[1:] if c.plan is not None])

    def summary(self) -> ChunkSummary | None:
        """A new summary of all chunks, before any value was seen; None if nobody wants it."""
        summaries = [chunk.summary for chunk in self.chunks if chunk.summary is not None]
        return ChunkSummary.joined(summaries) if summaries else None

    def one_by_one(self) -> Iterator[ChunkRun]:
        """The same chunks, each alone."""
        return (ChunkRun([chunk]) for chunk in self.chunks)


def runs(chunks: Iterable[PlannedChunk]) -> Iterator[ChunkRun]:
    """The chunks of a column in order, neighbours joined while they are small."""
    run: list[PlannedChunk] = []
    held = 0
    for chunk in chunks:
        size = 0 if chunk.plan is None else chunk.plan.held_bytes
        if run and not (held + size <= MAX_JOINED_BYTES and chunk.goes_with(run[0])):
            yield ChunkRun(run)
            run, held = [], 0
        run.append(chunk)
        held += size
    if run:
        yield ChunkRun(run)
