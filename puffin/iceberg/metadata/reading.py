"""Reads metadata files, which writers may replace and delete meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from puffin.errors import FileNotFound
from puffin.iceberg.metadata.document import decode_document, parse_state
from puffin.storage import Store
from puffin.tables.state import TableState

_Place = TypeVar("_Place")


def read_state(location: str, store: Store) -> TableState:
    """The table as a metadata file describes it."""
    return parse_state(decode_document(store.read(location), location), location)


def read_current_state(locate: Callable[[], _Place], read: Callable[[_Place], TableState]) -> TableState:
    """Read the current metadata file; locate it again if a writer has deleted it meanwhile."""
    location = locate()
    while True:
        try:
            return read(location)
        except FileNotFound:
            missing, location = location, locate()
            if location == missing:
                raise
