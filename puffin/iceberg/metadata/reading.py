"""Metadata files read from their store, though writers may replace and delete them meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from puffin.errors import FileNotFound
from puffin.iceberg.metadata.document import decode_document, parse_state
from puffin.storage import Store
from puffin.tables.base import TableState

_Place = TypeVar("_Place")


def read_state(location: str, store: Store) -> TableState:
    """The table as a metadata file has it."""
    return parse_state(decode_document(store.read(location), location), location)


def read_current_state(locate: Callable[[], _Place], read: Callable[[_Place], TableState]) -> TableState:
    """Read the metadata file that is located as the current one, though writers may delete it meanwhile."""
    location = locate()
    while True:
        try:
            return read(location)
        except FileNotFound:
            missing, location = location, locate()
            if location == missing:
                raise
