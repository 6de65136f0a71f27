"""Callers of every kind, at an even rate: what they ask, and what they note of each answer."""

from __future__ import annotations

import collections
import dataclasses
import http.client
import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from benchmarks.soak.tables import COLUMN

_CALLERS = 8
_BATCH = 10
_LEAST = 25  # questions of each caller, however busy the machine is
_TIMEOUT = 30  # seconds
_MOST_PROBLEMS = 20


@dataclasses.dataclass(slots=True)
class Answers:
    """
    What callers were told.

    Attributes:
        counts: How many answers there were by kind of question and status.
        told: Table, ndv, when it was asked for and when the answer was there, by the monotonic clock.
        took: The seconds that each answer took.
        problems: Some answers that were none.
    """

    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    told: list[tuple[str, int | None, float, float]] = dataclasses.field(default_factory=list)
    took: list[float] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)

    def add(self, other: Answers) -> None:
        """Those of another caller too."""
        self.counts += other.counts
        self.told += other.told
        self.took += other.took
        self.problems = (self.problems + other.problems)[:_MOST_PROBLEMS]


def ask(port: int, tables: list[str], rate: float, seconds: float) -> Answers:
    """
    Ask about these tables, from several connections that are kept.

    Args:
        rate: Questions a second, as far as the machine can do so many.
        seconds: How long, or longer, until there are some of every kind.
    """
    callers = [_Caller(port, tables, seed) for seed in range(_CALLERS)]
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=caller.ask_until, args=(until, _CALLERS / rate)) for caller in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers = Answers()
    for caller in callers:
        answers.add(caller.answers)
    return answers


class _Caller:
    """One connection, and what was asked over it."""

    def __init__(self, port: int, tables: list[str], seed: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
        self._tables = tables
        self._random = random.Random(seed)
        self._etags: dict[str, tuple[str, int | None]] = {}
        self.answers = Answers()

    def ask_until(self, until: float, interval: float) -> None:
        kinds: dict[Callable[[], None], int] = {
            self._stats: 600,
            self._batch: 200,
            self._join: 100,
            self._history: 50,
            self._dump: 40,
            self._metrics: 9,
            self._list: 1,  # which looks into every directory below the root
        }
        asks = self._random.choices(list(kinds), list(kinds.values()), k=10_000)
        due = time.monotonic() + self._random.random() * interval
        asked = 0
        while due < until or asked < _LEAST:
            asked += 1
            time.sleep(max(0, due - time.monotonic()))
            asks[self._random.randrange(len(asks))]()
            due = max(due + interval, time.monotonic() - interval)

    def _stats(self) -> None:
        table = self._table()
        etag, known = self._etags.get(table, ("", None)) if self._random.random() < 0.5 else ("", None)
        began = time.monotonic()
        status, headers, body = self._exchange(
            "stats", "GET", f"/v1/stats?{urlencode({'table': table})}", {"If-None-Match": etag} if etag else {}
        )
        if status == 200:
            known = _ndv(json.loads(body))
            self._etags[table] = headers["ETag"], known
        if status in (200, 304):
            self._note(table, known, began)

    def _batch(self) -> None:
        tables = [self._table() for _ in range(_BATCH)]
        began = time.monotonic()
        for table, result in zip(
            tables,
            self._post("batch", "/v1/stats", {"requests": [{"table": t} for t in tables]}).get("results", ()),
            strict=False,
        ):
            if "columns" in result:
                self._note(table, _ndv(result), began)
            else:
                self.answers.counts[f"batch: {result['status']} in it"] += 1
                self._complain(str(result))

    def _join(self) -> None:
        sides = {side: {"table": self._table(), "column": COLUMN} for side in ("left", "right")}
        began = time.monotonic()
        estimate = self._post("join", "/v1/estimate/join", sides)
        for side in sides:
            if side in estimate:
                self._note(estimate[side]["table"], estimate[side]["ndv"], began)

    def _history(self) -> None:
        table = self._table()
        began = time.monotonic()
        asked = f"/v1/history?{urlencode({'table': table, 'column': COLUMN})}"
        status, _, body = self._exchange("history", "GET", asked, {})
        if status == 200:
            self._note(table, json.loads(body)["points"][-1]["ndv"], began)

    def _dump(self) -> None:
        self._exchange("dump", "GET", f"/v1/dump?{urlencode({'table': self._table()})}", {})

    def _metrics(self) -> None:
        self._exchange("metrics", "GET", "/metrics", {})

    def _list(self) -> None:
        self._exchange("list", "GET", f"/v1/tables?{urlencode({'after': self._table(), 'limit': 20})}", {})

    def _post(self, kind: str, path: str, document: Any) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        status, _, body = self._exchange(kind, "POST", path, headers, json.dumps(document))
        found: dict[str, Any] = json.loads(body) if status == 200 else {}
        return found

    def _exchange(
        self, kind: str, method: str, path: str, headers: dict[str, str], body: str | None = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        began = time.monotonic()
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as exc:
            self._connection.close()
            self.answers.counts[f"{kind}: {type(exc).__name__}"] += 1
            self._complain(f"{kind}: {exc!r}")
            return 0, http.client.HTTPMessage(), b""
        self.answers.took.append(time.monotonic() - began)
        self.answers.counts[f"{kind}: {response.status}"] += 1
        if response.status >= 400:
            self._complain(content.decode())
        return response.status, response.headers, content

    def _note(self, table: str, ndv: int | None, began: float) -> None:
        self.answers.told.append((table, ndv, began, time.monotonic()))

    def _complain(self, text: str) -> None:
        if len(self.answers.problems) < _MOST_PROBLEMS:
            self.answers.problems.append(text)

    def _table(self) -> str:
        return self._random.choice(self._tables)


def _ndv(document: dict[str, Any]) -> int | None:
    found: int | None = document["columns"][0]["ndv"]
    return found
