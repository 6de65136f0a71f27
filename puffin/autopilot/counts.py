"""The autopilot's metrics in the Prometheus text format, and whether it is alive."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from puffin.autopilot.decide import BROKEN, FRESH, NEVER, STATES, Verdict
from puffin.autopilot.events import Event

_HELP = {
    "tables": "Tables that the policy covers, by state.",
    "lag_seconds_max": "Age of the oldest statistics of tables that are due, waiting or held.",
    "bytes_to_read": "Bytes that the runs of all due tables would read.",
    "budget_left_bytes": "Bytes of today's budget that are left.",
    "look_seconds": "Seconds that the last look at all tables took.",
    "looked_timestamp_seconds": "When all tables were looked at last.",
    "run_seconds_max": "Seconds that the longest of the runs under way has taken so far.",
    "runs_total": "Runs of tables, by what was done and how it ended.",
    "bytes_read_total": "Bytes that runs have read.",
    "rows_read_total": "Rows that runs have read.",
}


class Counts:
    """What happened since the start, and what the last look has seen. Methods may be called in any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._runs: Counter[tuple[str, str]] = Counter()
        self._read: Counter[str] = Counter()
        self._gauges: dict[str, float] = {}
        self._states: Counter[str] = Counter()
        self._started = time.monotonic()
        self._looked: float | None = None

    def add(self, event: Event) -> None:
        """Count a run."""
        with self._guard:
            self._runs[event.action, event.outcome] += 1
            self._read["bytes_read_total"] += event.work.bytes_read
            self._read["rows_read_total"] += event.work.rows_read

    def look(self, verdicts: Sequence[Verdict], now: float, seconds: float) -> None:
        """Keep what a look has seen, which ended ``now`` and took so long."""
        behind = (each.seen.status for each in verdicts if each.state not in (FRESH, NEVER, BROKEN))
        each_made = (each.since_oldest.statistics_timestamp_ms for each in behind)
        made = [each for each in each_made if each is not None]
        with self._guard:
            self._states = Counter(each.state for each in verdicts)
            self._gauges |= {
                "lag_seconds_max": max(0.0, now - min(made) / 1000) if made else 0.0,
                "bytes_to_read": sum(each.bytes for each in verdicts),
                "look_seconds": seconds,
                "looked_timestamp_seconds": now,
            }
            self._looked = time.monotonic()

    def budget(self, left: int) -> None:
        """Keep what is left of today's budget."""
        with self._guard:
            self._gauges["budget_left_bytes"] = left

    def under_way(self, seconds: Iterable[float]) -> None:
        """Keep how long the runs under way have taken so far."""
        with self._guard:
            self._gauges["run_seconds_max"] = max(seconds, default=0.0)

    def silent_seconds(self) -> float:
        """Seconds since the last look at all tables ended, or since the start."""
        with self._guard:
            return time.monotonic() - (self._started if self._looked is None else self._looked)

    def render(self) -> str:
        with self._guard:
            return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield from _head("tables", "gauge")
        yield from (f'puffin_autopilot_tables{{state="{state}"}} {self._states[state]}' for state in STATES)
        for name, value in self._gauges.items():
            yield from _head(name, "gauge")
            yield f"puffin_autopilot_{name} {value:.17g}"
        yield from _head("runs_total", "counter")
        for (action, outcome), count in sorted(self._runs.items()):
            yield f'puffin_autopilot_runs_total{{action="{action}",outcome="{outcome}"}} {count}'
        for name in ("bytes_read_total", "rows_read_total"):
            yield from _head(name, "counter")
            yield f"puffin_autopilot_{name} {self._read[name]}"


def _head(name: str, kind: str) -> Iterator[str]:
    yield f"# HELP puffin_autopilot_{name} {_HELP[name]}"
    yield f"# TYPE puffin_autopilot_{name} {kind}"
