"""Picking the store for a path or URI."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from puffin.errors import StorageError
from puffin.storage.local import BytesSource, ConfinedLocalStore, LocalStore
from puffin.storage.store import FileSource, Store, storage_errors
from puffin.storage.uri import local_name

STDIN = "-"


def store_for(
    uri: str,
    filesystem_for: Callable[[str], Any] | None = None,
    *,
    confine: Callable[[str], str] | None = None,
) -> Store:
    """
    The store that holds ``uri``.

    Args:
        uri: A local path, a ``file:`` URI, or a URI of a scheme that pyarrow or fsspec knows.
        filesystem_for: The pyarrow file system for a URI that is not local, such as a catalog makes with its own
            credentials; None for one with the credentials of the environment.
        confine: What is opened in place of a path or URI: a path without a link on it, or the URI itself. It raises
            FileNotFound for what must not be opened, and so does every method of the store then; None for anything.

    Raises:
        FileNotFound: ``confine`` refuses the URI.
        UsageError: The URI is empty, or a ``file:`` URI that is relative or names another host.
        MissingDependencyError, UnsupportedError: Nothing installed knows the scheme.
        StorageError: The file system cannot be reached.
    """
    if confine is not None:
        confine(uri)  # before a file system is asked for, which may already talk to whoever the URI names
    if local_name(uri) is not None:
        return LocalStore() if confine is None else ConfinedLocalStore(confine)
    from puffin.storage.arrow import ArrowStore  # not for a local file: a dump starts without it

    if filesystem_for is None:
        store = ArrowStore.for_uri(uri)
    else:
        with storage_errors(uri):
            store = ArrowStore(filesystem_for(uri))
    return store if confine is None else store.confined(confine)


def open_source(uri: str) -> FileSource:
    """
    Open a file to read ranges of it; ``-`` is standard input, read to its end into memory.

    Raises:
        FileNotFound: There is no such file.
        StorageError: It cannot be read.
        UsageError, MissingDependencyError, UnsupportedError: As ``store_for``.
    """
    if uri == STDIN:
        if sys.stdin is None:
            raise StorageError("standard input: it is closed")
        with storage_errors("standard input"):
            return BytesSource(sys.stdin.buffer.read())
    return store_for(uri).open_source(uri)
