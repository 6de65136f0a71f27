"""
How much a statistics file holds beside the sketches, so that deleted rows can be subtracted: bytes of each column.

Both are taken as they are stored: sketches as they are, row counts compressed. A sample has a value for each column.
"""

from __future__ import annotations

from benchmarks.data import EVENTS, LINEITEM, dataset
from benchmarks.engines import CORES
from benchmarks.results import LOWER, Bar, Results, Row, Sample
from benchmarks.run import Run, say
from benchmarks.session import spark_session
from puffin.format import ROW_COUNTS_V1, THETA_V1, PuffinReader
from puffin.load import load_table
from puffin.statistics.private_state.reading import read_private_state
from puffin.tables.snapshot import Table
from stats_jobs import Options, Report, SparkStarter, analyze

_TABLES = {f"incremental-state-{table}": table for table in (LINEITEM, EVENTS)}
NAMES = tuple(_TABLES)


def measure(run: Run, results: Results) -> None:
    """Write a statistics file of each table that is wanted, look into it, and delete it."""
    wanted = {name: table for name, table in _TABLES.items() if run.wants(name)}
    if not wanted:
        return
    say("starting Spark")
    with spark_session(CORES) as spark, SparkStarter(session=spark) as starter:
        for name, which in wanted.items():
            made = dataset(spark, run, which)
            table = load_table(made.directory)
            report = analyze(table, Options(mode="full", commit=False), starter)
            results.rows.append(state_row(name, made.name, table, report))
            if report.entry is not None:
                table.open().store_for(report.entry.statistics_path).delete(report.entry.statistics_path)


def state_row(name: str, title: str, table: Table, report: Report) -> Row:
    """The row for the file that a run has written."""
    if report.entry is None:
        raise SystemExit(f"{table.name}: expected a statistics file, found none")
    opened = table.open()
    private = read_private_state(opened, report.entry)
    if private is None:
        raise SystemExit(f"{table.name}: expected private state, found none")
    parts = {blob.part_uri for blob in private.kept.values()}
    sizes: dict[tuple[str, tuple[int, ...]], int] = {}
    for path in (report.entry.statistics_path, *parts):
        with opened.store_for(path).open_source(path) as source:
            sizes |= {(b.type, b.fields): b.length for b in PuffinReader(source).file_metadata.blobs}
    columns = {answer.column.name: (answer.column.field_id,) for answer in report.columns}
    sketches, counts = (
        {column: sizes[type_, fields] for column, fields in columns.items()} for type_ in (THETA_V1, ROW_COUNTS_V1)
    )
    for column, size in counts.items():
        say(f"{title}: {column}: {size} bytes of row counts, {sketches[column]} of the sketch")
    return Row(
        name,
        f"row counts / sketch, bytes of a column; {title}, {len(columns)} columns",
        Sample("row counts", "B", tuple(counts.values())),
        Sample("sketch", "B", tuple(sketches.values())),
        Bar(LOWER),
    )
