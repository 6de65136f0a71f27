"""An Iceberg table as one metadata file describes it. Such a table takes no commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from puffin.errors import UsageError
from puffin.iceberg.metadata.document import read_state
from puffin.iceberg.table import IcebergSnapshot, IcebergTableInFiles
from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import CURRENT
from puffin.tables.state import TableState

if TYPE_CHECKING:
    from puffin.iceberg.commit.patch import NextVersion


class IcebergMetadataFile(IcebergTableInFiles):
    """An Iceberg table as one metadata file describes it; its name is that of the file."""

    def open(self, selector: SnapshotSelector = CURRENT) -> IcebergSnapshot:
        return self._bound(read_state(self.name, self._store_for(self.name)), selector)

    def refresh(self, opened: IcebergSnapshot, selector: SnapshotSelector) -> IcebergSnapshot:
        return opened.of(selector)  # a metadata file never changes

    def check_committable(self, state: TableState, *, ask_store: bool = True) -> NoReturn:  # noqa: ARG002 - all are refused
        """Raise UsageError: a metadata file is one version, and only a named table can get a next one."""
        raise UsageError(
            f"{self.name}: a metadata file cannot be committed to: name the table; without a commit, "
            "puffin analyze --no-commit (in Python commit=False) and puffin index work on it"
        )

    def _follow(self, base: TableState, change: Callable[[TableState], NextVersion]) -> NoReturn:  # noqa: ARG002
        self.check_committable(base)
