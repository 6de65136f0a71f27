"""List the analyzed tables of a catalog or below directories, lazily."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from puffin.errors import PuffinError, SetupError, StorageError, line_about
from puffin.load import FoundTable, Tables
from puffin.lookup.places import each_once, found_below, tables_in_each
from puffin.statistics.ancestry import known_sketches
from puffin.tables.snapshot import TableSnapshot

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class AnalyzedTable:
    """
    A table that has statistics, at its current snapshot.

    The newest statistics describe the rows of ``statistics_snapshot_id``. Since then, ``snapshots_behind`` snapshots
    have changed the rows; None if unknown.
    """

    table: str
    format: str
    snapshot_id: int
    statistics_snapshot_id: int
    snapshots_behind: int | None

    def to_json(self) -> dict[str, Any]:
        return {name.replace("_", "-"): value for name, value in dataclasses.asdict(self).items()}


def listed_tables(tables: Tables, namespaces: Iterable[str] | None, roots: Iterable[str]) -> Iterator[FoundTable]:
    """
    The tables in some namespaces (None for all) and below some directories, with what cannot be listed.

    A namespace that the caller did name has to be there. What is below several directories comes once, with its name
    below the first. A catalog that cannot be used hides neither directories nor other catalogs. Errors as for
    `puffin.Lookup.tables`.
    """
    known: set[Hashable] = set()
    for root in roots:
        try:
            yield from each_once(found_below(tables, root), known)
        except PuffinError as exc:
            yield FoundTable.unlisted(root, root, exc)
    if namespaces is not None:
        for namespace in namespaces:
            yield from tables.tables_in(namespace)
        return
    for catalog in (tables, *tables.others.values()):
        try:
            found = catalog.namespaces()
        except (SetupError, StorageError) as exc:
            if not (known or tables.others):
                raise
            yield FoundTable.unlisted(str(catalog.catalog), None, exc)
        else:
            yield from tables_in_each(tables, found if catalog is tables else map(catalog.named, found))


def names_of(listed: Iterable[FoundTable]) -> Iterator[str]:
    """The names of tables; what cannot be listed is logged and left out."""
    for each in listed:
        if each.error is None:
            yield each.name
        else:
            _log.warning("skipped tables: %s", line_about(each.name, each.error))


def analyzed_table(name: str, opened: TableSnapshot) -> AnalyzedTable | None:
    """A summary of the newest statistics; None if the snapshot and its ancestors have none."""
    if opened.is_empty:
        return None
    known = itertools.chain.from_iterable(known_sketches(opened).values())
    newest = min(known, key=lambda each: each.age, default=None)
    if newest is None:
        return None
    return AnalyzedTable(
        name,
        opened.state.format,
        opened.snapshot.snapshot_id,
        newest.blob.snapshot_id,
        newest.freshness.snapshots_behind,
    )
