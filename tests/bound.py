"""Iceberg states that are nowhere, bound to a snapshot and to the stores of their files as an opened table is."""

from __future__ import annotations

from typing import Any

from puffin.iceberg.table import IcebergSnapshot
from puffin.storage import store_for
from puffin.tables.base import SnapshotSelector
from puffin.tables.state import TableState


def bound(state: TableState, snapshot_id: int | None = None, **others: Any) -> IcebergSnapshot:
    """Bind a state to its current snapshot, or to that of an id."""
    defaults: dict[str, Any] = {"name": state.location, "store_for": store_for, "io_properties": {}, "table": None}
    selector = SnapshotSelector(snapshot_id=snapshot_id)
    return IcebergSnapshot(state=state, selector=selector, **{**defaults, **others})
