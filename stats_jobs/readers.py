"""
Reads batches in threads of this process, and in processes of theirs once these are there.

The threads take pieces from one queue.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from puffin.statistics.aside import PutAside
from puffin.storage import store_for
from puffin.tables.snapshot import TableSnapshot
from puffin.work_off import work_off
from stats_jobs.cluster import Progress
from stats_jobs.partial import Partial, each_column, merge_partials
from stats_jobs.pieces import Piece, PieceReader, pieces
from stats_jobs.reading_processes import PROCESSES, Lease
from stats_jobs.scan import Scan

if TYPE_CHECKING:
    from puffin.files.formats import FirstOpened

_ALONE = 0.05  # seconds that one thread reads alone: for small work, several would fight over the interpreter lock


class Readers:
    """Threads that read batches from one queue."""

    def __init__(
        self, batches: Sequence[Scan], opened: TableSnapshot, put: PutAside, progress: Progress | None, threads: int
    ) -> None:
        self._put = put
        self._threads = threads
        self._left = deque(pieces(batches, threads))
        self._count = len(self._left)
        self._rows: list[list[int]] = [[0] for _ in batches]  # that each column was read from, of each batch
        self._done = 0
        self._opened = opened
        # Whether processes can open the files, with the environment's credentials or those of the table's catalog.
        self._can_be_sent = opened.store_for is store_for or bool(opened.scan_context.io_properties)
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

    def _read_some(self, first: FirstOpened, taken: Iterable[tuple[int, Piece]]) -> Partial:
        merged = Partial()
        context = self._opened.scan_context
        here = PieceReader(context, self._opened.store_for, first)
        with contextlib.closing(here), Lease(PROCESSES, context, here) as lease:
            for batch, piece in taken:
                is_more_left = bool(self._left)
                read = lease.read(piece, is_more_left=is_more_left) if self._can_be_sent else here.read(piece)
                self._rows[batch].append(read.rows if piece.scan.counts else 0)
                if read.failure is not None:
                    self._left.clear()
                merged = merge_partials(merged, each_column(read, self._put), self._put)
                self._done += 1
                if self._progress is not None:
                    self._progress(self._done, self._count)
        return merged
