"""
Which entries are damaged: those that list blobs which some engine cannot load, and those of files of an earlier
version, from which engines would copy such blobs. Table metadata alone tells.
"""

from __future__ import annotations

from puffin.statistics.blob_properties import SketchProperties
from puffin.statistics.kinds import private_kinds
from puffin.tables.base import BlobEntry, StatisticsEntry
from puffin.tables.state import TableState

PRESTOS = ("presto-sum-data-size-bytes-v1", "presto-kll-sketch-bytes-v1")
"""Types that Presto lists in entries, and pyiceberg cannot load."""


def damaged_entries(state: TableState) -> list[StatisticsEntry]:
    """The entries of any snapshot that a run repairs."""
    # Blobs of unknown types stay: their writer may need them.
    types = {kind.name for kind in private_kinds()}.union(PRESTOS)

    def is_damage(blob: BlobEntry) -> bool:
        return blob.type in types or SketchProperties(blob.properties).is_unmarked

    return [entry for entry in state.statistics.values() if any(map(is_damage, entry.blobs))]
