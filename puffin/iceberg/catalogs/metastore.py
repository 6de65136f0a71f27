"""
Tables of catalogs that store the location of a table's current metadata file: databases, metastores, Glue.

A commit writes the next metadata file and has the catalog name it instead of the previous one, provided that the
catalog still names that one. pyiceberg's own commit is unsuitable: it rebuilds the metadata from its models, which drop
unknown fields, and it does not write format version 3. Catalogs differ in two points: how to find the current file, and
how to replace it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from puffin.errors import CommitUnknownError, ConflictError, PuffinError, UnsupportedTableError
from puffin.iceberg.commit.patch import NextVersion, next_metadata_location
from puffin.iceberg.metadata.document import encode_document, read_current_state, read_state
from puffin.iceberg.sdk import io_properties, said_by_library
from puffin.iceberg.stores import delete_quietly, stores
from puffin.iceberg.table import IcebergSnapshot, IcebergTableInFiles
from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import CURRENT
from puffin.tables.state import TableState

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from puffin.iceberg.catalogs.sql import SqlDatabase

LOCATION, _PREVIOUS = "metadata_location", "previous_metadata_location"
_CODEC = "write.metadata.compression-codec"
_GZIP_NAMES = (".gz.metadata.json", ".metadata.json.gz")


class IcebergMetastoreTable(IcebergTableInFiles, ABC):
    """An Iceberg table that a catalog knows by the location of its metadata file; named ``namespace.table``."""

    def __init__(self, catalog: Catalog | SqlDatabase, identifier: str) -> None:
        properties = io_properties(catalog.properties)
        super().__init__(identifier, stores(properties), properties)
        self._catalog = catalog
        self._namespace, _, self._table = identifier.rpartition(".")

    def open(self, selector: SnapshotSelector = CURRENT) -> IcebergSnapshot:
        return self._bound(self._current_state(), selector)

    def refresh(self, opened: IcebergSnapshot, selector: SnapshotSelector) -> IcebergSnapshot:
        return opened.of(selector) if self._location() == opened.state.metadata_location else self.open(selector)

    def _current_state(self) -> TableState:
        return read_current_state(self._location, lambda location: read_state(location, self._store_for(location)))

    def _follow(self, base: TableState, change: Callable[[TableState], NextVersion]) -> None:
        codec = base.properties.get(_CODEC)
        compress = base.metadata_location.endswith(_GZIP_NAMES) if codec is None else codec.lower() == "gzip"
        location = next_metadata_location(base, compress=compress)
        following = change(base)
        with self._store_for(location).create(location) as sink:
            sink.write(encode_document(following.document, compress=compress))
        try:
            self._replace(base, location)
        except CommitUnknownError:
            raise
        except PuffinError:
            delete_quietly(location, self._store_for)
            raise
        for superseded in following.superseded:
            delete_quietly(superseded, self._store_for)

    @abstractmethod
    def _location(self) -> str:
        """The location of the current metadata file; raises what `open` raises."""

    @abstractmethod
    def _replace(self, base: TableState, location: str) -> None:
        """Make ``location`` the current metadata file if that of ``base`` still is; raises what `commit` raises."""

    def _location_in(self, parameters: Mapping[str, str] | None) -> str:
        location = (parameters or {}).get(LOCATION)
        if location is None:
            raise UnsupportedTableError(
                f"{self.name}: expected an Iceberg table with the parameter {LOCATION}, found a table without it"
            )
        return str(location)

    def _next_parameters(self, parameters: Mapping[str, str], base: TableState, location: str) -> dict[str, str]:
        """The parameters with the next location; ConflictError if they do not have that of ``base``."""
        if self._location_in(parameters) != base.metadata_location:
            raise ConflictError(f"{self.name}: another writer committed after {base.metadata_location}")
        return {**parameters, LOCATION: location, _PREVIOUS: base.metadata_location}

    def _check_who_won(self, location: str, refusal: Exception) -> None:
        """
        Find out whether a refused replacement lost to another writer, or met its own change after an unseen retry.

        Returns if ``location`` is or was the table's metadata file. Raises ConflictError if it never was, and cannot
        become it any more; CommitUnknownError if the table cannot be read.
        """
        try:
            state = self._current_state()
        except PuffinError as exc:
            raise CommitUnknownError(
                f"{self.name}: the commit of {location} was refused, perhaps after it was done, "
                f"and the table cannot be read: {exc}"
            ) from refusal
        log = state.document.get("metadata-log") or ()
        if location not in (state.metadata_location, *(logged.get("metadata-file") for logged in log)):
            raise ConflictError(
                f"{self.name}: another writer committed before {location}: {said_by_library(refusal)}"
            ) from refusal
