"""
Turns a statistics entry into updates of the REST catalog protocol, and finds what the server applied them to.

The protocol has no compare-and-set for statistics: it can assert the table's uuid and schema, but not which entry is
replaced. So the state before the commit is looked up afterwards, in the server's metadata log. If the commit overwrote
an entry, the caller merges that entry and commits again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from puffin.errors import CommitUnknownError, PuffinError, SnapshotNotFound
from puffin.iceberg.commit.patch import partition_statistics_update, removal_update
from puffin.iceberg.metadata.document import read_state
from puffin.tables.base import StatisticsEntry
from puffin.tables.leftovers import StoredEntry
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.state import TableState
from puffin.tables.statistics_json import entry_to_json

Updates = list[dict[str, Any]]
"""In the JSON form of the protocol, which Iceberg's Java library reads too."""

_log = logging.getLogger(__name__)


def set_updates(entry: StatisticsEntry) -> Updates:
    """The updates that make ``entry`` its snapshot's only entry, and likewise its partition statistics."""
    updates = [
        {"action": "set-statistics", "snapshot-id": each.snapshot_id, "statistics": entry_to_json(each)}
        for each in (entry, *entry.repairs)
    ]
    updates += [{"action": "remove-statistics", "snapshot-id": snapshot_id} for snapshot_id in entry.removals]
    return updates if entry.partitions is None else [*updates, partition_statistics_update(entry.partitions)]


def applied_to(
    answer: Mapping[str, Any], base: TableSnapshot, entry: StatisticsEntry, post: Callable[[Updates], object]
) -> TableState:
    """
    The state that the server applied an entry to: that of ``base``, or one that another writer committed in between.

    Raises:
        SnapshotNotFound: The snapshot expired in between; the entry has been removed again.
        CommitUnknownError: The snapshot expired in between, and the entry cannot be removed.
    """
    if entry.snapshot_id not in {snapshot["snapshot-id"] for snapshot in answer.get("snapshots") or ()}:
        expired = f"{base.name}: snapshot {entry.snapshot_id} expired while its statistics were committed"
        # Expiry has already removed the snapshot's entries, so this one would stay until a clean.
        try:
            post(_removals(entry))
        except PuffinError as exc:
            raise CommitUnknownError(f"{expired}, and their entry cannot be removed: {exc}") from exc
        raise SnapshotNotFound(expired)
    log = answer.get("metadata-log") or ()
    before = log[-1]["metadata-file"] if log else base.state.metadata_location
    if before == base.state.metadata_location:
        return base.state
    try:
        return read_state(before, base.store_for(before))
    except PuffinError as exc:
        # A job whose columns are gone notices that when it reads its commit back.
        _log.warning("cannot check whether statistics of another job were replaced: %s", exc)
        return base.state


def _removals(entry: StatisticsEntry) -> Updates:
    stored = [StoredEntry(entry.snapshot_id, entry.statistics_path, of_partitions=False)]
    if entry.partitions is not None:
        stored.append(StoredEntry(entry.snapshot_id, entry.partitions.statistics_path, of_partitions=True))
    return [removal_update(each) for each in stored]
