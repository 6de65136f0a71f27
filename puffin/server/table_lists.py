"""
Lists of the tables that a server serves: those with statistics, and the status of all.

A table, directory or namespace that cannot be read or listed, or not in time, stands in the list and stops no other.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
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

_Listed: TypeAlias = "tuple[list[FoundTable], dict[str, bool]]"  # by name; and what an answer says if there are more


class TableLists:
    """Lists the tables of a catalog and below roots; raises what `puffin.Lookup.listed` raises."""

    def __init__(self, lookup: Lookup, access: Access, settings: Settings) -> None:
        self._lookup = lookup
        self._access = access
        self._catalog = settings.catalog
        self._verdicts = settings.verdicts

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
        """The status of every table, those in need first, or its error."""
        listed, cut = await self._access.run("", lambda: self._listed(None))
        tables = iter(listed)
        until = asyncio.get_running_loop().time() + self._access.table_seconds
        found: list[TableStatus] = []

        async def some() -> None:
            for table in tables:
                found.append(await self._status(table, until))

        await asyncio.gather(*(some() for _ in range(_STATUS_AT_ONCE)))
        verdicts = self._verdicts()
        found.sort(key=lambda each: each.need)
        return encode({"tables": [_status_json(each, verdicts.get(self._key(each.table))) for each in found], **cut})

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

    async def _status(self, table: FoundTable, until: float) -> TableStatus:
        name = table.name

        def read() -> TableStatus:
            # A copy, so that what it reads of files does not stay in memory with the view.
            return table_status(name, dataclasses.replace(self._lookup.opened(name)))

        left = until - asyncio.get_running_loop().time()
        found = await self._access.in_time(name, read, left) if table.error is None else table.error
        return TableStatus.of_error(name, Problem.of(found).detail) if isinstance(found, Exception) else found

    def _key(self, table: str) -> str:
        """The name of a table among those of all catalogs, as an autopilot spells it."""
        is_plain = self._catalog is not None and "/" not in table and not self._lookup.names_catalog(table)
        return f"{self._catalog}:{table}" if is_plain else table_key(table)


def _first_by_name(listed: Iterator[FoundTable]) -> _Listed:
    first = sorted(itertools.islice(listed, _MOST_NAMES), key=lambda each: each.name)
    return first, {} if next(listed, None) is None else {"truncated": True}


def _status_json(status: TableStatus, verdict: tuple[str, str] | None) -> dict[str, Any]:
    state, reason = verdict or (None, None)
    return {
        **status.to_json(),
        "stats-timestamp": iso_time(status.since_newest.statistics_timestamp_ms),
        "state": state,
        "state-reason": reason,
    }
