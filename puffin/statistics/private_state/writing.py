"""
Writes statistics files, each with its private state: a part for new blobs, and the manifest.

Blobs that an earlier run wrote and that are still valid are referred to; only those in another home are copied. The
part is written before the manifest that refers to it, and both before the commit: a killed job leaves files that
nothing refers to, but never a manifest without its parts.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from puffin.errors import CorruptError, PuffinError
from puffin.format import CREATED_BY, Blob, PuffinReader, PuffinWriter, RawBlob, WrittenFile
from puffin.statistics.private_state import places
from puffin.statistics.private_state.manifest import BlobKey, Manifest, Part, StoredKey, encode
from puffin.storage import Store
from puffin.tables.base import BlobEntry, StatisticsEntry
from puffin.tables.leftovers import APPLICATION
from puffin.tables.snapshot import TableSnapshot
from puffin.version import version

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class KeptBlob:
    """A private blob that an earlier run stored in this folder; its key has the snapshot id of its sketch."""

    key: BlobKey
    stored: StoredKey
    directory: str

    @property
    def part_uri(self) -> str:
        return places.part_uri(self.directory, self.stored.part.id)

    def beside(self, snapshot_id: int) -> KeptBlob:
        """The same blob for the sketch of a snapshot with the same rows."""
        return dataclasses.replace(self, key=self.key._replace(snapshot_id=snapshot_id))


@dataclasses.dataclass(frozen=True, slots=True)
class OmittedBlob:
    """Notes that nobody wants a private blob, so that it is not missing; `key` is that of its sketch."""

    key: BlobKey


PrivateBlob: TypeAlias = Blob | RawBlob | KeptBlob | OmittedBlob


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """The blobs of a statistics file in order, the same blobs in its entry, and its private state with its home."""

    blobs: tuple[Blob | RawBlob, ...]
    entries: tuple[BlobEntry, ...]
    private: tuple[PrivateBlob, ...]
    home: str | None


class StatisticsFiles:
    """Writes files of a table, and deletes those that no commit has taken."""

    def __init__(self) -> None:
        self._pending: dict[str, TableSnapshot] = {}
        self._properties = {CREATED_BY: f"{APPLICATION} {version()}"}

    def write(self, opened: TableSnapshot, snapshot_id: int, contents: Contents) -> StatisticsEntry:
        """
        Write a statistics file of a snapshot, and its private state; return the entry for it.

        Raises StorageError if a file cannot be written, and CorruptError if private state to copy from another home is
        broken.
        """
        file = opened.new_statistics_file(snapshot_id)
        properties = {**self._properties, **file.properties}
        written = write_blobs(opened.store_for(file.path), file.path, contents.blobs, properties)
        self.add(file.path, opened)
        entry = StatisticsEntry(snapshot_id, file.path, written.file_size, written.footer_size, contents.entries)
        self._write_private(opened, entry, contents)
        return entry

    def add(self, uri: str, opened: TableSnapshot) -> None:
        """Delete this file of a table too if no commit takes it."""
        self._pending[uri] = opened

    def keep(self) -> None:
        self._pending.clear()

    def discard(self) -> None:
        """Delete what was written and not kept; log failures."""
        pending, self._pending = self._pending, {}
        for failure in delete_files(pending, lambda uri: pending[uri].store_for(uri)):
            _log.warning("could not delete a file, which stays behind: %s", failure)

    def _write_private(self, opened: TableSnapshot, entry: StatisticsEntry, contents: Contents) -> None:
        directory = places.directory(opened.state, contents.home)
        found: dict[BlobKey, StoredKey] = {}
        new: list[Blob | RawBlob] = []
        omitted: set[BlobKey] = set()
        for blob in contents.private:
            if isinstance(blob, OmittedBlob):
                omitted.add(blob.key)
            elif not isinstance(blob, KeptBlob):
                new.append(blob)
            elif blob.directory == directory:
                found[blob.key] = blob.stored
            else:
                new.append(_copied(opened, blob))
        if new:
            found |= self._write_part(opened, directory, new)
        name = entry.statistics_path.rpartition("/")[2]
        manifest = Manifest(opened.state.uuid, name, entry.file_size_in_bytes, found, frozenset(omitted))
        uri = places.manifest_uri(directory, name)
        self.add(uri, opened)
        with opened.store_for(uri).create(uri) as sink:
            sink.write(encode(manifest))

    def _write_part(
        self, opened: TableSnapshot, directory: str, blobs: Sequence[Blob | RawBlob]
    ) -> dict[BlobKey, StoredKey]:
        part_id = str(uuid.uuid4())
        uri = places.part_uri(directory, part_id)
        self.add(uri, opened)
        written = write_blobs(opened.store_for(uri), uri, blobs, self._properties)
        part = Part(part_id, written.file_size, written.footer_size)
        keys = (BlobKey(blob.type, blob.fields[0], blob.snapshot_id) for blob in written.blobs)
        return {key: StoredKey(part, key.snapshot_id) for key in keys}


def write_blobs(store: Store, uri: str, blobs: Iterable[Blob | RawBlob], properties: Mapping[str, str]) -> WrittenFile:
    """Write a Puffin file; StorageError if it cannot be written."""
    with store.create(uri) as sink:
        writer = PuffinWriter(sink, properties=properties)
        for blob in blobs:
            _ = writer.add(blob) if isinstance(blob, Blob) else writer.copy(blob)
        return writer.finish()


def delete_files(uris: Iterable[str], store_for: Callable[[str], Store]) -> list[PuffinError]:
    """Delete files of ours, with the folders that they have to themselves; return the failures."""
    failures: list[PuffinError] = []
    for uri in uris:
        try:
            store = store_for(uri)
            store.delete(uri)
            if places.has_own_folder(uri):
                store.delete_empty_directory(uri.rpartition("/")[0])
        except PuffinError as exc:
            failures.append(exc)
    return failures


def _copied(opened: TableSnapshot, blob: KeptBlob) -> RawBlob:
    part, key, uri = blob.stored.part, blob.key, blob.part_uri
    wanted = key.type, (key.field_id,), blob.stored.snapshot_id
    with opened.store_for(uri).open_source(uri) as source:
        reader = PuffinReader(source, file_size=part.file_size, footer_size=part.footer_size)
        for stored in reader.file_metadata.blobs:
            if (stored.type, stored.fields, stored.snapshot_id) == wanted:
                raw = reader.read_raw(stored)
                metadata = dataclasses.replace(raw.metadata, snapshot_id=key.snapshot_id)
                return dataclasses.replace(raw, metadata=metadata)
    raise CorruptError(f"{uri}: expected a blob {tuple(key)}, found none")
