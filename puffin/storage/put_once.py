"""
Put a file as the only writer, even if the store's answer is wrong.

A store may report an error after it wrote the file, or find its own file when it retries. Every file put here holds
content that no other writer would write, so reading it back shows the outcome.
"""

from __future__ import annotations

from puffin.errors import CommitUnknownError, ConflictError, FileNotFound, PuffinError, StorageError
from puffin.storage import Store


def put_once(store: Store, uri: str, data: bytes) -> None:
    """
    Write a new file; of several writers at most one succeeds.

    Raises:
        ConflictError: Another writer's file exists.
        StorageError: The write failed, and left no file.
        CommitUnknownError: The write may have succeeded.
        UnsupportedError: The store has no conditional put.
    """
    try:
        store.put_if_absent(uri, data)
    except (ConflictError, StorageError, CommitUnknownError) as failure:
        try:
            found = store.read(uri)
        except FileNotFound:
            raise failure from None  # after a CommitUnknownError the file may still appear
        except PuffinError as exc:
            raise CommitUnknownError(f"{failure}; reading it back failed too: {exc}") from failure
        if found != data:
            raise ConflictError(f"{uri}: another writer was faster") from failure
