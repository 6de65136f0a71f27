"""Which entries are damaged: those that list blobs which some engine cannot load. Table metadata alone tells."""

from __future__ import annotations

from puffin.tables.base import StatisticsEntry
from puffin.tables.state import TableState

PRESTOS = ("presto-sum-data-size-bytes-v1", "presto-kll-sketch-bytes-v1")
"""Types that Presto lists in entries, and pyiceberg cannot load."""


def damaged_entries(state: TableState) -> list[StatisticsEntry]:
    """The entries of any snapshot that a run repairs."""
    # Blobs of unknown types stay: their writer may need them.
    return [entry for entry in state.statistics.values() if any(blob.type in PRESTOS for blob in entry.blobs)]
