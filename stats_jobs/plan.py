"""
From files to Spark tasks of about equal work.

Large files are split at row groups; the pieces go, largest first, each to the batch that has least so far. Small work
is one batch for each core, since every Spark task in Python costs about a tenth of a second by itself. Of larger work
each core gets a few, so that a slow one can be made up for, and none is so large that losing it hurts.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

from puffin.tables.base import Column
from puffin.tables.iceberg_plan import split_task
from puffin.tables.scan_task import FileScanTask, ScanBatch

BATCHES_PER_CORE = 3  # at most, unless they would be larger than the largest
SMALL_BATCH = 128 * 1024 * 1024  # bytes; work of fewer for each core is not divided further
SMALLEST_SPLIT = 8 * 1024 * 1024  # bytes; opening a file once more costs about as much as decoding this
LARGEST_BATCH = 1024 * 1024 * 1024  # bytes
MOST_BATCHES = 100_000  # what a driver can schedule, should sizes in the metadata be absurd


def plan_batches(
    tasks: Sequence[FileScanTask],
    columns: tuple[Column, ...],
    *,
    parallelism: int,
    specs: Mapping[int, list[dict[str, Any]]],
    name_mapping: list[dict[str, Any]] | None,
    io_properties: Mapping[str, str],
) -> list[ScanBatch]:
    """
    One batch for each Spark task to run; none if there is nothing to read.

    Args:
        parallelism: How many tasks can run at once.
    """
    total = sum(task.length for task in tasks)
    rounds = min(max(1, total // (parallelism * SMALL_BATCH)), BATCHES_PER_CORE)
    batches = max(parallelism * rounds, min(-(-total // LARGEST_BATCH), MOST_BATCHES))
    # Pieces are smaller than batches, or the batches would not come out even.
    target = max(SMALLEST_SPLIT, total // max(batches, parallelism * BATCHES_PER_CORE))
    splits = [split for task in tasks for split in split_task(task, target)]
    return [
        ScanBatch(
            columns=columns,
            tasks=tuple(chosen),
            specs=_used(specs, chosen),
            name_mapping=name_mapping,
            io_properties=io_properties,
        )
        for chosen in balance(splits, min(len(splits), batches))
    ]


def balance(tasks: Sequence[FileScanTask], batches: int) -> list[list[FileScanTask]]:
    """The tasks in this many groups of about equal bytes, none of them empty if there are as many tasks."""
    heap: list[tuple[int, int]] = [(0, index) for index in range(batches)]
    groups: list[list[FileScanTask]] = [[] for _ in range(batches)]
    for task in sorted(tasks, key=lambda task: -task.length):
        weight, index = heapq.heappop(heap)
        groups[index].append(task)
        heapq.heappush(heap, (weight + max(1, task.length), index))
    return groups


def _used(specs: Mapping[int, list[dict[str, Any]]], tasks: Sequence[FileScanTask]) -> dict[int, list[dict[str, Any]]]:
    ids = {task.data_file.spec_id for task in tasks}
    return {spec_id: fields for spec_id, fields in specs.items() if spec_id in ids}
