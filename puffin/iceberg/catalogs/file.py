"""An Iceberg table as one metadata file has it, which is never committed to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from puffin.errors import UsageError
from puffin.iceberg.metadata.reading import read_state
from puffin.iceberg.table import IcebergTable
from puffin.storage import Store, store_for
from puffin.tables.base import SnapshotSelector, StatisticsEntry, TableState
from puffin.tables.leftovers import StoredEntry
from puffin.tables.table import CURRENT


class IcebergMetadataFile(IcebergTable):
    """
    An Iceberg table as one metadata file has it.

    Args:
        store_for: Opens that file and those that it names.

    Attributes:
        name: The file, as it was given.
        io_properties: Empty: the credentials are those of the environment.
    """

    def __init__(self, location: str, store_for: Callable[[str], Store] = store_for) -> None:
        super().__init__(location, {}, store_for)

    def load(self, selector: SnapshotSelector = CURRENT) -> TableState:  # noqa: ARG002 - the document has them all
        """
        The table as of this file.

        Raises:
            FileNotFound: There is no such file.
            CorruptMetadataError, UnsupportedTableError: It is not metadata that this version understands.
        """
        return read_state(self.name, self.store(self.name))

    def refresh(self, state: TableState, selector: SnapshotSelector = CURRENT) -> TableState:  # noqa: ARG002
        """The same: a metadata file never changes."""
        return state

    def check_committable(self, state: TableState) -> NoReturn:  # noqa: ARG002 - refused whatever it is
        """Refuse, with UsageError: a metadata file is one version, and a table has to be named to get a next one."""
        raise UsageError(
            f"{self.name}: a metadata file cannot be committed to: name the table, or analyze it with --no-commit"
        )

    def commit(self, base: TableState, entry: StatisticsEntry) -> TableState:  # noqa: ARG002 - as above
        """Refuse, as `check_committable`."""
        self.check_committable(base)

    def remove_entries(self, base: TableState, entries: Sequence[StoredEntry]) -> None:  # noqa: ARG002 - as above
        """Refuse, as `check_committable`."""
        self.check_committable(base)
