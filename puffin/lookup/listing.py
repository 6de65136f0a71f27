"""
List the analyzed tables of a catalog or below directories, lazily.

A table that cannot be loaded is skipped with a warning, so that it does not hide the others.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from puffin.errors import PuffinError
from puffin.load import Tables
from puffin.statistics.resolve import Ancestry
from puffin.tables.snapshot import TableSnapshot

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class AnalyzedTable:
    """
    A table that has statistics.

    Attributes:
        snapshot_id: The current one.
        statistics_snapshot_id: The one whose rows the newest statistics are of.
        snapshots_behind: How many snapshots have changed the rows since; None if unknown.
    """

    table: str
    format: str
    snapshot_id: int
    statistics_snapshot_id: int
    snapshots_behind: int | None

    def to_json(self) -> dict[str, Any]:
        """The table as programs get it."""
        return {
            "table": self.table,
            "format": self.format,
            "snapshot-id": self.snapshot_id,
            "statistics-snapshot-id": self.statistics_snapshot_id,
            "snapshots-behind": self.snapshots_behind,
        }


def table_names(tables: Tables, namespaces: Iterable[str] | None, roots: Iterable[str]) -> Iterator[str]:
    """
    The names of the tables in some namespaces, None for all of them, and of those below some directories.

    A directory that cannot be listed is skipped with a warning, and so is a namespace that was not asked for.

    Raises:
        UsageError: There is no such namespace.
        SetupError, StorageError: The catalog cannot be used.
    """
    for root in roots:
        yield from _as_far_as_possible(root, tables.below)
    if namespaces is None:
        for namespace in tables.namespaces():
            yield from _as_far_as_possible(namespace, tables.of_namespace)
    else:
        for namespace in namespaces:
            yield from tables.of_namespace(namespace)


def analyzed_table(name: str, opened: TableSnapshot) -> AnalyzedTable | None:
    """What is known of a table's newest statistics; None if the snapshot and its ancestors have none."""
    if opened.is_empty:
        return None
    ancestry = Ancestry(opened)
    field_ids = {field_id for entry in ancestry.entries for blob in entry.blobs for field_id in blob.fields}
    known = list(itertools.chain.from_iterable(ancestry.blobs_of(field_id) for field_id in field_ids))
    if not known:
        return None
    newest = min(known, key=lambda each: each.age)
    return AnalyzedTable(
        name,
        opened.state.format,
        opened.snapshot.snapshot_id,
        newest.blob.snapshot_id,
        newest.freshness.snapshots_behind,
    )


def _as_far_as_possible(where: str, names_in: Callable[[str], Iterable[str]]) -> Iterator[str]:
    try:
        yield from names_in(where)
    except PuffinError as exc:
        _log.warning("tables are left out: %s: %s", where, exc)
