"""
How far estimates of rows and groups are off, beside those of other planners.

``python -m benchmarks.estimates --only zipf --engines ours,duckdb --seed 7`` takes less than a minute once the data is
made.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.estimates.bench import ENGINES, SUITES, run
from benchmarks.estimates.report import to_markdown, to_record
from benchmarks.estimates.suite import WAREHOUSE
from benchmarks.run import ROOT, seeds

_RECORD = ROOT / "benchmarks" / "ESTIMATES.md"


def main() -> int:
    """Ask what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimates", description=__doc__)
    parser.add_argument("--only", default=",".join(SUITES), help="suites, with commas between them (default: all)")
    parser.add_argument("--engines", default=",".join(ENGINES), help="engines, likewise (default: all)")
    parser.add_argument(
        "--seed", type=seeds, default="17", help="of the skewed tables and all questions; several with commas"
    )
    parser.add_argument(
        "--record", action="store_true", help="write ESTIMATES.md and ESTIMATES.json; of whole runs only"
    )
    parser.add_argument("--keep-statistics", action="store_true", help="do not analyze the tables again")
    args = parser.parse_args()
    suites, engines = args.only.split(","), args.engines.split(",")
    for what, wanted, known in (("--only", suites, SUITES), ("--engines", engines, ENGINES)):
        if strange := [name for name in wanted if name not in known]:
            parser.error(f"{what} {strange[0]}: expected some of {', '.join(known)}")
    if args.record and (set(suites), set(engines)) != (set(SUITES), set(ENGINES)):
        parser.error("results of record are of whole runs: --record allows no --only and no --engines")
    outcome = run(suites, engines, args.seed, analyze=not args.keep_statistics)
    print(to_markdown(outcome))
    path = _RECORD.with_suffix(".json") if args.record else WAREHOUSE / "questions.json"
    outcome.write(path)
    if args.record:
        _RECORD.write_text(to_record(outcome, args.seed))
    print(f"\nEvery question is in {path}.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
