"""
The job of `test_killed_jobs`: a process that analyzes a table in full when it is told to, and is killed meanwhile.

It is called with a table as `load_table` takes it and a catalog's properties in JSON, null for a path. It prints a line
when everything is loaded, starts when it reads one, and prints another when it is done.
"""

import json
import sys

from puffin.load import load_table
from stats_jobs import Options, analyze


def main(name: str, catalog: str) -> None:
    properties = json.loads(catalog)
    table = load_table(name, catalog=properties and "killed", catalog_properties=properties)
    analyze(table, Options(mode="full", dry_run=True))  # whatever takes its time only once is done before the start
    say("ready")
    sys.stdin.readline()
    analyze(table, Options(mode="full", partitions=True))
    say("done")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


main(*sys.argv[1:])
