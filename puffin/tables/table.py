"""A table of whatever format, wherever it lives: the seam that formats and catalogs fill."""

from __future__ import annotations

from typing import Protocol

from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import CURRENT, TableSnapshot


class Table(Protocol):
    """
    A table that can be read and given statistics.

    Attributes:
        name: What the user called it.
    """

    name: str

    def open(self, selector: SnapshotSelector = CURRENT) -> TableSnapshot:
        """
        The table as it is now, bound to a snapshot.

        Raises:
            NotFoundError: There is no such table; or no such snapshot, which some formats find out later.
            UnsupportedTableError: It has a feature that this version cannot honour.
            CorruptMetadataError: Its metadata cannot be understood.
            StorageError: The storage or the catalog does not answer.
        """
        ...
