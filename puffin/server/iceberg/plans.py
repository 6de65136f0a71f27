"""
Plans of which a client has not had everything: those still being made, and those that do not fit one answer.

A plan's id is random, and good only for the caller and the table that it was made for. Plans are forgotten after a
while, and the oldest ones when there are too many or they take too much memory. The one made last stays, however large.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from puffin.rest_catalog.errors import PlanNotFound, PlanTaskNotFound
from puffin.rest_catalog.names import TableName
from puffin.rest_catalog.planned_scan import PlannedScan
from puffin.server.problems import Problem

_SECONDS = 600.0
_MOST = 1_000
_MOST_BYTES = 256 * 1024 * 1024  # without the files of snapshots
_MOST_FILES = 1_000_000  # of other snapshots than that of the newest plan; each takes almost a KiB
_MOST_RUNNING = 64
_ID_BYTES = 24
_NUMBER = re.compile("[0-9]{1,9}")


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """Whose plan it is: the caller's authorization, as a digest, and the table."""

    caller: bytes
    table: TableName


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    owner: Owner
    until: float
    making: asyncio.Future[PlannedScan]

    @property
    def made(self) -> PlannedScan | None:
        """The plan, if it has been made."""
        making = self.making
        return making.result() if making.done() and not making.cancelled() and not making.exception() else None


class Plans:
    """The plans of a server, used on its event loop alone; ``clock`` tells a monotonic time in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._made: list[str] = []  # in the order in which they were made

    def keep(self, owner: Owner, making: asyncio.Future[PlannedScan]) -> str:
        """The id of a plan, made or being made; Problem 429 if too many are being made, which cancels this one."""
        self._forget()
        if not making.done() and sum(not kept.making.done() for kept in self._kept.values()) >= _MOST_RUNNING:
            making.cancel()
            raise Problem.too_many("too many plans are being made")
        id_ = secrets.token_urlsafe(_ID_BYTES)
        self._kept[id_] = _Kept(owner, self._clock() + _SECONDS, making)
        if making.done():
            self._made.append(id_)
        return id_

    def find(self, owner: Owner, id_: str) -> asyncio.Future[PlannedScan]:
        """The plan with an id; PlanNotFound if its owner has none, or it was forgotten."""
        self._forget()
        kept = self._kept.get(id_)
        if kept is None or kept.owner != owner:
            raise PlanNotFound("no such plan, or no longer; only the server that made a plan has it")
        return kept.making

    def drop(self, owner: Owner, id_: str) -> None:
        """Forget a plan, and stop making it; PlanNotFound as for `find`."""
        self.find(owner, id_).cancel()
        del self._kept[id_]

    def part(self, owner: Owner, plan_task: str) -> tuple[PlannedScan, int]:
        """The plan and the number of its part that a plan task means; PlanTaskNotFound."""
        id_, _, number = plan_task.rpartition(".")
        with contextlib.suppress(PlanNotFound):
            making = self.find(owner, id_)
            if making.done() and not making.exception() and _NUMBER.fullmatch(number):
                planned = making.result()
                if int(number) < planned.parts:
                    return planned, int(number)
        raise PlanTaskNotFound("no such plan task, or no longer; only the server that made a plan has it")

    def _forget(self) -> None:
        now = self._clock()
        while self._kept:
            oldest = next(iter(self._kept.values()))
            if oldest.until >= now and len(self._kept) < _MOST:
                break
            self._kept.popitem(last=False)[1].making.cancel()
        made = {id_: planned for id_, kept in self._kept.items() if (planned := kept.made) is not None}
        made = {id_: made[id_] for id_ in (*filter(made.__contains__, self._made), *made)}
        for id_ in list(made)[:-1]:  # the one made last stays, however large: its client has had nothing of it yet
            if _has_room(made.values()):
                break
            del self._kept[id_], made[id_]
        self._made = list(made)


def _has_room(made: Iterable[PlannedScan]) -> bool:
    """Whether plans, the newest last, do not take too much memory."""
    # Plans of one snapshot share its files; the lookup may have forgotten those of older snapshots.
    *others, newest = ({id(planned.plan.all_files): len(planned.plan.all_files)} for planned in made)
    files = sum({key: count for each in others for key, count in each.items() if key not in newest}.values())
    return sum(planned.size for planned in made) <= _MOST_BYTES and files <= _MOST_FILES


def plan_tasks(id_: str, planned: PlannedScan) -> list[str]:
    """The names of a plan's parts."""
    return [f"{id_}.{number}" for number in range(planned.parts)]
