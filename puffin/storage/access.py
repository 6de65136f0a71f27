"""Picking the store for a path or URI."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from puffin.storage.base import FileSource, Store, storage_errors
from puffin.storage.local import BytesSource, LocalStore
from puffin.storage.uri import local_name

STDIN = "-"


def store_for(uri: str, filesystem_for: Callable[[str], Any] | None = None) -> Store:
    """
    The store that holds ``uri``.

    Args:
        uri: A local path, a ``file:`` URI, or a URI of a scheme that pyarrow or fsspec knows.
        filesystem_for: The pyarrow file system for a URI that is not local, such as a catalog makes with its own
            credentials; None for one with the credentials of the environment.

    Raises:
        UsageError: The URI is empty, or a ``file:`` URI that is relative or names another host.
        MissingDependencyError, UnsupportedError: Nothing installed knows the scheme.
        StorageError: The file system cannot be reached.
    """
    if local_name(uri) is not None:
        return LocalStore()
    from puffin.storage.arrow import ArrowStore  # not for a local file: a dump starts without it

    if filesystem_for is None:
        return ArrowStore.for_uri(uri)
    with storage_errors(uri):
        return ArrowStore(filesystem_for(uri))


def open_source(uri: str) -> FileSource:
    """
    Open a file to read ranges of it; ``-`` is standard input, read to its end into memory.

    Raises:
        FileNotFound: There is no such file.
        StorageError: It cannot be read.
        UsageError, MissingDependencyError, UnsupportedError: As ``store_for``.
    """
    if uri == STDIN:
        with storage_errors("standard input"):
            return BytesSource(sys.stdin.buffer.read())
    return store_for(uri).open_source(uri)
