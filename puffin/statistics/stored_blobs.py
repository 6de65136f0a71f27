"""
Reads the blobs of statistics files and of the private state beside them, in as few reads as possible.

Sketches are in the statistics file that an entry names. Our other blobs are in parts that the file's manifest lists
(`puffin.statistics.private_state`); files of an earlier version, and copies that another engine made of them, hold
these themselves. A broken blob does not affect its neighbours.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from puffin.errors import CorruptError, FileNotFound, PuffinError, UnsupportedError
from puffin.format import CREATED_BY, THETA_V1, BlobMetadata, PuffinReader
from puffin.statistics.ancestry import KnownSketch
from puffin.statistics.blob_properties import SketchProperties
from puffin.statistics.kinds import private_kinds
from puffin.statistics.kinds.kind import Home, Kind, T
from puffin.statistics.private_state import manifest as manifests
from puffin.statistics.private_state import places
from puffin.statistics.private_state.manifest import BlobKey, Manifest, Part, StoredKey
from puffin.statistics.private_state.writing import KeptBlob
from puffin.tables.base import BlobEntry, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot

SMALL_FILE = 1024 * 1024  # bytes; an object store sends these faster than it answers a second request

_log = logging.getLogger(__name__)


class StoredBlobs:
    """
    The blobs of the columns with these field ids, in the files of statistics entries and in the parts beside them.

    All blobs of one type are read from a file at once; each manifest is read once, and its parts are
    looked up once.
    """

    def __init__(self, opened: TableSnapshot, field_ids: Collection[int]) -> None:
        self._opened = opened
        self._fields = {(field_id,) for field_id in field_ids}
        self._files: dict[tuple[str, str], _Content | PuffinError] = {}
        self._manifests: dict[str, Manifest | None] = {}
        self._lost: dict[str, bool] = {}

    def read(self, known: KnownSketch, kind: Kind[T]) -> T | None:
        """
        The value of a kind that is stored with a sketch, if there is one.

        Raises FileNotFound if its file is gone, and PuffinError if it cannot be read or contradicts the entry.
        """
        payload = None if kind.home is Home.PROPERTIES else self.find(known.entry, known.blob, kind.name)
        try:
            if isinstance(payload, PuffinError):
                raise payload
            return kind.read(known.said, known.column, payload)
        except (CorruptError, UnsupportedError) as exc:
            raise CorruptError(f"{known.entry.statistics_path}: field {known.blob.fields[0]}: {exc}") from exc

    def require(self, known: KnownSketch, kind: Kind[T]) -> T:
        """As `read`, with CorruptError if there is none."""
        found = self.read(known, kind)
        if found is None:
            path, field = known.entry.statistics_path, known.blob.fields[0]
            raise CorruptError(f"{path}: expected {kind.title} of field {field}, found none")
        return found

    def find(self, entry: StatisticsEntry, blob: BlobEntry, type_: str) -> bytes | PuffinError | None:
        """
        The payload of a type for the field and snapshot of an entry's blob, if there is one, or the error that it is
        broken.

        Raises PuffinError if the statistics file or its footer cannot be read.
        """
        key = BlobKey(type_, blob.fields[0], blob.snapshot_id)
        is_private = type_ != THETA_V1 and not SketchProperties(blob.properties).is_unmarked
        if is_private and (known := self._manifest(entry)) is not None:
            stored = known.blobs.get(key)
            return None if stored is None else self._find_in_part(entry, stored, key)
        return self._read_once(_File.of(entry), type_).payloads.get(key)

    def kept(self, known: KnownSketch, kind: Kind[Any]) -> KeptBlob | None:
        """Where the part is from which `read` reads; None if the value is in no part and has to be written anew."""
        key = BlobKey(kind.name, known.blob.fields[0], known.blob.snapshot_id)
        manifest = self._manifest(known.entry)
        if manifest is None or key not in manifest.blobs:
            return None
        return KeptBlob(key, manifest.blobs[key], self._directory(known.entry))

    def created_by(self, entry: StatisticsEntry) -> str | None:
        """The writer of an entry's statistics file, from its footer; raises as `find`."""
        return self._read_once(_File.of(entry), THETA_V1).created_by

    def has_lost_state(self, entry: StatisticsEntry) -> bool:
        """Whether the manifest of an entry's file or one of its parts is missing or wrong; may raise StorageError."""
        path = entry.statistics_path
        if path not in self._lost:
            known = self._manifest(entry)
            directory = self._directory(entry)
            self._lost[path] = known is None or not all(self._has_part(directory, part) for part in known.parts)
        return self._lost[path]

    def misses(self, known: KnownSketch) -> bool:
        """
        Whether the manifest lacks a blob that every run keeps beside a sketch of ours.

        Blobs noted as omitted do not count, nor those beside sketches that we built on another engine's.
        """
        if not known.said.is_hashed_here:
            return False
        manifest, blob = self._manifest(known.entry), known.blob
        kept = {kind.name for kind in private_kinds() if kind.is_default}
        keys = {BlobKey(type_, blob.fields[0], blob.snapshot_id) for type_ in kept}
        return manifest is None or not keys <= manifest.blobs.keys() | manifest.omitted

    def _has_part(self, directory: str, part: Part) -> bool:
        uri = places.part_uri(directory, part.id)
        try:
            return self._opened.store_for(uri).size(uri) == part.file_size
        except FileNotFound:
            return False

    def _manifest(self, entry: StatisticsEntry) -> Manifest | None:
        path = entry.statistics_path
        if path not in self._manifests:
            self._manifests[path] = read_manifest(self._opened, entry)
        return self._manifests[path]

    def _directory(self, entry: StatisticsEntry) -> str:
        return places.directory(self._opened.state, places.home_of(entry))

    def _find_in_part(self, entry: StatisticsEntry, stored: StoredKey, key: BlobKey) -> bytes | PuffinError:
        part = stored.part
        uri = places.part_uri(self._directory(entry), part.id)
        try:
            payloads = self._read_once(_File(uri, part.file_size, part.footer_size), key.type).payloads
        except PuffinError as exc:
            return exc
        missing = CorruptError(f"{uri}: expected a blob {tuple(key)}, found none")
        return payloads.get(key._replace(snapshot_id=stored.snapshot_id), missing)

    def _read_once(self, file: _File, type_: str) -> _Content:
        key = file.path, type_
        if key not in self._files:
            self._files[key] = self._read(file, type_)
        found = self._files[key]
        if isinstance(found, PuffinError):
            raise found
        return found

    def _read(self, file: _File, type_: str) -> _Content | PuffinError:
        # A small file is read whole, since a second request takes longer than the bytes that are not needed.
        is_small = 0 <= file.size <= SMALL_FILE
        try:
            with self._opened.store_for(file.path).open_source(file.path) as source:
                readable = source.read_at(0, file.size) if is_small else source
                reader = PuffinReader(readable, file_size=file.size, footer_size=file.footer_size)
                metadata = reader.file_metadata
                wanted = [b for b in metadata.blobs if b.type == type_ and b.fields in self._fields]
                found = {BlobKey(b.type, b.fields[0], b.snapshot_id): read for b, read in _payloads(reader, wanted)}
                return _Content(found, metadata.properties.get(CREATED_BY))
        except (CorruptError, UnsupportedError) as exc:
            # The reader does not know the name of its file.
            return CorruptError(f"{file.path}: {exc}")
        except PuffinError as exc:
            return exc


def read_manifest(opened: TableSnapshot, entry: StatisticsEntry) -> Manifest | None:
    """The manifest of an entry's statistics file, if it has one; StorageError if the storage failed."""
    directory = places.directory(opened.state, places.home_of(entry))
    uri = places.manifest_uri(directory, entry.statistics_path)
    try:
        found = manifests.decode(opened.store_for(uri).read(uri), uri)
        objection = found.objection(opened.state, entry)
    except FileNotFound:
        return None
    except (CorruptError, UnsupportedError) as exc:
        objection = str(exc)
    if objection is not None:
        _log.warning("private state is ignored: %s: %s", uri, objection)
        return None
    return found


class _File(NamedTuple):
    path: str
    size: int
    footer_size: int

    @classmethod
    def of(cls, entry: StatisticsEntry) -> _File:
        return cls(entry.statistics_path, entry.file_size_in_bytes, entry.file_footer_size_in_bytes)


class _Content(NamedTuple):
    payloads: Mapping[BlobKey, bytes | PuffinError]
    created_by: str | None


def _payloads(
    reader: PuffinReader, blobs: Sequence[BlobMetadata]
) -> Iterator[tuple[BlobMetadata, bytes | PuffinError]]:
    try:
        yield from zip(blobs, reader.read_all(blobs), strict=True)
    except PuffinError as exc:
        if len(blobs) == 1:
            yield blobs[0], exc
            return
        for blob in blobs:  # find the broken one
            yield from _payloads(reader, [blob])
