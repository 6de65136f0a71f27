"""
Looks at every table of a policy, by metadata alone: what the policy means for it, and its status.

What was seen of a table is kept while its metadata stays the same, so that a look costs about one read a table. If a
catalog lists the metadata files of its tables in one call, tables that stayed the same are not opened.
What is elsewhere, the index and private state, is looked up again after a while, and before the table is run.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

from puffin.errors import PuffinError, TableNotFound, UnsupportedError, UsageError, in_one_line, line_about
from puffin.load import FoundTable, Tables
from puffin.lookup.calls import PATIENCE, Calls, unanswered
from puffin.lookup.health import TableStatus
from puffin.lookup.places import EVERY_NAME, NamePatterns, Place, table_key, tables_at
from puffin.lookup.status import TABLES_AT_ONCE, Wanted, table_status
from puffin.policy.model import Policy, Rule
from puffin.policy.table_policy import TablePolicy, table_policy
from puffin.storage import place_of
from puffin.tables.snapshot import Table, TableSnapshot
from puffin.tables.state import TableState

_log = logging.getLogger(__name__)

KEPT_SECONDS = 3600.0
_MOST_DIRECTORIES = 1_000_000  # below one root


@dataclasses.dataclass(frozen=True, slots=True)
class CoveredTable:
    """A table with the rule that covers it; a place that cannot be listed has its error, and no rule."""

    catalog: str | None
    found: FoundTable
    rule: Rule | None

    @property
    def key(self) -> str:
        """The name of the table among those of all places, the same wherever the command is run."""
        if self.catalog is not None:
            return f"{self.catalog}:{self.found.name}"
        is_bare = "/" not in self.found.name  # a path from here
        return table_key(f"./{self.found.name}" if is_bare else self.found.name)

    @property
    def asked_as(self) -> Set[str]:
        """The names by which planners may ask for the table; a server's first catalog goes without its own."""
        return {self.key} if self.catalog is None else {self.key, self.found.name}

    def load(self) -> Table:
        return self.found.load()


@dataclasses.dataclass(frozen=True, slots=True)
class SeenTable:
    """
    A table as its metadata shows it; ``policy`` and ``location`` are None if that cannot be read.

    ``refusal`` says why no commit to it is possible, None if none is known. ``is_gone``: there is no such table now.
    """

    covered: CoveredTable
    policy: TablePolicy | None
    status: TableStatus
    location: str | None = None
    refusal: str | None = None
    is_gone: bool = False

    @property
    def key(self) -> str:
        return self.covered.key

    @property
    def name(self) -> str:
        return self.covered.found.name

    @property
    def catalog(self) -> str | None:
        return self.covered.catalog

    def to_json(self) -> dict[str, Any]:
        return {"catalog": self.catalog, **self.status.to_json()}

    def line_about(self, error: object) -> str:
        """What is wrong with it in one line: its catalog, its name and the error, which may begin with the name."""
        line = line_about(self.name, error)
        return line if self.catalog in (None, self.name) else f"{self.catalog}: {line}"


@dataclasses.dataclass(frozen=True, slots=True)
class _Kept:
    """What was seen of a table at one version of its metadata, and when by the monotonic clock."""

    location: str  # of the metadata
    version: int
    at: float
    seen: SeenTable


class Watcher:
    """
    The tables that a policy covers, those of ``names``. Its catalogs stay open from one look to the next.

    Attributes:
        found: What the last look found, also tables that no rule covers: the catalog, None for roots, and the places
            where it was found.
    """

    def __init__(self, policy: Policy, names: NamePatterns = EVERY_NAME) -> None:
        self._policy = policy
        self._names = names
        self.found: list[tuple[str | None, list[tuple[str, FoundTable]]]] = []
        self._kept: dict[str, _Kept] = {}
        self._calls = Calls(TABLES_AT_ONCE)
        heard = self._calls.heard
        self._catalogs = {each.name: Tables(each.name, each.properties, heard=heard) for each in policy.catalogs}
        self._located = Tables(heard=heard)

    def tables(self, patience: float = PATIENCE) -> Iterator[CoveredTable]:
        """
        The tables that a rule covers, and places or namespaces that cannot be listed, such as those that hang.

        What is below several roots comes once, with its name below the first.
        """
        found_at = self._found(patience)
        below: dict[str, list[tuple[str, FoundTable]]] = {}
        for root in self._policy.roots:
            for found in found_at[root]:
                below.setdefault(place_of(found.name), []).append((root, found))
        catalogs = (each.name for each in self._policy.catalogs)
        self.found = [(catalog, [(catalog, found)]) for catalog in catalogs for found in found_at[catalog]]
        self.found += [(None, each) for each in below.values()]
        for catalog, names in self.found:
            yield from self._covered(catalog, names)

    def look(self, patience: float = PATIENCE) -> list[SeenTable]:
        """
        Look at every table, many side by side; one that a catalog has and that is below a root counts in the catalog.

        When none has answered for ``patience`` seconds, those that are left have that as their error. What a table or
        place answers later counts in the next look.
        """
        tables = list(self.tables(patience))
        listed = self._listed(tables, patience)
        looks = {
            table.key: functools.partial(self._seen, table, listed.get((table.catalog or "", table.found.name)))
            for table in tables
        }
        answers = self._calls.answers(looks, patience)
        for key in self._kept.keys() - {table.key for table in tables}:  # a copy, since threads change what is kept
            self.forget(key)
        seen = [answers.get(table.key) or _hanging(table, patience) for table in tables]
        return _one_of_each(seen)

    def forget(self, key: str) -> None:
        """Look at a table anew, since it was run."""
        self._kept.pop(key, None)

    def _listed(self, tables: Sequence[CoveredTable], patience: float) -> dict[tuple[str, str], str]:
        """The metadata files that catalogs list, by catalog and name, of namespaces with tables seen before."""
        seen = {(t.catalog, t.found.name.rpartition(".")[0]) for t in tables if t.catalog and t.key in self._kept}
        answers = self._calls.answers({each: functools.partial(self._versions, *each) for each in seen}, patience)
        return {(catalog, name): file for (catalog, _), files in answers.items() for name, file in files.items()}

    def _versions(self, catalog: str, namespace: str) -> dict[str, str]:
        try:
            return self._catalogs[catalog].versions_of_namespace(namespace)
        except PuffinError:  # each table tells what is wrong
            return {}

    def _seen(self, table: CoveredTable, listed: str | None) -> SeenTable:
        try:
            return self._look_at(table, listed)
        except Exception as exc:  # noqa: BLE001 - a table must not stop the others
            return SeenTable(table, None, TableStatus.of_error(table.found.name, told(exc, table.key)))

    def _look_at(self, table: CoveredTable, listed: str | None) -> SeenTable:
        """As `look_at`, but with what was seen before of the same metadata; ``listed`` is its file, if a list told."""
        kept, now = self._kept.get(table.key), time.monotonic()
        if kept is not None and now - kept.at >= KEPT_SECONDS:
            kept = None
        if kept is not None and kept.location == listed:
            return kept.seen
        opened = table.load().open()
        version = _version_of(opened.state)
        if kept is not None and kept.version == version:
            return kept.seen
        seen = look_at(table, opened)
        if seen.status.error is None:
            self._kept[table.key] = _Kept(opened.state.metadata_location, version, now, seen)
        return seen

    def _found(self, patience: float) -> dict[str, list[FoundTable]]:
        """What is found at each place, by its name, which may be that it cannot be used."""
        names = self._names
        places = {
            **{each.name: Place(each.name, patterns=each.namespaces, names=names) for each in self._policy.catalogs},
            **{each: Place(roots=(each,), directories=_MOST_DIRECTORIES, names=names) for each in self._policy.roots},
        }
        calls: dict[tuple[str, str], Callable[[], list[FoundTable]]] = {
            ("", name): functools.partial(list, self._found_at(place, name)) for name, place in places.items()
        }
        answers = self._calls.answers(calls, patience)
        return {
            name: answers.get(("", name), [FoundTable.unlisted(name, None, unanswered(name, patience))])
            for name in places
        }

    def _found_at(self, place: Place, name: str) -> Iterator[FoundTable]:
        try:
            yield from tables_at(place, self._catalogs.get(name, self._located))
        except PuffinError as exc:
            yield FoundTable.unlisted(name, None, exc)

    def _covered(self, catalog: str | None, names: Sequence[tuple[str, FoundTable]]) -> Iterator[CoveredTable]:
        """A table or what cannot be listed, which was found at these places, if a rule covers it."""
        found = names[0][1]
        rule = self._policy.rule_for((place, each.dotted) for place, each in names)
        if found.error is None:
            if rule is not None:
                yield CoveredTable(catalog, found, rule)
        # A rule that leaves a directory alone speaks for what is in it, too, but not for a whole catalog or root.
        elif rule is None or not rule.due.never or any(each.root is None for _, each in names):
            yield CoveredTable(catalog, found, None)


def look_at(table: CoveredTable, opened: TableSnapshot | None = None) -> SeenTable:
    """Look at one table, which may be open already; an error is its status."""
    name = table.found.name
    policy = None
    try:
        if table.found.error is not None or table.rule is None:
            return SeenTable(table, None, TableStatus.of_error(name, table.found.error or "no rule covers it"))
        opened = opened or table.load().open()
        policy = policy_of(table.rule, opened.state)
        wanted = Wanted(policy.columns, policy.index_columns, policy.no_values, policy.joint, policy.partitions)
        status = table_status(name, opened, wanted)
        return SeenTable(table, policy, status, opened.state.location, _refusal(opened))
    except PuffinError as exc:
        is_gone = isinstance(exc, TableNotFound)
        return SeenTable(table, policy, TableStatus.of_error(name, exc), is_gone=is_gone)


def _hanging(table: CoveredTable, patience: float) -> SeenTable:
    name = table.found.name
    return SeenTable(table, None, TableStatus.of_error(name, unanswered(name, patience)))


def told(exc: Exception, key: str) -> str:
    """What people are told of an error at a table, in one line; the traceback of a bug goes to the log."""
    if isinstance(exc, PuffinError):
        return in_one_line(exc)
    _log.error("%s: internal error, please report it", key, exc_info=exc)
    return f"internal error: {exc!r}"


def _refusal(opened: TableSnapshot) -> str | None:
    try:
        opened.check_committable(ask_store=False)
    except (UsageError, UnsupportedError) as exc:
        return str(exc)
    return None


def policy_of(rule: Rule, state: TableState) -> TablePolicy:
    """What a rule means for a table; SetupError if a property of its owner means nothing."""
    columns = state.select_columns(None)
    return table_policy(rule, state.properties, {column.name: column.type for column in columns})


def _version_of(state: TableState) -> int:
    """A number that differs from one version of a table's metadata to another, statistics of a Delta table included."""
    files = tuple(sorted(entry.statistics_path for entry in state.statistics.values()))
    return hash((state.uuid, state.metadata_location, state.metadata_file, state.current_snapshot_id, files))


def _one_of_each(seen: Sequence[SeenTable]) -> list[SeenTable]:
    """These without tables below roots that a catalog has, too: a commit that bypasses their catalog would be lost."""
    of_catalogs = {place_of(each.location) for each in seen if each.catalog and each.location}
    if not of_catalogs:
        return list(seen)
    return [each for each in seen if each.catalog or place_of(each.name) not in of_catalogs]
