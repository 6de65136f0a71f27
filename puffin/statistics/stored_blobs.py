"""
Blobs of statistics files and of the private state beside them, read together as far as possible.

Sketches stand in the statistics file that an entry names. What is ours besides stands in parts that the file's manifest
lists (`puffin.statistics.private_state`). Files of an earlier version, and copies of them that another engine made,
hold it themselves. Where one blob is broken, its neighbours are read apart from it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from puffin.errors import CorruptError, FileNotFound, PuffinError, UnsupportedError
from puffin.format import CREATED_BY, THETA_V1, BlobMetadata, PuffinReader
from puffin.statistics.blob_properties import is_hashed_here, is_unmarked
from puffin.statistics.kinds import private_kinds
from puffin.statistics.kinds.kind import Home, Kind, T
from puffin.statistics.private_state import manifest as manifests
from puffin.statistics.private_state import places
from puffin.statistics.private_state.manifest import BlobKey, Manifest, Part, StoredKey
from puffin.statistics.private_state.writing import KeptBlob
from puffin.storage import Store
from puffin.tables.base import BlobEntry, Column, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot

SMALL_FILE = 1024 * 1024  # bytes, which an object store sends in less time than it takes to answer once more

_log = logging.getLogger(__name__)


class StoredBlobs:
    """
    The blobs of some columns in the files of statistics entries, and in the parts beside them.

    Of a file, all blobs of a type are read at once; a manifest is read once.

    Args:
        field_ids: Of the columns that will be asked for.
    """

    def __init__(self, opened: TableSnapshot, field_ids: Collection[int]) -> None:
        self._opened = opened
        self._store_for = opened.store_for
        self._fields = {(field_id,) for field_id in field_ids}
        self._files: dict[tuple[str, str], _Content | PuffinError] = {}
        self._manifests: dict[str, Manifest | None] = {}

    def read(self, entry: StatisticsEntry, blob: BlobEntry, kind: Kind[T], column: Column) -> T | None:
        """
        The value of a kind for the field and snapshot of an entry's blob; None if there is none.

        Raises:
            FileNotFound: Its file is gone.
            PuffinError: It cannot be read, or is not what the entry says.
        """
        payload = None if kind.home is Home.PROPERTIES else self.find(entry, blob, kind.name)
        try:
            if isinstance(payload, PuffinError):
                raise payload
            return kind.read(blob, column, payload)
        except (CorruptError, UnsupportedError) as exc:
            raise CorruptError(f"{entry.statistics_path}: field {blob.fields[0]}: {exc}") from exc

    def require(self, entry: StatisticsEntry, blob: BlobEntry, kind: Kind[T], column: Column) -> T:
        """As `read`, with CorruptError if there is none."""
        found = self.read(entry, blob, kind, column)
        if found is None:
            field = blob.fields[0]
            raise CorruptError(f"{entry.statistics_path}: expected {kind.title} of field {field}, found none")
        return found

    def find(self, entry: StatisticsEntry, blob: BlobEntry, type_: str) -> bytes | PuffinError | None:
        """
        The payload of a type for the field and snapshot of an entry's blob.

        Returns:
            Or what is wrong with that blob, or with the part that has it; None if there is none.

        Raises:
            PuffinError: The statistics file or its footer cannot be read.
        """
        key = BlobKey(type_, blob.fields[0], blob.snapshot_id)
        is_private = type_ != THETA_V1 and not is_unmarked(blob.properties)
        if is_private and (known := self._manifest(entry)) is not None:
            stored = known.blobs.get(key)
            return None if stored is None else self._find_in_part(entry, stored, key)
        return self._read_once(_File.of(entry), type_).payloads.get(key)

    def kept(self, entry: StatisticsEntry, blob: BlobEntry, kind: Kind[Any]) -> KeptBlob | None:
        """Where the part is that has what `read` reads; None if it is in no part, so that it has to be written anew."""
        key = BlobKey(kind.name, blob.fields[0], blob.snapshot_id)
        known = self._manifest(entry)
        if known is None or key not in known.blobs:
            return None
        return KeptBlob(key, known.blobs[key], self._directory(entry))

    def created_by(self, entry: StatisticsEntry) -> str | None:
        """Who wrote an entry's statistics file, as its footer says; errors as for `find`."""
        return self._read_once(_File.of(entry), THETA_V1).created_by

    def has_lost_state(self, entry: StatisticsEntry) -> bool:
        """
        Whether the manifest of an entry's statistics file, or a part that it lists, is gone or is not that file's.

        Raises:
            StorageError: The storage failed.
        """
        known = self._manifest(entry)
        return known is None or not all(self._has_part(self._directory(entry), part) for part in known.parts)

    def misses(self, entry: StatisticsEntry, blob: BlobEntry) -> bool:
        """
        Whether something that every run keeps beside a sketch of ours is missing from the manifest of its file.

        What the manifest notes as omitted is not missed, nor what there is none of beside sketches that others began.
        """
        if not is_hashed_here(blob.properties):
            return False
        known = self._manifest(entry)
        kept = {kind.name for kind in private_kinds() if kind.is_default}
        keys = {BlobKey(type_, blob.fields[0], blob.snapshot_id) for type_ in kept}
        return known is None or not keys <= known.blobs.keys() | known.omitted

    def _has_part(self, directory: str, part: Part) -> bool:
        uri = places.part_uri(directory, part.id)
        try:
            return self._store_for(uri).size(uri) == part.file_size
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
        try:
            created_by, blobs = _read(self._store_for, file, lambda b: b.type == type_ and b.fields in self._fields)
            return _Content({BlobKey(b.type, b.fields[0], b.snapshot_id): found for b, found in blobs}, created_by)
        except (CorruptError, UnsupportedError) as exc:
            # A reader of bytes does not know what they are called.
            return CorruptError(f"{file.path}: {exc}")
        except PuffinError as exc:
            return exc


def read_manifest(opened: TableSnapshot, entry: StatisticsEntry) -> Manifest | None:
    """
    The manifest of an entry's statistics file; None if there is none, or none of this very file.

    Raises:
        StorageError: The storage failed.
    """
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
        _log.warning("private state is passed over: %s: %s", uri, objection)
        return None
    return found


class _File(NamedTuple):
    """A Puffin file, and its sizes in bytes."""

    path: str
    size: int
    footer_size: int

    @classmethod
    def of(cls, entry: StatisticsEntry) -> _File:
        """The statistics file that an entry refers to."""
        return cls(entry.statistics_path, entry.file_size_in_bytes, entry.file_footer_size_in_bytes)


class _Content(NamedTuple):
    """What was read of a file."""

    payloads: Mapping[BlobKey, bytes | PuffinError]
    created_by: str | None


def _read(
    store_for: Callable[[str], Store], file: _File, is_wanted: Callable[[BlobMetadata], bool]
) -> tuple[str | None, list[tuple[BlobMetadata, bytes | PuffinError]]]:
    """
    Who wrote a file, and each wanted blob of it with its payload, or with what is wrong with it.

    A small file is read whole, since a second read takes longer than the bytes that nobody wants. Of another one the
    footer is read, and then the blobs, those that lie together at once.

    Raises:
        PuffinError: The file or its footer cannot be read.
    """
    with store_for(file.path).open_source(file.path) as source:
        is_small = 0 <= file.size <= SMALL_FILE
        readable = source.read_at(0, file.size) if is_small else source
        reader = PuffinReader(readable, file_size=file.size, footer_size=file.footer_size)
        metadata = reader.file_metadata
        wanted = list(filter(is_wanted, metadata.blobs))
        return metadata.properties.get(CREATED_BY), list(_payloads(reader, wanted))


def _payloads(
    reader: PuffinReader, blobs: Sequence[BlobMetadata]
) -> Iterator[tuple[BlobMetadata, bytes | PuffinError]]:
    try:
        yield from zip(blobs, reader.read_all(blobs), strict=True)
    except PuffinError as exc:
        if len(blobs) == 1:
            yield blobs[0], exc
            return
        for blob in blobs:  # one broken blob does not speak for its neighbours
            yield from _payloads(reader, [blob])
