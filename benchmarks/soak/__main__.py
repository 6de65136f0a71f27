"""
``make soak``: ``puffin serve`` under load for as long as one likes, while the tables that it serves change.

A thousand small tables are made, and a server is started with a short time to live. One process asks it about them,
another commits snapshots and statistics to them and expires old ones. In the end every answer is held against what was
committed when: it has to be one that was true when it was asked for, or within the time to live before.

The exit code is 1 if an answer was an error or was not true, or if the server's memory grew. One JSON document goes to
standard output.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.processes import resident_mib, warm_processes
from benchmarks.soak.changes import Commits, change, was_true
from benchmarks.soak.load import Answers, ask
from benchmarks.soak.tables import make_tables
from tools.serving import Server

_MOST_GROWTH = 0.10  # from the median of the middle third to that of the last
_LONGEST_STOP = 10  # seconds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    What came of it.

    Attributes:
        counts: Answers by kind and status.
        untrue: Answers that were not true within the time to live before they were asked for.
        growth: Of the server's memory, as a share of what it was.
        stopped: The server's exit code; of one that did not stop in time, and was killed, the signal's.
        stop_seconds: From the signal to its end.
        logged: What it wrote to standard error.
    """

    seconds: float
    tables: int
    answers: int
    counts: dict[str, int]
    problems: list[str]
    changes: int
    checked: int
    untrue: list[str]
    median_ms: float
    p99_ms: float
    resident_mib: list[float]
    growth: float
    stopped: int
    stop_seconds: float
    logged: str

    @property
    def is_right(self) -> bool:
        """Whether there was no error, no answer that was not true, and memory was flat."""
        succeeded = all(kind.endswith((": 200", ": 304")) for kind in self.counts)
        return succeeded and not self.untrue and self.growth <= _MOST_GROWTH and self.stopped == 0 and not self.logged


def main() -> int:
    """Run it as the command line says; returns the exit code."""
    args = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="puffin-soak-", dir=args.directory) as root:
        _say(f"making {args.tables} tables")
        outcome = _soak(Path(root), args)
    print(json.dumps(dataclasses.asdict(outcome), indent=2))
    _say("right" if outcome.is_right else "WRONG")
    return 0 if outcome.is_right else 1


def _soak(root: Path, args: argparse.Namespace) -> Outcome:
    tables = make_tables(root, args.tables)
    names = [str(table.directory) for table in tables]
    with Server("--allow-root", root, "--ttl", args.ttl) as server, warm_processes(2) as pool:
        _say(f"asking port {server.port} for {args.seconds:g} s")
        asked = pool.submit(ask, server.port, names, args.rate, args.seconds)
        changed = pool.submit(change, tables, args.changes, args.seconds)
        resident = []
        until = time.monotonic() + args.seconds
        while time.monotonic() < until:
            time.sleep(min(1, args.seconds / 30))
            resident.append(resident_mib(server.process.pid))
        answers, commits = asked.result(), changed.result()
        ended = _stopped(server)
    return _outcome(args, answers, commits, resident, ended)


@dataclasses.dataclass(frozen=True, slots=True)
class _End:
    code: int
    seconds: float
    logged: str


def _stopped(server: Server) -> _End:
    """How the server ends when it is told to; what the load found out is not lost where it does not."""
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    try:
        server.process.wait(_LONGEST_STOP)
    except subprocess.TimeoutExpired:
        server.process.kill()
    return _End(server.process.wait(), time.monotonic() - began, server.logged())


def _outcome(
    args: argparse.Namespace, answers: Answers, commits: Commits, resident: list[float], ended: _End
) -> Outcome:
    untrue = [
        f"{table}: {ndv} after {len(commits[table])} changes"
        for table, ndv, began, ended in answers.told
        if not was_true(commits[table], ndv, began - args.ttl, ended)
    ]
    third = len(resident) // 3
    middle, last = (statistics.median(part) for part in (resident[third : 2 * third], resident[2 * third :]))
    return Outcome(
        seconds=args.seconds,
        tables=args.tables,
        answers=len(answers.took),
        counts=dict(sorted(answers.counts.items())),
        problems=answers.problems,
        changes=sum(map(len, commits.values())),
        checked=len(answers.told),
        untrue=untrue,
        median_ms=round(1e3 * statistics.median(answers.took), 2),
        p99_ms=round(1e3 * statistics.quantiles(answers.took, n=100)[98], 2),
        resident_mib=[round(statistics.median(resident[i * third : (i + 1) * third]), 1) for i in range(3)],
        growth=round(last / middle - 1, 4),
        stopped=ended.code,
        stop_seconds=round(ended.seconds, 2),
        logged=ended.logged,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="of load (default: %(default)s)")
    parser.add_argument("--tables", type=int, default=1000, help="that are served (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=100, help="requests a second (default: %(default)s)")
    parser.add_argument("--changes", type=float, default=8, help="of tables, a second (default: %(default)s)")
    parser.add_argument("--ttl", type=float, default=1, help="of the server, in seconds (default: %(default)s)")
    parser.add_argument("--directory", help="for the tables; one of the operating system's by default")
    return parser


def _say(text: str) -> None:
    print(f"soak: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
