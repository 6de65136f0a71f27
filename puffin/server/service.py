"""
Questions in, encoded answers out: where the lookup, the roots and the threads meet.

A question whose answer the lookup has at hand is answered on the event loop, with the bytes that were sent before. All
others go to a thread: even to find out whether a path is below a root is to ask a file system that may hang.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from puffin.errors import NotFoundError, PuffinError, SetupError, SnapshotNotFound, TableNotFound, UsageError
from puffin.lookup import Lookup, TableAnswer
from puffin.server.problems import Problem
from puffin.server.roots import Roots
from puffin.server.settings import Settings
from puffin.server.workers import Workers
from puffin.storage import store_for

COMMON = [(b"cache-control", b"private, no-cache"), (b"x-content-type-options", b"nosniff")]
"""Headers that every response has, if it has no other of that name."""

_MOST_SENT = 4096
_MOST_SENT_BYTES = 64 * 1024**2
_ETAG_BYTES = 16

_Result = TypeVar("_Result")


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """The columns of a table, None for all, at a snapshot: the current one, or that of an id, of a ref, or of both."""

    table: str
    columns: tuple[str, ...] | None = None
    snapshot_id: int | None = None
    ref: str | None = None


class Encoded:
    """An answer as it is sent; ``etag`` has its quotes, ``headers`` are those of a response with the body."""

    __slots__ = ("body", "etag", "headers")

    def __init__(self, body: bytes, etag: bytes) -> None:
        self.body = body
        self.etag = etag
        length = str(len(body)).encode()
        self.headers = [(b"content-type", b"application/json"), (b"content-length", length), (b"etag", etag), *COMMON]


class Service:
    """
    Answers about the tables that a server serves.

    What reads storage raises Problem for a table that is not served, or asked for by too many, and else PuffinError as
    `puffin.Lookup` does.
    """

    def __init__(self, settings: Settings) -> None:
        self._table_seconds = settings.limits.table_seconds
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
        self._sent_bytes = 0
        self._sent: dict[int, tuple[TableAnswer, Encoded]] = {}  # by the answer's identity, which it keeps being here

    def at_hand(self, question: Question) -> Encoded | None:
        """
        The answer if nothing has to be read for it; never waits.

        What the lookup has at hand came there by `read`, which found the table to be served; so it is, for as long as
        the lookup's time to live lets anything count.
        """
        answer = self.lookup.at_hand(
            question.table, question.columns, snapshot_id=question.snapshot_id, ref=question.ref
        )
        return None if answer is None else self._encoded(answer)

    async def stats(self, question: Question) -> Encoded:
        """The ndv document of a question."""
        found = self.at_hand(question)
        if found is not None:
            return found
        return self._encoded(await self.read(question.table, lambda: self.ask(question)))

    async def batch(self, questions: Sequence[Question], instance: str) -> bytes:
        """The results of all questions; where one fails, the problem stands in its place."""
        found: list[Encoded | Problem | None] = [self.at_hand(question) for question in questions]
        cold: dict[str, list[int]] = {}
        for place, question in enumerate(questions):
            if found[place] is None:
                cold.setdefault(question.table, []).append(place)
        answered = await asyncio.gather(
            *(self._ask_all(table, [questions[place] for place in places]) for table, places in cold.items())
        )
        for places, answers in zip(cold.values(), answered, strict=True):
            for place, answer in zip(places, answers, strict=True):
                found[place] = self._encoded(answer) if isinstance(answer, TableAnswer) else answer
        results = (
            result.body if isinstance(result, Encoded) else result.body(f"{instance}#/requests/{place}")
            for place, result in enumerate(found)
            if result is not None
        )
        return b'{"results":[' + b",".join(results) + b"]}"

    async def estimate_join(self, left: tuple[str, str], right: tuple[str, str]) -> bytes:
        """The estimate-join document of two columns, each of a table."""
        await self.read(right[0], lambda: None)
        estimate = await self.read(left[0], lambda: self.lookup.estimate_join(*left, *right))
        return encode(estimate.to_json())

    async def read(self, table: str, call: Callable[[], _Result]) -> _Result:
        """What a call returns that reads a table; it is called in a thread, once the table is known to be served."""

        def checked() -> _Result:
            self._check(table)
            return call()

        return await self._workers.run(table, checked)

    def ask(self, question: Question) -> TableAnswer:
        """The answer to a question about a table that is known to be served; for a thread."""
        if question.ref is None:
            return self.lookup.ndv(question.table, question.columns, snapshot_id=question.snapshot_id)
        answer = self.lookup.ndv(question.table, question.columns, ref=question.ref)
        if question.snapshot_id not in (None, answer.snapshot_id):
            raise SnapshotNotFound(
                f"{question.table}: {question.ref!r} is snapshot {answer.snapshot_id}, not {question.snapshot_id}"
            )
        return answer

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

    def gauges(self) -> Mapping[str, int]:
        """What goes up and down, by metric name."""
        return {"puffin_storage_threads": self._workers.busy}

    def counters(self) -> Mapping[str, int]:
        """What the lookup has counted, by metric name."""
        counts = dataclasses.asdict(self.lookup.counts)
        return {f"puffin_lookup_{name}_total": count for name, count in counts.items()}

    def _check(self, table: str) -> None:
        if self._is_path(table):
            self._roots.check(table)
        elif "." not in table:
            raise TableNotFound(f"{table}: expected namespace.table")

    def _is_path(self, table: str) -> bool:
        return not self._has_catalog or "/" in table  # as the lookup takes it

    async def _ask_all(self, table: str, questions: Sequence[Question]) -> Sequence[TableAnswer | Problem]:
        """The answers to questions about one table, in one thread."""

        def ask_all() -> list[TableAnswer | Problem]:
            return [_answer_or_problem(functools.partial(self.ask, question)) for question in questions]

        try:
            return await asyncio.wait_for(self.read(table, ask_all), self._table_seconds)
        except asyncio.TimeoutError:
            problem = Problem.timeout(self._table_seconds)
        except Problem as exc:
            problem = exc
        except PuffinError as exc:
            problem = Problem.of(exc)
        return [problem] * len(questions)

    def _encoded(self, answer: TableAnswer) -> Encoded:
        kept = self._sent.get(id(answer))
        if kept is not None:
            return kept[1]
        body = encode(answer.to_json())
        files = "\n".join(column.statistics_path or "" for column in answer.columns)
        digest = hashlib.blake2b(body + files.encode(errors="surrogatepass"), digest_size=_ETAG_BYTES).hexdigest()
        encoded = Encoded(body, f'"{digest}"'.encode())
        self._sent[id(answer)] = answer, encoded
        self._sent_bytes += len(body)
        while len(self._sent) > _MOST_SENT or self._sent_bytes > _MOST_SENT_BYTES:
            _, oldest = self._sent.pop(next(iter(self._sent)))
            self._sent_bytes -= len(oldest.body)
        return encoded


def _answer_or_problem(ask: Callable[[], TableAnswer]) -> TableAnswer | Problem:
    try:
        return ask()
    except PuffinError as exc:
        return Problem.of(exc)


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


def encode(document: Any) -> bytes:
    """A document as it is sent."""
    return json.dumps(document, separators=(",", ":")).encode()
