"""What goes wrong when a data file or a delete file is read, told as an error of ours about the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from puffin.errors import CorruptDataFileError, CorruptDeletionVectorError, StorageError, UsageError

_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, CorruptDeletionVectorError, UsageError)


@contextlib.contextmanager
def told_of(path: str, kind: str) -> Iterator[None]:
    """
    Tell what pyarrow raises in the block, and what is wrong with deleted positions, as an error about the file.

    Args:
        kind: What the file should be, for the message: ``"Parquet file"``.

    Raises:
        CorruptDataFileError: The file cannot be understood.
        StorageError: The storage failed.
    """
    try:
        yield
    except _UNREADABLE as exc:
        reason = " ".join(str(exc).split())
        # pyarrow says OSError of broken pages too, but then without the number of a system call's error.
        if isinstance(exc, OSError) and exc.errno is not None:
            raise StorageError(f"{path}: {reason}") from exc
        raise CorruptDataFileError(f"{path}: expected a readable {kind}: {reason}") from exc
