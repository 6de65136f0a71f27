"""
A job over one table or many in one Spark session: what ``puffin analyze`` and ``puffin index`` share.

A call that names one table prints its report, or fails with its error. A call that names several tables or a pattern
prints a list, even if one table matches, and fails if any of them failed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from puffin.cli.diagnostics import Diagnostics, diagnostics_of, fail_if_any
from puffin.cli.logs import about
from puffin.cli.render import JsonList, counted, human_bytes, print_lines, print_result
from puffin.cli.screen import screen
from puffin.cli.summary import JobReport, RunSummary
from puffin.cli.table_options import TableOptions
from puffin.errors import PuffinError, line_about

if TYPE_CHECKING:
    from puffin.tables.snapshot import Table
    from stats_jobs import Report, SparkStarter
    from stats_jobs.index_report import IndexReport

_log = logging.getLogger(__name__)

_Report = TypeVar("_Report", bound=JobReport)
_FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True)
class Job(Generic[_Report]):
    """
    A job as the command line runs it.

    Attributes:
        run: Runs it on one table, as `stats_jobs.analyze`.
        run_many: Runs it on several, as `stats_jobs.analyze_many`.
        options: The job's own options, which both take.
        text: The lines of a report for a person, from the table's name and the report.
        ending: What became of a table, in words that can follow a count, such as "committed".
    """

    run: Callable[..., _Report]
    run_many: Callable[..., Generator[tuple[str, _Report | PuffinError], None, None]]
    options: Any
    text: Callable[[str, _Report], list[str]]
    ending: Callable[[_Report], str]


def run_job(ctx: click.Context, chosen: TableOptions, job: Job[_Report]) -> None:
    """Run a job on the chosen tables, print what it did, and end with exit code 1 if a table failed."""
    from stats_jobs import SparkStarter

    names = chosen.names()
    run = _Run(chosen, job, RunSummary(chosen.summary), diagnostics_of(ctx))
    verbose, failures = run.diagnostics.spark_may_print, list[str]()
    with SparkStarter(master=chosen.master, remote=chosen.remote, conf=chosen.conf, verbose=verbose) as spark:
        wanted: list[str | Table] = [*names, *chosen.of_spark(spark)]
        if chosen.is_one:
            run.on_one(wanted[0], spark)
        else:
            failures = run.on_many(wanted, spark)
    fail_if_any(ctx, failures, len(wanted))
    run.summary.check()


@dataclasses.dataclass(frozen=True, slots=True)
class _Run(Generic[_Report]):
    """A job on the chosen tables, the summary of what it did, and how to tell of failures."""

    chosen: TableOptions
    job: Job[_Report]
    summary: RunSummary
    diagnostics: Diagnostics

    def on_one(self, table: str | Table, spark: SparkStarter) -> None:
        """Run the job on the only table, and print its report."""
        (name,) = (*self.chosen.tables, *self.chosen.spark_tables)
        self.diagnostics.table = name
        try:
            with screen(bars=not self.diagnostics.is_json) as shown, shown.watch(name) as progress:
                report = self.job.run(table, self.job.options, spark, progress, **self.chosen.catalog.arguments)
        except BaseException as exc:
            self._record(name, exc)
            raise
        self._record(name, report)
        print_result(report, self.job.text(name, report), as_json=self.chosen.json_output)

    def on_many(self, tables: Sequence[str | Table], spark: SparkStarter) -> list[str]:
        """Run the job on several tables, and print each when it is done; return a line for each that failed."""
        started = time.monotonic()
        documents = JsonList("tables") if self.chosen.json_output else None
        endings: Counter[str] = Counter()
        failures = []
        with contextlib.ExitStack() as cleanup:
            shown = cleanup.enter_context(screen(bars=not self.diagnostics.is_json))
            how = {"only_stale": self.chosen.only_stale, "watch": shown.watch, **self.chosen.catalog.arguments}
            outcomes = self.job.run_many(tables, self.job.options, spark, **how)
            for name, answer in cleanup.enter_context(contextlib.closing(outcomes)):
                endings[self._ending(answer)] += 1
                self._record(name, answer)
                if documents is not None:
                    documents.add(_document(name, answer))
                else:
                    shown.say(self._lines(name, answer))
                if isinstance(answer, PuffinError):
                    self._tell_stderr(name, answer)
                    failures.append(line_about(name, answer))
        if documents is not None:
            documents.print()
        else:
            endings["skipped as up to date"] = len(tables) - endings.total()
            print_lines([_total(endings, asked=len(tables), seconds=time.monotonic() - started)])
        return failures

    def _record(self, name: str, answer: _Report | BaseException) -> None:
        """Record the outcome of a table in the summary and the log."""
        self.summary.add(name, answer)
        with about(name):
            if isinstance(answer, BaseException):
                _log.error("%s", line_about(name, answer), extra={"error": type(answer).__name__})
            else:
                _log.info("%s: %s, %d rows read", name, self.job.ending(answer), answer.rows_read)

    def _ending(self, answer: _Report | PuffinError) -> str:
        return _FAILED if isinstance(answer, PuffinError) else self.job.ending(answer)

    def _lines(self, name: str, answer: _Report | PuffinError) -> list[str]:
        return [line_about(name, answer)] if isinstance(answer, PuffinError) else self.job.text(name, answer)

    def _tell_stderr(self, name: str, exc: PuffinError) -> None:
        """Tell of one table of several that failed. A person reads of it on stdout, a program in a line of stderr."""
        if not self.diagnostics.is_json:
            if self.diagnostics.debug:
                traceback.print_exception(exc)
        elif self.diagnostics.debug or not self.diagnostics.verbose:  # the log has the line, but for the traceback
            self.diagnostics.print_failure(str(exc), exc, table=name)


def work_done(report: Report | IndexReport) -> str:
    """What a run read, and in which time."""
    spark = f" (and {report.session_seconds:.1f} s to start Spark)" if report.session_seconds else ""
    return (
        f"{counted(report.files_read, 'file')}, {counted(report.rows_read, 'row')}, {human_bytes(report.bytes_read)} "
        f"read in {report.elapsed_seconds:.1f} s{spark}"
    )


def _total(endings: Mapping[str, int], *, asked: int, seconds: float) -> str:
    counts = ", ".join(f"{count} {ending}" for ending, count in endings.items() if count)
    return f"{counted(asked, 'table')} in {seconds:.1f} s: {counts or 'nothing to do'}"


def _document(name: str, answer: JobReport | PuffinError) -> dict[str, Any]:
    return {"table": name, "error": str(answer)} if isinstance(answer, PuffinError) else answer.to_json()
