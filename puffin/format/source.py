"""
Where the bytes of a file come from: ranges of a source, and which ranges to ask for.

The format asks for two calls only, so that a local file, an object store and bytes in memory look the same to it.
Ranges that lie close together are asked for in one read: on an object store a round trip costs more than the bytes
in between.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Protocol, TypeAlias, runtime_checkable

from puffin.errors import StorageError, UsageError

COALESCE_GAP = 64 * 1024  # bytes that nobody asked for, read along to save a round trip
COALESCE_TOTAL = 8 * 1024 * 1024  # the largest read made of several ranges


@runtime_checkable
class RangeSource(Protocol):
    """Bytes that can be read from any offset."""

    def size(self) -> int:
        """The size of the file in bytes."""
        ...

    def read_at(self, offset: int, length: int) -> bytes:
        """The ``length`` bytes from ``offset``; fewer only if the file ends before."""
        ...


@runtime_checkable
class SeekableFile(Protocol):
    """The part of a seekable binary file object that is used here."""

    def read(self, size: int = -1, /) -> bytes:
        """Read at most ``size`` bytes; none at the end of the file."""
        ...

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move, and return the new position."""
        ...


Source: TypeAlias = bytes | bytearray | memoryview | SeekableFile | RangeSource
Range: TypeAlias = tuple[int, int]  # the first byte, and the first byte after


def open_source(source: Source) -> RangeSource:
    """
    Make a ``RangeSource`` of bytes, of a seekable binary file object, or of one that is one already.

    A file object is moved about and never closed. It is known by ``read`` and ``seek``, whatever else it has.

    Raises:
        UsageError: The source is none of these.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _BytesSource(source)
    if isinstance(source, SeekableFile) and not isinstance(source, io.TextIOBase):
        return _OpenFile(source)
    if isinstance(source, RangeSource):
        return source
    raise UsageError(f"source: expected bytes, a seekable binary file or a RangeSource, found {type(source).__name__}")


def coalesce(ranges: Iterable[Range]) -> list[list[Range]]:
    """
    Group ranges that lie close together.

    Returns:
        The ranges in ascending order, one group per read. No gap inside a group is larger than ``COALESCE_GAP``, and
        a group reaches over at most ``COALESCE_TOTAL`` bytes unless one range alone is longer.
    """
    groups: list[list[Range]] = []
    first = last = 0
    for start, end in sorted(ranges):
        reach = max(last, end)
        if groups and start - last <= COALESCE_GAP and reach - first <= COALESCE_TOTAL:
            groups[-1].append((start, end))
            last = reach
        else:
            groups.append([(start, end)])
            first, last = start, end
    return groups


class _BytesSource:
    def __init__(self, content: bytes | bytearray | memoryview) -> None:
        self._content = memoryview(content).cast("B")

    def size(self) -> int:
        return len(self._content)

    def read_at(self, offset: int, length: int) -> bytes:
        return bytes(self._content[offset : offset + length])


class _OpenFile:
    def __init__(self, file: SeekableFile) -> None:
        self._file = file

    def size(self) -> int:
        try:
            return self._file.seek(0, io.SEEK_END)
        except OSError as exc:
            raise StorageError(f"seeking to the end of the file failed: {exc}") from exc

    def read_at(self, offset: int, length: int) -> bytes:
        try:
            self._file.seek(offset)
            content = self._file.read(length)
            while len(content) < length and (more := self._file.read(length - len(content))):
                content += more
        except OSError as exc:
            raise StorageError(f"reading {length} bytes at offset {offset} failed: {exc}") from exc
        return content
