"""
Plans scan tasks from a Delta table's log, and the changes between two versions.

A commit lists the files that it added and removed, with their deletion vectors, so changes cost no more than the log
entries between two versions. Files whose ``dataChange`` is false need not be read, since the table already had their
rows in other files. As in `puffin.iceberg.scan.changes`, a file that comes and goes in between is not read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from urllib.parse import unquote

from puffin.delta.log.actions import AddFile, FileKey, Metadata, RemoveFile
from puffin.delta.scan.deletion_vectors import deletion_vector_file
from puffin.delta.scan.partition_values import partition_json
from puffin.delta.schema import TableSchema, table_schema
from puffin.delta.state import SPEC_ID, DeltaState, LoggedPartition
from puffin.errors import SnapshotNotFound, UnsupportedError
from puffin.storage import join
from puffin.storage.uri import split
from puffin.tables.base import Snapshot
from puffin.tables.changes import Changes, compare
from puffin.tables.scan_task import DATA, PARQUET, ContentFile, FileScanTask


def plan_version(state: DeltaState) -> tuple[FileScanTask, ...]:
    """One task for each whole data file of the state's version."""
    tasks = Tasks.of(state)
    return state.segment.fold_files(lambda files: tuple(tasks.task_of(file) for file, _ in files))


def changes_between(state: DeltaState, base: Snapshot, target: Snapshot) -> Changes:
    """
    The whole data files with the rows that came or went between ``base`` and ``target``.

    Raises SnapshotNotFound if ``base`` is later, or if log entries between them have been cleaned up, and
    UnsupportedError if the table had other partition columns then.
    """
    if base.snapshot_id > target.snapshot_id:
        raise SnapshotNotFound(
            f"{state.location}: expected a version before {target.snapshot_id}, found {base.snapshot_id}"
        )
    added: list[AddFile] = []
    removed: list[AddFile | RemoveFile] = []
    for commit in state.segment.commits(base.snapshot_id):
        if commit.metadata is not None and (difference := _other_columns(base, state)) is not None:
            raise UnsupportedError(difference)
        if commit.version <= target.snapshot_id:
            added += (add for add in commit.adds if add.data_change)
            removed += (remove for remove in commit.removes if remove.data_change)
    total = compare(removed, added, lambda file: file.key)
    tasks = Tasks.of(state)
    before = tuple(_as_added(total.before, base, state))
    _check_partitions(before, state)
    return Changes(
        added=tuple(tasks.task_of(file) for file in total.after if isinstance(file, AddFile)),
        removed=tuple(map(tasks.task_of, before)),
    )


def other_partitions(state: DeltaState, base: Snapshot) -> str | None:
    """Implements `puffin.tables.snapshot.TableSnapshot.other_partitions`."""
    try:
        is_same = all(commit.metadata is None for commit in state.segment.commits(base.snapshot_id))
        return None if is_same else _other_columns(base, state)
    except SnapshotNotFound:
        return None  # log entries in between have been cleaned up


@dataclasses.dataclass(frozen=True, slots=True)
class Tasks:
    """Makes tasks of the files of a table at this location with these partition fields."""

    location: str
    partitions: tuple[LoggedPartition, ...]

    @classmethod
    def of(cls, state: DeltaState) -> Tasks:
        return cls(state.location, state.logged_partitions)

    def task_of(self, file: AddFile) -> FileScanTask:
        """The task for a whole file."""
        path = file_uri(file.path, self.location)
        data_file = ContentFile(
            content=DATA,
            file_path=path,
            file_format=PARQUET,
            spec_id=SPEC_ID,
            partition={
                each.field_id: partition_json(each.type, file.partition_values.get(each.name), path)
                for each in self.partitions
            },
            record_count=file.num_records or 0,
            file_size_in_bytes=file.size,
        )
        vector = file.deletion_vector
        deletes = () if vector is None else (deletion_vector_file(vector, self.location),)
        return FileScanTask(data_file, deletes, start=0, length=file.size)


def file_uri(path: str, location: str) -> str:
    """The location of a file from its path in the log: percent-encoded, and a URI or relative to the table."""
    decoded = unquote(path)
    return decoded if split(path) is not None or path.startswith("/") else join(location, decoded)


def _as_added(files: Sequence[AddFile | RemoveFile], base: Snapshot, state: DeltaState) -> Iterator[AddFile]:
    """Removed files as they were added; a removal may omit partition and size, or be of a path that no file has."""
    known = _ever_added({file.key for file in files if not _tells_all(file)}, base, state)
    for file in files:
        if isinstance(file, AddFile):
            yield file
        elif _tells_all(file):
            yield AddFile(**{field.name: getattr(file, field.name) for field in dataclasses.fields(file)})
        elif file.key in known:
            yield known[file.key]
        else:
            raise SnapshotNotFound(
                f"{state.location}: {file.path}: expected in the log how it was added, since it was removed after "
                f"version {base.snapshot_id}"
            )


def _other_columns(base: Snapshot, state: DeltaState) -> str | None:
    """
    How the partition columns of a version differ from those of the state, also in order or type; None if they do not.

    A partition's sketch is known by the values of the columns, in this order and as values of these types.
    """
    before = state.segment.at(base.snapshot_id).protocol_and_metadata[1]
    schema = table_schema(before.schema_string, before.configuration, state.known_ids, state.location)
    found, now = _logged(before, schema), _logged(state.metadata, state.delta_schema)
    if found == now:
        return None
    return (
        f"{state.location}: expected partition columns as in version {state.segment.version} ({_described(now)}), "
        f"found {_described(found)} in version {base.snapshot_id}"
    )


def _logged(metadata: Metadata, schema: TableSchema) -> list[tuple[str, str]]:
    """The partition columns by their names in the log, which a column keeps when it is renamed, with their types."""
    fields = {field["name"]: field for field in schema.schema["fields"]}
    found = (fields[name] for name in metadata.partition_columns if name in fields)
    return [(schema.paths[field["id"]][0], str(field["type"])) for field in found]


def _described(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns) or "none"


def _check_partitions(removed: Iterable[AddFile], state: DeltaState) -> None:
    """Raise UnsupportedError for files of other partition columns: the tasks would not say where their values are."""
    names = {each.name for each in state.logged_partitions}
    for file in removed:
        if (found := file.partition_values.keys()) != names:
            raise UnsupportedError(
                f"{state.location}: {file.path}: expected partition columns as in version {state.segment.version} "
                f"({_listed(names)}), found {_listed(found)}"
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _tells_all(file: AddFile | RemoveFile) -> bool:
    """Whether a file can be read from this action alone, which certainly is about a file that the table had."""
    certainly_had = isinstance(file, AddFile) or not file.may_miss
    return certainly_had and file.partition_values is not None and file.size is not None


def _ever_added(keys: Set[FileKey], base: Snapshot, state: DeltaState) -> Mapping[FileKey, AddFile]:
    """These files as they were added before the base or since."""
    if not keys:
        return {}
    known = state.segment.at(base.snapshot_id).fold_files(
        lambda files: {file.key: file for file, _ in files if file.key in keys}
    )
    added = (add for commit in state.segment.commits(base.snapshot_id) for add in commit.adds)
    return {**known, **{file.key: file for file in added if file.key in keys}}
