"""
A job over one table or many in one Spark session: what ``puffin analyze`` and ``puffin index`` share.

A call that names one table prints its report, or fails with its error. A call that names several tables or a pattern
prints a list, even if one table matches, and fails if any of them failed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from puffin.cli.diagnostics import Diagnostics, diagnostics_of, fail_if_any
from puffin.cli.logs import about
from puffin.cli.options import (
    as_json,
    by_name,
    byte_size,
    diagnostics,
    key_values,
    log_format,
    of_catalog,
    of_home,
    of_remote,
)
from puffin.cli.render import JsonList, print_lines, print_result
from puffin.cli.screen import screen
from puffin.cli.summary import JobReport, RunSummary
from puffin.errors import PuffinError, line_about

if TYPE_CHECKING:
    from puffin.tables.snapshot import Table
    from stats_jobs import SparkStarter

_log = logging.getLogger(__name__)

_Command = TypeVar("_Command", bound=Callable[..., Any])
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The options of `of_tables`: which tables, and how to run the job on them."""

    tables: tuple[str, ...]
    catalog: str | None
    catalog_properties: Mapping[str, str]
    spark_tables: tuple[str, ...]
    namespace: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    only_stale: bool
    driver_bytes: int | None
    master: str | None
    remote: str | None
    conf: Mapping[str, str]
    summary: str | None
    json_output: bool

    @property
    def is_one(self) -> bool:
        """Whether the call names a single table."""
        is_a_choice = self.namespace is not None or self.include or self.exclude or self.only_stale
        return len(self.tables) + len(self.spark_tables) == 1 and not is_a_choice

    @property
    def catalog_arguments(self) -> dict[str, Any]:
        """The catalog, as arguments of jobs."""
        return {"catalog": self.catalog, "catalog_properties": self.catalog_properties}

    @property
    def limits(self) -> dict[str, Any]:
        """The limit on what is read without Spark, as an option of jobs, if one was given."""
        return {} if self.driver_bytes is None else {"driver_bytes": self.driver_bytes}

    def names(self) -> list[str]:
        """The names of the wanted tables; UsageError of click if the options contradict each other."""
        if self.remote is not None and (self.master is not None or self.spark_tables):
            raise click.UsageError("expected --remote without --master and --spark-table")
        if not (self.tables or self.spark_tables or self.namespace is not None):
            raise click.UsageError("expected TABLE..., --spark-table or --namespace")
        return [name for name in self._found() if self.wants(name, dotted=self.catalog is not None)]

    def wants(self, table: str, *, dotted: bool) -> bool:
        """Whether the patterns take a table; ``dotted`` if it has the name of a catalog's table."""
        from puffin.lookup.places import NamePatterns

        return NamePatterns(self.include, self.exclude).take(table, dotted=dotted)

    def of_spark(self, spark: SparkStarter) -> list[Table]:
        """The wanted tables of Spark's catalogs."""
        if not self.spark_tables:
            return []
        from stats_jobs import SparkTable

        tables = [SparkTable(name, spark) for name in dict.fromkeys(self.spark_tables)]
        return [table for table in tables if self.wants(table.name, dotted=True)]

    def _found(self) -> Iterable[str]:
        if self.tables and self.namespace is not None:
            raise click.UsageError("expected either TABLE... or --namespace")
        if self.namespace is None:
            return dict.fromkeys(self.tables)  # without duplicates
        if self.catalog is None:
            raise click.UsageError("--namespace needs --catalog")
        from puffin.load import Tables

        return Tables(self.catalog, self.catalog_properties).of_namespace(self.namespace)


def of_tables(verb: str, stale: str) -> Callable[[_Command], _Command]:
    """
    The options that choose tables; the command gets them, and those of `how_to_run`, as ``chosen``.

    ``verb`` is what the job does to tables, ``stale`` what ``--only-stale`` looks at.
    """

    def decorated(command: _Command) -> _Command:
        fields = [field.name for field in dataclasses.fields(TableOptions)]

        @functools.wraps(command)
        def with_chosen(*args: Any, **given: Any) -> Any:
            chosen = TableOptions(**{name: given.pop(name) for name in fields})
            return command(*args, chosen=chosen, **given)

        wrapped: Any = with_chosen
        for option in reversed(_options(verb, stale)):
            wrapped = option(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorated


def how_to_run(command: _Command) -> _Command:
    """The options of `TableOptions` about the run, which stand below a command's own."""
    wrapped: Any = command
    for option in reversed(
        (
            of_home,
            click.option(
                "--driver-bytes",
                callback=byte_size,
                metavar="SIZE",
                help="Read up to so many bytes of files without starting Spark, as a number or such as 1GiB, which "
                "is the default.",
            ),
            click.option("--master", metavar="URL", help="Spark master; by default every core of this machine."),
            of_remote,
            click.option(
                "--conf",
                multiple=True,
                callback=key_values,
                metavar="K=V",
                help="Spark configuration; may be repeated.",
            ),
            click.option("--dry-run", is_flag=True, help="Compute only; write nothing."),
            click.option("--summary", metavar="FILE", help="Append a JSON line for each table to this local file."),
            as_json,
            log_format,
            diagnostics,
        )
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def _options(verb: str, stale: str) -> list[Callable[[Any], Any]]:
    return [
        click.argument("tables", nargs=-1, metavar="TABLE..."),
        of_catalog,
        click.option(
            "--spark-table",
            "spark_tables",
            multiple=True,
            metavar="CATALOG.NS.TABLE",
            help="An Iceberg table of a catalog that Spark is configured with, by --conf or spark-submit; may be "
            "repeated.",
        ),
        click.option("--namespace", metavar="NS", help=f"{verb} every table of this catalog namespace."),
        by_name,
        click.option("--only-stale", is_flag=True, help=f"Skip tables whose {stale} up to date."),
    ]


def run_job(ctx: click.Context, chosen: TableOptions, job: Job[_Report]) -> None:
    """Run a job on the chosen tables, print what it did, and end with exit code 1 if a table failed."""
    from stats_jobs import SparkStarter

    names = chosen.names()
    run = _Run(chosen, job, RunSummary(chosen.summary), diagnostics_of(ctx))
    verbose, failed = run.diagnostics.spark_may_print, 0
    with SparkStarter(master=chosen.master, remote=chosen.remote, conf=chosen.conf, verbose=verbose) as spark:
        wanted: list[str | Table] = [*names, *chosen.of_spark(spark)]
        if chosen.is_one:
            run.on_one(wanted[0], spark)
        else:
            failed = run.on_many(wanted, spark)
    fail_if_any(ctx, failed, len(wanted))
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
                report = self.job.run(table, self.job.options, spark, progress, **self.chosen.catalog_arguments)
        except BaseException as exc:
            self._record(name, exc)
            raise
        self._record(name, report)
        print_result(report, self.job.text(name, report), as_json=self.chosen.json_output)

    def on_many(self, tables: Sequence[str | Table], spark: SparkStarter) -> int:
        """Run the job on several tables, and print each when it is done; return how many failed."""
        started = time.monotonic()
        documents = JsonList("tables") if self.chosen.json_output else None
        endings: Counter[str] = Counter()
        with contextlib.ExitStack() as cleanup:
            shown = cleanup.enter_context(screen(bars=not self.diagnostics.is_json))
            how = {"only_stale": self.chosen.only_stale, "watch": shown.watch, **self.chosen.catalog_arguments}
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
        failed = endings[_FAILED]
        if documents is not None:
            documents.print()
        else:
            endings["skipped as up to date"] = len(tables) - endings.total()
            print_lines([_counted(endings, asked=len(tables), seconds=time.monotonic() - started)])
        return failed

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


def _counted(endings: Mapping[str, int], *, asked: int, seconds: float) -> str:
    counts = ", ".join(f"{count} {ending}" for ending, count in endings.items() if count)
    return f"{asked} {'table' if asked == 1 else 'tables'} in {seconds:.1f} s: {counts or 'nothing to do'}"


def _document(name: str, answer: JobReport | PuffinError) -> dict[str, Any]:
    return {"table": name, "error": str(answer)} if isinstance(answer, PuffinError) else answer.to_json()
