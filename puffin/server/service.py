"""
Questions in, encoded answers out: where the lookup, the roots and the threads meet.

An answer that the lookup has at hand is sent from the event loop. All other work goes to a thread: even to find out
whether a path is below a root is to ask a file system that may hang.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from puffin.errors import NotFoundError, PuffinError, SetupError, SnapshotNotFound, TableNotFound, UsageError
from puffin.lookup import JoinEstimate, Lookup, Question
from puffin.lookup.cache import Kept
from puffin.server.encoded import Encoded
from puffin.server.problems import Problem
from puffin.server.roots import Roots
from puffin.server.settings import Settings
from puffin.server.workers import Workers
from puffin.storage import store_for

_Result = TypeVar("_Result")


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the snapshot that its ref has to lead to, if the caller named that too."""

    question: Question
    snapshot_id: int | None = None


class Service:
    """
    Answers about the tables that a server serves.

    What reads storage raises Problem for a table that is not served, or asked for by too many, and else PuffinError as
    `puffin.Lookup` does.
    """

    def __init__(self, settings: Settings) -> None:
        self.table_seconds = settings.limits.table_seconds
        self._roots = Roots(settings.roots)
        self._workers = Workers(settings.limits)
        self._has_catalog = settings.catalog is not None
        self.lookup = Lookup(
            catalog=settings.catalog,
            catalog_properties=settings.catalog_properties,
            locations=self._has_catalog,
            ttl_seconds=settings.ttl_seconds,
            store_for=functools.partial(store_for, confine=self._roots.confine),
        )

    async def stats(self, asked: Asked) -> Kept:
        """The answer to a question."""
        kept = self._at_hand(asked)
        return await self.read(asked.question.table, lambda: self.ask(asked)) if kept is None else kept

    async def batch(self, questions: Sequence[Asked], instance: str) -> bytes:
        """The results of all questions; where one fails, the problem stands in its place."""
        found: dict[int, Kept | Exception] = {}
        cold: dict[str, dict[int, Asked]] = {}
        for place, asked in enumerate(questions):
            kept = self._at_hand(asked)
            if kept is None:
                cold.setdefault(asked.question.table, {})[place] = asked
            else:
                found[place] = kept
        for answers in await asyncio.gather(*(self._ask_all(table, of_table) for table, of_table in cold.items())):
            found.update(answers)
        results = (
            Problem.of(answer).body(f"{instance}#/requests/{place}")
            if isinstance(answer, Exception)
            else Encoded.of(answer).body
            for place, answer in sorted(found.items())
        )
        return b'{"results":[' + b",".join(results) + b"]}"

    async def join(self, left: Question, right: Question) -> JoinEstimate:
        """What two columns have in common."""
        await self.read(right.table, lambda: None)
        return await self.read(left.table, lambda: self.lookup.join(left, right))

    async def read(self, table: str, call: Callable[[], _Result]) -> _Result:
        """What a call returns that reads a table; it is called in a thread, once the table is known to be served."""

        def checked() -> _Result:
            self._check(table)
            return call()

        return await self._workers.run(table, checked)

    def ask(self, asked: Asked) -> Kept:
        """The answer to a question about a table that is known to be served, encoded; for a thread."""
        kept = self.lookup.ask(asked.question)
        found = kept.answer.snapshot_id
        if asked.snapshot_id not in (None, found):
            raise SnapshotNotFound(
                f"{asked.question.table}: {asked.question.ref!r} is snapshot {found}, not {asked.snapshot_id}"
            )
        Encoded.of(kept)
        return kept

    async def table_names(self, namespace: str | None, most: int) -> list[str]:
        """The names of tables, sorted: of one namespace, or of the whole catalog and below all roots."""

        def names() -> list[str]:
            if namespace is None:
                return sorted(itertools.islice(self.lookup.table_names(roots=self._roots.uris), most))
            try:
                return sorted(itertools.islice(self.lookup.table_names([namespace]), most))
            except UsageError as exc:  # for a caller of this server, its catalog is no argument
                raise NotFoundError(f"namespace {namespace!r}: no such namespace") from exc

        return await self._workers.run("", names)

    async def check_ready(self) -> None:
        """Raise unless the roots are there and the catalog answers."""

        def check() -> None:
            self._roots.check_present()
            next(self.lookup.table_names(), None)

        await self._workers.run("", check)

    def metrics(self) -> Mapping[str, int]:
        """What threads and lookup have counted, by metric name."""
        counts = dataclasses.asdict(self.lookup.counts)
        return {
            "puffin_storage_threads": self._workers.busy,
            **{f"puffin_lookup_{name}_total": count for name, count in counts.items()},
        }

    def _check(self, table: str) -> None:
        if not self._has_catalog or "/" in table:  # as the lookup takes it
            self._roots.check(table)
        elif "." not in table:
            raise TableNotFound(f"{table}: expected namespace.table")

    def _at_hand(self, asked: Asked) -> Kept | None:
        # What the lookup has at hand came there by `read`, which found the table to be served; so it is, for as long as
        # the lookup's time to live lets anything count.
        kept = self.lookup.at_hand(asked.question)
        return kept if kept is not None and asked.snapshot_id in (None, kept.answer.snapshot_id) else None

    async def _ask_all(self, table: str, questions: Mapping[int, Asked]) -> Mapping[int, Kept | Exception]:
        """An answer or an error for each question about one table, from one thread."""

        def ask_all() -> dict[int, Kept | Exception]:
            return {place: self._answer_or_error(asked) for place, asked in questions.items()}

        try:
            return await asyncio.wait_for(self.read(table, ask_all), self.table_seconds)
        except (PuffinError, Problem, asyncio.TimeoutError) as exc:
            return dict.fromkeys(questions, exc)

    def _answer_or_error(self, asked: Asked) -> Kept | Exception:
        try:
            return self.ask(asked)
        except PuffinError as exc:
            return exc


def check_catalog(settings: Settings) -> None:
    """
    Find out before anybody asks that a catalog is not configured; one that does not answer just now may do so later.

    Raises:
        SetupError: There is no such catalog, or what it needs is not installed.
        UsageError: There are properties of no catalog.
    """
    lookup = Lookup(catalog=settings.catalog, catalog_properties=settings.catalog_properties)
    try:
        next(lookup.table_names(), None)
    except (SetupError, UsageError):
        raise
    except PuffinError:
        return
