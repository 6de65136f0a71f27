"""
Batches in pieces, for the threads and processes that read on this machine.

A batch is divided by columns where that is possible: who reads a column from all files keeps one state of it, and
nothing has to be merged. If there are few columns, the files are divided too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from puffin.storage import Store
from puffin.tables.scan_task import PARQUET, ScanBatch, ScanContext
from stats_jobs.column_memory import state_bytes
from stats_jobs.execute import read_batch
from stats_jobs.partial import Partial
from stats_jobs.plan import plan_batches
from stats_jobs.scan import Scan, name_and_count

if TYPE_CHECKING:
    from puffin.files.formats import FirstOpened

_COLUMNS_PER_THREAD = 4  # enough to even out what threads have to do
_MOST_PIECES = 16  # for each thread: every piece goes through all files
_MOST_OPEN = 128  # files that all threads keep open together


class Piece(NamedTuple):
    """
    A batch, or some of its columns.

    Attributes:
        is_divided: Whether other pieces have the other columns of the same files.
    """

    scan: Scan
    is_divided: bool


def plan_here(scans: Sequence[Scan], *, parallelism: int) -> list[Scan]:
    """As `plan_batches`, for threads: the more columns there are for each, the fewer batches."""
    batches = []
    for scan, is_divided in zip(scans, _are_divided(scans, parallelism), strict=True):
        needed = -(-_COLUMNS_PER_THREAD * parallelism // max(1, len(scan.kinds)))
        batches += plan_batches([scan], parallelism=min(parallelism, needed) if is_divided else parallelism)
    return batches


def pieces(batches: Sequence[Scan], threads: int) -> Iterator[tuple[int, Piece]]:
    """The pieces of batches for so many threads, each with the number of its batch."""
    size = -(-sum(len(batch.kinds) for batch in batches) // (_MOST_PIECES * threads))
    for number, (batch, is_divided) in enumerate(zip(batches, _are_divided(batches, threads), strict=True)):
        if not is_divided:
            yield number, Piece(batch, is_divided=False)
            continue
        # What may take longest comes first, so that no thread waits for it in the end.
        columns = sorted(batch.kinds, key=lambda column: -state_bytes(column))
        for at in range(0, len(columns), size):
            kinds = {column: batch.kinds[column] for column in columns[at : at + size]}
            yield number, Piece(dataclasses.replace(batch, kinds=kinds), is_divided=True)


class PieceReader:
    """Reads pieces one after the other, and keeps the files of divided ones open until `close`. For one thread."""

    def __init__(self, context: ScanContext, store_for: Callable[[str], Store], first: FirstOpened) -> None:
        from puffin.files.formats import DataFiles, KeptFiles

        self._context = context
        self._opened_anew = DataFiles(store_for)
        self._kept_open = KeptFiles(store_for, first)

    def read(self, piece: Piece) -> Partial:
        """As `read_batch`."""
        scan = piece.scan
        batch = ScanBatch(scan.columns, scan.file_tasks, self._context)  # executors read those that they have packed
        files = self._kept_open if piece.is_divided else self._opened_anew
        return read_batch(batch, list(scan.kinds.values()), files, scan.removed)

    def close(self) -> None:
        self._kept_open.close()


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
