"""
Delta tables, by their directory: a log of versions under ``_delta_log/``, and no catalog.

The log has no place for statistics, so they have a directory of their own below it, out of the reach of VACUUM and of
log cleanup.
"""

from __future__ import annotations

from collections.abc import Callable

from puffin.delta.log.protocol import check_readable
from puffin.delta.log.replay import DeltaLog
from puffin.delta.schema import table_schema
from puffin.delta.snapshot import DeltaSnapshot
from puffin.delta.state import describe
from puffin.delta.statistics.entries import StatisticsDirectory
from puffin.storage import Store, local_path, store_for
from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import CURRENT


class DeltaDirectory:
    """
    A Delta table by its directory.

    Args:
        store_for: Opens the files in that directory and those that its log names.

    Attributes:
        name: The directory, as it was given.
    """

    def __init__(self, directory: str, store_for: Callable[[str], Store] = store_for) -> None:
        self.name = directory
        # The log names files relative to the table, and executors need not have our working directory.
        path = local_path(directory)
        self._location = directory.rstrip("/") if path is None else str(path.absolute())
        self._store_for = store_for
        self._files = store_for(self._location)
        self._log = DeltaLog(self._location, self._files)
        self._statistics = StatisticsDirectory(self._location, self._files)

    def open(self, selector: SnapshotSelector = CURRENT) -> DeltaSnapshot:
        """
        The table at the version that is meant.

        Raises:
            TableNotFound: There is no log.
            SnapshotNotFound: The table has no such version, or no longer.
            UnsupportedTableError: It has a reader feature that this version cannot honour.
            CorruptMetadataError: The log cannot be understood.
        """
        segment = self._log.segment(selector.snapshot_id)
        if selector.as_of_ms is not None:
            segment = segment.at(segment.version_at(selector.as_of_ms))
        protocol, metadata = segment.protocol_and_metadata()
        check_readable(protocol, self._location)
        stored = self._statistics.listing()
        known_ids = self._statistics.field_ids(stored)
        schema = table_schema(metadata.schema_string, metadata.configuration, known_ids, self._location)
        entries = self._statistics.entries(stored, segment.version, metadata.id, schema.is_same_column)
        state = describe(
            self._location,
            segment,
            protocol,
            metadata,
            schema,
            entries,
            known_ids=known_ids,
            stored=stored,
            selector=selector,
        )
        return DeltaSnapshot(
            name=self.name,
            state=state,
            selector=selector,
            store_for=self._store_for,
            log=self._log,
            files=self._files,
            statistics=self._statistics,
            reopen=self.open,
        )
