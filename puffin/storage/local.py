"""
Local files, through the operating system's own calls.

A new file is written and synced under a temporary name in its directory, and then gets its name from ``link``, which
fails if the name exists, or from ``replace``. Readers see the whole file or none.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timezone
from io import FileIO
from typing import TYPE_CHECKING, BinaryIO

from puffin.errors import NotWritable, StorageError, UnsupportedError, UsageError
from puffin.storage.store import (
    MAX_WHOLE_BYTES,
    FileInfo,
    FileSource,
    Sink,
    Store,
    exists_already,
    is_a_directory,
    no_such_file,
    storage_errors,
)
from puffin.storage.uri import join, local_name

if TYPE_CHECKING:
    from pathlib import Path

    from pyarrow import NativeFile

_STEP = 1024 * 1024
_MISSING = (FileNotFoundError, NotADirectoryError)
_TEMPORARY_PREFIX, _TEMPORARY_SUFFIX = ".puffin-sidecar-", ".tmp"
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)  # what file systems such as exFAT answer
_TEMPORARY = re.compile(rf"{re.escape(_TEMPORARY_PREFIX)}[0-9a-f]{{32}}{re.escape(_TEMPORARY_SUFFIX)}")


class LocalStore(Store):
    """The files of this machine, by path or ``file:`` URI."""

    def open_source(self, uri: str) -> FileSource:
        """Open a file to read ranges; a pipe, which has none, is read whole."""
        with storage_errors(uri):
            file = self._open(uri)
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return _LocalSource(uri, file)
            with file:
                return BytesSource(read_to_end(file, uri))

    def open_input(self, uri: str) -> NativeFile:
        import pyarrow as pa

        with storage_errors(uri):
            return pa.OSFile(self._name(uri))

    def info(self, uri: str) -> FileInfo:
        with storage_errors(uri):
            try:
                status = os.stat(self._name(uri))  # noqa: PTH116 - asked often, and a Path takes longer than the call
            except NotADirectoryError as exc:
                raise no_such_file(uri) from exc
        if stat.S_ISDIR(status.st_mode):
            raise is_a_directory(uri)
        return _file_info(uri, uri.rpartition("/")[2], status)

    def exists(self, uri: str) -> bool:
        with storage_errors(uri), suppress(*_MISSING):
            os.stat(self._name(uri))  # noqa: PTH116 - as above
            return True
        return False

    def list(self, directory_uri: str) -> Sequence[FileInfo]:
        files = []
        with storage_errors(directory_uri), suppress(*_MISSING), os.scandir(self._name(directory_uri)) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # deleted since the scan began
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode):
                        files.append(_file_info(join(directory_uri, entry.name), entry.name, status))
        return sorted(files, key=lambda file: file.name)

    def directories(self, directory_uri: str) -> Sequence[str]:
        with storage_errors(directory_uri), suppress(*_MISSING), os.scandir(self._name(directory_uri)) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return []

    def is_link(self, uri: str) -> bool:
        with storage_errors(uri):
            return self._path(uri).is_symlink()

    def delete(self, uri: str) -> None:
        with storage_errors(uri):
            self._path(uri).unlink(missing_ok=True)

    def delete_empty_directory(self, uri: str) -> None:
        with storage_errors(uri), suppress(FileNotFoundError):
            try:
                self._path(uri).rmdir()
            except OSError as exc:
                if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise

    def create(self, uri: str) -> AbstractContextManager[Sink]:
        return _staged(uri, self._path(uri), overwrite=False)

    def put_if_absent(self, uri: str, data: bytes) -> None:
        with _staged(uri, self._path(uri), overwrite=False) as sink:
            sink.write(data)

    def check_put_if_absent(self, uri: str) -> None:
        # A directory that does not exist yet will be on the file system of the nearest that does.
        directory = self._nearest_above(uri)
        probe = str(directory / _temporary_name())
        with _staged(probe, self._path(probe), overwrite=False):
            pass
        self.delete(probe)

    def check_writable(self, uri: str) -> None:
        """Ask the nearest directory that exists, in which the others would be made."""
        directory = self._nearest_above(uri)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise NotWritable(f"{directory}: expected a directory that can be written, found one that cannot")

    def replace(self, uri: str, data: bytes) -> None:
        with _staged(uri, self._path(uri), overwrite=True) as sink:
            sink.write(data)

    def _nearest_above(self, uri: str) -> Path:
        """The nearest that exists of a file's directories, as far as this user may search them."""
        # A Path would raise below a directory that may not be searched.
        return next(each for each in self._path(uri).absolute().parents if os.path.exists(each))  # noqa: PTH110

    def _open(self, uri: str) -> FileIO:
        return FileIO(self._name(uri))

    def _name(self, uri: str) -> str:
        name = local_name(uri)
        if name is None:
            raise UsageError(f"{uri}: expected a local path")
        return name

    def _path(self, uri: str) -> Path:
        from pathlib import Path  # slow to import, and not needed for reading

        return Path(self._name(uri))


class ConfinedLocalStore(LocalStore):
    """Local files that ``confine`` of `puffin.storage.store_for` allows, opened without following links."""

    def __init__(self, confine: Callable[[str], str]) -> None:
        self._confine = confine

    def open_input(self, uri: str) -> NativeFile:
        import pyarrow as pa

        with storage_errors(uri):
            return pa.PythonFile(self._open(uri), "r")

    def _open(self, uri: str) -> FileIO:
        return FileIO(self._name(uri), opener=_open_without_links)

    def _name(self, uri: str) -> str:
        return super()._name(self._confine(uri))


def is_temporary_name(name: str) -> bool:
    """Whether a name is a temporary one of a file that `LocalStore` is writing."""
    return _TEMPORARY.fullmatch(name) is not None


class BytesSource(FileSource):
    """A file whose content is in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def size(self) -> int:
        return len(self._content)

    def read_at(self, offset: int, length: int) -> bytes:
        return self._content[offset : offset + length]

    def close(self) -> None:
        self._content = b""


class _LocalSource(FileSource):
    def __init__(self, uri: str, file: FileIO) -> None:
        self._uri = uri
        self._file = file
        self._size = os.fstat(file.fileno()).st_size

    def size(self) -> int:
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        chunks: list[bytes] = []
        wanted = min(length, self._size - offset)  # pread allocates the requested length
        with storage_errors(self._uri):
            while wanted > 0 and (chunk := os.pread(self._file.fileno(), wanted, offset)):
                chunks.append(chunk)
                wanted, offset = wanted - len(chunk), offset + len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)  # do not copy the usual single chunk

    def close(self) -> None:
        self._file.close()


def read_to_end(file: BinaryIO | FileIO, uri: str) -> bytes:
    """All bytes of a pipe or device; StorageError if they are more than `MAX_WHOLE_BYTES`."""
    content = bytearray()
    while chunk := file.read(_STEP):
        content += chunk
        if len(content) > MAX_WHOLE_BYTES:  # a device may have no end
            raise StorageError(f"{uri}: expected at most {MAX_WHOLE_BYTES} bytes from a pipe or device, found more")
    return bytes(content)


@contextmanager
def _staged(uri: str, target: Path, *, overwrite: bool) -> Iterator[Sink]:
    """A sink for a temporary file, which gets its name at the end of the block or goes away if the block raises."""
    directory, temporary = target.parent, target.parent / _temporary_name()
    with storage_errors(uri):
        is_new = not directory.exists()
    try:
        with storage_errors(uri):
            directory.mkdir(parents=True, exist_ok=True)  # callers make no directories, because object stores have none
            file = temporary.open("xb")
        try:
            yield Sink(uri, file)
            with storage_errors(uri):
                file.flush()
                os.fsync(file.fileno())
        finally:
            with suppress(OSError):  # fsync has already reported what did not reach the disk
                file.close()
        with storage_errors(uri):
            try:
                (os.replace if overwrite else os.link)(temporary, target)
            except FileExistsError as exc:
                raise exists_already(uri) from exc
            except OSError as exc:
                if overwrite or exc.errno not in _NO_LINKS:
                    raise
                place = uri.rpartition("/")[0]
                raise UnsupportedError(f"{place}: its file system has no hard links, which new files need") from exc
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
            if is_new:
                directory.rmdir()  # only if it stayed empty


def _temporary_name() -> str:
    return f"{_TEMPORARY_PREFIX}{uuid.uuid4().hex}{_TEMPORARY_SUFFIX}"


def _file_info(uri: str, name: str, status: os.stat_result) -> FileInfo:
    return FileInfo(uri, name, status.st_size, datetime.fromtimestamp(status.st_mtime, timezone.utc))


def _open_without_links(path: str, flags: int) -> int:
    """Open a resolved absolute path component by component; OSError if one has become a link since."""
    to_pass = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
    *directories, name = path.removeprefix("/").split("/")
    directory = os.open("/", to_pass)
    try:
        for each in directories:
            outer, directory = directory, os.open(each, to_pass, dir_fd=directory)
            os.close(outer)
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
    finally:
        os.close(directory)
