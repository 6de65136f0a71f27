"""
Plans the files to read for a snapshot: every data file with the delete files that apply to it (spec, "Scan Planning").

The driver refuses unsupported files here, by name, before anything is read: a sketch that ignored deletes would be
silently wrong.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from puffin.errors import CorruptMetadataError, UnsupportedTableError
from puffin.iceberg.scan.deletes import DeleteIndex, delete_columns
from puffin.iceberg.scan.manifest_lists import ManifestFile, manifests_of
from puffin.iceberg.scan.manifests import LiveFile, live_files_of
from puffin.kernels import load_kernels
from puffin.storage import Store
from puffin.tables.base import Snapshot
from puffin.tables.scan_task import (
    AVRO,
    DATA,
    EQUALITY_DELETES,
    ORC,
    PARQUET,
    POSITION_DELETES,
    PUFFIN,
    ContentFile,
    FileScanTask,
)
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.state import TableState
from puffin.values.json_values import to_json
from puffin.work_off import work_off

_KERNELS_PAY_FILES = 20_000
_READERS = 8  # threads
_ALONE = 0.005  # seconds that one of them reads alone: for a few small manifests, several would take longer
_NO_VALUES: Mapping[str, Any] = {}
_READABLE = frozenset((PARQUET, AVRO, ORC))
_KEPT_FIELDS = frozenset(LiveFile.__slots__) & frozenset(ContentFile.__slots__) - {"partition"}


def plan_snapshot(opened: TableSnapshot, snapshot: Snapshot) -> tuple[FileScanTask, ...]:
    """One task for each whole data file of the snapshot, in manifest order."""
    manifests = manifests_of(opened, snapshot)
    of_data = [manifest for manifest in manifests if not manifest.of_deletes]
    load_kernels_for(of_data)
    of_deletes = (manifest for manifest in manifests if manifest.of_deletes)
    deletes = [file for manifest in of_deletes for file in delete_files_of(manifest, opened.store_for)]
    planner = SnapshotPlanner.of(opened.state, snapshot, deletes)

    found: dict[int, list[LiveFile]] = {}

    def read(numbered: Iterable[tuple[int, ManifestFile]]) -> None:
        for number, manifest in numbered:
            found[number] = planner.files_of(manifest, opened.store_for)

    # What takes longest, decompression and kernels, runs side by side; so do requests to a store.
    threads = min(_READERS, 2 * (os.cpu_count() or 1))
    work_off(deque(enumerate(of_data)), read, threads=threads, alone_seconds=_ALONE, name="puffin-manifests")
    return tuple(planner.task_of(file) for number in range(len(of_data)) for file in found[number])


def delete_files_of(manifest: ManifestFile, store_for: Callable[[str], Store]) -> Iterator[LiveFile]:
    """The delete files of a manifest."""
    return readable(live_files_of(manifest, store_for))


class SnapshotPlanner:
    """
    Plans the data files of a snapshot, one manifest after the other.

    It has the snapshot's delete files, and can be sent to another process.
    """

    def __init__(self, state: TableState, snapshot: Snapshot, deletes: Iterable[LiveFile]) -> None:
        self._columns = state.columns_ever
        self._types = state.tuple_types_at(snapshot)
        self._deletes = list(deletes)
        self._delete_columns = {field_id for file in self._deletes for field_id in file.equality_ids}
        self._index = DeleteIndex(state.partition_specs, state.columns_ever)
        for file in self._deletes:
            self._index.add(file)
        self._converted: dict[tuple[str, int | None], ContentFile] = {}

    @classmethod
    def of(cls, state: TableState, snapshot: Snapshot, deletes: Iterable[LiveFile]) -> SnapshotPlanner:
        """
        That of a whole snapshot.

        Raises UnsupportedTableError if rows are deleted by values of another type than the column has now.
        """
        planner = cls(state, snapshot, deletes)
        for field_id in planner._delete_columns & state.unreadable_at(snapshot):
            raise UnsupportedTableError(
                f"{state.name}: snapshot {snapshot.snapshot_id}: expected equality deletes of columns with their types "
                f"of now, found {state.columns_ever[field_id].name}, of type "
                f"{state.column_type_at(snapshot, field_id)} then"
            )
        return planner

    def with_named_deletes(self, named: Iterable[LiveFile]) -> SnapshotPlanner:
        """One that also has delete files that name their data file; this one has none."""
        other = copy.copy(self)
        other._index = self._index.with_named_deletes(named)
        other._converted = dict(self._converted)
        return other

    def files_of(self, manifest: ManifestFile, store_for: Callable[[str], Store]) -> list[LiveFile]:
        """The data files of a manifest; several threads may call this at once."""
        return list(readable(live_files_of(manifest, store_for, self._delete_columns)))

    def task_of(self, file: LiveFile) -> FileScanTask:
        """The task of a whole data file, with the delete files that apply to it."""
        deletes = tuple(map(self._delete_file, self._index.applying_to(file)))
        return FileScanTask(self._content_file(file), deletes, start=0, length=file.file_size_in_bytes)

    @property
    def shared_deletes(self) -> tuple[ContentFile, ...]:
        """Its delete files, sorted so that those of one data file are mostly neighbours."""
        return tuple(map(self._delete_file, sorted(self._deletes, key=_alike)))

    def _delete_file(self, file: LiveFile) -> ContentFile:
        """Converted once for all of the data files that it applies to."""
        place = file.file_path, file.content_offset
        if place not in self._converted:
            columns = delete_columns(file, self._columns) if file.content == EQUALITY_DELETES else ()
            self._converted[place] = dataclasses.replace(self._content_file(file), equality_columns=columns)
        return self._converted[place]

    def _content_file(self, file: LiveFile) -> ContentFile:
        return ContentFile(partition=self._values(file), **{name: getattr(file, name) for name in _KEPT_FIELDS})

    def _values(self, file: LiveFile) -> Mapping[str, Any]:
        types = self._types.get(file.spec_id)
        if not types:
            return _NO_VALUES
        try:
            return {
                str(field_id): to_json(type_, file.partition[field_id])
                for field_id, type_ in types.items()
                if field_id in file.partition
            }
        except CorruptMetadataError as exc:
            raise CorruptMetadataError(f"{file.file_path}: {exc}") from exc


def scan_tasks(
    state: TableState, snapshot: Snapshot, data: Iterable[LiveFile], deletes: Iterable[LiveFile]
) -> tuple[FileScanTask, ...]:
    """One task for each of these whole data files of a snapshot, with the delete files that apply to it."""
    return tuple(map(SnapshotPlanner(state, snapshot, deletes).task_of, data))


def readable(files: Iterable[LiveFile]) -> Iterator[LiveFile]:
    """The files; refuses encrypted ones, unknown formats, and deletion vectors without data file, offset and size."""
    for file in files:
        _refuse_unreadable(file)
        yield file


def load_kernels_for(manifests: Iterable[ManifestFile]) -> None:
    """Load kernels if these list so many files that it pays."""
    if sum(manifest.live_files or 0 for manifest in manifests) >= _KERNELS_PAY_FILES:
        load_kernels()


def _refuse_unreadable(file: LiveFile) -> None:
    if file.encrypted:
        raise UnsupportedTableError(f"{file.file_path}: expected an unencrypted file, found key metadata")
    if file.content == POSITION_DELETES and file.file_format == PUFFIN:
        if file.referenced_data_file is None or file.content_offset is None or file.content_size_in_bytes is None:
            raise CorruptMetadataError(f"{file.file_path}: a deletion vector without its data file, offset and size")
    elif file.file_format not in _READABLE:
        kind = "data" if file.content == DATA else "delete"
        raise UnsupportedTableError(f"{file.file_path}: {kind} files of format {file.file_format} are not supported")


def _alike(file: LiveFile) -> tuple[Any, ...]:
    """Sorts the files of a scope, those to be compared by the same columns, by their age."""
    return file.content, file.spec_id, repr(sorted(file.partition.items())), file.equality_ids, file.sequence_number
