"""List the analyzed tables of a catalog or below directories, lazily."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from puffin.errors import PuffinError, SetupError, StorageError, line_about
from puffin.load import ICEBERG, Tables
from puffin.lookup.places import each_once
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


@dataclasses.dataclass(frozen=True, slots=True)
class ListedTable:
    """
    The name of a table, or of a directory, namespace or catalog that cannot be listed, which has its ``error``.

    ``format`` is ``"iceberg"`` or ``"delta"``; None with an error.
    """

    name: str
    format: str | None = None
    error: PuffinError | None = None


def listed_tables(tables: Tables, namespaces: Iterable[str] | None, roots: Iterable[str]) -> Iterator[ListedTable]:
    """
    The tables in some namespaces (None for all) and below some directories, with what cannot be listed.

    A namespace that the caller did name has to be there. What is below several directories comes once, with its name
    below the first. A catalog that cannot be used hides no directory. Errors as for `puffin.Lookup.tables`.
    """
    known: set[Hashable] = set()
    for root in roots:
        yield from _with_error(root, lambda root: each_once(_below(tables, root), known))
    if namespaces is None:
        try:
            found = tables.namespaces()
        except (SetupError, StorageError) as exc:
            if not known:
                raise
            yield ListedTable(str(tables.catalog), error=exc)
            return
        for namespace in found:
            yield from _with_error(namespace, lambda namespace: _of_namespace(tables, namespace))
    else:
        for namespace in namespaces:
            yield from _of_namespace(tables, namespace)


def names_of(listed: Iterable[ListedTable]) -> Iterator[str]:
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


def _below(tables: Tables, root: str) -> Iterator[ListedTable]:
    return (ListedTable(each.name, each.format, each.error) for each in tables.tables_below(root))


def _of_namespace(tables: Tables, namespace: str) -> Iterator[ListedTable]:
    return (ListedTable(name, ICEBERG) for name in tables.of_namespace(namespace))


def _with_error(where: str, listed_in: Callable[[str], Iterable[ListedTable]]) -> Iterator[ListedTable]:
    try:
        yield from listed_in(where)
    except PuffinError as exc:
        yield ListedTable(where, error=exc)
