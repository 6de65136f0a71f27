"""
The index manifest: which segments make the index of a table now.

::

    <private state>/index/00000000000000000007/version-hint.text      a manifest, the newest has the highest number
    <private state>/index/segments/9b1d…/version-hint.text            a segment

A run puts the manifest of the next number if nobody else has, so one of two runs wins and the other adds its segments
to what it finds. A manifest never changes, and readers take the newest: nobody ever sees half of an index. The names
survive the removal of orphan files, as those of `puffin.statistics.private_state.places` do.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import zlib
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from puffin.errors import CorruptMetadataError, FileNotFound, said_by
from puffin.index.segment import SegmentColumn, SegmentEntry
from puffin.statistics.private_state import places
from puffin.storage import Store, join
from puffin.tables.json_limits import read_json
from puffin.tables.statistics_json import check_format_version, own_id, text_or_null, typed

_VERSION = re.compile(r"\d{20}")
FORMAT_VERSION = 1

_log = logging.getLogger(__name__)

_Held: TypeAlias = "dict[int, IndexManifest | CorruptMetadataError]"
"""Manifests by version, those that are broken as errors."""


@dataclasses.dataclass(frozen=True, slots=True)
class IndexManifest:
    """
    The index of a table: its columns, with their rates of false positives by `TableState.key_of`, and its segments.

    ``version`` 0 is the index that does not exist yet.
    """

    version: int = 0
    table_uuid: str | None = None
    columns: Mapping[str, float] = dataclasses.field(default_factory=dict)
    segments: tuple[SegmentEntry, ...] = ()


def index_directory(private_directory: str) -> str:
    return join(private_directory, places.INDEX)


def manifest_uri(directory: str, version: int) -> str:
    return join(directory, f"{version:020d}", places.PART_NAME)


def read_newest(directory: str, store: Store) -> IndexManifest:
    """
    The newest manifest below an index directory that can be read, with the newest version; version 0 if there is none.

    Raises CorruptMetadataError if all manifests are broken, UnsupportedTableError for the manifest of a newer format,
    and StorageError.
    """
    held = _newest_held(directory, store)
    return dataclasses.replace(_readable(held) or IndexManifest(), version=max(held, default=0))


def newest_version(directory: str, store: Store) -> int:
    """The newest version, whose manifest may be broken; 0 if there is none. Raises StorageError."""
    return max(_newest_held(directory, store), default=0)


def manifest_versions(directory: str, store: Store) -> list[int]:
    """The versions below an index directory, some perhaps without a manifest; StorageError if the storage failed."""
    return [int(name) for name in store.directories(directory) if _VERSION.fullmatch(name)]


def newest_of(directory: str, store: Store, versions: Collection[int]) -> IndexManifest | None:
    """
    The manifest of the highest of these versions that has one; None if none has.

    Raises as `read_newest`, CorruptMetadataError also if an older one can be read.
    """
    newest = next(iter(_held(directory, store, versions).values()), None)
    if isinstance(newest, CorruptMetadataError):
        raise newest
    return newest


def commit(manifest: IndexManifest, directory: str, store: Store) -> IndexManifest:
    """
    Put a manifest as the one after its version, and return it with its new version.

    Raises ConflictError if another writer was faster, and what `Store.put_once` raises.
    """
    made = dataclasses.replace(manifest, version=manifest.version + 1)
    store.put_once(manifest_uri(directory, made.version), encode(made))
    return made


def encode(manifest: IndexManifest) -> bytes:
    document = {
        "format-version": FORMAT_VERSION,
        "table-uuid": manifest.table_uuid,
        "columns": [{"column": column, "fpp": fpp} for column, fpp in sorted(manifest.columns.items())],
        "segments": [_segment_to_json(segment) for segment in manifest.segments],
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    return text + b"\n%08x\n" % zlib.crc32(text)


def decode(data: bytes, version: int, where: str) -> IndexManifest:
    """Parse a manifest and check its CRC-32; ``where`` names its file in messages."""
    text, _, crc = data.rstrip(b"\n").rpartition(b"\n")
    if crc != b"%08x" % zlib.crc32(text):
        raise CorruptMetadataError(f"{where}: expected an index manifest with its CRC-32, found {crc[:16]!r}")
    try:
        document = read_json(text)
        check_format_version(document, FORMAT_VERSION, where)
        return IndexManifest(
            version,
            text_or_null(document, "table-uuid"),
            {typed(c, "column", str): _rate(c) for c in typed(document, "columns", list)},
            tuple(_segment_from_json(segment) for segment in typed(document, "segments", list)),
        )
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as exc:
        raise CorruptMetadataError(f"{where}: not an index manifest: {said_by(exc)}") from exc


def _newest_held(directory: str, store: Store) -> _Held:
    """
    What `_held` finds of all versions.

    A folder without a manifest is no version: its writer may be about to put the manifest, and a later version that
    does not know it would undo it. If the manifest has been removed instead, the folders change, as there is a newer.
    """
    versions = manifest_versions(directory, store)
    while True:
        held = _held(directory, store, versions)
        if max(versions, default=0) == max(held, default=0):
            return held
        listed, versions = versions, manifest_versions(directory, store)
        if versions == listed:
            return held


def _held(directory: str, store: Store, versions: Collection[int]) -> _Held:
    """The manifests of these versions, the newest first, up to the first that can be read."""
    held: _Held = {}
    for version in sorted(versions, reverse=True):
        uri = manifest_uri(directory, version)
        try:
            held[version] = decode(store.read(uri), version, uri)
            break
        except FileNotFound:
            continue  # removed since it was listed, or its writer has only made the folder
        except CorruptMetadataError as exc:
            held[version] = exc
    return held


def _readable(held: _Held) -> IndexManifest | None:
    """The manifest that can be read, None if there are none; raises the error of the newest if all are broken."""
    broken: list[CorruptMetadataError] = []
    for manifest in held.values():
        if isinstance(manifest, IndexManifest):
            for each in broken:
                _log.warning("an index manifest before this one is used: %s", each)
            return manifest
        broken.append(manifest)
    if broken:
        raise broken[0]
    return None


def _segment_to_json(segment: SegmentEntry) -> dict[str, Any]:
    return {
        "id": segment.id,
        "field-id": segment.column.field_id,
        "column": segment.column.key,
        "type": segment.column.type,
        "name-mapping": segment.column.mapping,
        "fpp": segment.column.fpp,
        "files": segment.files,
        "file-size-in-bytes": segment.file_size,
        "directory-offset": segment.directory_offset,
        "directory-length": segment.directory_length,
        "directory-crc32": segment.directory_crc,
    }


def _segment_from_json(document: Mapping[str, Any]) -> SegmentEntry:
    return SegmentEntry(
        id=own_id(document),
        column=SegmentColumn(
            field_id=typed(document, "field-id", int),
            key=typed(document, "column", str),
            type=typed(document, "type", str),
            mapping=text_or_null(document, "name-mapping"),
            fpp=_rate(document),
        ),
        files=typed(document, "files", int),
        file_size=typed(document, "file-size-in-bytes", int),
        directory_offset=typed(document, "directory-offset", int),
        directory_length=typed(document, "directory-length", int),
        directory_crc=typed(document, "directory-crc32", int),
    )


def _rate(document: Mapping[str, Any]) -> float:
    rate: float = typed(document, "fpp", float)
    if not 0 < rate < 1:
        raise ValueError(f"fpp: expected a rate between 0 and 1, found {rate}")
    return rate
