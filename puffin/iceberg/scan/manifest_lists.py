"""
Reads a snapshot's manifest list without opening the manifests (spec, "Manifest Lists").

Comparing two snapshots starts from their lists, which show the manifests that both have. A snapshot of format version 1
may name its manifests in the table's metadata, without a list. Then each manifest's header has its partition spec, and
the rest follows from version 1: no deletes and no sequence numbers.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from puffin.errors import CorruptMetadataError, UnsupportedTableError
from puffin.files.avro.records import read_file_metadata, read_records
from puffin.storage import Store
from puffin.tables.base import Snapshot
from puffin.tables.snapshot import TableSnapshot

# Field ids of manifest_file.
_MANIFEST_PATH, _LENGTH, _PARTITION_SPEC_ID, _CONTENT, _KEY_METADATA = 500, 501, 502, 517, 519
_SEQUENCE_NUMBER, _MIN_SEQUENCE_NUMBER, _ADDED_SNAPSHOT_ID, _FIRST_ROW_ID = 515, 516, 503, 520
_FILES_COUNTS = _ADDED_FILES, _EXISTING_FILES, _DELETED_FILES = 504, 505, 506
# The oldest writers omit these; only format version 3 has the last.
_OPTIONAL = (
    _LENGTH,
    _CONTENT,
    _SEQUENCE_NUMBER,
    _MIN_SEQUENCE_NUMBER,
    _ADDED_SNAPSHOT_ID,
    *_FILES_COUNTS,
    _FIRST_ROW_ID,
)
_TYPES: dict[int, Any] = {
    _MANIFEST_PATH: str,
    _PARTITION_SPEC_ID: int,
    _KEY_METADATA: (bytes, type(None)),
    **dict.fromkeys(_OPTIONAL, (int, type(None))),
}
_WANTED = dict.fromkeys(_TYPES)
_ENCRYPTION_KEY_ID = "encryption.key-id"

# In the header of a manifest.
_SPEC_ID_NAME = "partition-spec-id"
_NUMBER = re.compile(rb"[0-9]{1,9}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """
    A manifest as a manifest list describes it; the defaults are those of format version 1.

    Attributes:
        length: Its bytes; None if unknown.
        of_deletes: Whether it lists delete files rather than data files.
        sequence_number: That of its commit, which no file in it exceeds.
        min_sequence_number: The lowest of its live files.
        added_snapshot_id: The snapshot that added it; None if unknown, as for the next two.
        entries: The number of its entries.
        live_files: The number of entries that are not deleted.
        first_row_id: The id of the first row in the files that have none of their own; None without row lineage.
    """

    manifest_path: str
    partition_spec_id: int
    length: int | None = None
    of_deletes: bool = False
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    entries: int | None = None
    live_files: int | None = None
    first_row_id: int | None = None
    encrypted: bool = False


def manifests_of(opened: TableSnapshot, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot, in order; opens those that no list describes."""
    state, store_for = opened.state, opened.store_for
    if (key_id := state.properties.get(_ENCRYPTION_KEY_ID)) is not None:
        raise UnsupportedTableError(
            f"{state.name}: expected an unencrypted table, found {_ENCRYPTION_KEY_ID} {key_id[:40]!r}"
        )
    if snapshot.manifest_list is not None:
        return manifest_files(snapshot.manifest_list, store_for)
    if snapshot.manifests is None:
        raise CorruptMetadataError(
            f"{state.metadata_location}: snapshot {snapshot.snapshot_id}: expected manifest-list or manifests, found "
            "neither"
        )
    return [_unlisted(path, store_for) for path in snapshot.manifests]


def manifest_files(manifest_list: str, store_for: Callable[[str], Store]) -> list[ManifestFile]:
    """The manifests of a manifest list, in order."""
    records = read_records(store_for(manifest_list).read(manifest_list), _WANTED, manifest_list)
    return [_manifest_file(record, manifest_list) for record in records]


def _manifest_file(record: Mapping[int, Any], manifest_list: str) -> ManifestFile:
    for field_id, type_ in _TYPES.items():
        if not isinstance(record.get(field_id), type_):
            found = f"found {record.get(field_id)!r} for field {field_id} of a manifest"
            raise CorruptMetadataError(f"{manifest_list}: not an Iceberg manifest list: {found}")
    added, existing, deleted = (record.get(field_id) for field_id in _FILES_COUNTS)
    live = None if added is None or existing is None else added + existing
    return ManifestFile(
        manifest_path=record[_MANIFEST_PATH],
        partition_spec_id=record[_PARTITION_SPEC_ID],
        length=record.get(_LENGTH),
        of_deletes=bool(record.get(_CONTENT)),
        sequence_number=record.get(_SEQUENCE_NUMBER) or 0,
        min_sequence_number=record.get(_MIN_SEQUENCE_NUMBER) or 0,
        added_snapshot_id=record.get(_ADDED_SNAPSHOT_ID),
        entries=None if live is None or deleted is None else live + deleted,
        live_files=live,
        first_row_id=record.get(_FIRST_ROW_ID),
        encrypted=record.get(_KEY_METADATA) is not None,
    )


def _unlisted(path: str, store_for: Callable[[str], Store]) -> ManifestFile:
    spec_id = read_file_metadata(store_for(path).read(path), path).get(_SPEC_ID_NAME, b"0")
    if not _NUMBER.fullmatch(spec_id):
        raise CorruptMetadataError(f"{path}: not an Iceberg manifest: expected a {_SPEC_ID_NAME}, found {spec_id!r}")
    return ManifestFile(manifest_path=path, partition_spec_id=int(spec_id))
