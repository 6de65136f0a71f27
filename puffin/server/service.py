"""
Questions in, answers out as bytes: where lookup, roots and threads meet.

The event loop sends cached answers and puts together lists from what threads found. All other work goes to a thread.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from puffin.errors import (
    CorruptError,
    PuffinError,
    SetupError,
    SnapshotNotFound,
    UsageError,
    in_one_line,
)
from puffin.inspection import FileDescription, describe
from puffin.lookup import FilePlan, JoinQuestion, Lookup, Question, TableEstimate
from puffin.lookup.cache import Kept
from puffin.lookup.calls import Calls
from puffin.server.access import Access
from puffin.server.documents import EstimateRequest, JoinRequest, PlanRequest, snapshot_of
from puffin.server.encoded import Encoded, encode, encode_plan
from puffin.server.plan_counts import PlanCounts
from puffin.server.problems import Problem, logged
from puffin.server.settings import Settings
from puffin.server.table_lists import TableLists
from puffin.server.warm import WarmAnswers
from puffin.server.workers import Workers
from puffin.storage import store_for

if TYPE_CHECKING:
    from puffin.rest_catalog.upstream import Upstream

_START_SECONDS = 5.0  # for a catalog to tell that it cannot be used

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class _Answer(Protocol):
    """What the library answers, and dumps."""

    def to_json(self) -> Mapping[str, Any]: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the id of the snapshot that it must lead to, if the caller named one."""

    question: Question
    snapshot_id: int | None = None


class Service:
    """
    Answers questions about the tables that a server serves.

    Raises Problem if a table is not served or too busy, and PuffinError as `puffin.Lookup` does.

    Attributes:
        access: Which tables may be read, and the threads that read them.
        lists: The lists of all tables.
        upstream: The REST catalog that authorizes the callers of the REST face, or None.
        warm: Answers to the query strings of earlier requests.
        plans: Counts of the plans that were made; used on the event loop alone.
        asked: Told of each table that planners asked about, once they are answered.
        warehouses: Services of the REST face for the other catalogs, by name; they share threads and counts with this.
    """

    def __init__(self, settings: Settings, shared: Service | None = None) -> None:
        self.settings = settings
        self.access: Access = Access(settings, Workers(settings.limits) if shared is None else shared.access.workers)
        self.asked = settings.asked
        self.upstream = upstream_of(settings)
        self.plans: PlanCounts = PlanCounts() if shared is None else shared.plans
        self.lookup = Lookup(
            catalog=settings.catalog,
            catalog_properties=settings.catalog_properties,
            more_catalogs=settings.warehouses,
            locations=settings.catalog is not None,
            ttl_seconds=settings.ttl_seconds,
            store_for=functools.partial(store_for, confine=self.access.roots.confine),
        )
        self.lists = TableLists(self.lookup, self.access, settings)
        self.warm = WarmAnswers(self.lookup, self.asked)
        self.warehouses = {name: Service(settings.of_warehouse(name), self) for name in settings.warehouses}

    async def stats(self, asked: Asked) -> Kept:
        """The answer to a question."""
        kept = self._at_hand(asked)
        if kept is None:
            kept = await self.access.read(asked.question.table, lambda: self.ask(asked))
        self.asked(asked.question.table)
        return kept

    async def batch(self, questions: Sequence[Asked], instance: str) -> bytes:
        """The results of all questions, with a problem in place of each that fails."""
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
        for place, answer in found.items():
            if not isinstance(answer, Exception):
                self.asked(questions[place].question.table)
        results = (
            Problem.of(answer).body(f"{instance}#/requests/{place}")
            if isinstance(answer, Exception)
            else Encoded.of(answer).body
            for place, answer in sorted(found.items())
        )
        return b'{"results":[' + b",".join(results) + b"]}"

    async def join(self, asked: JoinRequest) -> bytes:
        """The overlap and join of two columns."""
        left, right = (
            JoinQuestion(Question(side.table, (side.column,)), side.where) for side in (asked.left, asked.right)
        )
        tables = [asked.left.table, asked.right.table]
        for table in tables:
            await self.access.read(table, lambda: None)
        # A key of the pair: if the storage of one table hangs, questions about the other have their threads.
        body = await self.access.run("\n".join(tables), lambda: encode(self.lookup.join(left, right).to_json()))
        for table in tables:
            self.asked(table)
        return body

    async def estimate(self, asked: EstimateRequest) -> bytes:
        """The rows that a filter leaves, and the groups that a grouping makes."""

        def estimated() -> TableEstimate:
            estimate = self.lookup.estimate(asked.table, asked.where, asked.group_by, **snapshot_of(asked))
            _check_ref(asked.table, asked.ref, asked.snapshot_id, estimate.snapshot_id)
            return estimate

        body = await self._encoded(asked.table, estimated)
        self.asked(asked.table)
        return body

    async def plan(self, asked: PlanRequest) -> bytes:
        """The files that can hold rows that match the filter; planned and encoded in a thread."""

        def planned() -> tuple[FilePlan, bytes]:
            plan = self.lookup.plan(asked.table, asked.where, **snapshot_of(asked))
            _check_ref(asked.table, asked.ref, asked.snapshot_id, plan.snapshot_id)
            return plan, encode_plan(plan)

        plan, body = await self.access.read(asked.table, planned)
        self.plans.add(plan, plan.table)
        self.asked(plan.table)
        return body

    async def history(self, table: str, column: str) -> bytes:
        """The statistics of a column, snapshot by snapshot."""
        return await self._encoded(table, lambda: self.lookup.history(table, column))

    async def distribution(self, table: str, column: str) -> bytes:
        """The most frequent values of a column, and its histogram."""
        return await self._encoded(table, lambda: self.lookup.distribution(table, column))

    async def dump(self, asked: Asked) -> bytes:
        """The dump document of the statistics file that answers for a snapshot: the first column's if they differ."""
        table = asked.question.table
        return await self._encoded(table, lambda: self.lookup.following([table], lambda: self._dump(asked)))

    def ask(self, asked: Asked) -> Kept:
        """The encoded answer about a table that was checked; blocks."""
        kept = self.lookup.ask(asked.question)
        _check_ref(asked.question.table, asked.question.selector.ref, asked.snapshot_id, kept.answer.snapshot_id)
        Encoded.of(kept)
        return kept

    async def check_ready(self) -> None:
        """Raise unless the roots exist and the catalogs answer."""

        def check() -> None:
            self.access.roots.check_present()
            if self.settings.catalog is not None and self.upstream is None:
                self.lookup.namespaces()
            elif self.upstream is not None:  # it may refuse to list anything for this server itself
                self.upstream.check_answers()

        await self.access.run("ready", check)
        for service in self.warehouses.values():
            await service.check_ready()

    def metrics(self) -> Mapping[str, int]:
        """Counts of threads, lookup and plans, by metric name."""
        counts = Counter[str]()
        for service in (self, *self.warehouses.values()):
            counts.update(dataclasses.asdict(service.lookup.counts))
        return {
            "puffin_storage_threads": self.access.workers.busy,
            **{f"puffin_lookup_{name}_total": count for name, count in counts.items()},
            **self.plans.metrics(),
        }

    async def _encoded(self, table: str, ask: Callable[[], _Answer]) -> bytes:
        return await self.access.read(table, lambda: encode(ask().to_json()))

    def _dump(self, asked: Asked) -> FileDescription:
        table, path = asked.question.table, self.ask(asked).answer.statistics_path
        try:
            return describe(path, opened_by=lambda file: self.lookup.open_statistics(table, file))
        except CorruptError as exc:  # the reader of bytes does not know their file
            raise CorruptError(f"{path}: {exc}") from exc

    def _at_hand(self, asked: Asked) -> Kept | None:
        # `read` checked the table before the lookup cached the answer; the check holds for the time to live.
        kept = self.lookup.at_hand(asked.question)
        return kept if kept is not None and asked.snapshot_id in (None, kept.answer.snapshot_id) else None

    async def _ask_all(self, table: str, questions: Mapping[int, Asked]) -> Mapping[int, Kept | Exception]:
        """An answer or error for each question about one table, from one thread."""

        def ask_all() -> dict[int, Kept | Exception]:
            found: dict[int, Kept | Exception] = {}
            for place, asked in questions.items():
                try:
                    found[place] = self.ask(asked)
                except Exception as exc:  # noqa: BLE001 - a question must not stop the others
                    found[place] = logged(exc, table)
            return found

        answers = await self.access.in_time(table, ask_all)
        return dict.fromkeys(questions, answers) if isinstance(answers, Exception) else answers


def upstream_of(settings: Settings) -> Upstream | None:
    """The REST catalog that authorizes the callers of the REST face; None without one. Raises SetupError."""
    if not settings.iceberg or settings.catalog is None:
        return None
    from puffin.rest_catalog.upstream import Upstream

    return Upstream.of(settings.catalog, settings.catalog_properties)


def check_catalogs(settings: Settings, patience: float = _START_SECONDS) -> None:
    """
    Raise SetupError or UsageError if a catalog cannot be used; log one that does not answer now, and may do so later.

    Waits for answers up to ``patience`` seconds: if a catalog hangs, the server still answers about other tables.
    """
    checks = dict[str, Callable[[], None]]()
    for each in (settings, *map(settings.of_warehouse, settings.warehouses)):
        if each.catalog is None:
            continue
        upstream = upstream_of(each)
        lookup = Lookup(catalog=each.catalog, catalog_properties=each.catalog_properties)
        ask = functools.partial(next, lookup.table_names(), None) if upstream is None else upstream.check_answers
        checks[each.catalog] = functools.partial(_check_answers, each.catalog, ask)
    answers = Calls(len(checks)).answers(checks, patience)
    for name in checks.keys() - answers.keys():
        _log.warning("catalog %r: no answer for %g seconds; its tables are served once it answers", name, patience)


def _check_ref(table: str, ref: str | None, wanted: int | None, found: int | None) -> None:
    """Raise SnapshotNotFound if a ref does not lead to the snapshot that the caller named beside it."""
    if wanted not in (None, found):
        raise SnapshotNotFound(f"{table}: {ref!r} is snapshot {found}, not {wanted}")


def _check_answers(catalog: str, ask: Callable[[], object]) -> None:
    try:
        ask()
    except PuffinError as exc:
        if isinstance(exc, SetupError | UsageError):
            raise
        name = f"catalog {catalog!r}"
        error = in_one_line(exc)
        _log.warning("%s; its tables are served once it answers", error if name in error else f"{name}: {error}")
