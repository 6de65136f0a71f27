"""Counts what is read of local files, by whatever code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from puffin.storage import FileSource, LocalStore


class CountedSource(FileSource):
    """An open file, and how many bytes have been read of it."""

    def __init__(self, source: FileSource, uri: str) -> None:
        self._source = source
        self.uri = uri
        self.bytes_read = 0

    def size(self) -> int:
        return self._source.size()

    def read_at(self, offset: int, length: int) -> bytes:
        data = self._source.read_at(offset, length)
        self.bytes_read += len(data)
        return data

    def close(self) -> None:
        self._source.close()


@contextlib.contextmanager
def reads_counted() -> Iterator[list[CountedSource]]:
    """The local files that are opened inside the block, in order."""
    opened: list[CountedSource] = []
    open_source = LocalStore.open_source

    def counted(self: LocalStore, uri: str) -> FileSource:
        opened.append(CountedSource(open_source(self, uri), uri))
        return opened[-1]

    LocalStore.open_source = counted  # type: ignore[method-assign]
    try:
        yield opened
    finally:
        LocalStore.open_source = open_source  # type: ignore[method-assign]
