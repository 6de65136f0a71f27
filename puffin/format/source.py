"""
Read ranges of bytes from memory, local files and object stores in the same way.

``coalesce`` joins neighbouring ranges into one read: on an object store a round trip costs more than the bytes between
them.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable
from typing import Protocol, TypeAlias, runtime_checkable

from puffin.errors import StorageError, UsageError

COALESCE_GAP = 64 * 1024  # the most unwanted bytes to read between two ranges
COALESCE_TOTAL = 8 * 1024 * 1024  # the largest read that joins ranges


@runtime_checkable
class RangeSource(Protocol):
    """Bytes that can be read from any offset."""

    def size(self) -> int:
        """The size in bytes."""

    def read_at(self, offset: int, length: int) -> bytes:
        """The ``length`` bytes from ``offset``; fewer only at the end of the file."""


@runtime_checkable
class SeekableFile(Protocol):
    """The methods that a seekable binary file object needs."""

    def read(self, size: int = -1, /) -> bytes: ...

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int | None: ...

    def tell(self) -> int: ...


Source: TypeAlias = bytes | bytearray | memoryview | SeekableFile | RangeSource
Range: TypeAlias = tuple[int, int]  # the first byte, and the one after the last


def open_source(source: Source) -> RangeSource:
    """Wrap bytes or a seekable binary file, and never close it; a ``RangeSource`` stays; UsageError otherwise."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _BytesSource(source)
    if isinstance(source, SeekableFile) and not isinstance(source, io.TextIOBase):
        return _OpenFile(source)
    if isinstance(source, RangeSource):
        return source
    raise UsageError(f"source: expected bytes, a seekable binary file or a RangeSource, found {type(source).__name__}")


def coalesce(ranges: Iterable[Range]) -> list[list[Range]]:
    """
    Sort ranges and group neighbours, one group per read.

    A group has no gap above ``COALESCE_GAP``, and spans at most ``COALESCE_TOTAL`` bytes unless one range is longer.
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
        self._lock = threading.Lock()  # threads share the position, and would read each other's bytes

    def size(self) -> int:
        try:
            with self._lock:
                self._file.seek(0, io.SEEK_END)
                return self._file.tell()  # what seek returns is None for mmap before Python 3.13
        except (OSError, ValueError) as exc:  # ValueError if the file is closed
            raise StorageError(f"seeking to the end of the file failed: {exc}") from exc

    def read_at(self, offset: int, length: int) -> bytes:
        try:
            with self._lock:
                self._file.seek(offset)
                content = self._file.read(length)
                while len(content) < length and (more := self._file.read(length - len(content))):
                    content += more
        except (OSError, ValueError) as exc:  # ValueError if the file is closed
            raise StorageError(f"reading {length} bytes at offset {offset} failed: {exc}") from exc
        return content
