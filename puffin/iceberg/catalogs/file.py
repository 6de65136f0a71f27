"""An Iceberg table as one metadata file describes it. Such a table takes no commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from puffin.errors import UsageError
from puffin.iceberg.metadata.reading import read_state
from puffin.iceberg.table import IcebergSnapshot, IcebergTable
from puffin.tables.base import SnapshotSelector, StatisticsEntry, TableState
from puffin.tables.leftovers import StoredEntry
from puffin.tables.snapshot import CURRENT


class IcebergMetadataFile(IcebergTable):
    """An Iceberg table as one metadata file describes it; its name is that of the file."""

    def open(self, selector: SnapshotSelector = CURRENT) -> IcebergSnapshot:
        return self._bound(read_state(self.name, self._store_for(self.name)), selector)

    def refresh(self, opened: IcebergSnapshot, selector: SnapshotSelector) -> IcebergSnapshot:
        return opened.of(selector)  # a metadata file never changes

    def check_committable(self, state: TableState) -> NoReturn:  # noqa: ARG002 - refused whatever it is
        """Raise UsageError: a metadata file is one version, and only a named table can get a next one."""
        raise UsageError(
            f"{self.name}: a metadata file cannot be committed to: name the table, or analyze it with --no-commit"
        )

    def commit(self, base: IcebergSnapshot, entry: StatisticsEntry) -> NoReturn:  # noqa: ARG002 - as above
        self.check_committable(base.state)

    def remove_entries(self, base: IcebergSnapshot, entries: Sequence[StoredEntry]) -> NoReturn:  # noqa: ARG002
        self.check_committable(base.state)
