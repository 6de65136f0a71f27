"""Blobs of a statistics file, read together as far as possible and apart where one of them is broken."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from puffin.errors import CorruptError, PuffinError, UnsupportedError
from puffin.format import BlobMetadata, PuffinReader
from puffin.storage import Store
from puffin.tables.base import BlobEntry, StatisticsEntry

SMALL_FILE = 1024 * 1024  # bytes, which an object store sends in less time than it takes to answer once more


class StoredBlobs:
    """
    The blobs of some columns in the files of statistics entries, each file read once.

    Args:
        types: Of the blobs that will be asked for.
        field_ids: Of the columns that will be asked for.
    """

    def __init__(self, store_for: Callable[[str], Store], types: Collection[str], field_ids: Collection[int]) -> None:
        self._store_for = store_for
        self._types = types
        self._fields = {(field_id,) for field_id in field_ids}
        self._known: dict[str, Mapping[_BlobKey, bytes | PuffinError] | PuffinError] = {}

    def find(self, entry: StatisticsEntry, blob: BlobEntry, type_: str) -> bytes | PuffinError | None:
        """
        The payload of a type for the field and snapshot of an entry's blob.

        Returns:
            Or what is wrong with that blob; None if there is none.

        Raises:
            PuffinError: The file or its footer cannot be read.
        """
        path = entry.statistics_path
        if path not in self._known:
            self._known[path] = self._read_file(entry)
        payloads = self._known[path]
        if isinstance(payloads, PuffinError):
            raise payloads
        return payloads.get((type_, blob.fields, blob.snapshot_id))

    def _read_file(self, entry: StatisticsEntry) -> Mapping[_BlobKey, bytes | PuffinError] | PuffinError:
        try:
            blobs = read_blobs(self._store_for, entry, lambda b: b.type in self._types and b.fields in self._fields)
        except (CorruptError, UnsupportedError) as exc:
            # A reader of bytes does not know what they are called.
            return CorruptError(f"{entry.statistics_path}: {exc}")
        except PuffinError as exc:
            return exc
        return {(blob.type, blob.fields, blob.snapshot_id): found for blob, found in blobs}


def read_blobs(
    store_for: Callable[[str], Store], entry: StatisticsEntry, is_wanted: Callable[[BlobMetadata], bool]
) -> list[tuple[BlobMetadata, bytes | PuffinError]]:
    """
    The payloads of some blobs of an entry's file.

    A small file is read whole, since a second read takes longer than the bytes that nobody wants. Of another one the
    footer is read, and then the blobs, those that lie together at once.

    Returns:
        Each wanted blob with its payload, or with what is wrong with it.

    Raises:
        PuffinError: The file or its footer cannot be read.
    """
    path = entry.statistics_path
    with store_for(path).open_source(path) as source:
        size = entry.file_size_in_bytes
        is_small = 0 <= size <= SMALL_FILE
        readable = source.read_at(0, size) if is_small else source
        reader = PuffinReader(readable, file_size=size, footer_size=entry.file_footer_size_in_bytes)
        return list(_payloads(reader, list(filter(is_wanted, reader.file_metadata.blobs))))


_BlobKey = tuple[str, tuple[int, ...], int]  # the type, fields and snapshot id of a blob


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
