"""
``make soak-autopilot``: autopilots keep tables fresh while writers change them, and are killed again and again.

The tables are those of `benchmarks.autopilot_lake`: Delta tables below a root, and Iceberg tables in catalogs of the
kinds that ``--kinds`` names. An hour is pressed into a second, or into so many as ``--hour`` says: in each, writers
change one table in twenty. Meanwhile the autopilots are killed at random moments and started again, the SQL catalog
does not answer for a while, and a table that cannot be read is among the others.

The exit code is 1 if, in the end, a table is not fresh, if a statistics file that metadata names is missing or invalid,
if an autopilot does not end at SIGTERM, or if a table was due for too long. One JSON document goes to standard output.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import logging
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.autopilot_lake import DELTA, KINDS, POISONED, Lake, running_lake
from puffin.autopilot.decide import BROKEN, DUE, FRESH, HELD, decide
from puffin.autopilot.look import Watcher
from puffin.errors import PuffinError
from puffin.inspection import verify
from puffin.policy.document import read_policy
from puffin.tables.base import StatisticsEntry
from puffin.tables.snapshot import TableSnapshot

_LONGEST_STOP = 10.0  # seconds
_LONGEST_START = 5.0  # until it listens to signals, on a machine that is busy
_SHARE = 20  # one table in so many is changed each hour
_WEEK = 168  # hours
_POLICY = """\
rules: [{{due: {{rows-changed: 0.2%, at-most-every: 0s}}}}]
look-every: {look_every}s
retry: {{first: 2s, most: 1h}}
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    What came of it.

    Attributes:
        hours: For which writers wrote.
        bytes_read: By all runs after the first of each table; ``bytes_of_full_runs`` is what reading all tables once a
            week takes, for these hours, and ``share`` the former of the latter.
        bytes_wasted: Read by runs of a snapshot of which another run had committed statistics.
        was_due: How often a table was seen to be due, and then fresh; ``median_due_hours`` and ``longest_due_hours``
            are what lay between.
        problems: What must not be.
    """

    seconds: float
    tables: dict[str, int]
    hours: float
    writes: int
    kills: int
    runs: dict[str, int]
    bytes_first: int
    bytes_read: int
    bytes_of_full_runs: int
    share: float
    bytes_wasted: int
    was_due: int
    median_due_hours: float
    longest_due_hours: float
    stop_seconds: float
    problems: list[str]


class Fleet:
    """Autopilots as processes, each with events of its own."""

    def __init__(self, root: Path, policy_text: str, count: int, *, shared: bool) -> None:
        self._policies = []
        for number in range(count):
            policy = root / f"policy-{number}.yaml"
            state = "state" if shared else f"state-{number}"
            text = f"state: {state}\nevents: {{file: events-{number}.jsonl}}\n"
            policy.write_text(policy_text + text)
            self._policies.append(policy)
        self._root = root
        self._processes = [self._start(policy) for policy in self._policies]
        self._started = time.monotonic()
        self.kills = 0

    def kill_one(self) -> None:
        number = random.randrange(len(self._processes))
        self._processes[number].kill()
        self._processes[number].communicate()
        self._processes[number] = self._start(self._policies[number])
        self._started = time.monotonic()
        self.kills += 1

    def stop(self) -> tuple[float, list[str]]:
        """End all by SIGTERM: the seconds that took, and what was wrong."""
        time.sleep(max(0.0, self._started + _LONGEST_START - time.monotonic()))
        began, problems = time.monotonic(), []
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                _, said = process.communicate(timeout=2 * _LONGEST_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                said = "it did not end"
            if process.returncode != 0 or said:
                problems.append(f"an autopilot ended with {process.returncode}: {said}")
        return time.monotonic() - began, problems

    def kill(self) -> None:
        for process in self._processes:
            process.kill()

    def events(self) -> list[dict[str, Any]]:
        found = []
        for file in sorted(self._root.glob("events-*.jsonl")):
            found += [json.loads(line) for line in file.read_text().splitlines()]
        return sorted(found, key=lambda each: each["time"])

    def _start(self, policy: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "puffin", "autopilot", "--policy", str(policy)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


class Watch(threading.Thread):
    """Looks at all tables over and over, and notes for how long each was due."""

    def __init__(self, policy: Path) -> None:
        super().__init__(name="watch", daemon=True)
        self.watcher = Watcher(read_policy(str(policy)))
        self.stopped = threading.Event()
        self.was_due: list[float] = []
        self._since: dict[str, float] = {}

    def run(self) -> None:
        for _ in self.looks():
            if self.stopped.is_set():
                return

    def looks(self) -> Iterator[dict[str, str]]:
        """The states of all tables, again and again; most of the machine is for the others."""
        while True:
            began = time.monotonic()
            yield self.states()
            time.sleep(max(0.2, 2 * (time.monotonic() - began)))

    def states(self) -> dict[str, str]:
        """The state of each table now."""
        now = time.monotonic()
        states = {each.seen.key: each.state for each in decide(self.watcher.look(), time.time())}
        for key, state in states.items():
            if state == DUE and POISONED not in key:
                self._since.setdefault(key, now)
            elif state == FRESH and key in self._since:
                self.was_due.append(now - self._since.pop(key))
        return states


def soak(root: Path, args: argparse.Namespace) -> Outcome:
    """Run it below a directory."""
    kinds = tuple(args.kinds.split(","))
    if not set(kinds) <= set(KINDS) or DELTA not in kinds:
        raise SystemExit(f"--kinds: expected {DELTA} and others of {', '.join(KINDS)}, found {args.kinds}")
    began = time.monotonic()
    with running_lake(root, kinds) as lake:
        lake.fill(args.tables, args.rows)
        policy = root / "policy.yaml"
        policy.write_text(lake.policy(_POLICY.format(look_every=max(1, round(args.hour)))))
        fleet = Fleet(root, policy.read_text(), args.instances, shared=args.shared)
        try:
            outcome = _observe(lake, fleet, Watch(policy), args)
        finally:
            fleet.kill()
    return dataclasses.replace(outcome, seconds=round(time.monotonic() - began, 1))


def _observe(lake: Lake, fleet: Fleet, watch: Watch, args: argparse.Namespace) -> Outcome:
    problems: list[str] = []
    if not _settled(watch, args.patience):
        problems.append(f"not all tables became fresh: {_not_fresh(watch)}")
    first, watch.was_due = len(fleet.events()), []
    watch.start()
    writes = _write(lake, fleet, args)
    watch.stopped.set()
    watch.join()
    if not _settled(watch, args.patience):
        problems.append(f"not all tables became fresh again: {_not_fresh(watch)}")
    stop_seconds, wrong = fleet.stop()
    size, dangling = _checked(watch)
    problems += [*wrong, *dangling]
    events = fleet.events()
    later = [event for event in events[first:] if not event["table"].endswith(POISONED)]
    due = sorted(watch.was_due) or [0.0]
    if args.kills == 0 and not args.outage and due[-1] > args.patience:
        problems.append(f"a table was due for {due[-1]:.1f} seconds")
    hours = args.seconds / args.hour
    read, full = sum(event["bytes-read"] for event in later), size * hours / _WEEK
    return Outcome(
        seconds=0,
        tables=dict(Counter(name.partition(".")[0] for name in lake.names)),
        hours=round(hours, 1),
        writes=writes,
        kills=fleet.kills,
        runs=dict(Counter(event["outcome"] for event in events)),
        bytes_first=sum(event["bytes-read"] for event in events[:first]),
        bytes_read=read,
        bytes_of_full_runs=int(full),
        share=round(read / max(1, full), 4),
        bytes_wasted=_wasted(events),
        was_due=len(watch.was_due),
        median_due_hours=round(due[len(due) // 2] / args.hour, 2),
        longest_due_hours=round(due[-1] / args.hour, 2),
        stop_seconds=round(stop_seconds, 2),
        problems=problems,
    )


def _write(lake: Lake, fleet: Fleet, args: argparse.Namespace) -> int:
    """Write for some seconds, kill autopilots meanwhile, and block the SQL catalog for a while; returns the writes."""
    writes, began = 0, time.monotonic()
    kills = sorted(random.uniform(0, args.seconds) for _ in range(args.kills))
    outage = (args.seconds / 3, args.seconds / 2) if args.outage else (0.0, 0.0)
    with contextlib.ExitStack() as stopped:
        is_out = False
        while (at := time.monotonic() - began) < args.seconds:
            if is_out != (outage[0] <= at < outage[1]):
                is_out = not is_out
                stopped.enter_context(lake.sql_outage()) if is_out else stopped.close()
            while kills and kills[0] <= at:
                kills.pop(0)
                fleet.kill_one()
            name = random.choice(lake.names)
            if not (is_out and name.startswith("sql.")):
                lake.change(name, deletes=random.random() < args.deletes)
                writes += 1
            following = began + writes * args.hour * _SHARE / len(lake.names)
            time.sleep(max(0.0, following - time.monotonic()))
    for _ in kills:  # that fell due during the last write
        fleet.kill_one()
    return writes


def _settled(watch: Watch, patience: float) -> bool:
    """Wait until every table is fresh, but for the poisoned one."""
    until = time.monotonic() + patience
    for states in watch.looks():
        if all(state == FRESH for key, state in states.items() if POISONED not in key):
            return {state for key, state in states.items() if POISONED in key} <= {DUE, HELD, BROKEN}
        if time.monotonic() > until:
            break
    return False


def _not_fresh(watch: Watch) -> dict[str, str]:
    return {key: state for key, state in watch.states().items() if state != FRESH}


def _checked(watch: Watch) -> tuple[int, list[str]]:
    """The bytes of all data files, and the statistics files that metadata names and that are missing or wrong."""
    size, problems = 0, []
    for table in watch.watcher.tables():
        opened = table.load().open()
        if POISONED not in table.key:
            size += sum({task.data_file.file_path: task.data_file.file_size_in_bytes for task in opened.tasks}.values())
        for entry in opened.state.statistics.values():
            problems += [f"{table.key}: {entry.statistics_path}: {error}" for error in _errors(opened, entry)]
    return size, problems


def _errors(opened: TableSnapshot, entry: StatisticsEntry) -> list[str]:
    path = entry.statistics_path
    try:
        data = opened.store_for(path).read(path)
    except PuffinError as exc:
        return [str(exc)]
    if len(data) != entry.file_size_in_bytes:
        return [f"expected {entry.file_size_in_bytes} bytes, found {len(data)}"]
    with tempfile.NamedTemporaryFile(suffix=".puffin") as copy:
        copy.write(data)
        copy.flush()
        return list(verify(copy.name).errors)


def _wasted(events: list[dict[str, Any]]) -> int:
    """Bytes of runs after the first that committed statistics of the same snapshot of the same table."""
    wasted, done = 0, set()
    for event in events:
        key = event["catalog"], event["table"], event["snapshot-id"]
        if event["outcome"] == "done" and event["snapshot-id"] is not None:
            wasted += event["bytes-read"] if key in done else 0
            done.add(key)
    return wasted


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.autopilot_soak", description=__doc__.splitlines()[0])
    made.add_argument("--tables", type=int, default=60, help="1,000 are about an hour's work")
    made.add_argument("--kinds", default=f"{DELTA},sql", help=f"of {','.join(KINDS)}; hive and rest need JAVA_HOME")
    made.add_argument("--rows", type=int, default=100_000, help="of each table")
    made.add_argument("--seconds", type=float, default=168, help="that writers write")
    made.add_argument("--hour", type=float, default=1, help="seconds that stand for an hour")
    made.add_argument("--deletes", type=float, default=0.1, help="the share of writes that delete a few rows")
    made.add_argument("--instances", type=int, default=2)
    made.add_argument("--shared", action="store_true", help="the instances share their state")
    made.add_argument("--kills", type=int, default=5)
    made.add_argument("--outage", action="store_true", help="the catalog does not answer for a sixth of the time")
    made.add_argument("--patience", type=float, default=120, help="seconds to wait for all tables to be fresh")
    made.add_argument("--directory", help="where the tables are")
    return made


def main() -> int:
    """Run it as the command line says; returns the exit code."""
    args = parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # with what it has started
    for noisy in ("werkzeug", "py4j"):  # requests of moto, and the end of a JVM
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="puffin-autopilot-", dir=args.directory) as root:
        outcome = soak(Path(root), args)
    print(json.dumps(dataclasses.asdict(outcome), indent=2))
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
