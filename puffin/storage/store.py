"""
The interface of a store, and its errors.

``create``, ``put_if_absent`` and ``replace`` are the only ways to write, and differ in how they treat an existing file.
No reader sees an incomplete file, unless an upload to a remote store is interrupted: `puffin.storage.arrow`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import IO, TYPE_CHECKING, NamedTuple

from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptMetadataError,
    FileNotFound,
    PuffinError,
    StorageError,
)

if TYPE_CHECKING:
    from pyarrow import NativeFile

MAX_WHOLE_BYTES = 1024 * 1024 * 1024
"""The longest file to read whole. Only metadata files are, and a manifest has a few megabytes."""
_OF_STORES = ("AWS Error ", "google::cloud::Status(", " Azure Error: [")  # in what pyarrow says of object stores
_MOST_SAID = 500  # characters of an error of a library: pyarrow lists every place in which it looked for Hadoop


class FileSource(ABC):
    """An open file, read by range; a context manager that closes it."""

    @abstractmethod
    def size(self) -> int:
        """The size in bytes."""

    @abstractmethod
    def read_at(self, offset: int, length: int) -> bytes:
        """The ``length`` bytes from ``offset``; fewer only at the end of the file."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> FileSource:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Sink:
    """Writes to a new file, which its creator opens and closes."""

    def __init__(self, uri: str, file: IO[bytes]) -> None:
        self._uri = uri
        self._file = file

    def write(self, data: bytes, /) -> int:
        """Write all of ``data`` and return its length."""
        with storage_errors(self._uri):
            return self._file.write(data)


class FileInfo(NamedTuple):
    """
    A file in a listing; its URI has the form of the directory's URI, and its size is in bytes.

    ``name`` is the last part of the URI. ``mtime``, the last change, has a zone; None if the store does not say.
    """

    uri: str
    name: str
    size: int
    mtime: datetime | None


class Store(ABC):
    """
    A file system or object store.

    Every method raises ``StorageError`` if the store fails and, unless it says otherwise, ``FileNotFound`` for a
    missing file.
    """

    @abstractmethod
    def open_source(self, uri: str) -> FileSource:
        """Open a file to read ranges."""

    @abstractmethod
    def open_input(self, uri: str) -> NativeFile:
        """Open a file for a library that takes Arrow files, such as the Parquet reader."""

    def read(self, uri: str, limit: int = MAX_WHOLE_BYTES) -> bytes:
        """The content of a metadata file; CorruptMetadataError, without reading, if it exceeds ``limit`` bytes."""
        with self.open_source(uri) as source:
            if (size := source.size()) > limit:
                raise CorruptMetadataError(f"{uri}: expected at most {limit} bytes of metadata, found {size}")
            return source.read_at(0, size)

    @abstractmethod
    def info(self, uri: str) -> FileInfo:
        """The file's entry in a listing of its directory."""

    def find(self, uri: str) -> FileInfo | None:
        """As `info`; None for a missing file or a directory."""
        try:
            return self.info(uri)
        except FileNotFound:
            return None

    @abstractmethod
    def exists(self, uri: str) -> bool:
        """Whether the file or directory exists."""

    @abstractmethod
    def list(self, directory_uri: str) -> Sequence[FileInfo]:
        """The files directly in a directory, by name; none if it is missing, as object stores have no directories."""

    @abstractmethod
    def directories(self, directory_uri: str) -> Sequence[str]:
        """The sorted names of the directories directly in a directory, without links."""

    def is_link(self, uri: str) -> bool:  # noqa: ARG002 - object stores have no links
        """Whether the file is a link; False if it is missing."""
        return False

    @abstractmethod
    def delete(self, uri: str) -> None:
        """Delete the file if it exists."""

    @abstractmethod
    def delete_empty_directory(self, uri: str) -> None:
        """Delete the directory if it exists and is empty."""

    @abstractmethod
    def create(self, uri: str) -> AbstractContextManager[Sink]:
        """Write a new file, none if the block raises; ConflictError at the end of the block if the file exists."""

    @abstractmethod
    def put_if_absent(self, uri: str, data: bytes) -> None:
        """
        Write a new file; of several writers at most one succeeds.

        Raises:
            ConflictError: The file exists; it stays unchanged.
            CommitUnknownError: The write may have succeeded.
            UnsupportedError, MissingDependencyError: The store has no conditional put, or needs an extra for it.
        """

    @abstractmethod
    def check_put_if_absent(self, uri: str) -> None:
        """Raise now if `put_if_absent` would refuse every file beside this one; may put a probe."""

    def check_writable(self, uri: str) -> None:  # noqa: B027 - only a write to an object store tells
        """Raise NotWritable if the store can tell, without writing, that a new file of this name is refused."""

    def put_once(self, uri: str, data: bytes) -> None:
        """
        Write a new file as `put_if_absent` does, even if the store's answer is wrong.

        A store may report an error after it wrote the file, or find its own file when it retries. ``data`` is what no
        other writer would write, so reading it back shows the outcome. StorageError means that there is no file.
        """
        try:
            self.put_if_absent(uri, data)
        except (ConflictError, StorageError, CommitUnknownError) as failure:
            try:
                found = self.read(uri)
            except FileNotFound:
                raise failure from None  # after a CommitUnknownError the file may still appear
            except PuffinError as exc:
                raise CommitUnknownError(f"{failure}; reading it back failed too: {exc}") from failure
            if found != data:
                raise ConflictError(f"{uri}: another writer was faster") from failure

    @abstractmethod
    def replace(self, uri: str, data: bytes) -> None:
        """Write a file, over an old one if it exists; readers see the old content or the new."""


@contextmanager
def storage_errors(uri: str) -> Iterator[None]:
    """Turn every error of the operating system or a library inside the block into one of ours about ``uri``."""
    try:
        yield
    except PuffinError:
        raise
    except FileNotFoundError as exc:
        raise no_such_file(uri) from exc
    except IsADirectoryError as exc:
        raise is_a_directory(uri) from exc
    except OSError as exc:
        raise StorageError(f"{uri}: {said_by_storage(exc.strerror or exc)}") from exc
    except Exception as exc:  # fsspec's drivers have no common error
        raise StorageError(f"{uri}: {type(exc).__name__}: {said_by_storage(exc)}") from exc


def is_storage_failure(exc: Exception) -> bool:
    """
    Whether the storage failed, not the content, when a library that reads an open file raised an error.

    pyarrow also raises OSError for broken pages. Neither those nor errors of object stores have an errno, so object
    stores are recognized by their texts.
    """
    return isinstance(exc, OSError) and (exc.errno is not None or any(text in str(exc) for text in _OF_STORES))


def no_such_file(uri: str) -> FileNotFound:
    return FileNotFound(f"{uri}: no such file or directory")


def is_a_directory(uri: str) -> FileNotFound:
    return FileNotFound(f"{uri}: expected a file, found a directory")


def exists_already(uri: str) -> ConflictError:
    return ConflictError(f"{uri}: the file exists already")


def said_by_storage(reason: object) -> str:
    """The beginning of what a library says, without a server's XML and obstore's debug output."""
    told = str(reason).partition("\n\nDebug source:")[0].partition("<?xml")[0]
    text = " ".join(told.split()).rstrip(":") or " ".join(str(reason).split())  # XML may be all that it says
    return text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]} …"
