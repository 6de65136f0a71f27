"""
Whether tests read in processes.

They do not, since that would depend on what was read before: only those with the fixture ``processes``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stats_jobs import readers, reading_processes
from stats_jobs.reading_processes import ReadingProcess, ReadingProcesses

SECONDS = 60


def wait_until(is_so: Callable[[], Any]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.01)


class Watched(ReadingProcesses):
    """Processes that remember what they read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[ReadingProcess] = []

    @property
    def pid(self) -> int:
        (process,) = self._all
        return process._process.pid

    def note(self, seconds: float, *, is_more_left: bool = True) -> None:
        with self.read_here(is_more_left=is_more_left):
            self._seconds += seconds

    def start(self) -> None:
        self.note(0)
        wait_until(lambda: self._idle)

    @property
    def is_starting(self) -> bool:
        return self._starting > 0

    @property
    def idle(self) -> int:
        return len(self._idle)


@pytest.fixture(scope="module")
def started() -> Iterator[Watched]:
    """Shared by tests, since starting a process takes a second."""
    watched = Watched()
    yield watched
    watched.close()


@pytest.fixture
def processes(started: Watched, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """One process, which all threads of readers may take, also the first one."""
    monkeypatch.setattr(reading_processes, "_WORTH_SECONDS", 0)
    monkeypatch.setattr(reading_processes, "_most", lambda: 1)
    started.read.clear()
    started._is_failed = False
    original = ReadingProcess.read

    def noted(process: ReadingProcess, piece: Any) -> Any:
        found = original(process, piece)
        started.read.append(process)
        return found

    monkeypatch.setattr(ReadingProcess, "read", noted)
    monkeypatch.setattr(readers, "PROCESSES", started)
    started._here = 1  # as if another thread read in this process
    monkeypatch.setattr(reading_processes, "_PATIENCE_SECONDS", 0)
    settings = reading_processes._settings
    monkeypatch.setattr(reading_processes, "_settings", lambda: without_test(*settings()))
    started.start()
    return started


def without_test(environment: dict[str, str], directory: str) -> tuple[dict[str, str], str]:
    """Settings without what pytest changes in a test."""
    return {key: value for key, value in environment.items() if key != "PYTEST_CURRENT_TEST"}, directory


@pytest.fixture(scope="session", autouse=True)
def without_reading_processes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading_processes, "_WORTH_SECONDS", math.inf)
        yield
