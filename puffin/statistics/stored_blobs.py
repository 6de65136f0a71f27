"""
Reads the blobs of statistics files and of the private state beside them, in as few reads as possible.

Sketches are in the statistics file that an entry names. Our other blobs are in parts that the file's manifest lists
(`puffin.statistics.private_state`). A broken blob does not affect its neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from puffin.errors import CorruptError, PuffinError, UnsupportedError
from puffin.format import CREATED_BY, DISTRIBUTION_V1, ROW_COUNTS_V1, THETA_V1, BlobMetadata, PuffinReader, RawBlob
from puffin.statistics.ancestry import KnownSketch
from puffin.statistics.blob_properties import SketchProperties
from puffin.statistics.deltas import WITH_DELTAS, added_up, takes_delta
from puffin.statistics.kinds import private_kinds
from puffin.statistics.kinds.kind import Home, Kind, T
from puffin.statistics.private_state.blobs import NOTHING_PRIVATE, KeptBlob, PrivateState, blob_key
from puffin.statistics.private_state.manifest import BlobKey, StoredKey
from puffin.statistics.private_state.puffin_file import PuffinFile
from puffin.statistics.private_state.reading import read_private_state
from puffin.storage.shelf import Shelf, Shelved
from puffin.tables.base import BlobEntry, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot

_READ_AT_ONCE = 256  # private blobs that are put aside, of some 100 kB each
SMALL_FILE = 1024 * 1024  # bytes; an object store sends these faster than it answers a second request


class StoredBlobs:
    """
    The blobs of the columns with these field ids, in the files of statistics entries and in the parts beside them.

    All blobs of one type are read from a file at once; each file and the parts of its manifest are looked up
    once, and each manifest is read once. Private blobs are put on the ``shelf``, if there is one.
    """

    def __init__(self, opened: TableSnapshot, field_ids: Collection[int], shelf: Shelf | None = None) -> None:
        self._opened = opened
        self._shelf = shelf
        self._fields = {(field_id,) for field_id in field_ids}
        self._files: dict[tuple[str, str], _Content | PuffinError] = {}
        self._states: dict[str, PrivateState | None] = {}
        self._there: dict[PuffinFile, bool] = {}
        self._grow: dict[tuple[str, int], bool] = {}

    @property
    def puts_aside(self) -> bool:
        """Whether values of private blobs are better read again than held."""
        return self._shelf is not None

    def read(self, known: KnownSketch, kind: Kind[T]) -> T | None:
        """
        The value of a kind that is stored with a sketch, if there is one.

        Raises FileNotFound if its file is gone, and PuffinError if it cannot be read or contradicts the entry.
        """
        payload = None if kind.home is Home.PROPERTIES else self.find(known.entry, known.blob, kind.name)
        try:
            if isinstance(payload, PuffinError):
                raise payload
            return kind.read(known.properties, known.column, payload)
        except (CorruptError, UnsupportedError) as exc:
            objection = str(exc)
        del payload  # callers keep the error, which keeps this frame; that of the first error has gone
        raise CorruptError(f"{known.entry.statistics_path}: field {known.blob.field_id}: {objection}")

    def require(self, known: KnownSketch, kind: Kind[T]) -> T:
        """As `read`, with CorruptError if there is none."""
        found = self.read(known, kind)
        if found is None:
            path, field = known.entry.statistics_path, known.blob.field_id
            raise CorruptError(f"{path}: expected {kind.title} of field {field}, found none")
        return found

    def find(self, entry: StatisticsEntry, blob: BlobEntry, type_: str) -> bytes | PuffinError | None:
        """
        The payload of a type for the field and snapshot of an entry's blob, if there is one, or the error that it is
        broken.

        Raises PuffinError if the statistics file or its footer cannot be read.
        """
        key = _key_of(blob, type_)
        if type_ == THETA_V1:
            return self._read_once(PuffinFile.of(entry), type_).payload(key)
        stored = self._listed(entry)
        kept = stored.get(key)
        if kept is None:
            return None
        if kept.stored.deltas:
            return self._add_up(stored, kept, SketchProperties(blob.properties).lg_k)
        return self._find_in_part(kept, kept.stored, type_)

    def where_stored(self, known: KnownSketch, kind: Kind[Any]) -> KeptBlob | None:
        """Where the part is from which `read` reads; None if the value is in no part and has to be written anew."""
        return self._listed(known.entry).get(_key_of(known.blob, kind.name))

    def stored_of(self, known: KnownSketch, kinds: Iterable[Kind[Any]]) -> dict[Kind[Any], KeptBlob]:
        """Where the values of these kinds are, as far as parts have them."""
        found = {kind: self.where_stored(known, kind) for kind in kinds}
        return {kind: where for kind, where in found.items() if where is not None}

    def created_by(self, entry: StatisticsEntry) -> str | None:
        """The writer of an entry's statistics file, from its footer; raises as `find`."""
        return self._read_once(PuffinFile.of(entry), THETA_V1).created_by

    def has_lost_file(self, entry: StatisticsEntry) -> bool:
        """Whether an entry's statistics file is missing, or has another size; may raise StorageError."""
        return not self._is_there(PuffinFile.of(entry))

    def has_lost_state(self, known: KnownSketch) -> bool:
        """
        Whether the manifest of a sketch's file, or a part with a blob beside the sketch, is missing or wrong, or the
        manifest lacks the row counts.

        What is lost beside others does not count: a run that does not ask for their columns does not bring it back.
        May raise StorageError.
        """
        state = self._state(known.entry)
        if state is None or self._lacks_blob(known, state):
            return True
        return self.has_lost_part(self.stored_of(known, private_kinds()).values())

    def has_lost_part(self, blobs: Iterable[KeptBlob]) -> bool:
        """Whether a part with one of these blobs is missing, or has another size; may raise StorageError."""
        return not all(
            self._is_there(PuffinFile.of_part(blob.directory, layer.part))
            for blob in blobs
            for layer in blob.stored.layers
        )

    def may_have_old_bounds(self, known: KnownSketch) -> bool:
        """
        Whether min or max beside a sketch of ours may be of deleted rows without a note of it.

        Version 0.1.0 took no such notes. It knew no distributions either, so its manifests do not even omit them.
        """
        state = self._state(known.entry) or NOTHING_PRIVATE
        return known.properties.is_hashed_here and not state.has(_key_of(known.blob, DISTRIBUTION_V1))

    def takes_delta(self, known: KnownSketch, rows: int) -> bool:
        """Whether deltas of so many rows pay beside the sketches of an entry, see `puffin.statistics.deltas`."""
        key = known.entry.statistics_path, rows
        if key not in self._grow:
            self._grow[key] = takes_delta(self._listed(known.entry).values(), rows)
        return self._grow[key]

    def _lacks_blob(self, known: KnownSketch, state: PrivateState) -> bool:
        """
        Whether a manifest lacks the row counts beside a sketch of ours, which every version keeps or notes as omitted.

        Those beside sketches that we built on another engine's do not count. Other kinds came later, and sketches of
        the version before may stay in a manifest of today.
        """
        return known.properties.is_hashed_here and not state.has(_key_of(known.blob, ROW_COUNTS_V1))

    def _is_there(self, file: PuffinFile) -> bool:
        if file not in self._there:  # many blobs are in one part
            found = self._opened.store_for(file.path).find(file.path)
            self._there[file] = found is not None and found.size == file.size
        return self._there[file]

    def _listed(self, entry: StatisticsEntry) -> Mapping[BlobKey, KeptBlob]:
        return (self._state(entry) or NOTHING_PRIVATE).kept

    def _state(self, entry: StatisticsEntry) -> PrivateState | None:
        path = entry.statistics_path
        if path not in self._states:
            self._states[path] = read_private_state(self._opened, entry)
        return self._states[path]

    def _add_up(self, stored: Mapping[BlobKey, KeptBlob], kept: KeptBlob, lg_k: int) -> bytes | PuffinError:
        """The payload of a blob with all of its deltas."""
        layers: dict[str, list[bytes]] = {}
        for type_ in (kind.name for kind in WITH_DELTAS):
            each = stored.get(kept.key._replace(type=type_))
            for layer in () if each is None else each.stored.layers:
                payload = self._find_in_part(kept, layer, type_)
                if isinstance(payload, PuffinError):
                    return payload
                layers.setdefault(type_, []).append(payload)
        try:
            return added_up(kept.key.type, layers, lg_k)
        except PuffinError as exc:
            return CorruptError(f"{kept.part_uri}: {exc}")

    def _find_in_part(self, kept: KeptBlob, stored: StoredKey, type_: str) -> bytes | PuffinError:
        part = PuffinFile.of_part(kept.directory, stored.part)
        key = BlobKey(type_, kept.key.field_id, stored.snapshot_id)
        try:
            found = self._read_once(part, type_).payload(key)
        except PuffinError as exc:
            return exc
        return CorruptError(f"{part.path}: expected a blob {tuple(key)}, found none") if found is None else found

    def _read_once(self, file: PuffinFile, type_: str) -> _Content:
        key = file.path, type_
        if key not in self._files:
            self._files[key] = self._read(file, type_)
        found = self._files[key]
        if isinstance(found, PuffinError):
            raise found
        return found

    def _read(self, file: PuffinFile, type_: str) -> _Content | PuffinError:
        try:
            with file.open(self._opened, small=SMALL_FILE) as reader:
                metadata = reader.file_metadata
                wanted = [b for b in metadata.blobs if b.type == type_ and b.fields in self._fields]
                return _Content(self._payloads_in(reader, wanted), metadata.properties.get(CREATED_BY))
        except PuffinError as exc:
            return exc

    def _payloads_in(self, reader: PuffinReader, wanted: Sequence[BlobMetadata]) -> dict[BlobKey, _Payload]:
        """The payloads of blobs of one type, in memory as they are stored, or on the shelf."""
        found: dict[BlobKey, _Payload] = {}
        shelf = None if wanted and wanted[0].type == THETA_V1 else self._shelf
        at_once = len(wanted) if shelf is None else _READ_AT_ONCE
        for start in range(0, len(wanted), max(1, at_once)):
            for blob, read in _read_raw(reader, wanted[start : start + at_once]):
                found[blob_key(blob)] = read if shelf is None else _put_aside(read, shelf)
        return found


def _key_of(blob: BlobEntry, type_: str) -> BlobKey:
    return BlobKey(type_, blob.field_id, blob.snapshot_id)


class _Packed(NamedTuple):
    """A payload that is decompressed when it is taken: a few bytes of a file may become very many."""

    reader: PuffinReader
    raw: RawBlob

    def take(self) -> bytes:
        return self.reader.decompressed(self.raw)


_Payload: TypeAlias = _Packed | Shelved | PuffinError


class _Content(NamedTuple):
    payloads: Mapping[BlobKey, _Payload]
    created_by: str | None

    def payload(self, key: BlobKey) -> bytes | PuffinError | None:
        found = self.payloads.get(key)
        try:
            return found if found is None or isinstance(found, PuffinError) else found.take()
        except (CorruptError, UnsupportedError) as exc:
            return exc


def _put_aside(read: _Packed | PuffinError, shelf: Shelf) -> Shelved | PuffinError:
    try:
        return read if isinstance(read, PuffinError) else shelf.put(read.take())
    except (CorruptError, UnsupportedError) as exc:
        return exc


def _read_raw(
    reader: PuffinReader, blobs: Sequence[BlobMetadata]
) -> Iterator[tuple[BlobMetadata, _Packed | PuffinError]]:
    try:
        yield from ((raw.metadata, _Packed(reader, raw)) for raw in reader.read_all_raw(blobs))
    except PuffinError as exc:
        if len(blobs) == 1:
            yield blobs[0], exc
            return
        for blob in blobs:  # find the broken one
            yield from _read_raw(reader, [blob])
