"""Keep bytes in a temporary file until a run needs them again."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

from puffin.errors import StorageError


class Shelf:
    """
    A temporary file without a name.

    It is deleted when neither it nor a place in it is referenced any more, or when the process ends.
    It is made where the system has its temporary files (``TMPDIR``), once there is something to put aside. Several
    threads may use it.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._lock = threading.Lock()
        self._end = 0

    def put(self, data: bytes) -> Shelved:
        """Put bytes aside; StorageError if there is no room."""
        with self._lock, _errors():
            file = self._open()
            file.seek(self._end)
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
            place = Shelved(self, self._end, len(data))
            self._end += len(data)
        return place

    def take(self, offset: int, length: int) -> bytes:
        """Bytes that were put aside; StorageError if they cannot be read."""
        found = bytearray()
        with self._lock, _errors():
            file = self._open()
            file.seek(offset)
            while len(found) < length:
                some = file.read(length - len(found))
                if not some:
                    raise OSError(f"expected {length} bytes, found {len(found)}")
                found += some
        return bytes(found)

    def _open(self) -> BinaryIO:
        if self._file is None:
            # Without a buffer, what does not fit onto the disk fails when it is put there.
            file = tempfile.TemporaryFile(prefix="puffin-", buffering=0)  # noqa: SIM115 - open as long as it is used
            self._file = cast("BinaryIO", file)
            weakref.finalize(self, self._file.close)
        return self._file


@dataclass(frozen=True, slots=True)
class Shelved:
    """A place on a shelf."""

    shelf: Shelf
    offset: int
    length: int

    def take(self) -> bytes:
        """The bytes; StorageError if they cannot be read."""
        return self.shelf.take(self.offset, self.length)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        place = tempfile.tempdir or "TMPDIR"
        raise StorageError(f"{place}: a temporary file of statistics: {exc.strerror or exc}") from exc
