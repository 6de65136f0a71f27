"""Pick the store for a path or URI."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from puffin.errors import StorageError
from puffin.storage.local import BytesSource, ConfinedLocalStore, LocalStore, read_to_end
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
        filesystem_for: Makes the pyarrow file system for a URI that is not local, such as a catalog's with its own
            credentials; None uses the credentials of the environment.
        confine: Maps a path to one without links and a URI to itself, and raises FileNotFound for those that must not
            be opened. Every method of the store calls it. None allows everything.

    Raises:
        FileNotFound: ``confine`` refuses the URI.
        UsageError: The URI is empty, or a ``file:`` URI that is relative or names another host.
        MissingDependencyError, UnsupportedError: Neither pyarrow nor fsspec knows the scheme, or is not installed.
        StorageError: The file system cannot be reached.
    """
    if confine is not None:
        confine(uri)  # first, because making a file system may already contact the host that the URI names
    if local_name(uri) is not None:
        return LocalStore() if confine is None else ConfinedLocalStore(confine)
    from puffin.storage.arrow import ArrowStore  # slow to import, and local files do not need it

    if filesystem_for is None:
        store = ArrowStore.for_uri(uri)
    else:
        with storage_errors(uri):
            filesystem_for(uri)  # raises here what it raises
        store = ArrowStore(functools.partial(filesystem_for, uri))
    return store if confine is None else store.confined(confine)


def open_source(uri: str) -> FileSource:
    """Open a file to read ranges; ``-`` reads all of standard input. Raises what the store and `store_for` raise."""
    if uri == STDIN:
        if sys.stdin is None:
            raise StorageError("standard input: it is closed")
        with storage_errors("standard input"):
            return BytesSource(read_to_end(sys.stdin.buffer, "standard input"))
    return store_for(uri).open_source(uri)
