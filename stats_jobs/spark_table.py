"""
Tables of Spark's own catalogs, whatever those are.

Iceberg's Java library, on Spark's classpath, finds the table and commits its metadata; the rest works as for every
Iceberg table. Files never pass through Java: our own stores open them, with the credentials of the catalog, of Hadoop's
configuration or of the environment.

A commit uses the table operations that loaded the state, and these compare: it fails if another writer committed in
between. Only those of a REST catalog do not, see `puffin.iceberg.commit.updates`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    PuffinError,
    UnsupportedError,
    UnsupportedTableError,
)
from puffin.iceberg.commit.patch import removal_update
from puffin.iceberg.commit.updates import Updates, applied_to, set_updates
from puffin.iceberg.metadata.document import parse_state
from puffin.iceberg.stores import stores
from puffin.iceberg.table import IcebergSnapshot, IcebergTable
from puffin.storage import Store
from puffin.tables.base import SnapshotSelector, StatisticsEntry
from puffin.tables.leftovers import StoredEntry
from puffin.tables.snapshot import CURRENT
from puffin.tables.state import TableState
from stats_jobs.jvm_errors import spark_errors
from stats_jobs.session import SparkStarter
from stats_jobs.spark_iceberg import JavaIceberg, JavaMetadata, java_text


class SparkTable(IcebergTable):
    """
    An Iceberg table of a catalog that Spark is configured with, named as in Spark SQL: ``catalog.namespace.table``.

    Names with other characters are in backquotes. Spark is not used before the table or its session is first opened.
    """

    def __init__(self, name: str, spark: SparkStarter) -> None:
        super().__init__(name)
        self.spark = spark
        self._unreported_seconds = 0.0
        self._loaded: JavaMetadata | None = None

    def start(self) -> float:
        """Open the session if needed; return the seconds that this table has spent on that since the last call."""
        seconds, self._unreported_seconds = self._unreported_seconds + self.spark.open(), 0.0
        return seconds

    def open(self, selector: SnapshotSelector = CURRENT) -> IcebergSnapshot:
        """
        The table as it is now, bypassing the catalog's cache.

        Raises:
            SetupError: Spark cannot be started, has no Iceberg runtime, or its catalog cannot be used.
            UsageError: Spark SQL does not understand the name.
            TableNotFound: The catalog has no such table.
            UnsupportedTableError: It is not an Iceberg table, or only Spark can open its files.
            CorruptMetadataError, StorageError: The metadata is broken; the catalog does not answer.
        """
        return self._opened(selector, None)

    def refresh(self, opened: IcebergSnapshot, selector: SnapshotSelector) -> IcebergSnapshot:
        return self._opened(selector, opened.state)

    def commit(self, base: IcebergSnapshot, entry: StatisticsEntry) -> TableState:
        """
        As `TableSnapshot.commit`; a REST catalog may apply the entry to a later state than ``base``.

        Raises SnapshotNotFound if the snapshot of a table of a REST catalog expired in between.
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
        loaded = self._loaded_as(base)
        self._post(loaded, [removal_update(entry) for entry in entries])

    def _loaded_as(self, base: IcebergSnapshot) -> JavaMetadata:
        loaded, location = self._loaded, base.state.metadata_location
        if loaded is None or loaded.location != location:
            raise ConflictError(f"{self.name}: expected the metadata loaded last, found {location}")
        return loaded

    def _opened(self, selector: SnapshotSelector, known: TableState | None) -> IcebergSnapshot:
        self._unreported_seconds += self.spark.open()  # Python workers can wait until there is a table to read
        java = JavaIceberg(self.spark.cluster.java_session)
        table = java.load_table(self.name)
        loaded = self._loaded = JavaMetadata.of(java, table.operations())
        properties = java.file_properties(table, loaded.location)
        opened_by = functools.partial(self._store, stores(properties))
        opened_by(loaded.location)  # fails on an unknown scheme before anything is planned
        if known is None or known.metadata_location != loaded.location:
            known = parse_state(loaded.document(), loaded.location)
        return dataclasses.replace(self._bound(known, selector, properties), store_for=opened_by)

    def _store(self, store_for: Callable[[str], Store], uri: str) -> Store:
        try:
            return store_for(uri)
        except UnsupportedError as exc:
            raise UnsupportedTableError(
                f"{self.name}: expected files that pyarrow or fsspec can open, as the executors do: {exc}"
            ) from exc

    def _post(self, loaded: JavaMetadata, updates: Updates) -> None:
        updated = loaded.updated(updates, self.name)
        try:
            loaded.operations.commit(loaded.metadata, updated)
        except spark_errors() as exc:
            error, what = loaded.java.refusal(exc)
            raise error(f"{self.name}: {what}: {java_text(exc)}") from exc
