"""
Has executors plan a large snapshot that a run reads in full, so that the driver never holds a task for each file.

Each part of the plan comes back as the documents that are sent to executors later, with the number of files, their
bytes, and a digest by which another run finds what an earlier one has read of them. It does not depend on the number of
cores, as the pieces in documents do.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator, Mapping

from puffin.errors import CorruptError, NotFoundError, PuffinError, UnsupportedError
from puffin.iceberg.stores import stores
from puffin.kernels import load_kernels
from puffin.tables.base import Column
from puffin.tables.parted_plan import PartedPlan, PartPlanner, waves
from puffin.tables.scan_documents import TaskPacker
from puffin.tables.scan_task import FileScanTask
from puffin.tables.snapshot import TableSnapshot
from stats_jobs.cluster import Cluster
from stats_jobs.column_memory import passes_over
from stats_jobs.plan import MOST_BATCHES, piece_bytes, split_task
from stats_jobs.scan import PackedFiles, Work, column_bytes, total_bytes
from stats_jobs.session import Turns
from stats_jobs.step_file import part_digest


@dataclasses.dataclass(frozen=True, slots=True)
class Packing:
    """
    How a part becomes documents.

    Attributes:
        task_bytes: The size of the pieces that large files are split into, and of those that make one document.
        most_tasks: Limits the number of documents, in case sizes in the metadata are wrong.
    """

    planner: PartPlanner
    io_properties: Mapping[str, str]
    task_bytes: int
    most_tasks: int


def pack_part(packing: Packing, part: bytes) -> PackedFiles | PuffinError:
    """Plan a part and pack its tasks. Returns an error that a retry would not cure; raises StorageError."""
    load_kernels()
    try:
        tasks = list(packing.planner.tasks(part, stores(packing.io_properties)))
    except (CorruptError, UnsupportedError, NotFoundError) as exc:
        return exc
    size = max(packing.task_bytes, total_bytes(tasks) // packing.most_tasks)
    packer = TaskPacker(packing.planner.shared_deletes)
    documents = [document for group in _grouped(tasks, size) for document in packer.documents(group)]
    return PackedFiles(tuple(documents), len(tasks), total_bytes(tasks), part_digest(tasks))


def _grouped(tasks: Iterable[FileScanTask], size: int) -> Iterator[list[FileScanTask]]:
    """Groups of pieces of files, of up to this size in bytes."""
    group: list[FileScanTask] = []
    left = size
    for piece in (piece for task in tasks for piece in split_task(task, size)):
        if group and piece.bytes > left:
            yield group
            group, left = [], size
        group.append(piece)
        left -= piece.bytes
    if group:
        yield group


@dataclasses.dataclass
class SnapshotFiles:
    """
    The files of a snapshot that is read in full: one by one, or packed if it is so large that executors plan it.

    Attributes:
        columns: Those that are read.
    """

    opened: TableSnapshot
    turns: Turns
    driver_bytes: int
    columns: Collection[Column]
    _packed: tuple[PackedFiles, ...] | None = None

    def all(self) -> tuple[Work, ...]:
        """Planned once; raises what `TableSnapshot.tasks` and `stats_jobs.run.Runner.read` raise."""
        if self._packed is None and (plan := self._plan_of_executors()) is not None:
            with self.turns.slot() as cluster:
                planner = plan.prepare(cluster.map)
                self._packed = None if planner is None else self._pack(planner, plan, cluster)
        return self.opened.tasks if self._packed is None else self._packed

    def _plan_of_executors(self) -> PartedPlan | None:
        """How executors plan the files that they read; None if the driver does."""
        known = self.opened.snapshot.total_bytes
        if known is not None and not self._exceeds_driver(known):
            return None
        plan = self.opened.in_parts()
        return plan if plan is not None and self._exceeds_driver(plan.bytes) else None

    def _exceeds_driver(self, total: int) -> bool:
        return column_bytes(total, self.columns, self.opened.state) > self.driver_bytes

    def _pack(self, planner: PartPlanner, plan: PartedPlan, cluster: Cluster) -> tuple[PackedFiles, ...]:
        # Each pass reads a share of what it opens.
        size = passes_over(self.columns) * piece_bytes(plan.bytes, cluster.parallelism)
        most = math.ceil(MOST_BATCHES / max(1, len(plan.parts)))
        packing = Packing(planner, self.opened.scan_context.io_properties, size, most)
        shared = planner.shared_deletes
        packed: list[PackedFiles] = []
        for wave in waves(plan.parts):
            for files in cluster.map(pack_part, packing, wave):
                if isinstance(files, PuffinError):
                    raise files
                if files.files:
                    packed.append(dataclasses.replace(files, delete_files=shared))
        return tuple(packed)
