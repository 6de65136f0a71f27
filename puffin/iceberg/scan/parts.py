"""
Plans a large snapshot in parts of a few manifests each.

Which parts there are follows from the manifests alone, so manifests that two snapshots share are mostly in the same
parts. The delete files are read first, here or in other processes, since any of them may apply to any data file.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from puffin.errors import CorruptError, NotFoundError, PuffinError, UnsupportedError
from puffin.iceberg.scan.manifest_lists import ManifestFile, manifests_of
from puffin.iceberg.scan.manifests import LiveFile
from puffin.iceberg.scan.named_deletes import NamedDeletes, names_its_data_file
from puffin.iceberg.scan.plan import SnapshotPlanner, delete_files_of
from puffin.iceberg.stores import stores
from puffin.storage import Store
from puffin.tables.base import Snapshot
from puffin.tables.parted_plan import Part, PartedPlan, RemoteMap, waves
from puffin.tables.scan_task import ContentFile, FileScanTask
from puffin.tables.snapshot import TableSnapshot

LEAST_BYTES = 64 * 1024 * 1024
"""Bytes of data manifests from which a snapshot counts as large; one core reads as many in one to two seconds."""

LEAST_FILES = 100_000
"""Data files from which a snapshot counts as large, however small its manifests are."""

MOST_DELETES = 20_000
"""Delete files that may apply to any data file: each process that plans a part gets all of them."""

MOST_NAMED = 500_000
"""Delete files that name their data file: about 0.1 kB each, and a message to executors has 128 MB at most."""

_FEW_DELETES = 2000  # delete files; no more than these are read in this process

_WORTH_A_LOOK = 10_000  # data files; with fewer, a snapshot is not large, and its manifest list is not read
_PART_BYTES = 4 * 1024 * 1024  # of manifests: half of what writers aim at, so that most parts are one manifest
_PART_FILES = 4000


def plan_in_parts(opened: TableSnapshot, snapshot: Snapshot) -> PartedPlan | None:
    """The parts of a snapshot, and what plans them; None unless it is large, with not too many delete files."""
    if (snapshot.total_files or 0) < _WORTH_A_LOOK:
        return None
    manifests = manifests_of(opened, snapshot)
    data = [manifest for manifest in manifests if not manifest.of_deletes]
    is_large = sum(m.length or 0 for m in data) >= LEAST_BYTES or sum(map(_files_in, data)) >= LEAST_FILES
    deletes = [manifest for manifest in manifests if manifest.of_deletes]
    if not is_large or sum(map(_files_in, deletes)) > MOST_NAMED:
        return None
    return PartedPlan(snapshot.total_bytes or 0, functools.partial(_planner, opened, deletes), tuple(_parts(data)))


def _planner(opened: TableSnapshot, manifests: Sequence[ManifestFile], remotely: RemoteMap) -> _Planner | None:
    """What plans the parts, with the delete files of these manifests; None if too many may apply to any data file."""
    is_small = sum(map(_files_in, manifests)) <= _FEW_DELETES
    shared: list[LiveFile] = []
    named: list[NamedDeletes] = []
    for wave in waves(_parts(manifests)):
        properties = opened.scan_context.io_properties
        read = (
            [_deletes_in(p, opened.store_for) for p in wave] if is_small else remotely(_read_deletes, properties, wave)
        )
        for deletes in read:
            if isinstance(deletes, PuffinError):
                raise deletes
            shared += deletes.shared
            named.append(deletes.named)
        if len(shared) > MOST_DELETES:
            return None
    return _Planner(SnapshotPlanner.of(opened.state, opened.snapshot, shared), tuple(named))


@dataclasses.dataclass(frozen=True, slots=True)
class _Deletes:
    """Delete files: those that may apply to any data file, and those that name one."""

    shared: list[LiveFile]
    named: NamedDeletes


def _read_deletes(io_properties: Mapping[str, str], part: bytes) -> _Deletes | PuffinError:
    """The delete files of a part; the error if a retry would not cure it. Otherwise, StorageError is raised."""
    try:
        return _deletes_in(part, stores(io_properties))
    except (CorruptError, UnsupportedError, NotFoundError) as exc:
        return exc


def _deletes_in(part: bytes, store_for: Callable[[str], Store]) -> _Deletes:
    files = [file for manifest in _manifests(part) for file in delete_files_of(manifest, store_for)]
    shared = [file for file in files if not names_its_data_file(file)]
    return _Deletes(shared, NamedDeletes.of(filter(names_its_data_file, files)))


def _parts(manifests: Iterable[ManifestFile]) -> Iterator[Part]:
    part: list[ManifestFile] = []
    size = files = 0
    for manifest in manifests:
        part.append(manifest)
        size += manifest.length or 0
        files += _files_in(manifest)
        if size >= _PART_BYTES or files >= _PART_FILES:
            yield Part(_to_json(part), files)
            part, size, files = [], 0, 0
    if part:
        yield Part(_to_json(part), files)


def _files_in(manifest: ManifestFile) -> int:
    """About how many; the oldest writers do not tell."""
    return _PART_FILES if manifest.live_files is None else manifest.live_files


def _to_json(manifests: Iterable[ManifestFile]) -> bytes:
    return json.dumps([dataclasses.asdict(manifest) for manifest in manifests], separators=(",", ":")).encode()


def _manifests(part: bytes) -> Iterator[ManifestFile]:
    return (ManifestFile(**fields) for fields in json.loads(part))


@dataclasses.dataclass(frozen=True, slots=True)
class _Planner:
    """Plans manifests; a part is a list of them as JSON."""

    planner: SnapshotPlanner
    named: tuple[NamedDeletes, ...]

    @property
    def shared_deletes(self) -> tuple[ContentFile, ...]:
        return self.planner.shared_deletes

    def tasks(self, part: bytes, store_for: Callable[[str], Store]) -> Iterator[FileScanTask]:
        files = [file for manifest in _manifests(part) for file in self.planner.files_of(manifest, store_for)]
        paths = {file.file_path for file in files}
        named = [file for deletes in self.named for file in deletes.naming(paths)]
        yield from map((self.planner.with_named_deletes(named) if named else self.planner).task_of, files)
