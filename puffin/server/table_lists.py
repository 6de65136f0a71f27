"""
Lists of the tables that a server serves: those with statistics, and the status of all.

A table, directory or namespace that cannot be read or listed, or not in time, stands in the list and stops no other.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any, TypeAlias

from puffin.errors import NotFoundError, UsageError
from puffin.load import FoundTable
from puffin.lookup import AnalyzedTable, Lookup
from puffin.lookup.health import TableStatus
from puffin.lookup.history import iso_time
from puffin.lookup.places import table_key
from puffin.lookup.status import table_status
from puffin.server.access import Access
from puffin.server.documents import TablesQuery
from puffin.server.encoded import encode
from puffin.server.problems import Problem
from puffin.server.settings import Settings

_MOST_NAMES = 10_000  # of the tables that a list considers
_STATUS_AT_ONCE = 16  # tables, so that other requests find free threads
_LEAST_SHARE = 0.25  # of the time for a list, which each of its tables gets: what was not asked long has not failed
_KEPT_SECONDS = 600.0  # a status for later lists that have no time for its table
_TRUNCATED = {"truncated": True}

_Listed: TypeAlias = "tuple[list[FoundTable], dict[str, bool]]"  # by name; and what an answer says if there are more


@dataclasses.dataclass(frozen=True, slots=True)
class _Seen:
    """The status of a table, and when it was asked for, by the clock of the event loop."""

    at: float
    status: TableStatus


class TableLists:
    """Lists the tables of a catalog and below roots; raises what `puffin.Lookup.listed` raises."""

    def __init__(self, lookup: Lookup, access: Access, settings: Settings) -> None:
        self._lookup = lookup
        self._access = access
        self._catalog = settings.catalog
        self._verdicts = settings.verdicts
        self._seen: dict[str, _Seen] = {}

    async def analyzed(self, query: TablesQuery) -> bytes:
        """A page of the analyzed tables by name, with the names of those that cannot be read."""
        after, part = query.after or "", (query.contains or "").casefold()
        known, cut = await self._access.run("", lambda: self._listed(query.namespace))
        asked = [each for each in known if each.name > after and part in each.name.casefold()]
        page = asked[: query.limit]
        found = await asyncio.gather(*map(self._analyzed, page))
        return encode(
            {
                "tables": [table.to_json() for table in found if isinstance(table, AnalyzedTable)],
                "unreadable": [
                    each.name for each, table in zip(page, found, strict=True) if isinstance(table, Exception)
                ],
                "next": page[-1].name if len(asked) > len(page) else None,
                **cut,
            }
        )

    async def status(self) -> bytes:
        """
        The status of every table, those in need first, or its error.

        A table that there is no time for has the status of an earlier call, or is left out. The next call begins with
        those that were not asked for longest.
        """
        listed, cut = await self._access.run("", lambda: self._listed(None))
        clock = asyncio.get_running_loop().time
        began = clock()
        until = began + self._access.table_seconds
        latest = until - _LEAST_SHARE * self._access.table_seconds
        found = [_of_error(each.name, each.error) for each in listed if each.error is not None]
        names = [each.name for each in listed if each.error is None]
        self._seen = seen = {name: self._seen[name] for name in names if name in self._seen}
        turns = iter(sorted(names, key=lambda name: seen[name].at if name in seen else -math.inf))

        async def some() -> None:
            while (now := clock()) < latest and (name := next(turns, None)) is not None:
                seen[name] = _Seen(now, await self._status(name, until - now))

        await asyncio.gather(*(some() for _ in range(_STATUS_AT_ONCE)))
        found += [each.status for each in seen.values() if each.at >= began - _KEPT_SECONDS]
        found.sort(key=lambda each: each.need)
        verdicts = self._verdicts()
        tables = [_status_json(each, verdicts.get(self._key(each.table))) for each in found]
        return encode({"tables": tables, **(cut if len(found) == len(listed) else _TRUNCATED)})

    def _listed(self, namespace: str | None) -> _Listed:
        """The tables of one namespace, or of the whole catalog and below all roots."""
        if namespace is None:
            return _first_by_name(self._lookup.listed(roots=self._access.roots.uris))
        try:
            return _first_by_name(self._lookup.listed([namespace]))
        except UsageError as exc:  # a caller of the server does not choose the catalog
            raise NotFoundError(f"namespace {namespace!r}: no such namespace") from exc

    async def _analyzed(self, table: FoundTable) -> AnalyzedTable | Exception | None:
        if table.error is not None:
            return table.error
        return await self._access.in_time(table.name, lambda: self._lookup.analyzed(table.name))

    async def _status(self, name: str, seconds: float) -> TableStatus:
        def read() -> TableStatus:
            # A copy, so that what it reads of files does not stay in memory with the view.
            return table_status(name, dataclasses.replace(self._lookup.opened(name, evicts=False)))

        found = await self._access.in_time(name, read, seconds)
        return _of_error(name, found) if isinstance(found, Exception) else found

    def _key(self, table: str) -> str:
        """The name of a table among those of all catalogs, as an autopilot spells it."""
        is_plain = self._catalog is not None and "/" not in table and not self._lookup.names_catalog(table)
        return f"{self._catalog}:{table}" if is_plain else table_key(table)


def _first_by_name(listed: Iterator[FoundTable]) -> _Listed:
    first = sorted(itertools.islice(listed, _MOST_NAMES), key=lambda each: each.name)
    is_cut = any(each.is_cut for each in first) or next(listed, None) is not None
    return first, _TRUNCATED if is_cut else {}


def _of_error(name: str, error: Exception) -> TableStatus:
    return TableStatus.of_error(name, Problem.of(error).detail)


def _status_json(status: TableStatus, verdict: tuple[str, str] | None) -> dict[str, Any]:
    state, reason = verdict or (None, None)
    return {
        **status.to_json(),
        "stats-timestamp": iso_time(status.since_newest.statistics_timestamp_ms),
        "state": state,
        "state-reason": reason,
    }
