"""
Plans a large snapshot in parts of a few manifests each.

Which parts there are follows from the manifests alone, so the manifests that two snapshots share are mostly in the same
parts. The delete files are read here, since any of them may apply to the data files of any manifest.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator

from puffin.iceberg.scan.manifest_lists import ManifestFile, manifests_of
from puffin.iceberg.scan.plan import SnapshotPlanner
from puffin.storage import Store
from puffin.tables.base import Snapshot
from puffin.tables.parted_plan import PartedPlan
from puffin.tables.scan_task import ContentFile, FileScanTask
from puffin.tables.snapshot import TableSnapshot

LEAST_BYTES = 64 * 1024 * 1024
"""Of manifests of data files: one core reads them in one to two seconds."""

LEAST_FILES = 100_000
"""Data files that make a snapshot large, however small its manifests are."""

MOST_DELETES = 20_000
"""Delete files, with which each process that plans a part is burdened."""

_WORTH_A_LOOK = 10_000  # data files; for fewer, the manifest list is not read to find out
_PART_BYTES = 4 * 1024 * 1024  # of manifests: half of what writers aim at, so that most parts are one manifest
_PART_FILES = 4000


def plan_in_parts(opened: TableSnapshot, snapshot: Snapshot) -> PartedPlan | None:
    """The parts of a snapshot, and what plans them; None unless it is large, with few delete files."""
    if (snapshot.total_files or 0) < _WORTH_A_LOOK:
        return None
    manifests = manifests_of(opened, snapshot)
    data = [manifest for manifest in manifests if not manifest.of_deletes]
    is_large = sum(m.length or 0 for m in data) >= LEAST_BYTES or sum(m.live_files or 0 for m in data) >= LEAST_FILES
    if not is_large or sum(m.live_files or 0 for m in manifests if m.of_deletes) > MOST_DELETES:
        return None
    return PartedPlan(_Planner(SnapshotPlanner.of(opened, manifests)), tuple(_parts(data)))


def _parts(manifests: Iterable[ManifestFile]) -> Iterator[bytes]:
    part: list[ManifestFile] = []
    size = files = 0
    for manifest in manifests:
        part.append(manifest)
        size += manifest.length or 0
        files += manifest.live_files or 0
        if size >= _PART_BYTES or files >= _PART_FILES:
            yield _to_json(part)
            part, size, files = [], 0, 0
    if part:
        yield _to_json(part)


def _to_json(manifests: Iterable[ManifestFile]) -> bytes:
    return json.dumps([dataclasses.asdict(manifest) for manifest in manifests], separators=(",", ":")).encode()


@dataclasses.dataclass(frozen=True, slots=True)
class _Planner:
    """Plans manifests; a part is a list of them as JSON."""

    planner: SnapshotPlanner

    @property
    def shared_deletes(self) -> tuple[ContentFile, ...]:
        return self.planner.shared_deletes

    def tasks(self, part: bytes, store_for: Callable[[str], Store]) -> Iterator[FileScanTask]:
        for manifest in (ManifestFile(**fields) for fields in json.loads(part)):
            yield from map(self.planner.task_of, self.planner.files_of(manifest, store_for))
