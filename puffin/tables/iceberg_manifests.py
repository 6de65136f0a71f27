"""
The live files of a snapshot, from its manifest list and manifests (spec, "Manifests" and "Manifest Lists").

Read here and not with pyiceberg 0.12, which takes a manifest that is cut short for one that ends, cuts partition
values of type ``double`` down to floats and cannot read those in nanoseconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from puffin.errors import CorruptMetadataError, UnsupportedTableError
from puffin.storage import Store
from puffin.tables.avro import read_records
from puffin.tables.scan_task import DATA, DELETE_FILE_PATH, EQUALITY_DELETES, POSITION_DELETES

# Field ids of manifest_file, in manifest lists.
_MANIFEST_PATH, _PARTITION_SPEC_ID, _MANIFEST_CONTENT = 500, 502, 517
_MANIFEST_SEQUENCE_NUMBER, _MANIFEST_KEY_METADATA = 515, 519
_FILES_COUNTS = _ADDED_FILES, _EXISTING_FILES, _DELETED_FILES = 504, 505, 506
_MANIFEST_FILE = dict.fromkeys(
    (
        *(_MANIFEST_PATH, _PARTITION_SPEC_ID, _MANIFEST_CONTENT),
        *(_MANIFEST_SEQUENCE_NUMBER, _MANIFEST_KEY_METADATA, *_FILES_COUNTS),
    )
)

# Field ids of data_file, and of manifest_entry around it, in manifests.
_CONTENT, _FILE_PATH, _FILE_FORMAT, _PARTITION, _RECORD_COUNT, _FILE_SIZE = 134, 100, 101, 102, 103, 104
_LOWER_BOUNDS, _LOWER_KEY, _LOWER_VALUE = 125, 126, 127
_UPPER_BOUNDS, _UPPER_KEY, _UPPER_VALUE = 128, 129, 130
_KEY_METADATA, _SPLIT_OFFSETS = 131, 132
_REFERENCED_DATA_FILE, _CONTENT_OFFSET, _CONTENT_SIZE = 143, 144, 145
_STATUS, _SEQUENCE_NUMBER, _DATA_FILE = 0, 3, 2
_BASIC = (_CONTENT, _FILE_PATH, _FILE_FORMAT, _PARTITION, _RECORD_COUNT, _FILE_SIZE, _KEY_METADATA, _SPLIT_OFFSETS)
_OF_DELETES = (_LOWER_BOUNDS, _UPPER_BOUNDS, _REFERENCED_DATA_FILE, _CONTENT_OFFSET, _CONTENT_SIZE)
_DATA_ENTRY = {_STATUS: None, _SEQUENCE_NUMBER: None, _DATA_FILE: dict.fromkeys(_BASIC)}
_DELETE_ENTRY = {_STATUS: None, _SEQUENCE_NUMBER: None, _DATA_FILE: dict.fromkeys((*_BASIC, *_OF_DELETES))}

_ADDED, _DELETED = 1, 2
_CONTENTS = (DATA, POSITION_DELETES, EQUALITY_DELETES)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """
    A data file or delete file that a snapshot's manifests list as live.

    Attributes:
        content: ``"DATA"``, ``"POSITION_DELETES"`` or ``"EQUALITY_DELETES"``.
        sequence_number: The data sequence number, inherited where the manifest leaves it out.
        partition: The partition tuple by partition field id, in the physical form of Avro: a decimal is its bytes.
        referenced_data_file: The one data file that a delete file is about, if that is known.
        encrypted: Whether the file has key metadata.
    """

    content: str
    sequence_number: int
    file_path: str
    file_format: str
    spec_id: int
    partition: Mapping[int, Any]
    record_count: int
    file_size_in_bytes: int
    split_offsets: tuple[int, ...]
    referenced_data_file: str | None
    content_offset: int | None
    content_size_in_bytes: int | None
    encrypted: bool


def live_files(manifest_list: str, store_for: Callable[[str], Store]) -> Iterator[LiveFile]:
    """
    The live files of a snapshot, in manifest order.

    Raises:
        CorruptMetadataError: The manifest list or a manifest cannot be understood, or does not list all it should.
        UnsupportedTableError: A manifest is encrypted, or compressed in a way that this version does not know.
        FileNotFound, StorageError: One of them is not there, or the storage failed.
    """
    for manifest in read_records(store_for(manifest_list).read(manifest_list), _MANIFEST_FILE, manifest_list):
        path = _manifest_path(manifest, manifest_list)
        if manifest.get(_MANIFEST_KEY_METADATA) is not None:
            raise UnsupportedTableError(f"{path}: expected an unencrypted manifest, found key metadata")
        wanted = _DELETE_ENTRY if manifest.get(_MANIFEST_CONTENT, 0) else _DATA_ENTRY
        entries = 0
        for entry in read_records(store_for(path).read(path), wanted, path):
            entries += 1
            try:
                if entry[_STATUS] != _DELETED:
                    yield _live_file(entry, manifest)
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as exc:
                raise CorruptMetadataError(f"{path}: not an Iceberg manifest: entry {entries}: {exc!r}") from exc
        counts = [count for field_id in _FILES_COUNTS if (count := manifest.get(field_id)) is not None]
        if len(counts) == len(_FILES_COUNTS) and sum(counts) != entries:
            raise CorruptMetadataError(f"{path}: expected {sum(counts)} entries, found {entries}")


def _manifest_path(manifest: Mapping[int, Any], manifest_list: str) -> str:
    path = manifest.get(_MANIFEST_PATH)
    if not isinstance(path, str):
        raise CorruptMetadataError(f"{manifest_list}: not an Iceberg manifest list: a manifest has no path")
    return path


def _live_file(entry: Mapping[int, Any], manifest: Mapping[int, Any]) -> LiveFile:
    file = entry[_DATA_FILE]
    sequence_number = entry.get(_SEQUENCE_NUMBER)
    if sequence_number is None:  # inherited by added files; version 1 has none at all
        sequence_number = manifest.get(_MANIFEST_SEQUENCE_NUMBER, 0) if entry[_STATUS] == _ADDED else 0
    return LiveFile(
        content=_CONTENTS[file.get(_CONTENT, 0)],
        sequence_number=sequence_number,
        file_path=file[_FILE_PATH],
        file_format=file[_FILE_FORMAT].upper(),
        spec_id=manifest[_PARTITION_SPEC_ID],
        partition=file[_PARTITION],
        record_count=file[_RECORD_COUNT],
        file_size_in_bytes=file[_FILE_SIZE],
        split_offsets=tuple(file.get(_SPLIT_OFFSETS) or ()),
        referenced_data_file=file.get(_REFERENCED_DATA_FILE) or _only_path(file),
        content_offset=file.get(_CONTENT_OFFSET),
        content_size_in_bytes=file.get(_CONTENT_SIZE),
        encrypted=file.get(_KEY_METADATA) is not None,
    )


def _only_path(file: Mapping[int, Any]) -> str | None:
    # A position delete file whose lowest and highest path agree is about that one data file.
    lower = {bound[_LOWER_KEY]: bound[_LOWER_VALUE] for bound in file.get(_LOWER_BOUNDS) or ()}
    upper = {bound[_UPPER_KEY]: bound[_UPPER_VALUE] for bound in file.get(_UPPER_BOUNDS) or ()}
    path = lower.get(DELETE_FILE_PATH)
    return str(path, "utf-8") if path is not None and path == upper.get(DELETE_FILE_PATH) else None
