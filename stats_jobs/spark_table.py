"""
Tables of Spark's own catalogs: what no other configuration reaches, the user's Spark does.

Iceberg's Java library, which Spark has on its classpath, finds the table and swaps its metadata; all else is done as
for every Iceberg table. Files never pass through Java: our own stores open them, with the credentials that the catalog
or Hadoop's configuration names, else with those of the environment.

A commit goes through the table operations that the state was loaded from, and they compare: whoever committed in
between makes it fail. Only a REST catalog's do not, see `puffin.iceberg.commit.updates`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    PuffinError,
    StorageError,
    UnsupportedError,
    UnsupportedTableError,
)
from puffin.iceberg.commit.patch import removal_update
from puffin.iceberg.commit.updates import Updates, applied_to, set_updates
from puffin.iceberg.stores import stores
from puffin.iceberg.table import IcebergSnapshot, IcebergTable
from puffin.storage import Store
from puffin.tables.base import SnapshotSelector, StatisticsEntry, TableState
from puffin.tables.leftovers import StoredEntry
from puffin.tables.snapshot import CURRENT
from stats_jobs.session import SparkStarter, spark_errors
from stats_jobs.spark_iceberg import JavaIceberg, JavaMetadata, said


class SparkTable(IcebergTable):
    """
    An Iceberg table of a catalog that Spark is configured with.

    Nothing is asked of Spark before the table is first opened, or `start` is called.

    Attributes:
        name: As Spark SQL names it, ``catalog.namespace.table``; names with other characters in backquotes.
        spark: What starts the session whose catalog it is.
    """

    def __init__(self, name: str, spark: SparkStarter) -> None:
        super().__init__(name)
        self.spark = spark
        self._untold_seconds = 0.0
        self._loaded: JavaMetadata | None = None

    def start(self) -> float:
        """
        Start the session if need be; errors as `SparkStarter.start`.

        Returns:
            The seconds that this table has spent on that since it was last asked; 0 if others did.
        """
        self._start()
        told, self._untold_seconds = self._untold_seconds, 0.0
        return told

    def open(self, selector: SnapshotSelector = CURRENT) -> IcebergSnapshot:
        """
        The table as it is now, whatever the catalog's cache has.

        Raises:
            SetupError: Spark cannot be started, has no Iceberg runtime, or its catalog cannot be used.
            UsageError: The name is not one that Spark SQL understands.
            TableNotFound: The catalog has no such table.
            UnsupportedTableError: It is no Iceberg table, or one whose files only Spark can open.
            CorruptMetadataError, StorageError: It cannot be understood; the catalog does not answer.
        """
        return self._opened(selector, None)

    def refresh(self, opened: IcebergSnapshot, selector: SnapshotSelector) -> IcebergSnapshot:
        return self._opened(selector, opened.state)

    def commit(self, base: IcebergSnapshot, entry: StatisticsEntry) -> TableState:
        """
        Have the catalog swap ``base`` for the same with the entry.

        Returns:
            The state of ``base``; of a REST catalog perhaps a later state, which another writer committed in between.

        Raises:
            ConflictError: The catalog has other metadata by now.
            CommitUnknownError: It is not clear whether it was done.
            TableNotFound, UnsupportedTableError, StorageError: The catalog refused.
            SnapshotNotFound: The snapshot of a table of a REST catalog expired in between.
        """
        loaded = self._loaded_as(base)
        self._post(loaded, set_updates(entry))
        if not loaded.is_of_rest:
            return base.state
        try:
            answered = JavaMetadata.of(loaded.java, loaded.operations)
            answer = answered.document()
        except PuffinError as exc:
            raise CommitUnknownError(f"{self.name}: the answer to the commit cannot be understood: {exc}") from exc
        return applied_to(answer, base, entry, post=lambda updates: self._post(answered, updates))

    def remove_entries(self, base: IcebergSnapshot, entries: Sequence[StoredEntry]) -> None:
        """Have the catalog swap ``base`` for the same without these entries; errors as for `commit`."""
        loaded = self._loaded_as(base)
        self._post(loaded, [removal_update(entry) for entry in entries])

    def _loaded_as(self, base: IcebergSnapshot) -> JavaMetadata:
        loaded, location = self._loaded, base.state.metadata_location
        if loaded is None or loaded.location != location:
            raise ConflictError(f"{self.name}: expected the metadata loaded last, found {location}")
        return loaded

    def _start(self) -> None:
        self._untold_seconds += self.spark.start()

    def _opened(self, selector: SnapshotSelector, known: TableState | None) -> IcebergSnapshot:
        self._start()
        java = JavaIceberg(self.spark.session)
        table = java.load_table(self.name)
        loaded = self._loaded = JavaMetadata.of(java, table.operations())
        properties = java.file_properties(table, loaded.location)
        opened_by = functools.partial(self._store, stores(properties))
        opened_by(loaded.location)  # so that a scheme nobody knows is told before anything is planned
        state = known if known is not None and known.metadata_location == loaded.location else loaded.state()
        return dataclasses.replace(self._bound(state, selector, properties), store_for=opened_by)

    def _store(self, store_for: Callable[[str], Store], uri: str) -> Store:
        try:
            return store_for(uri)
        except UnsupportedError as exc:
            raise UnsupportedTableError(
                f"{self.name}: expected files that pyarrow or fsspec can open, as the executors do: {exc}"
            ) from exc

    def _post(self, loaded: JavaMetadata, updates: Updates) -> None:
        """Commit these updates of the metadata loaded."""
        try:
            updated = loaded.updated(updates)
        except StorageError as exc:
            raise StorageError(f"{self.name}: {exc}") from exc
        try:
            loaded.operations.commit(loaded.metadata, updated)
        except spark_errors() as exc:
            error, what = loaded.java.refusal(exc)
            raise error(f"{self.name}: {what}: {said(exc)}") from exc
