"""Opens a table's files, on the driver and on the executors alike, and deletes them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping

from puffin.errors import PuffinError
from puffin.storage import Store, store_for


def stores(io_properties: Mapping[str, str]) -> Callable[[str], Store]:
    """A function from a file's URI to its store, opened with a catalog's properties if there are any."""
    # Without them the environment's credentials suffice, and pyiceberg stays unloaded.
    if not io_properties:
        return store_for
    from puffin.iceberg.vended import RENEWAL, filesystems_for, lent_stores

    if RENEWAL in io_properties:
        return lent_stores(frozenset(io_properties.items()))
    return functools.partial(store_for, filesystem_for=filesystems_for(io_properties))


def delete_quietly(uri: str, store_for: Callable[[str], Store]) -> None:
    """Delete an unused file; a failure does not matter, since the work is done."""
    with contextlib.suppress(PuffinError):
        store_for(uri).delete(uri)
