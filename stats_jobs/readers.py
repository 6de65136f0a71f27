"""
Reads batches in threads of this process.

A batch is divided by columns where that is possible: a thread that reads a column from all files keeps one state of it,
and nothing has to be merged. If there are few columns for the threads, the files are divided too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from puffin.statistics.aside import PutAside
from puffin.tables.scan_task import PARQUET, ScanBatch
from puffin.tables.snapshot import TableSnapshot
from puffin.work_off import work_off
from stats_jobs.cluster import Progress
from stats_jobs.column_memory import state_bytes
from stats_jobs.execute import read_batch
from stats_jobs.partial import Partial, each_column, merge_partials
from stats_jobs.plan import plan_batches
from stats_jobs.scan import Scan, name_and_count

if TYPE_CHECKING:
    from puffin.files.formats import DataFiles, FirstOpened

_COLUMNS_PER_THREAD = 4  # enough to even out what threads have to do
_MOST_PIECES = 16  # for each thread: every piece goes through all files
_MOST_OPEN = 128  # files that all threads keep open together
_ALONE = 0.05  # seconds that one thread reads alone: for small work, several would fight over the interpreter lock


def plan_here(scans: Sequence[Scan], *, parallelism: int) -> list[Scan]:
    """As `plan_batches`, for threads: the more columns there are for each, the fewer batches."""
    batches = []
    for scan, is_divided in zip(scans, _are_divided(scans, parallelism), strict=True):
        needed = -(-_COLUMNS_PER_THREAD * parallelism // max(1, len(scan.kinds)))
        batches += plan_batches([scan], parallelism=min(parallelism, needed) if is_divided else parallelism)
    return batches


class Readers:
    """Threads that read batches from one queue."""

    def __init__(
        self, batches: Sequence[Scan], opened: TableSnapshot, put: PutAside, progress: Progress | None, threads: int
    ) -> None:
        self._put = put
        self._threads = threads
        self._left = deque(_pieces(batches, threads))
        self._count = len(self._left)
        self._rows: list[list[int]] = [[0] for _ in batches]  # that each column was read from, of each batch
        self._done = 0
        self._context = opened.scan_context
        self._store_for = opened.store_for
        self._progress = progress

    def read(self, *, at_once: bool) -> Partial:
        """Read all batches; ``at_once`` if they are enough work to start all threads."""
        from puffin.files.formats import FirstOpened  # the readers of all formats, as in `read_batch`

        partials = work_off(
            self._left,
            functools.partial(self._read_some, FirstOpened()),
            threads=self._threads,
            alone_seconds=0 if at_once else _ALONE,
            name="puffin-reader",
        )
        merged = functools.reduce(functools.partial(merge_partials, put=self._put), partials)
        return dataclasses.replace(merged, rows=sum(map(max, self._rows)))

    def _read_some(self, first: FirstOpened, pieces: Iterable[_Piece]) -> Partial:
        from puffin.files.formats import DataFiles, KeptFiles

        merged = Partial()
        with contextlib.closing(KeptFiles(self._store_for, first)) as files:
            for piece in pieces:
                read = self._read(piece.scan, files if piece.is_divided else DataFiles(self._store_for))
                self._rows[piece.batch].append(read.rows if piece.scan.counts else 0)
                if read.failure is not None:
                    self._left.clear()
                merged = merge_partials(merged, each_column(read, self._put), self._put)
                self._done += 1
                if self._progress is not None:
                    self._progress(self._done, self._count)
        return merged

    def _read(self, piece: Scan, files: DataFiles) -> Partial:
        batch = ScanBatch(piece.columns, piece.file_tasks, self._context)  # executors read those that they have packed
        return read_batch(batch, list(piece.kinds.values()), files, piece.removed)


class _Piece(NamedTuple):
    """The batch of this number, or some of its columns."""

    batch: int
    scan: Scan
    is_divided: bool


def _pieces(batches: Sequence[Scan], threads: int) -> Iterator[_Piece]:
    size = -(-sum(len(batch.kinds) for batch in batches) // (_MOST_PIECES * threads))
    for number, (batch, is_divided) in enumerate(zip(batches, _are_divided(batches, threads), strict=True)):
        if not is_divided:
            yield _Piece(number, batch, is_divided=False)
            continue
        # What may take longest comes first, so that no thread waits for it in the end.
        columns = sorted(batch.kinds, key=lambda column: -state_bytes(column))
        for at in range(0, len(columns), size):
            kinds = {column: batch.kinds[column] for column in columns[at : at + size]}
            yield _Piece(number, dataclasses.replace(batch, kinds=kinds), is_divided=True)


def _are_divided(scans: Sequence[Scan], threads: int) -> list[bool]:
    """Whether each of the scans is divided by columns."""
    files = {name_and_count(work)[0] for scan in scans for work in scan.tasks}
    return [threads * len(files) <= _MOST_OPEN and _is_divisible(scan) for scan in scans]


def _is_divisible(scan: Scan) -> bool:
    """Whether reading columns alone costs no more: files have them one after the other, and no deletes to look up."""
    return not any(kind.side_by_side for of in scan.kinds.values() for kind in of) and all(
        task.data_file.file_format == PARQUET and not task.delete_files and task.deleted_by is None
        for task in scan.file_tasks
    )
