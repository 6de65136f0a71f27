"""Delete files of ours, with the folders that they have to themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from puffin.errors import PuffinError
from puffin.statistics.private_state import places
from puffin.storage import Store


def delete_files(uris: Iterable[str], store_for: Callable[[str], Store]) -> list[PuffinError]:
    """Delete files and the folders that they have to themselves; return the failures."""
    failures: list[PuffinError] = []
    for uri in uris:
        try:
            store = store_for(uri)
            store.delete(uri)
            if places.has_own_folder(uri):
                store.delete_empty_directory(uri.rpartition("/")[0])
        except PuffinError as exc:
            failures.append(exc)
    return failures
