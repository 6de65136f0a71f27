"""What goes wrong when a data file or a delete file is read, told as an error of ours about the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from puffin.errors import (
    CorruptDataFileError,
    CorruptDeletionVectorError,
    StorageError,
    UnsupportedTableError,
    UsageError,
)

_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, CorruptDeletionVectorError, UsageError)
_SAID_OF_CODECS = ("LZO compression", "Support for codec")  # by pyarrow, in errors of two kinds


@contextlib.contextmanager
def errors_about(path: str, kind: str) -> Iterator[None]:
    """
    Tell what readers of files raise in the block, and what is wrong with deleted positions, as an error about the file.

    Args:
        kind: What the file should be, for the message: ``"Parquet file"``.

    Raises:
        CorruptDataFileError: The file cannot be understood.
        UnsupportedTableError: Whoever read it said NotImplementedError, or pyarrow that it lacks a codec. Its own
            NotImplementedError means nothing: it says so of columns that are of another type than the table's.
        StorageError: The storage failed.
    """
    try:
        yield
    except (NotImplementedError, *_UNREADABLE) as exc:
        reason = _one_line(exc)
        if _is_unsupported(exc):
            raise UnsupportedTableError(f"{path}: {kind} not supported: {reason}") from exc
        # pyarrow says OSError of broken pages too, but then without the number of a system call's error.
        if isinstance(exc, OSError) and exc.errno is not None:
            raise StorageError(f"{path}: {reason}") from exc
        raise CorruptDataFileError(f"{path}: expected a readable {kind}: {reason}") from exc


def _is_unsupported(exc: Exception) -> bool:
    if isinstance(exc, NotImplementedError) and not isinstance(exc, pa.ArrowException):
        return True
    return any(text in str(exc) for text in _SAID_OF_CODECS)


def _one_line(exc: Exception) -> str:
    return " ".join(str(exc).split())
