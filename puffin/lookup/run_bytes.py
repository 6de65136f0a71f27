"""Which files the next run of the job reads for statistics, as the job decides it, and how many bytes they have."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from puffin.errors import GONE_OR_BROKEN, UsageError
from puffin.sketches.partition_sketches import lg_k_for
from puffin.statistics.ancestry import KnownSketch, known_sketches
from puffin.statistics.basis import ColumnPlan
from puffin.tables.base import Snapshot
from puffin.tables.partition_reading import PartitionReading, partition_of
from puffin.tables.scan_task import FileScanTask
from puffin.tables.snapshot import TableSnapshot


class Reading(NamedTuple):
    """The files that a run reads for something, those whose rows came and those whose rows went."""

    added: Sequence[FileScanTask]
    removed: Sequence[FileScanTask] = ()


def opened_bytes(readings: Iterable[Reading]) -> int:
    """
    The bytes that a run reads of the files of these, each once, though one reading may take more of it than another.

    A file that is added and removed is read twice, but for one that only lost rows: no row of it came back.
    """
    most: Counter[tuple[str, int, bool]] = Counter()
    for reading in readings:
        for tasks, removed in ((reading.added, False), (reading.removed, True)):
            for task in tasks:
                twice = removed and task.deleted_by is None
                piece = task.data_file.file_path, task.start, twice
                most[piece] = max(most[piece], task.most_bytes)
    return most.total()


def readings_of_columns(opened: TableSnapshot, plans: Iterable[ColumnPlan]) -> list[Reading]:
    """What is read for the statistics of columns; raises as `TableSnapshot.tasks`."""
    changes = {plan.base_id: plan.changes for plan in plans}.values()
    return [Reading(opened.tasks) if each is None else Reading(each.added, each.removed) for each in changes]


def readings_of_sets(opened: TableSnapshot, sets: Iterable[str]) -> Iterator[Reading]:
    """What is read for joint sketches of these sets of columns, ``a+b``; raises as `TableSnapshot.tasks`."""

    def since(base: Snapshot) -> Reading:
        changes = opened.changes_since(base).narrowed
        return Reading(changes.added, changes.removed)

    for names in sets:
        ids = tuple(sorted(column.field_id for column in opened.state.select_columns(names.split("+"))))
        known = known_sketches(opened, ids[:1])[ids[0]]
        bases = _snapshots(each for each in known if ids in each.properties.joint)
        yield _nearest(bases, since) or Reading(opened.tasks)


def readings_by_partition(opened: TableSnapshot, known: Mapping[int, Sequence[KnownSketch]]) -> Iterator[Reading]:
    """What is read for sketches by partition of these columns; raises as `TableSnapshot.tasks`."""
    if not any(opened.state.tuple_types.values()):
        return

    def since(base: Snapshot) -> Reading:
        return Reading(PartitionReading.since(opened, base).tasks)

    bases = {_snapshots(each for each in of if each.properties.partitions is not None) for of in known.values()}
    for snapshots in bases:
        reading = _nearest(snapshots, since)
        if reading is not None:
            yield reading
        elif _can_have_sketches(opened):
            yield Reading(opened.tasks)


def _snapshots(known: Iterable[KnownSketch]) -> tuple[Snapshot, ...]:
    return tuple(each.snapshot for each in known if each.snapshot is not None)


def _nearest(bases: Iterable[Snapshot], since: Callable[[Snapshot], Reading]) -> Reading | None:
    """What is read on top of the first of these that can be built on; None if none can."""
    for base in bases:
        with contextlib.suppress(*GONE_OR_BROKEN):  # the job says in its log why
            return since(base)
    return None


def _can_have_sketches(opened: TableSnapshot) -> bool:
    try:
        lg_k_for({partition_of(task) for task in opened.tasks})
    except UsageError:  # there are too many partitions
        return False
    return True
