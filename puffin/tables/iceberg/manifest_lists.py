"""
What a snapshot's manifest list says of its manifests, none of which is opened (spec, "Manifest Lists").

Apart from the manifests, since who compares two snapshots learns from their lists alone what both of them have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from puffin.errors import CorruptMetadataError, UnsupportedTableError
from puffin.storage import Store
from puffin.tables.base import Snapshot, TableState
from puffin.tables.iceberg.avro import read_records

# Field ids of manifest_file.
_MANIFEST_PATH, _PARTITION_SPEC_ID, _CONTENT, _KEY_METADATA = 500, 502, 517, 519
_SEQUENCE_NUMBER, _MIN_SEQUENCE_NUMBER, _ADDED_SNAPSHOT_ID = 515, 516, 503
_FILES_COUNTS = _ADDED_FILES, _EXISTING_FILES, _DELETED_FILES = 504, 505, 506
# The oldest writers leave them out.
_OPTIONAL = (_CONTENT, _SEQUENCE_NUMBER, _MIN_SEQUENCE_NUMBER, _ADDED_SNAPSHOT_ID, *_FILES_COUNTS)
_TYPES: dict[int, Any] = {
    _MANIFEST_PATH: str,
    _PARTITION_SPEC_ID: int,
    _KEY_METADATA: (bytes, type(None)),
    **dict.fromkeys(_OPTIONAL, (int, type(None))),
}
_WANTED = dict.fromkeys(_TYPES)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """
    A manifest as a manifest list has it.

    Attributes:
        of_deletes: Whether it lists delete files; data files otherwise.
        sequence_number: When it came to the table: no file in it is younger. 0 in format version 1.
        min_sequence_number: No live file in it is older. 0 in format version 1.
        added_snapshot_id: The snapshot that it came with, or None where the list leaves that out.
        entries: How many entries it has, or None where the list leaves that out.
        encrypted: Whether it has key metadata.
    """

    manifest_path: str
    partition_spec_id: int
    of_deletes: bool
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int | None
    entries: int | None
    encrypted: bool


def manifest_list_of(state: TableState, snapshot: Snapshot) -> str:
    """Where the snapshot's manifest list is; UnsupportedTableError if it has none, as format version 1 allows."""
    if snapshot.manifest_list is None:
        raise UnsupportedTableError(
            f"{state.location}: snapshot {snapshot.snapshot_id} lists its manifests in the metadata itself "
            "(format version 1 without manifest lists), which is not supported"
        )
    return snapshot.manifest_list


def manifest_files(manifest_list: str, store_for: Callable[[str], Store]) -> list[ManifestFile]:
    """
    The manifests of a manifest list, in its order.

    Raises:
        CorruptMetadataError: The list cannot be understood.
        UnsupportedTableError: It is compressed in a way that this version does not know.
        FileNotFound, StorageError: It is not there, or the storage failed.
    """
    records = read_records(store_for(manifest_list).read(manifest_list), _WANTED, manifest_list)
    return [_manifest_file(record, manifest_list) for record in records]


def _manifest_file(record: Mapping[int, Any], manifest_list: str) -> ManifestFile:
    for field_id, type_ in _TYPES.items():
        if not isinstance(record.get(field_id), type_):
            found = f"found {record.get(field_id)!r} for field {field_id} of a manifest"
            raise CorruptMetadataError(f"{manifest_list}: not an Iceberg manifest list: {found}")
    counts = [count for field_id in _FILES_COUNTS if (count := record.get(field_id)) is not None]
    return ManifestFile(
        manifest_path=record[_MANIFEST_PATH],
        partition_spec_id=record[_PARTITION_SPEC_ID],
        of_deletes=bool(record.get(_CONTENT)),
        sequence_number=record.get(_SEQUENCE_NUMBER) or 0,
        min_sequence_number=record.get(_MIN_SEQUENCE_NUMBER) or 0,
        added_snapshot_id=record.get(_ADDED_SNAPSHOT_ID),
        entries=sum(counts) if len(counts) == len(_FILES_COUNTS) else None,
        encrypted=record.get(_KEY_METADATA) is not None,
    )
