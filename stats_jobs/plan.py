"""
Splits files into batches of about equal work.

Large files are split at row groups; the pieces are assigned, largest first, to the batch with the least work. A small
job is one batch per core, since every Spark task in Python costs about a tenth of a second. A larger job has a few per
core, to even out slow ones, and none so large that losing it is expensive.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable, Sequence

from puffin.tables.scan_task import PARQUET, FileScanTask
from stats_jobs.column_memory import by_columns
from stats_jobs.scan import PackedFiles, Scan, Work, total_bytes

BATCHES_PER_CORE = 3  # at most, unless batches would exceed LARGEST_BATCH
SMALL_BATCH = 512 * 1024 * 1024  # bytes; less work per core is one batch
SMALLEST_SPLIT = 8 * 1024 * 1024  # bytes; opening a file again costs about as much as decoding this
LARGEST_BATCH = 1024 * 1024 * 1024  # bytes
_FIRST_ROW_GROUP = 4  # the first row group of a Parquet file begins after its magic
MOST_BATCHES = 100_000  # what a driver can schedule, in case sizes in the metadata are absurd


def plan_batches(scans: Iterable[Scan], *, parallelism: int) -> list[Scan]:
    """Split scans into parts for one executor each, of which ``parallelism`` run at once."""
    parts = [
        (part, total_bytes(scan.tasks) * len(part.kinds) // len(scan.kinds))
        for scan in scans
        if scan.tasks and scan.kinds
        for part in by_columns(scan)
    ]
    total = sum(of_part for _, of_part in parts)
    rounds = min(max(1, total // (parallelism * SMALL_BATCH)), BATCHES_PER_CORE)
    batches = max(parallelism * rounds, min(-(-total // LARGEST_BATCH), MOST_BATCHES))
    target = piece_bytes(total, parallelism)
    planned = []
    for part, of_part in parts:
        # Larger pieces, since this part reads a share of the columns.
        size = max(target, target * total_bytes(part.tasks) // max(1, of_part))
        splits = [split for task in part.tasks for split in split_work(task, size)]
        share = batches if len(parts) == 1 else -(-batches * of_part // max(1, total))
        for chosen in balance(splits, max(1, min(len(splits), share))):
            planned.append(dataclasses.replace(part, tasks=tuple(chosen)))
    return planned


def piece_bytes(total: int, parallelism: int) -> int:
    """The size of pieces, of ``total`` bytes in all: smaller than batches, so that batches get about equal work."""
    pieces = max(min(-(-total // LARGEST_BATCH), MOST_BATCHES), parallelism * BATCHES_PER_CORE)
    return max(SMALLEST_SPLIT, total // pieces)


def split_work(work: Work, target_bytes: int) -> Sequence[Work]:
    """As `split_task`; packed files stay together, since their documents have pieces."""
    return [work] if isinstance(work, PackedFiles) else split_task(work, target_bytes)


def split_task(task: FileScanTask, target_bytes: int) -> list[FileScanTask]:
    """
    Split a Parquet task at row group boundaries into pieces of about this size.

    The boundaries are the file's split offsets. A file without them is split by bytes: the reader of a piece takes the
    row groups that begin in it, so each is read once wherever the splits are. Other formats are not split.
    """
    size = task.data_file.file_size_in_bytes
    if size <= target_bytes or task.data_file.file_format != PARQUET:
        return [task]
    offsets = sorted(o for o in task.data_file.split_offsets if _FIRST_ROW_GROUP <= o < size)
    candidates = offsets[1:] if offsets else range(target_bytes, size, target_bytes)
    cuts = [0]
    for offset in candidates:
        if offset - cuts[-1] >= target_bytes:
            cuts.append(offset)
    return [
        dataclasses.replace(task, start=start, length=end - start)
        for start, end in zip(cuts, [*cuts[1:], size], strict=True)
    ]


def balance(tasks: Sequence[Work], batches: int) -> list[list[Work]]:
    """Split tasks into groups of about equal bytes; no group is empty unless there are fewer tasks."""
    heap: list[tuple[int, int]] = [(0, index) for index in range(batches)]
    groups: list[list[Work]] = [[] for _ in range(batches)]
    for task in sorted(tasks, key=lambda task: -task.bytes):
        weight, index = heapq.heappop(heap)
        groups[index].append(task)
        heapq.heappush(heap, (weight + max(1, task.bytes), index))
    return groups
