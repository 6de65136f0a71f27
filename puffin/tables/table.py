"""A table of any format in any catalog: the protocol that formats and catalogs implement."""

from __future__ import annotations

from typing import Protocol

from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import CURRENT, TableSnapshot


class Table(Protocol):
    """A table that can be read and given statistics; ``name`` is what the user called it."""

    name: str

    def open(self, selector: SnapshotSelector = CURRENT) -> TableSnapshot:
        """
        Open the table as it is now, bound to a snapshot.

        Raises:
            NotFoundError: The table does not exist, or the snapshot does not; some formats notice the latter later.
            UnsupportedTableError: The table has a feature that this version cannot honour.
            CorruptMetadataError: Its metadata cannot be parsed.
            StorageError: The storage or the catalog does not answer.
        """
        ...
