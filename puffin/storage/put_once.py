"""
Putting a file that nobody else may have put, when the store's answer need not be the outcome.

A store that answers with an error may have written the file, and one that tries again by itself finds its own file in
its way. Every file put here holds something no other writer would write, so what stands there afterwards tells.
"""

from __future__ import annotations

from puffin.errors import CommitUnknownError, ConflictError, FileNotFound, PuffinError, StorageError
from puffin.storage import Store


def put_once(store: Store, uri: str, data: bytes) -> None:
    """
    Write a new file, of several writers at most one; the errors are those of `Store.put_if_absent`, and are certain.
    """
    try:
        store.put_if_absent(uri, data)
    except (ConflictError, StorageError, CommitUnknownError) as failure:
        try:
            found = store.read(uri)
        except FileNotFound:
            raise failure from None  # where the outcome is unclear, it may still be on its way
        except PuffinError as exc:
            raise CommitUnknownError(f"{failure}; whether it was written cannot be read: {exc}") from failure
        if found != data:
            raise ConflictError(f"{uri}: another writer was faster") from failure
