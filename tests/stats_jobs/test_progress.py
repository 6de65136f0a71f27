"""The progress of a job on Spark is told in a thread of its own."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from puffin.errors import StorageError
from stats_jobs import jvm


class IdleContext:
    """A Spark context without jobs."""

    def statusTracker(self) -> IdleContext:  # noqa: N802 - PySpark's name
        return self

    def getJobIdsForGroup(self, _: str) -> list[int]:  # noqa: N802 - as above
        return []


def test_progress_that_ends_the_run_is_raised_by_the_job_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the autopilot is stopped; a traceback of the thread on stderr would look like a fault."""
    unhandled: list[Any] = []
    told = threading.Event()
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    monkeypatch.setattr(jvm, "_WATCHED_EVERY", 0.001)

    def progress(_done: int, _total: int) -> None:
        told.set()
        raise StorageError("the autopilot was stopped")

    context: Any = IdleContext()
    with pytest.raises(StorageError, match="was stopped"), jvm._watched(context, "group", 3, progress, None):
        assert told.wait(60)
    assert unhandled == []
