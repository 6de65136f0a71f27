"""Turn what goes wrong in reading a data file or delete file into our errors about the file."""

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
    in_one_line,
)
from puffin.storage import is_storage_failure

_UNREADABLE = (pa.ArrowException, OSError, ValueError, LookupError, CorruptDeletionVectorError, UsageError)
_SAID_OF_LACKS = ("LZO compression", "Support for codec", "Not yet implemented")  # by pyarrow, in errors of any kind


@contextlib.contextmanager
def errors_about(path: str, kind: str) -> Iterator[None]:
    """
    Turn errors of readers and of deleted positions in the block into errors about the file.

    Args:
        kind: What the file should be, for the message: ``"Parquet file"``.

    Raises:
        CorruptDataFileError: The file is invalid.
        UnsupportedTableError: A reader raised NotImplementedError, or pyarrow lacks a codec or decoder. pyarrow's own
            NotImplementedError does not count: it raises that for columns of another type than the table's.
        StorageError: The storage failed.
    """
    try:
        yield
    except (NotImplementedError, *_UNREADABLE) as exc:
        reason = in_one_line(exc)
        if _is_unsupported(exc):
            raise UnsupportedTableError(f"{path}: {kind} not supported: {reason}") from exc
        if is_storage_failure(exc):
            raise StorageError(f"{path}: {reason}") from exc
        raise CorruptDataFileError(f"{path}: expected a readable {kind}: {reason}") from exc


def _is_unsupported(exc: Exception) -> bool:
    if isinstance(exc, NotImplementedError) and not isinstance(exc, pa.ArrowException):
        return True
    return any(text in str(exc) for text in _SAID_OF_LACKS)
