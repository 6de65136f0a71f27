"""List the analyzed tables of a catalog or below directories, lazily."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from puffin.errors import PuffinError
from puffin.load import Tables
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


def table_names(tables: Tables, namespaces: Iterable[str] | None, roots: Iterable[str]) -> Iterator[str]:
    """
    The names of the tables in some namespaces (None for all) and below some directories.

    Skip, with a warning, directories that cannot be listed, and namespaces that the caller did not name. Errors as for
    `puffin.Lookup.tables`.
    """
    for root in roots:
        yield from _skipping_errors(root, tables.below)
    if namespaces is None:
        for namespace in tables.namespaces():
            yield from _skipping_errors(namespace, tables.of_namespace)
    else:
        for namespace in namespaces:
            yield from tables.of_namespace(namespace)


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


def _skipping_errors(where: str, names_in: Callable[[str], Iterable[str]]) -> Iterator[str]:
    try:
        yield from names_in(where)
    except PuffinError as exc:
        _log.warning("skipped tables: %s: %s", where, exc)
