"""
Remote files through pyarrow's file systems, and through fsspec where pyarrow does not know the scheme.

A new file is collected first and then uploaded, because closing a stream publishes the object even after an exception.
If the store fails during the upload, no file appears; uploaded parts stay there invisibly, because pyarrow cannot abort
an upload.

Functions import pyarrow where they need it, so that local files never pay for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from puffin.errors import MissingDependencyError, PuffinError, StorageError, UnsupportedError
from puffin.storage.new_objects import put_new_object, store_of_new_objects
from puffin.storage.store import (
    FileInfo,
    FileSource,
    Sink,
    Store,
    exists_already,
    is_a_directory,
    no_such_file,
    storage_errors,
)
from puffin.storage.uri import filesystem_path, join, split, store_scheme

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import FileInfo as ArrowFileInfo
    from pyarrow.fs import FileSystem

MEMORY_LIMIT = 64 * 1024 * 1024
"""A new file beyond this many bytes goes to a temporary file until it is complete."""

_COPY_SIZE = 8 * 1024 * 1024

_OVERFLOW = "Failed to flush response stream"
_WAITS = (0.1, 0.4, 1.6)  # seconds


class ArrowStore(Store):
    """
    The files of a pyarrow file system.

    Args:
        filesystem: Returns the file system. It is called for every operation, since credentials may have been renewed.
        path_of: Turns a URI into the file system's own path.
    """

    def __init__(self, filesystem: Callable[[], FileSystem], path_of: Callable[[str], str] = filesystem_path) -> None:
        self._filesystem = filesystem
        self._path_of = path_of

    @classmethod
    def for_uri(cls, uri: str) -> ArrowStore:
        """The store that a URI names, with the credentials of the environment; raises what `store_for` raises."""
        import pyarrow as pa
        from pyarrow.fs import FileSystem

        parts = split(uri)
        if parts is None:
            raise UnsupportedError(f"{uri}: expected a URI with a scheme")
        scheme = store_scheme(parts.scheme)
        with storage_errors(uri):
            try:
                # Without the path, which pyarrow would decode.
                filesystem, _ = FileSystem.from_uri(f"{scheme}://{parts.authority}/{parts.query}")
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as refusal:
                filesystem, path_of = _fsspec(uri, refusal)
                return cls(lambda: filesystem, path_of)
        return cls(lambda: filesystem)

    def confined(self, confine: Callable[[str], str]) -> ArrowStore:
        """The same store, confined as in `puffin.storage.store_for`."""
        path_of = self._path_of
        return ArrowStore(self._filesystem, lambda uri: path_of(confine(uri)))

    def open_source(self, uri: str) -> FileSource:
        return _ArrowSource(uri, self.open_input(uri))

    def open_input(self, uri: str) -> NativeFile:
        with storage_errors(uri):
            return self._filesystem().open_input_file(self._path_of(uri))

    def info(self, uri: str) -> FileInfo:
        with storage_errors(uri):
            info = self._filesystem().get_file_info(self._path_of(uri))
        if info.is_file:
            return _file_info(uri, info)
        raise is_a_directory(uri) if _found(info) else no_such_file(uri)

    def exists(self, uri: str) -> bool:
        with storage_errors(uri):
            return _found(self._filesystem().get_file_info(self._path_of(uri)))

    def list(self, directory_uri: str) -> Sequence[FileInfo]:
        found = self._listed(directory_uri)
        files = [_file_info(join(directory_uri, info.base_name), info) for info in found if info.is_file]
        return sorted(files, key=lambda file: file.name)

    def directories(self, directory_uri: str) -> Sequence[str]:
        return sorted(info.base_name for info in self._listed(directory_uri) if info.type.name == "Directory")

    def delete(self, uri: str) -> None:
        with storage_errors(uri), suppress(FileNotFoundError):
            self._filesystem().delete_file(self._path_of(uri))

    def delete_empty_directory(self, uri: str) -> None:
        if not self._listed(uri):  # an object store may keep an empty object in a directory's name
            with storage_errors(uri), suppress(FileNotFoundError):
                self._filesystem().delete_dir(self._path_of(uri))

    @contextmanager
    def create(self, uri: str) -> Iterator[Sink]:
        """Write a new file under a name that nobody else uses, because the check for an existing file is not atomic."""
        import shutil
        import tempfile

        with tempfile.SpooledTemporaryFile(MEMORY_LIMIT) as spool:
            yield Sink(uri, spool)
            if self.exists(uri):
                raise exists_already(uri)
            spool.seek(0)
            try:
                with storage_errors(uri), self._filesystem().open_output_stream(self._path_of(uri)) as stream:
                    shutil.copyfileobj(spool, stream, _COPY_SIZE)
            except BaseException:  # closing the stream published the incomplete file
                with suppress(PuffinError):
                    self.delete(uri)
                raise

    def put_if_absent(self, uri: str, data: bytes) -> None:
        put_new_object(self._filesystem(), uri, self._path_of(uri), data)

    def check_put_if_absent(self, uri: str) -> None:
        store_of_new_objects(self._filesystem(), uri, self._path_of(uri))

    def replace(self, uri: str, data: bytes) -> None:
        with storage_errors(uri), self._filesystem().open_output_stream(self._path_of(uri)) as stream:
            stream.write(data)

    def _listed(self, directory_uri: str) -> Sequence[ArrowFileInfo]:
        from pyarrow.fs import FileSelector

        with storage_errors(directory_uri):
            selector = FileSelector(self._path_of(directory_uri.rstrip("/")), allow_not_found=True)
            found: Sequence[ArrowFileInfo] = self._filesystem().get_file_info(selector)
        return found


class _ArrowSource(FileSource):
    def __init__(self, uri: str, file: Any) -> None:
        self._uri = uri
        self._file = file
        with storage_errors(uri):
            self._size = int(file.size())

    def size(self) -> int:
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        wanted = max(min(length, self._size - offset), 0)  # pyarrow allocates the requested length
        if wanted == 0:  # object stores refuse a range behind the end
            return b""
        with storage_errors(self._uri):
            return bytes(_read_again(lambda: self._file.read_at(wanted, offset), self._uri))

    def close(self) -> None:
        with storage_errors(self._uri):
            self._file.close()


class _Input:
    """An open file of fsspec; turns errors into ours while pyarrow reads it, because drivers share no error class."""

    def __init__(self, uri: str, file: Any) -> None:
        self._uri = uri
        self._file = file

    def read(self, size: int = -1) -> bytes:
        with storage_errors(self._uri):
            return bytes(self._file.read(size))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _read_again(read: Callable[[], bytes], uri: str) -> bytes:
    """
    Call ``read``, with retries.

    The AWS SDK retries a refused request itself, unless the error body is longer than the requested range: then it
    overflows the buffer and the SDK loses the status.
    """
    waits = iter(_WAITS)
    while True:
        try:
            return read()
        except OSError as exc:
            if _OVERFLOW not in str(exc):
                raise
            if (seconds := next(waits, None)) is None:
                raise StorageError(f"{uri}: the store refused a short range, and the AWS SDK does not say why") from exc
            time.sleep(seconds)


def _file_info(uri: str, info: ArrowFileInfo) -> FileInfo:
    return FileInfo(uri=uri, name=str(info.base_name), size=int(info.size), mtime=info.mtime)


def _found(info: ArrowFileInfo) -> bool:
    return str(info.type.name) != "NotFound"


def _fsspec(uri: str, refusal: Exception) -> tuple[FileSystem, Callable[[str], str]]:
    """The file system of fsspec for a URI that pyarrow refuses, as one of pyarrow, and its ``path_of``."""
    from pyarrow import PythonFile
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    class Handler(FSSpecHandler):  # type: ignore[misc]
        def open_input_file(self, path: str) -> NativeFile:
            if not self.fs.isfile(path):
                raise FileNotFoundError(path)
            return PythonFile(_Input(self.fs.unstrip_protocol(path), self.fs.open(path)), mode="r")

    try:
        from fsspec.core import url_to_fs
    except ImportError as exc:
        raise MissingDependencyError("fsspec", "iceberg") from exc
    try:
        filesystem, _ = url_to_fs(uri)
    except (ImportError, ValueError) as exc:  # a missing driver, an unknown scheme
        # pyarrow may know the scheme, and only it says what is wrong with the rest of the URI.
        raise UnsupportedError(f"{uri}: pyarrow: {refusal}; fsspec: {exc}") from exc
    return PyFileSystem(Handler(filesystem)), lambda each: url_to_fs(each)[1]
