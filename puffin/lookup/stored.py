"""Blobs of a statistics file, read together as far as possible and apart where one of them is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from puffin.errors import PuffinError
from puffin.format import BlobMetadata, PuffinReader
from puffin.storage import Store
from puffin.tables.base import StatisticsEntry


def read_blobs(
    store_for: Callable[[str], Store], entry: StatisticsEntry, is_wanted: Callable[[BlobMetadata], bool]
) -> list[tuple[BlobMetadata, bytes | PuffinError]]:
    """
    The payloads of some blobs of an entry's file: a read for the footer, and one for those that lie together.

    Returns:
        Each wanted blob with its payload, or with what is wrong with it.

    Raises:
        PuffinError: The file or its footer cannot be read.
    """
    path = entry.statistics_path
    with store_for(path).open_source(path) as source:
        reader = PuffinReader(source, file_size=entry.file_size_in_bytes, footer_size=entry.file_footer_size_in_bytes)
        return list(_payloads(reader, list(filter(is_wanted, reader.file_metadata.blobs))))


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
