"""
Chunks of one column in neighbouring row groups, which are read together.

Each chunk that is read alone costs Python as much as some thousand values do, so those of small row groups are joined.
Chunks are joined only if their footers leave the same facts to be counted, since they share a summary.
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
        summary: None if it is not wanted.
    """

    column: FileColumn
    group: int
    rows: int
    plan: ChunkPlan
    summary: ChunkSummary | None

    def goes_with(self, other: PlannedChunk) -> bool:
        """Whether both may be joined, whatever their size."""
        one, two = self.summary, other.summary
        lack_same = one is None or two is None or one.lacks == two.lacks
        return self.plan.joins and other.plan.joins and lack_same


@dataclass(frozen=True, slots=True)
class ChunkRun:
    """Chunks that are read together, at least one."""

    chunks: Sequence[PlannedChunk]

    @property
    def bytes_read(self) -> int:
        return sum(chunk.plan.bytes_read for chunk in self.chunks)

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def read(self, source: pa.NativeFile) -> Iterator[Values] | None:
        """The values, not row by row; None if the chunks have to be read row by row, or one by one."""
        return self.chunks[0].plan.read(source, [chunk.plan for chunk in self.chunks[1:]])

    def summary(self) -> ChunkSummary | None:
        """A new summary of all chunks, before any value was seen; None if it is not wanted."""
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
        if run and not (held + chunk.plan.held_bytes <= MAX_JOINED_BYTES and chunk.goes_with(run[0])):
            yield ChunkRun(run)
            run, held = [], 0
        run.append(chunk)
        held += chunk.plan.held_bytes
    if run:
        yield ChunkRun(run)
