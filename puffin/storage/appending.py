"""Appends to local files that several processes share. A lock and a rollback keep lines whole, even on a full disk."""

from __future__ import annotations

import errno
import fcntl
import os


def append_whole(path: str, data: bytes) -> None:
    """Append to a file, creating it if needed. If not everything can be written, nothing is, and OSError is raised."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if os.write(descriptor, data) < len(data):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)
