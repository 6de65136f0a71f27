"""
Splits files into batches of about equal work.

Large files are split at row groups; the pieces are assigned, largest first, to the batch with the least work. A small
job is one batch per core, since every Spark task in Python costs about a tenth of a second. A larger job has a few per
core, to even out slow ones, and none so large that losing it is expensive.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from puffin.statistics.kinds import PARTITION_SKETCHES
from puffin.statistics.kinds.kind import Kind
from puffin.tables.base import Column
from puffin.tables.changes import RowKeys
from puffin.tables.scan_task import PARQUET, ContentFile, FileScanTask

BATCHES_PER_CORE = 3  # at most, unless batches would exceed LARGEST_BATCH
SMALL_BATCH = 512 * 1024 * 1024  # bytes; less work per core is one batch
SMALLEST_SPLIT = 8 * 1024 * 1024  # bytes; opening a file again costs about as much as decoding this
LARGEST_BATCH = 1024 * 1024 * 1024  # bytes
_FIRST_ROW_GROUP = 4  # the first row group of a Parquet file begins after its magic
_MB = 1_000_000
MOST_STATE = 640 * _MB  # of the columns of a batch while they are read; Python itself takes a third of a GB
NUMBERS_STATE, _TEXTS_STATE = 7 * _MB, 14 * _MB  # of a column of many values; of texts, the first 64 bytes are kept
_TEXTS = ("string", "binary", "fixed")
_BY_PARTITION = 8  # a column with sketches by partition is about as large as so many without
MOST_BATCHES = 100_000  # what a driver can schedule, in case sizes in the metadata are absurd


@dataclasses.dataclass(frozen=True, slots=True)
class PackedFiles:
    """
    Data files that executors have planned, and of which the driver has no more than the documents.

    Attributes:
        documents: As `puffin.tables.scan_documents` has them, each with the work of one executor task.
        files: How many; one that is listed twice counts twice.
        bytes: As that of `FileScanTask`.
        digest: Of the files, and of the delete files that apply to them.
        delete_files: Those that the documents name by number; the same for all packed files of a run.
    """

    documents: tuple[bytes, ...]
    files: int
    bytes: int
    digest: str
    delete_files: tuple[ContentFile, ...] = ()


Work: TypeAlias = FileScanTask | PackedFiles


@dataclasses.dataclass(frozen=True, slots=True)
class Scan:
    """
    The kinds to compute for each column, and the files to read for them.

    Attributes:
        removed: Whether these rows were deleted.
        counts: Whether its rows count as read; not if another scan reads the same.
    """

    kinds: Mapping[Column, tuple[Kind[Any], ...]]
    tasks: tuple[Work, ...]
    removed: bool = False
    counts: bool = True

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(self.kinds)


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
        size = max(target, target * total_bytes(part.tasks) // max(1, of_part))  # of files, of which this reads a share
        splits = [split for task in part.tasks for split in split_work(task, size)]
        share = batches if len(parts) == 1 else -(-batches * of_part // max(1, total))
        for chosen in balance(splits, max(1, min(len(splits), share))):
            planned.append(dataclasses.replace(part, tasks=tuple(chosen)))
    return planned


def piece_bytes(total: int, parallelism: int) -> int:
    """The size of pieces of so many bytes: smaller than batches, so that batches get about equal work."""
    pieces = max(min(-(-total // LARGEST_BATCH), MOST_BATCHES), parallelism * BATCHES_PER_CORE)
    return max(SMALLEST_SPLIT, total // pieces)


def by_columns(scan: Scan) -> list[Scan]:
    """
    Divide a scan of many columns into several of at most `MOST_STATE` each, for the memory of who reads it.

    The columns of joint sketches stay together.
    """
    if sum(map(state_bytes, scan.kinds)) <= MOST_STATE:
        return [scan]
    tied = frozenset[int]().union(*(kind.side_by_side for of in scan.kinds.values() for kind in of))
    together = [column for column in scan.columns if column.field_id in tied]
    others = [column for column in scan.columns if column.field_id not in tied]
    groups: list[list[Column]] = [[]]
    taken = 0
    for column in others:
        taken += state_bytes(column)
        if taken > MOST_STATE:
            groups.append([])
            taken = state_bytes(column)
        groups[-1].append(column)
    return [
        dataclasses.replace(
            scan, kinds={column: scan.kinds[column] for column in group}, counts=scan.counts and at == 0
        )
        for at, group in enumerate(group for group in (together, *groups) if group)
    ]


def passes_over(columns: Iterable[Column]) -> int:
    """In about how many groups columns are read, each of which opens every file."""
    return -(-sum(map(state_bytes, columns)) // MOST_STATE)


def state_bytes(column: Column) -> int:
    """The memory that a column of many values takes while a task reads it."""
    return _TEXTS_STATE if column.type.startswith(_TEXTS) else NUMBERS_STATE


def weight(scans: Iterable[Scan]) -> int:
    """About how many times as large the values of a column are as those of one without sketches by partition."""
    return _BY_PARTITION if any(PARTITION_SKETCHES in of for scan in scans for of in scan.kinds.values()) else 1


def state_columns(scans: Collection[Scan]) -> int:
    """As many columns as have values of about the size that these scans find, without sketches by partition."""
    return weight(scans) * len({column.field_id for scan in scans for column in scan.columns})


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


def counted(work: Work) -> tuple[str, int]:
    """What tells data files from others, and their number."""
    return (work.digest, work.files) if isinstance(work, PackedFiles) else (work.data_file.file_path, 1)


def counted_once(scans: Sequence[Scan], before: Sequence[Scan] = ()) -> list[Scan]:
    """The scans, of which one does not count if others, or those that were read ``before``, read all of its rows."""
    if len(scans) + len(before) < 2:
        return list(scans)
    keys = RowKeys()

    def rows_of(scan: Scan) -> set[Hashable]:
        return {(scan.removed, work.digest if isinstance(work, PackedFiles) else keys(work)) for work in scan.tasks}

    seen: set[Hashable] = set().union(*map(rows_of, before))
    counts = dict.fromkeys(range(len(scans)), False)
    for at in sorted(counts, key=lambda at: -len(scans[at].tasks)):  # fewer files are often some of more
        rows = rows_of(scans[at])
        counts[at] = not rows <= seen
        seen |= rows
    return [dataclasses.replace(scan, counts=counts[at]) for at, scan in enumerate(scans)]


def total_bytes(tasks: Iterable[Work]) -> int:
    """About how many bytes of their files these tasks read if they read every column."""
    return sum(task.bytes for task in tasks)
