"""
How long the autopilot takes to decide on many tables of which none has changed.

Half are Delta tables and half Iceberg tables, each with five snapshots, twenty columns and current statistics. They are
copies of two tables with the same files, made of hard links. The first look reads what every later look can keep. One
JSON document goes to standard output; the exit code is 1 if a look took longer than the bar.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from puffin.autopilot.decide import FRESH, decide
from puffin.autopilot.look import Watcher
from puffin.policy.model import Policy
from stats_jobs import analyze

_BAR = 60.0  # seconds for 10,000 tables
_SNAPSHOTS, _COLUMNS, _PER_DIRECTORY = 5, 20, 200


def make_tables(root: Path, count: int) -> None:
    """Make so many tables below ``root/lake``."""
    rows = pa.table({f"c{number}": list(range(100)) for number in range(_COLUMNS)})
    delta, iceberg = root / "delta", root / "iceberg"
    catalog = load_catalog("made", type="sql", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/made")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", rows.schema)
    for _ in range(_SNAPSHOTS):
        write_deltalake(str(delta), rows, mode="append")
        table.append(rows)
    newest = Path(table.metadata_location.removeprefix("file://"))
    shutil.copytree(newest.parent.parent, iceberg, ignore=shutil.ignore_patterns("*.metadata.json"))
    text = newest.read_text().replace(str(newest.parent.parent), str(iceberg))
    (iceberg / "metadata" / "v1.metadata.json").write_text(text)
    for seed in (delta, iceberg):
        analyze(str(seed))
    for number in range(count):
        seed = delta if number % 2 else iceberg
        target = root / "lake" / f"n{number // _PER_DIRECTORY}" / f"{seed.name}{number}"
        shutil.copytree(seed, target, copy_function=os.link)


def main() -> int:
    """Run it as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.autopilot_look")
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--directory", help="where the tables are")
    args = parser.parse_args()
    looks = []
    with tempfile.TemporaryDirectory(prefix="puffin-look-", dir=args.directory) as root:
        make_tables(Path(root), args.tables)
        watcher = Watcher(Policy(file="made", roots=(f"{root}/lake",)))
        for _ in range(2):
            began, used = time.monotonic(), time.process_time()
            fresh = sum(verdict.state == FRESH for verdict in decide(watcher.look(), time.time()))
            looks.append(
                {
                    "seconds": round(time.monotonic() - began, 2),
                    "cpu-seconds": round(time.process_time() - used, 2),
                    "fresh": fresh,
                }
            )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"tables": args.tables, "looks": looks, "memory-mib": memory}, indent=2))
    return int(any(look["seconds"] > _BAR * args.tables / 10_000 or look["fresh"] < args.tables for look in looks))


if __name__ == "__main__":
    sys.exit(main())
