"""
Writes statistics files, each with its private state: a part for new blobs, and the manifest.

Blobs that an earlier run wrote and that are still valid are referred to; those in another home are copied. So are those
in a part that also holds values of the table that are no longer wanted: a value that was erased may not stay because
other blobs of its part do. To make that rare, blobs with values have a part of their own.

The part is written before the manifest that refers to it, and both before the commit: a killed job leaves files that
nothing refers to, but never a manifest without its parts.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from puffin.errors import GONE_OR_BROKEN, CorruptError
from puffin.format import CREATED_BY, Blob, BlobMetadata, PuffinWriter, RawBlob, WrittenFile
from puffin.statistics.private_state import places
from puffin.statistics.private_state.blobs import (
    WITH_VALUES,
    Contents,
    KeptBlob,
    LaterBlob,
    NewBlob,
    blob_key,
    blobs_by_key,
)
from puffin.statistics.private_state.deletion import delete_files
from puffin.statistics.private_state.manifest import BlobKey, Manifest, Part, StoredKey, encode
from puffin.statistics.private_state.puffin_file import PuffinFile
from puffin.storage import Store, place_of
from puffin.storage.shelf import Shelf, Shelved
from puffin.tables.base import StatisticsEntry
from puffin.tables.snapshot import TableSnapshot
from puffin.version import created_by

_MANY = 256  # blobs, whose footer has some 40 kB

_log = logging.getLogger(__name__)


class StatisticsFiles:
    """Writes files of a table, and deletes those that no commit has taken."""

    def __init__(self) -> None:
        self._pending: dict[str, TableSnapshot] = {}
        self._properties = {CREATED_BY: created_by()}

    def write(self, opened: TableSnapshot, snapshot_id: int, contents: Contents) -> StatisticsEntry:
        """
        Write a statistics file of a snapshot, and its private state; return the entry for it.

        Raises StorageError if a file cannot be written, or private state to copy not be read now.
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
        private = contents.private
        kept = [_Kept.of(blob) for blob in private.kept.values()]
        new: list[NewBlob] = [*private.new, *(each.delta for each in kept if each.delta is not None)]
        stays: dict[BlobKey, StoredKey] = {}
        by_part: dict[str, list[_Layer]] = {}
        for each in kept:
            for layer in each.layers:
                by_part.setdefault(layer.part.path, []).append(layer)
        for layers in by_part.values():
            try:
                if layers[0].directory != directory or _holds_other_values(opened, layers):
                    new += _copied(opened, layers)
                    continue
            except GONE_OR_BROKEN as exc:
                # The manifest goes on to name it, so that a run of its columns finds it gone.
                _log.warning("private state is lost: %s", exc)
            stays |= {layer.copy: layer.stored for layer in layers}
        written = self._write_parts(opened, directory, new)
        found = {blob.key: written[blob.key] for blob in private.new}
        for each in kept:
            base, *deltas = (stays.get(layer.copy) or written[layer.copy] for layer in each.layers)
            deltas += [written[blob_key(each.delta)]] if each.delta is not None else []
            found[each.key] = dataclasses.replace(base, deltas=tuple(deltas))
        noted = None if contents.home is None else place_of(entry.statistics_path.rpartition("/")[0])
        manifest = Manifest(opened.state.uuid, entry.file_name, entry.file_size_in_bytes, found, private.omitted, noted)
        uri = places.manifest_uri(directory, entry.file_name)
        self.add(uri, opened)
        with opened.store_for(uri).create(uri) as sink:
            sink.write(encode(manifest))

    def _write_parts(self, opened: TableSnapshot, directory: str, blobs: Sequence[NewBlob]) -> dict[BlobKey, StoredKey]:
        """Write a part for blobs with values and one for those without, side by side: both take time to compress."""
        halves = [
            [each for each in blobs if (blob_key(each).type in WITH_VALUES) == has_values]
            for has_values in (True, False)
        ]
        parts = [part for part in halves if part]
        with ThreadPoolExecutor(max(1, len(parts)), thread_name_prefix="puffin-writer") as pool:
            written = pool.map(functools.partial(self._write_part, opened, directory), parts)
            return {key: stored for part in written for key, stored in part.items()}

    def _write_part(self, opened: TableSnapshot, directory: str, blobs: Sequence[NewBlob]) -> dict[BlobKey, StoredKey]:
        part_id = str(uuid.uuid4())
        uri = places.part_uri(directory, part_id)
        self.add(uri, opened)
        is_wide = len(blobs) > _MANY  # its footer is read each time that columns get deltas
        made = (blob.make() if isinstance(blob, LaterBlob) else blob for blob in blobs)
        written = write_blobs(opened.store_for(uri), uri, made, self._properties, compress_footer=is_wide)
        part = Part(part_id, written.file_size, written.footer_size)
        keys = (blob_key(blob) for blob in written.blobs)
        return {key: StoredKey(part, key.snapshot_id) for key in keys}


def write_blobs(
    store: Store,
    uri: str,
    blobs: Iterable[Blob | RawBlob],
    properties: Mapping[str, str],
    *,
    compress_footer: bool = False,
) -> WrittenFile:
    """Write a Puffin file, with a compressed footer only if nobody else reads it; StorageError if it cannot be."""
    with store.create(uri) as sink:
        writer = PuffinWriter(sink, properties=properties, compress_footer=compress_footer)
        for blob in blobs:
            _ = writer.add(blob) if isinstance(blob, Blob) else writer.copy(blob)
        return writer.finish()


class _Layer(NamedTuple):
    """A stored private blob or a delta of one; ``copy`` is its key in a new part, should it be copied."""

    wanted: BlobKey
    copy: BlobKey
    stored: StoredKey
    directory: str

    @property
    def part(self) -> PuffinFile:
        return PuffinFile.of_part(self.directory, self.stored.part)


class _Kept(NamedTuple):
    """A private blob of an earlier run: its key, its layers, and the delta that is to be one more."""

    key: BlobKey
    layers: Sequence[_Layer]
    delta: Blob | None = None

    @classmethod
    def of(cls, kept: KeptBlob) -> _Kept:
        # The layers of one blob are told apart by the snapshots that they are stored under.
        is_alone = kept.delta is None and not kept.stored.deltas
        layers = [
            _Layer(
                kept.key._replace(snapshot_id=layer.snapshot_id),
                kept.key if is_alone else kept.key._replace(snapshot_id=layer.snapshot_id),
                layer,
                kept.directory,
            )
            for layer in kept.stored.layers
        ]
        return cls(kept.key, layers, kept.delta)


def _holds_other_values(opened: TableSnapshot, kept: Sequence[_Layer]) -> bool:
    """Whether the part of these blobs also holds values in others."""
    wanted = {layer.wanted for layer in kept}
    with kept[0].part.open(opened) as reader:
        stored = blobs_by_key(reader.file_metadata.blobs).keys()
        return wanted <= stored and any(key.type in WITH_VALUES for key in stored - wanted)


def _copied(opened: TableSnapshot, kept: Sequence[_Layer]) -> list[NewBlob]:
    """Read blobs of one part, to store them under the keys of their copies; many are put aside until then."""
    copies: list[NewBlob] = []
    shelf = Shelf() if len(kept) > _MANY else None
    with kept[0].part.open(opened) as reader:
        stored = blobs_by_key(reader.file_metadata.blobs)
        for layer in kept:
            if layer.wanted not in stored:
                raise CorruptError(f"expected a blob {tuple(layer.wanted)}, found none")
            raw = reader.read_raw(stored[layer.wanted])
            metadata = dataclasses.replace(raw.metadata, snapshot_id=layer.copy.snapshot_id)
            if shelf is None:
                copies.append(RawBlob(metadata=metadata, stored=raw.stored))
            else:
                copies.append(LaterBlob(layer.copy, functools.partial(_taken, metadata, shelf.put(raw.stored))))
    return copies


def _taken(metadata: BlobMetadata, place: Shelved) -> RawBlob:
    return RawBlob(metadata=metadata, stored=place.take())
