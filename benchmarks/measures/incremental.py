"""
What it costs to keep statistics current: the job on what changed since it last ran, beside the job on the whole table.

Both end with a statistics file and leave the table's metadata as it is, so that each can be run again. Every count is
held against that of a full run which counts no rows, and so goes another way through our code: they have to be equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from benchmarks.data import EVENTS, Dataset, dataset
from benchmarks.engines import CORES, Ours, Session
from benchmarks.handmade import MAIN
from benchmarks.measures.histories import (
    APPEND,
    CHANGED,
    COMPACTION,
    DELETED_FROM,
    DELETION_VECTORS,
    FILES,
    POSITION_DELETES,
    REMOVED_FILES,
    write_history,
)
from benchmarks.measures.state import state_row
from benchmarks.race import race
from benchmarks.results import LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say
from benchmarks.session import spark_session
from puffin.load import load_table
from puffin.tables.base import SnapshotSelector
from stats_jobs import Options, SparkStarter, analyze


@dataclasses.dataclass(frozen=True, slots=True)
class _Change:
    """
    What happened on a branch.

    Attributes:
        limit: The most that the job may take of a full run's time; None to compare only.
        files: How many data files there are to read.
    """

    branch: str
    title: str
    limit: float | None
    files: int

    @property
    def name(self) -> str:
        return f"incremental-{self.branch}"

    @property
    def files_name(self) -> str:
        return f"{self.name}-files"


_CHANGES = (
    _Change(APPEND, "append of 1 % of the files", 0.05, CHANGED),
    _Change(COMPACTION, "compaction of everything", None, 0),
    _Change(POSITION_DELETES, "delete of 1 % of the rows by position deletes", 0.1, DELETED_FROM),
    _Change(DELETION_VECTORS, "delete of 1 % of the rows by deletion vectors", 0.1, DELETED_FROM),
    _Change(REMOVED_FILES, "delete of 1 % of the files", 0.1, CHANGED),
)
_STATE = "incremental-state-history"
NAMES = (*(name for change in _CHANGES for name in (change.name, change.files_name)), _STATE)

_FULL_RUN = "full run"


def measure(run: Run, results: Results) -> None:
    """Make the table and its first statistics, then run the job on all of it and on each change in turn."""
    wanted = {name for name in NAMES if run.wants(name)}
    if not wanted:
        return
    say("starting Spark")
    with spark_session(CORES) as spark, SparkStarter(session=spark) as starter:
        starter.start()
        events = dataset(spark, run, EVENTS)
        say(f"making a table of {FILES} files")
        history = write_history(HOME / "data" / "history", events)
        say("computing its first statistics")
        table = load_table(history.directory)
        base = analyze(table, Options(mode="full"), starter)
        if _STATE in wanted:
            results.rows.append(state_row(_STATE, f"a table of {FILES} files", table, base))
        changes = [change for change in _CHANGES if wanted & {change.name, change.files_name}]
        if changes:
            jobs = _Jobs(history, Session(starter, spark))
            rows = _timed(changes, jobs, run, results)
            results.rows.extend(row for row in rows if row.name in wanted)


def _timed(changes: Sequence[_Change], made: _Jobs, run: Run, results: Results) -> Iterator[Row]:
    """Two rows for each change: how long the job took, and how many data files it read."""
    full = made.job(_FULL_RUN, MAIN, "full")
    jobs = [made.job(change.title, change.branch, "auto") for change in changes]
    seconds = race([full, *jobs], run.rounds, results)
    said = f"{FILES} files, {made.history.rows:,} rows"
    for change, job in zip(changes, jobs, strict=True):
        title = f"{job.name} / {full.name}; {said}"
        yield Row(change.name, title, seconds[job.name], seconds[full.name], Bar(LOWER, change.limit))
        title = f"data files read; {job.name}; {said}"
        read = Sample(job.name, "files", (job.files_read,))
        yield Row(change.files_name, title, read, None, Bar(LOWER, change.files))


@dataclasses.dataclass(frozen=True, slots=True)
class _Jobs:
    """What every job is made of."""

    history: Dataset
    session: Session

    def job(self, name: str, branch: str, mode: str) -> _Job:
        """The job on a branch, and what a full run finds there."""
        say(f"{self.history.name}: the counts to be found: {name}")
        selector = SnapshotSelector(ref=branch)
        options = Options(selector=selector, mode="full", dry_run=True)
        report = analyze(load_table(self.history.directory), options, self.session.starter)
        exact = {answer.column.name: answer.ndv or 0 for answer in report.columns}
        table = dataclasses.replace(self.history, exact=exact)
        options = Options(selector=selector, mode=mode, commit=False)
        return _Job(name, table, tuple(exact), options, self.session)


class _Job(Ours):
    """The job on a branch, to the statistics file; there is one right count of each column."""

    tolerance = 0.0
    exact_up_to = 0

    @property
    def files_read(self) -> int:
        """How many data files the last run read."""
        return 0 if self._report is None else self._report.files_read
