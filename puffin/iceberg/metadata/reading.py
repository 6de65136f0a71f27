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
    """
    The table as a metadata file has it.

    Raises:
        FileNotFound: There is no such file.
        CorruptMetadataError, UnsupportedTableError: It is not metadata that this version understands.
    """
    return parse_state(decode_document(store.read(location), location), location)


def read_current_state(locate: Callable[[], _Place], read: Callable[[_Place], TableState]) -> TableState:
    """
    The table as its current metadata file has it, though writers may replace and delete that file meanwhile.

    Args:
        locate: Finds out which file is the current one.
        read: Reads it.
    """
    location = locate()
    while True:
        try:
            return read(location)
        except FileNotFound:
            missing, location = location, locate()
            if location == missing:
                raise
