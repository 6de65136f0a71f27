"""
``make bench``: the statistics job beside what is used today, in one run.

Data is made under ``.bench/`` and found again. Progress goes to standard error, results to standard output: Markdown,
or JSON with ``--json``. The exit code is 1 if an engine's count was wrong; a bar that is missed changes nothing.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import shlex
import sys

from benchmarks import report
from benchmarks.machine import machine, versions
from benchmarks.measures import (
    cores,
    drawn,
    incremental,
    index_job,
    index_plan,
    lookup,
    many,
    memory,
    planning,
    rest_plan,
    serve,
    speed,
    startup,
    state,
    wide,
)
from benchmarks.results import Results
from benchmarks.run import HEAVY, RANDOM_SEEDS, ROOT, Run, Sizes, seeds

_MEASURES = (
    speed,
    cores,
    memory,
    planning,
    startup,
    lookup,
    serve,
    incremental,
    state,
    many,
    wide,
    index_job,
    index_plan,
    rest_plan,
    drawn,
)
_NAMES = [name for part in _MEASURES for name in part.NAMES]
_RECORD = ROOT / "benchmarks" / "RESULTS.md"


def main() -> int:
    """Measure what the command line asks for; returns the exit code."""
    parser = _parser()
    args = parser.parse_args()
    heavy = tuple(kind for kind in HEAVY if getattr(args, kind))
    run = Run(Sizes(args.scale, args.rows), args.rounds, tuple(args.only), heavy, args.seed)
    for pattern in run.only:
        if not fnmatch.filter(_NAMES, pattern):
            parser.error(f"--only {pattern}: expected one of {', '.join(_NAMES)}")
    if args.record and (run.only or not run.sizes.full or run.seeds != RANDOM_SEEDS):
        parser.error("results of record are of whole runs: --record allows no --only, no other sizes, no other seeds")
    results = Results()
    about: report.About = {
        "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
        "command": f"python -m benchmarks {shlex.join(sys.argv[1:])}".strip(),
        "machine": machine(),
        "versions": versions(),
    }
    for part in _MEASURES:
        part.measure(run, results)
    if args.record:
        _RECORD.write_text(report.to_record(run, results, about))
    if args.json:
        print(json.dumps(report.to_json(run, results, about), indent=2))
    else:
        print(report.to_markdown(run, results))
    return 0 if all(check.right for check in results.accuracy) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, epilog="Measures: " + ", ".join(_NAMES)
    )
    parser.add_argument("--scale", type=float, default=1, help="TPC-H's scale factor (default: %(default)s)")
    parser.add_argument(
        "--rows",
        type=int,
        default=Sizes.FULL_ROWS,
        help="of the table events (default: %(default)s); fewer shrink the rest",
    )
    parser.add_argument("--rounds", type=int, default=3, help="that are timed, after one that is not (default: 3)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="a measure or a pattern; repeatable"
    )
    parser.add_argument("--memory", action="store_true", help="also the measures that need a file of 4 GiB")
    parser.add_argument("--incremental", action="store_true", help="also the measures of a table of 500 million rows")
    parser.add_argument("--million", action="store_true", help="also the plans of a table of a million files")
    parser.add_argument("--random", action="store_true", help="also the tables that are drawn at random")
    parser.add_argument(
        "--seed", type=seeds, default=RANDOM_SEEDS, help="those of the random tables, such as 7,8,9 (default: 1 to 20)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--record", action="store_true", help=f"write {_RECORD.relative_to(ROOT)}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
