"""What a run reads: for each column the kinds to compute, and the files with their deletes, or documents of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from puffin.statistics.kinds.kind import Kind
from puffin.tables.base import Column
from puffin.tables.changes import RowKeys
from puffin.tables.scan_task import ContentFile, FileScanTask
from puffin.tables.state import TableState


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

    @property
    def file_tasks(self) -> tuple[FileScanTask, ...]:
        """The tasks of files that the driver knows one by one."""
        return tuple(work for work in self.tasks if not isinstance(work, PackedFiles))

    @property
    def packed(self) -> tuple[PackedFiles, ...]:
        return tuple(work for work in self.tasks if isinstance(work, PackedFiles))


def name_and_count(work: Work) -> tuple[str, int]:
    """The name of a data file, or the digest of packed ones, and how many files they are."""
    return (work.digest, work.files) if isinstance(work, PackedFiles) else (work.data_file.file_path, 1)


def rows_key(work: Work, keys: RowKeys) -> Hashable:
    """Equal for two pieces of work that read the same rows."""
    return work.digest if isinstance(work, PackedFiles) else keys(work)


def counted_once(scans: Sequence[Scan], before: Sequence[Scan] = ()) -> list[Scan]:
    """The same scans; ``counts`` is False for one whose rows are all read by others, or were by those ``before``."""
    if len(scans) + len(before) < 2:
        return list(scans)
    keys = RowKeys()

    def rows_of(scan: Scan) -> set[Hashable]:
        return {(scan.removed, rows_key(work, keys)) for work in scan.tasks}

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


def column_bytes(total: int, columns: Collection[Column], state: TableState) -> int:
    """About how many bytes these columns have in files of ``total`` bytes."""
    return total * len(columns) // max(1, len(state.columns))
