"""A table by one of its metadata files: it can be read as of that version, and never committed to."""

from __future__ import annotations

from collections.abc import Mapping

from puffin.errors import UsageError
from puffin.storage import Store, store_for
from puffin.tables.base import StatisticsEntry, TableState
from puffin.tables.iceberg_metadata import decode_document, parse_state


class IcebergMetadataFile:
    """
    An Iceberg table as one metadata file has it.

    Attributes:
        name: The file, as it was given.
        io_properties: Empty: the credentials are those of the environment.
    """

    def __init__(self, location: str) -> None:
        self.name = location
        self.io_properties: Mapping[str, str] = {}

    def load(self) -> TableState:
        """
        The table as of this file.

        Raises:
            FileNotFound: There is no such file.
            CorruptMetadataError, UnsupportedTableError: It is not metadata that this version understands.
        """
        return parse_state(decode_document(self.store(self.name).read(self.name), self.name), self.name)

    def store(self, uri: str) -> Store:
        """The store that holds one of the table's files."""
        return store_for(uri)

    def commit(self, base: TableState, entry: StatisticsEntry) -> TableState:  # noqa: ARG002
        """Refuse, with UsageError: a metadata file is one version, and a table has to be named to get a next one."""
        raise UsageError(f"{self.name}: a metadata file cannot be committed to: name the table, or use --no-commit")
