"""
Reads large runs in steps, and keeps what each has found, so that a run that dies is not read again from the start.

A step is some files of each scan, whole ones. What it has found is merged and written to the folder of private state,
as one file. The next run takes the files of steps that fit: those that read, for the same columns and kinds, nothing
but files that it has to read too, with the same delete files. It does not matter who wrote them, or for which
snapshot. A run that commits deletes those that it wrote or took; `puffin clean` removes others once they are old.

Small tables do not pay: a run has steps only if each takes several seconds, and steps of many columns, whose values
take more bytes, are larger.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from puffin.errors import PuffinError
from puffin.format import CREATED_BY
from puffin.statistics.aside import PutAside, put_aside
from puffin.statistics.private_state import places
from puffin.statistics.private_state.deletion import delete_files
from puffin.statistics.private_state.writing import write_blobs
from puffin.storage import FileInfo, join
from puffin.tables.arguments import NameOrPath
from puffin.tables.leftovers import AgeLimit
from puffin.tables.snapshot import TableSnapshot
from puffin.version import created_by
from stats_jobs.column_memory import state_columns
from stats_jobs.partial import Partial, merge_partials
from stats_jobs.plan import balance
from stats_jobs.scan import Scan, Work, name_and_count
from stats_jobs.step_file import StepFile, StepHead, can_keep, scan_digest, task_digest, to_blobs

MOST_STEPS = 16
"""A run that dies loses one step, and the one before if it dies in the seconds in which that is written."""

BYTES_PER_CORE = 2 * 1024 * 1024 * 1024
"""Of a step, at least: some ten seconds. At its end cores wait for the last task, and up to a second for the next."""

BYTES_PER_COLUMN = 64 * 1024 * 1024
"""Of a step, at least: the values of a column that has many take some 0.3 MB, so half a percent is written."""

_log = logging.getLogger(__name__)


def in_steps(scans: Sequence[Scan], size: int, parallelism: int) -> list[list[Scan]]:
    """Divide scans that read ``size`` bytes into steps of about equal bytes; a single one if they are too small."""
    columns = {column.field_id for scan in scans for column in scan.columns}
    least = max(parallelism * BYTES_PER_CORE, len(columns) * BYTES_PER_COLUMN)
    count = min(MOST_STEPS, size // max(1, least))
    if count < 2:
        return [list(scans)]
    groups = [balance(scan.tasks, count) for scan in scans]
    steps = [
        [dataclasses.replace(scan, tasks=tuple(of[step])) for scan, of in zip(scans, groups, strict=True) if of[step]]
        for step in range(count)
    ]
    return [step for step in steps if step]


class KeptSteps:
    """The files of steps in the folder of a table's private state, as one run finds, writes and deletes them."""

    def __init__(self, opened: TableSnapshot, home: NameOrPath | None) -> None:
        self._opened = opened
        self._directory = places.directory(opened.state, places.chosen_home(opened.state, home))
        self._ours: list[str] = []
        self._writes = True

    def take(self, scans: Sequence[Scan], size: int) -> tuple[Sequence[Scan], Partial]:
        """
        What earlier runs have found of these scans, which read ``size`` bytes, and the scans for the rest.

        For a small run nothing is looked up. A file that is broken or gone is ignored, with a warning; raises nothing.
        """
        found = Partial()
        if size < BYTES_PER_CORE:
            return scans, found
        try:
            files = list(self._files())
        except PuffinError as exc:
            _log.warning("%s: the saved steps of an earlier run cannot be used: %s", self._directory, exc)
            return scans, found
        if not files:
            return scans, found  # the digests of a million files take a while, and memory
        left = _Left(scans, self._digest)
        for file in files:
            put = put_aside(state_columns(scans))
            found = merge_partials(found, self._read(file, left, put), put)
        if left.taken:
            _log.info("%s: %d files were read by an earlier run", self._opened.name, left.taken)
        return left.scans(), found

    def put(self, scans: Sequence[Scan], partial: Partial) -> None:
        """Keep what these scans have found; after the first failure, which is logged, nothing more is written."""
        if not self._writes:
            return
        tasks: dict[str, list[str]] = {}
        for scan in scans:
            tasks.setdefault(self._digest(scan), []).extend(map(task_digest, scan.tasks))
        uri = places.step_uri(self._directory, str(uuid.uuid4()))
        self._ours.append(uri)
        blobs = to_blobs(StepHead(tasks, partial.mapped), partial, self._opened.snapshot.snapshot_id)
        try:
            write_blobs(self._opened.store_for(uri), uri, blobs, {CREATED_BY: created_by()})
        except PuffinError as exc:
            self._writes = False
            _log.warning("what was read is not kept for another run: %s", exc)

    def discard(self) -> None:
        """Delete the files that were written or taken, since nobody needs them any more; log failures."""
        ours, self._ours = self._ours, []
        for failure in delete_files(ours, self._opened.store_for):
            _log.warning("could not delete a file, which stays behind: %s", failure)

    def _digest(self, scan: Scan) -> str:
        return scan_digest(scan, self._opened.scan_context, self._opened.state.uuid)

    def _files(self) -> Iterator[FileInfo]:
        """The files that are young enough to be used; a file that is not is deleted."""
        limit = AgeLimit()
        folder = join(self._directory, places.PROGRESS)
        for own in self._opened.store_for(self._directory).directories(folder):
            for file in self._opened.store_for(self._directory).list(join(folder, own)):
                if limit.objection(file) is None:
                    delete_files([file.uri], self._opened.store_for)
                elif file.name == places.PART_NAME:
                    yield file

    def _read(self, file: FileInfo, left: _Left, put: PutAside) -> Partial:
        try:
            with self._opened.store_for(self._directory).open_source(file.uri) as source:
                step = StepFile(source)
                head = step.head()
                if not left.has(head):
                    return Partial()
                partial = step.partial(left.kinds, put)
        except PuffinError as exc:
            _log.warning("%s: the saved steps of an earlier run cannot be used: %s", file.uri, exc)
            return Partial()
        self._ours.append(file.uri)
        return dataclasses.replace(partial, resumed=left.take(head))


class _Left:
    """What is left to read of some scans; scans that differ in kinds that cannot be kept share their digest."""

    def __init__(self, scans: Sequence[Scan], digest_of: Callable[[Scan], str]) -> None:
        self.kinds = {
            (column.field_id, kind.name): kind
            for scan in scans
            for column, kinds in scan.kinds.items()
            for kind in kinds
            if can_keep(kind)
        }
        self._scans = scans
        self.taken = 0  # data files
        self._places: dict[tuple[str, str], list[tuple[int, Work]]] = {}
        for at, scan in enumerate(scans):
            digest = digest_of(scan)
            for task in scan.tasks:
                self._places.setdefault((digest, task_digest(task)), []).append((at, task))

    def has(self, head: StepHead) -> bool:
        """Whether all that a step has read is left to read; a file that is listed twice is read twice."""
        wanted = Counter((scan, task) for scan, tasks in head.scans.items() for task in tasks)
        return bool(wanted) and all(len(self._places.get(key, ())) >= count for key, count in wanted.items())

    def take(self, head: StepHead) -> frozenset[str]:
        """Take out what a step has read; return what tells its files from others."""
        popped = (self._places[scan, task].pop() for scan, tasks in head.scans.items() for task in tasks)
        taken = dict(name_and_count(work) for _, work in popped)
        self.taken += sum(taken.values())
        return frozenset(taken)

    def scans(self) -> list[Scan]:
        left: dict[int, list[Work]] = {}
        for found in self._places.values():
            for at, task in found:
                left.setdefault(at, []).append(task)
        rest = (dataclasses.replace(scan, tasks=tuple(left.get(at, ()))) for at, scan in enumerate(self._scans))
        return [scan for scan in rest if scan.tasks]
