"""
What the autopilot remembers: the bytes that it has spent today, what failed, and when tables were run and cleaned.

Instances that share a directory share its file, a local JSON document that is replaced in one step under a lock. Its
loss costs accuracy alone: the budget of the day begins again, failed tables and indexes are run sooner, and some
tables are cleaned later.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import itertools
import json
import math
import operator
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from puffin.autopilot.decide import Failure
from puffin.autopilot.outages import Outages
from puffin.errors import StorageError
from puffin.policy.model import DAY, Retry

_FILE, _LOCK = "autopilot.json", "autopilot.lock"
_LONGEST_ERROR = 500
_PERIODS_KEPT = 10
_DAYS_APART = 2  # between the dates of two time zones

_T = TypeVar("_T")


@dataclasses.dataclass(slots=True)
class _Kept:
    """
    What is kept: the bytes spent on a day; by the key of a table, when it was cleaned, how its last run failed, or when
    it ended well and until when that matters.
    """

    day: str | None = None
    spent: int = 0
    cleaned: dict[str, float] = dataclasses.field(default_factory=dict)
    failures: dict[str, Failure] = dataclasses.field(default_factory=dict)
    ended: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of_json(cls, document: Any) -> _Kept:
        """Raises what a wrong document causes."""
        failures = {key: Failure(of["count"], of["error"], of["until"]) for key, of in document["failures"].items()}
        for failure in failures.values():
            if operator.index(failure.count) < 1:
                raise ValueError(f"count: expected at least 1, found {failure.count}")
        cleaned = dict(document["cleaned"].items())
        ended = {key: (at, until) for key, (at, until) in document.get("ended", {}).items()}
        times = (
            *cleaned.values(),
            *itertools.chain(*ended.values()),
            *(failure.until for failure in failures.values()),
        )
        for number in (document["spent"], *times):
            if not math.isfinite(number):  # JSON has no such numbers, but Python reads them
                raise ValueError(f"expected a number, found {number}")
        if document["day"] is not None:
            datetime.date.fromisoformat(document["day"])
        "".join(failure.error for failure in failures.values())  # all have to be texts
        return cls(document["day"], document["spent"], cleaned, failures, ended)

    def to_json(self) -> dict[str, Any]:
        failures = {key: {"count": of.count, "error": of.error, "until": of.until} for key, of in self.failures.items()}
        return {**{name: getattr(self, name) for name in ("day", "spent", "cleaned", "ended")}, "failures": failures}

    def copy(self) -> _Kept:
        return _Kept(self.day, self.spent, dict(self.cleaned), dict(self.failures), dict(self.ended))

    def since(self, stored: _Kept, now: _Kept) -> _Kept:
        """What is stored ``now``, and what has come here since it was ``stored``."""
        kept = _Kept(
            now.day,
            now.spent,
            {**now.cleaned, **_changes(stored.cleaned, self.cleaned)},
            {**now.failures, **_changes(stored.failures, self.failures)},
            {**now.ended, **_changes(stored.ended, self.ended)},
        )
        for key in stored.failures.keys() - self.failures.keys():
            kept.failures.pop(key, None)
        has_spent = (self.day, self.spent) != (stored.day, stored.spent)
        if has_spent and self.day is not None and self.day >= (now.day or ""):  # days are ISO dates
            kept.begin(self.day)
            kept.spent = max(0, kept.spent + self.spent - (stored.spent if stored.day == self.day else 0))
        return kept

    def counts(self, day: str) -> bool:
        """Whether what is spent counts on a day, an ISO date: the same, or that of another time zone that is behind."""
        latest = datetime.date.fromisoformat(day) + datetime.timedelta(days=_DAYS_APART)
        return self.day is not None and day <= self.day <= latest.isoformat()

    def begin(self, day: str) -> None:
        """Nothing is spent yet on a day that is new; one much earlier is new too, since a clock was wrong."""
        if not self.counts(day):
            self.day, self.spent = day, 0


class Ledger:
    """
    The memory of one instance, in the file of a directory if there is one. Methods may be called in any thread.

    If it never ``writes``, it tells what others have stored, and creates nothing.
    """

    def __init__(self, directory: str | None, *, writes: bool = True) -> None:
        self._file = None if directory is None else Path(directory, _FILE)
        self._guard = threading.Lock()
        self._outages = Outages()
        self._kept = _Kept()
        self._stored = _Kept()  # as it was read or written last
        self._content: bytes | None = None  # the same as bytes
        if self._file is not None:
            try:
                if writes:
                    self._file.parent.mkdir(parents=True, exist_ok=True)
                    self._file.with_name(_LOCK).open("ab").close()
                else:
                    with contextlib.suppress(PermissionError):  # what is not known is logged
                        _content(self._file)
            except OSError as exc:
                raise StorageError(f"{directory}: expected a directory for the autopilot's state: {exc}") from exc

    def reserve(self, size: int, day: str, limit: int | None) -> str | None:
        """
        Spend the bytes that a run will read on a day, an ISO date, unless its budget is spent.

        Returns the day on which they count, which other time zones with the same state may have reached before; None if
        the run may not start.
        """
        with self._changing() as kept:
            kept.begin(day)
            if limit is not None and kept.spent >= limit:
                return None
            kept.spent += size
            return kept.day

    def settle(self, reserved: int, actual: int, day: str) -> None:
        """A run for which bytes were reserved, counted on ``day``, has ended, and has read ``actual`` bytes."""
        with self._changing() as kept:
            if kept.day == day:
                kept.spent = max(0, kept.spent + actual - reserved)

    def failed(self, key: str, error: str, retry: Retry, now: float) -> None:
        """
        A run has failed, ``now`` in seconds since the epoch.

        Failures that were not tried again for long after their wait are forgotten: their tables are gone.
        """
        oldest = now - max(retry.most, DAY)
        with self._changing() as kept:
            kept.failures = {name: each for name, each in kept.failures.items() if each.until > oldest}
            count = kept.failures[key].count + 1 if key in kept.failures else 1
            kept.failures[key] = Failure(count, error[:_LONGEST_ERROR], now + retry.wait(count))

    def succeeded(self, key: str, now: float, wait: float) -> None:
        """A run has ended well, ``now`` in seconds since the epoch, and the next has to wait for so many seconds."""
        if wait > 0 or key in self.failures():
            with self._changing() as kept:
                kept.failures.pop(key, None)
                kept.ended = {name: (at, until) for name, (at, until) in kept.ended.items() if until > now}
                kept.ended[key] = now, now + wait

    def ended(self) -> Mapping[str, float]:
        """When runs have ended well, as far as others have to wait for that."""
        with self._changing(write=False) as kept:
            return {key: at for key, (at, _) in kept.ended.items()}

    def failures(self, latest: float = math.inf) -> Mapping[str, Failure]:
        """
        The tables whose last run failed.

        No wait ends after ``latest``: one that does was noted by a clock that has been set back, or under a policy that
        waited longer, and is over.
        """
        with self._changing(write=False) as kept:
            return {
                key: each if each.until <= latest else dataclasses.replace(each, until=0)
                for key, each in kept.failures.items()
            }

    def spent(self, day: str) -> int:
        """The bytes of this day."""
        with self._changing(write=False) as kept:
            return int(kept.spent) if kept.counts(day) else 0

    def unclean(self, turns: Mapping[str, float], every: float, since: float) -> set[str]:
        """
        The tables that were not cleaned since their turns; one that is new counts as cleaned at ``since``.

        One after the next turn, ``every`` seconds later, was noted by a clock that has been set back. When a table
        comes, those that are gone and were not cleaned for ten periods are forgotten.
        """
        with self._changing(write=False) as kept:
            cleaned = dict(kept.cleaned)
        if turns.keys() - cleaned.keys():
            oldest = since - _PERIODS_KEPT * every
            with self._changing() as kept:
                known = {key: at for key, at in kept.cleaned.items() if key in turns or at > oldest}
                cleaned = kept.cleaned = {**dict.fromkeys(turns, since), **known}
        return {key for key, turn in turns.items() if not turn <= cleaned[key] < turn + every}

    def cleaned(self, key: str, now: float) -> None:
        with self._changing() as kept:
            kept.cleaned[key] = now

    @contextlib.contextmanager
    def _changing(self, *, write: bool = True) -> Iterator[_Kept]:
        """
        What is kept, read and written under a lock; in memory alone if there is no file, or it cannot be used.

        Reading takes no lock, since the file is replaced as a whole, and the reader may lack the right to write.
        """
        with self._guard, contextlib.ExitStack() as cleanup:
            if self._file is None:
                yield self._kept
                return
            try:
                if write:
                    lock = cleanup.enter_context(self._file.with_name(_LOCK).open("ab"))
                    fcntl.flock(lock, fcntl.LOCK_EX)
                self._take(_content(self._file))
            except OSError as exc:
                self._outages.failed(str(self._file), "the state is not known", exc)
                write = False  # it would undo what others have stored
            yield self._kept
            if write:
                try:
                    content = json.dumps(self._kept.to_json()).encode()
                    new = self._file.with_suffix(".new")
                    new.write_bytes(content)
                    os.replace(new, self._file)  # noqa: PTH105 - the same, one call
                    self._content, self._stored = content, self._kept.copy()
                    self._outages.worked(str(self._file))
                except OSError as exc:
                    self._outages.failed(str(self._file), "the state is not kept", exc)

    def _take(self, content: bytes | None) -> None:
        """Add what others have stored; nothing if the file is as it was, or if there is none, or it is not ours."""
        if content == self._content:
            return
        now = _Kept()
        try:
            if content is not None:
                now = _Kept.of_json(json.loads(content))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
            self._outages.failed(str(self._file), "the state is begun again", repr(exc))
        self._kept, self._stored, self._content = self._kept.since(self._stored, now), now, content


def _content(file: Path) -> bytes | None:
    """The bytes of a file; None if there is none."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _changes(old: Mapping[str, _T], new: Mapping[str, _T]) -> dict[str, _T]:
    return {key: value for key, value in new.items() if old.get(key) != value}
