"""
What a store can do, and how its failures are told.

A file comes into being whole or not at all: ``create``, ``put_if_absent`` and ``replace`` are the only ways to write,
and no reader ever sees a file half written. They differ in what they do about a file that is there already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from types import TracebackType
from typing import IO, TYPE_CHECKING, NamedTuple

from puffin.errors import ConflictError, CorruptMetadataError, FileNotFound, PuffinError, StorageError

if TYPE_CHECKING:
    from pyarrow import NativeFile

MAX_WHOLE_BYTES = 1024 * 1024 * 1024
"""The longest file that is read whole. What is read so is metadata; a manifest has some megabytes."""


class FileSource(ABC):
    """An open file, read by range; a context manager that closes it."""

    @abstractmethod
    def size(self) -> int:
        """The size in bytes."""

    @abstractmethod
    def read_at(self, offset: int, length: int) -> bytes:
        """The ``length`` bytes from ``offset``; fewer only if the file ends before."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""

    def __enter__(self) -> FileSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Sink:
    """Where the bytes of a new file go; whoever made it opens and closes the file below."""

    def __init__(self, uri: str, file: IO[bytes]) -> None:
        self._uri = uri
        self._file = file

    def write(self, data: bytes, /) -> int:
        """Write all of ``data`` and return how many bytes that is."""
        with storage_errors(self._uri):
            return self._file.write(data)


class FileInfo(NamedTuple):
    """
    A file found by listing.

    Attributes:
        uri: Where it is, in the form of the directory listed.
        name: The last part of the URI.
        size: In bytes.
        mtime: When it last changed, with a zone; None where the store does not say.
    """

    uri: str
    name: str
    size: int
    mtime: datetime | None


class Store(ABC):
    """
    A file system or object store.

    Every method raises ``StorageError`` if the store fails, and ``FileNotFound`` for a file that is not there
    unless it says otherwise.
    """

    @abstractmethod
    def open_source(self, uri: str) -> FileSource:
        """Open a file to read ranges of it."""

    @abstractmethod
    def open_input(self, uri: str) -> NativeFile:
        """Open a file for a library that reads Arrow files by itself, such as the Parquet reader."""

    def read(self, uri: str, limit: int = MAX_WHOLE_BYTES) -> bytes:
        """
        The content of a file of metadata; CorruptMetadataError, before anything is read, if it is larger than
        ``limit``.
        """
        with self.open_source(uri) as source:
            if (size := source.size()) > limit:
                raise CorruptMetadataError(f"{uri}: expected at most {limit} bytes of metadata, found {size}")
            return source.read_at(0, size)

    @abstractmethod
    def info(self, uri: str) -> FileInfo:
        """What a listing of its directory would say of a file."""

    def size(self, uri: str) -> int:
        """The size of a file in bytes."""
        return self.info(uri).size

    @abstractmethod
    def exists(self, uri: str) -> bool:
        """Whether there is a file or a directory."""

    @abstractmethod
    def list(self, directory_uri: str) -> Sequence[FileInfo]:
        """The files directly in a directory, by name; none if it is missing: object stores have no directories."""

    @abstractmethod
    def directories(self, directory_uri: str) -> Sequence[str]:
        """The names of the directories directly in a directory, sorted; links to elsewhere are not followed."""

    def is_link(self, uri: str) -> bool:  # noqa: ARG002 - object stores have none
        """Whether a name is a link to a file elsewhere; False for one that is not there."""
        return False

    @abstractmethod
    def delete(self, uri: str) -> None:
        """Delete a file; one that is missing is fine."""

    @abstractmethod
    def delete_empty_directory(self, uri: str) -> None:
        """Delete a directory that has nothing in it; one that has, or that is missing, is fine."""

    @abstractmethod
    def create(self, uri: str) -> AbstractContextManager[Sink]:
        """
        Write a new file; if the block raises, no file is left behind.

        Raises:
            ConflictError: At the end of the block: there is a file already, and it is left as it is.
        """

    @abstractmethod
    def put_if_absent(self, uri: str, data: bytes) -> None:
        """
        Write a new file, of several writers at most one.

        Raises:
            ConflictError: There is a file already; it is left as it is.
            CommitUnknownError: It may or may not have been written.
            UnsupportedError, MissingDependencyError: The store cannot promise that, or not as things are installed.
        """

    @abstractmethod
    def check_put_if_absent(self, uri: str) -> None:
        """Refuse now what `put_if_absent` would refuse of files beside this one; to learn that, one may be put."""

    @abstractmethod
    def replace(self, uri: str, data: bytes) -> None:
        """Write a file over the one that may be there; readers find the old content or the new."""


@contextmanager
def storage_errors(uri: str) -> Iterator[None]:
    """Tell whatever the operating system or a library raises inside the block as an error of ours about ``uri``."""
    try:
        yield
    except PuffinError:
        raise
    except FileNotFoundError as exc:
        raise no_such_file(uri) from exc
    except IsADirectoryError as exc:
        raise is_a_directory(uri) from exc
    except OSError as exc:
        raise StorageError(f"{uri}: {_one_line(exc.strerror or exc)}") from exc
    except Exception as exc:  # the drivers below fsspec have no common error
        raise StorageError(f"{uri}: {type(exc).__name__}: {_one_line(exc)}") from exc


def no_such_file(uri: str) -> FileNotFound:
    """The error of a file that is not there."""
    return FileNotFound(f"{uri}: no such file or directory")


def is_a_directory(uri: str) -> FileNotFound:
    """The error of a directory where a file is wanted."""
    return FileNotFound(f"{uri}: expected a file, found a directory")


def exists_already(uri: str) -> ConflictError:
    """The error of a file where there must be none."""
    return ConflictError(f"{uri}: the file exists already")


def _one_line(reason: object) -> str:
    return " ".join(str(reason).split())
