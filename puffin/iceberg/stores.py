"""How the files of a table are opened, on the driver and on the executors alike, and dropped."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping

from puffin.errors import PuffinError
from puffin.storage import Store, store_for


def stores(io_properties: Mapping[str, str]) -> Callable[[str], Store]:
    """From the URI of a file to its store, opened with a catalog's properties where there are any."""
    # Without them the environment's own credentials do, and pyiceberg stays unloaded.
    if not io_properties:
        return store_for
    from puffin.iceberg.sdk import filesystem_for

    return functools.partial(store_for, filesystem_for=filesystem_for(io_properties))


def delete_quietly(uri: str, store_for: Callable[[str], Store]) -> None:
    """Delete what nothing refers to any more; that it cannot be deleted fails nothing that is done already."""
    with contextlib.suppress(PuffinError):
        store_for(uri).delete(uri)
