"""Runs that take very long, such as that of a table whose storage hangs."""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffin.autopilot import pilot as pilot_module
from puffin.autopilot import slow_runs, worker
from puffin.autopilot.slow_runs import SlowRuns


def test_run_that_hangs_is_an_error_in_the_log_and_in_a_metric(
    lake: Path, pilot_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answer, until = threading.Event(), time.monotonic() + 60
    monkeypatch.setattr(worker, "run_table", lambda *_: [answer.wait(60)][1:])
    monkeypatch.setattr(pilot_module, "_TICK", 0.01)
    monkeypatch.setattr(slow_runs, "LONG_SECONDS", 0.05)
    pilot = pilot_of()
    thread = threading.Thread(target=functools.partial(pilot.run, once=True))
    thread.start()
    try:
        while "its run goes on" not in caplog.text and time.monotonic() < until:
            time.sleep(0.01)
        (seconds,) = re.findall(r"^puffin_autopilot_run_seconds_max (.*)", pilot.counts.render(), re.MULTILINE)
    finally:
        answer.set()
        thread.join()
    assert float(seconds) >= 0.05
    said = "its run goes on for an hour; if its storage hangs, restart the autopilot"
    logged = {record.getMessage() for record in caplog.records if record.name == slow_runs.__name__}
    assert logged
    assert logged <= {f"{lake}/{name}: {said}" for name in ("a", "b", "db/c")}


def test_run_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    runs = SlowRuns()
    for under_way in ({"a": 3599.0, "b": 9.0}, {"a": 3604.0}, {"a": 3609.0}, {}, {"a": 3600.0}):
        runs.log(under_way)
    assert [message[:2] for message in caplog.messages] == ["a:", "a:"]
