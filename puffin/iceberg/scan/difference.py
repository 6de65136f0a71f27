"""
Compares the live rows of two snapshots by data files, each with the deletes that apply to it.

The cost follows the difference. Manifests that both snapshots list stay closed as long as both have the same deletes,
since then only a data file of one side makes a difference. Deletes of one side name the data files they apply to, and
the comparison looks for these in all manifests that may list them, since a file may be listed several times and deletes
apply to all its listings. An equality delete names no data files, so with one both snapshots are planned in full.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from puffin.files.deletes.position_deletes import read_data_files
from puffin.files.formats import open_data_file
from puffin.iceberg.scan.manifest_lists import ManifestFile, manifests_of
from puffin.iceberg.scan.manifests import LiveFile, NamedFiles, live_files_of
from puffin.iceberg.scan.plan import plan_snapshot, readable, scan_tasks
from puffin.storage import Store
from puffin.tables.base import Snapshot
from puffin.tables.changes import Difference, compare, compare_rows
from puffin.tables.scan_task import EQUALITY_DELETES, FileScanTask
from puffin.tables.snapshot import TableSnapshot


def difference_of_snapshots(opened: TableSnapshot, before: Snapshot, after: Snapshot) -> Difference[FileScanTask]:
    """
    The data files, each with its deletes, that only one of two snapshots has.

    The result has files of both sides only where the comparison had to look at them.
    """
    state, store_for = opened.state, opened.store_for
    earlier, later = (manifests_of(opened, snapshot) for snapshot in (before, after))
    manifests = compare(earlier, later, lambda manifest: manifest.manifest_path)
    data_manifests = manifests.where(lambda manifest: not manifest.of_deletes)
    delete_manifests = manifests.where(lambda manifest: manifest.of_deletes)

    deletes = _difference_of_files(delete_manifests, store_for)
    changed_deletes = deletes.before + deletes.after
    if _any_by_equality(changed_deletes):
        return _difference_of_plans(opened, before, after)
    data = _difference_of_files(data_manifests, store_for)
    data_of_both = _concerned(changed_deletes, data, data_manifests.both, store_for)

    oldest = min((file.sequence_number for file in data.before + data_of_both + data.after), default=None)
    if oldest is None:
        return Difference([], [], [])
    # No file is younger than its manifest, and no delete applies to a younger data file.
    applicable = (manifest for manifest in delete_manifests.both if manifest.sequence_number >= oldest)
    deletes_of_both = deletes.both + _files(applicable, store_for)
    if _any_by_equality(deletes_of_both):
        return _difference_of_plans(opened, before, after)
    return compare_rows(
        scan_tasks(state, before, data.before + data_of_both, deletes.before + deletes_of_both),
        scan_tasks(state, after, data.after + data_of_both, deletes.after + deletes_of_both),
    )


def _difference_of_plans(opened: TableSnapshot, before: Snapshot, after: Snapshot) -> Difference[FileScanTask]:
    return compare_rows(plan_snapshot(opened, before), plan_snapshot(opened, after))


def _any_by_equality(deletes: Iterable[LiveFile]) -> bool:
    return any(delete.content == EQUALITY_DELETES for delete in deletes)


def _concerned(
    deletes: Sequence[LiveFile],
    data: Difference[LiveFile],
    manifests_of_both: Iterable[ManifestFile],
    store_for: Callable[[str], Store],
) -> list[LiveFile]:
    """The data files of both snapshots that these position deletes apply to, as often as they are listed."""
    paths: set[str] = set()
    youngest: dict[int, int] = {}
    for delete in deletes:
        paths.update(_data_files_of(delete, store_for))
        youngest[delete.spec_id] = max(youngest.get(delete.spec_id, 0), delete.sequence_number)
    found = [file for file in data.both if file.file_path in paths]
    named = NamedFiles(paths)
    elsewhere = []
    for manifest in manifests_of_both:
        if manifest.partition_spec_id not in youngest:
            elsewhere.append(manifest)
        elif youngest[manifest.partition_spec_id] >= manifest.min_sequence_number:
            found += readable(named.among(manifest, store_for))
    # Deletes apply within their spec. Planning reports the error if only another spec has the file.
    missing = {path for path in (delete.referenced_data_file for delete in deletes) if path}
    missing -= {file.file_path for file in data.before + found + data.after}
    for manifest in elsewhere:
        if missing and max(youngest.values()) >= manifest.min_sequence_number:
            here = list(readable(NamedFiles(missing).among(manifest, store_for)))
            missing -= {file.file_path for file in here}
            found += here
    return found


def _data_files_of(delete: LiveFile, store_for: Callable[[str], Store]) -> Iterable[str]:
    if delete.referenced_data_file is not None:
        return (delete.referenced_data_file,)
    # It applies to every older file of its partition, but has positions in few of them.
    with open_data_file(delete, store_for) as file:
        return read_data_files(file)


def _difference_of_files(
    manifests: Difference[ManifestFile], store_for: Callable[[str], Store]
) -> Difference[LiveFile]:
    return compare(_files(manifests.before, store_for), _files(manifests.after, store_for), _identity)


def _files(manifests: Iterable[ManifestFile], store_for: Callable[[str], Store]) -> list[LiveFile]:
    return list(readable(file for manifest in manifests for file in live_files_of(manifest, store_for)))


def _identity(file: LiveFile) -> Hashable:
    # A path may return or appear twice with another sequence number or partition; then other deletes apply.
    place = file.spec_id, repr(file.partition), file.sequence_number
    return file.file_path, file.content_offset, place, file.file_size_in_bytes, file.record_count
