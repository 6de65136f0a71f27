"""Which files to read so that each partition is known on its own, given what was known of an ancestor."""

from __future__ import annotations

import dataclasses

from puffin.tables.base import Snapshot
from puffin.tables.scan_task import FileScanTask
from puffin.tables.snapshot import TableSnapshot
from puffin.values.partition_tuples import PartitionKey, partition_key


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionReading:
    """The files to read on top of an ancestor's sketches, their partitions, and the stale ones."""

    tasks: tuple[FileScanTask, ...]
    partitions: frozenset[PartitionKey]
    stale: frozenset[PartitionKey]

    @classmethod
    def since(cls, opened: TableSnapshot, base: Snapshot) -> PartitionReading:
        """What was added, and all files of partitions that lost rows; raises as `TableSnapshot.changes_since`."""
        changes = opened.changes_since(base)
        stale = frozenset(map(partition_of, [*changes.removed, *opened.moved_since(base)]))
        tasks = [task for task in changes.added if partition_of(task) not in stale]
        if stale:
            tasks += [task for task in opened.tasks if partition_of(task) in stale]
        return cls(tuple(tasks), frozenset(map(partition_of, tasks)), stale)


def partition_of(task: FileScanTask) -> PartitionKey:
    return partition_key(task.data_file.spec_id, task.data_file.partition)
