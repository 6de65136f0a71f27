"""
Tests do not wait for the disk. They need no file after a machine has lost its power.

A wait takes about as long as to read a small table, and a commit to SQLite waits four times.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def without_disk() -> Iterator[None]:
    """Has this process leave files to the cache of the system."""
    connect = sqlite3.dbapi2.connect

    def connected(*arguments: Any, **options: Any) -> Any:
        connection = connect(*arguments, **options)
        with contextlib.suppress(sqlite3.DatabaseError):  # the first statement tells what is wrong
            connection.execute("PRAGMA synchronous = OFF")
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _file: None)
        patch.setattr(sqlite3.dbapi2, "connect", connected)
        yield


def rewrite(path: Path, content: bytes) -> None:
    """Write a new file in place of one, because to write over a file waits for the disk, too."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)
