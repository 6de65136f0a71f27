"""What a planner waits for: a lookup that is at hand, and the files that one reads which is not."""

from __future__ import annotations

import shutil
import timeit
from pathlib import Path

from benchmarks.handmade import analyzed_table
from benchmarks.reads import reads_counted
from benchmarks.results import LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say
from puffin import Lookup

NAMES = (_WARM, _COLD, _COLD_CATALOG) = ("lookup-warm", "lookup-cold-directory", "lookup-cold-catalog")

_COLUMNS = 16
_CALLS = 200_000  # in each round, of less than a second
_WARM_BAR, _COLD_BAR, _COLD_CATALOG_BAR = Bar(LOWER, 20, 3), Bar(LOWER, 2, 2), Bar(LOWER, 1, 1)


def measure(run: Run, results: Results) -> None:
    """Ask for one column of a table that has been analyzed."""
    if not any(map(run.wants, NAMES)):
        return
    directory = HOME / "data" / "lookup"
    shutil.rmtree(directory, ignore_errors=True)
    metadata = analyzed_table(directory / "t", _COLUMNS)
    if run.wants(_WARM):
        _add(results, _WARM, "Lookup, one column at hand", _warm(str(directory / "t"), run.rounds), _WARM_BAR)
    if run.wants(_COLD):
        reads = _cold_reads(Lookup(), str(directory / "t"))
        _add(results, _COLD, "Lookup, files read cold; a table directory", reads, _COLD_BAR)
    if run.wants(_COLD_CATALOG):
        reads = _cold_reads(_catalog(directory, metadata), "db.t")
        _add(results, _COLD_CATALOG, "Lookup, files read cold; a table of a SQL catalog", reads, _COLD_CATALOG_BAR)


def _warm(table: str, rounds: int) -> Sample:
    lookup = Lookup(ttl_seconds=3600)
    columns = ["c1"]
    lookup.ndv(table, columns)
    seconds = timeit.repeat(lambda: lookup.ndv(table, columns), number=_CALLS, repeat=rounds + 1)[1:]
    return Sample("ours", "µs", tuple(each / _CALLS * 1e6 for each in seconds))


def _cold_reads(lookup: Lookup, table: str) -> Sample:
    with reads_counted() as reads:
        lookup.ndv(table, ["c1"])
    return Sample("ours", "reads", (len(reads),))


def _add(results: Results, name: str, title: str, ours: Sample, bar: Bar) -> None:
    say(f"{name}: {ours.median:.3g} {ours.unit}")
    results.rows.append(Row(name, title, ours, None, bar))


def _catalog(directory: Path, metadata: Path) -> Lookup:
    from pyiceberg.catalog import load_catalog

    properties = {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}"}
    catalog = load_catalog("bench", **properties)
    catalog.create_namespace("db")
    catalog.register_table("db.t", f"file://{metadata}")
    return Lookup(catalog="bench", catalog_properties=properties)
