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
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import click

from puffin.cli.logs import JSON, about
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
    print_failure,
)
from puffin.cli.render import JsonList, console, print_lines, print_result
from puffin.cli.summary import JobReport, RunSummary
from puffin.errors import PuffinError, line_about

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from puffin.tables.snapshot import Table
    from stats_jobs import SparkStarter

_log = logging.getLogger(__name__)

_Command = TypeVar("_Command", bound=Callable[..., Any])
Progress: TypeAlias = Callable[[int, int], None]
Watch: TypeAlias = Callable[[str], AbstractContextManager[Progress | None]]


_Report = TypeVar("_Report", bound=JobReport)
_FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True)
class Job(Generic[_Report]):
    """
    A job as the command line runs it.

    Attributes:
        run: Runs it on one table, as `stats_jobs.analyze`.
        run_many: Runs it on several, as `stats_jobs.analyze_many`.
        options: How, as both take it.
        text: The lines that a person sees of a report; takes the table's name too.
        ending: How a table ended, in a few words that a count can precede.
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
    def table_in(self) -> dict[str, Any]:
        """How jobs take the catalog."""
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
    settings = ctx.find_root().obj
    as_text = settings.get("log-format") != JSON  # otherwise stderr is for programs: no bars, no Spark output
    verbose = as_text and bool(settings.get("verbose"))
    run = RunSummary(chosen.summary)
    with SparkStarter(master=chosen.master, remote=chosen.remote, conf=chosen.conf, verbose=verbose) as spark:
        wanted: list[str | Table] = [*names, *chosen.of_spark(spark)]
        if chosen.is_one:
            (name,) = (*chosen.tables, *chosen.spark_tables)
            settings["table"] = name
            try:
                with screen(bars=as_text) as shown, shown.watch(name) as progress:
                    report = job.run(wanted[0], job.options, spark, progress, **chosen.table_in)
            except BaseException as exc:
                _record(run, name, exc, job)
                raise
            _record(run, name, report, job)
            print_result(report, job.text(name, report), as_json=chosen.json_output)
            run.check()
            return
        started = time.monotonic()
        documents = JsonList("tables") if chosen.json_output else None
        endings: Counter[str] = Counter()
        with contextlib.ExitStack() as cleanup:
            shown = cleanup.enter_context(screen(bars=as_text))
            outcomes = job.run_many(
                wanted, job.options, spark, only_stale=chosen.only_stale, watch=shown.watch, **chosen.table_in
            )
            for name, answer in cleanup.enter_context(contextlib.closing(outcomes)):
                endings[_ending(answer, job)] += 1
                _record(run, name, answer, job)
                if documents is not None:
                    documents.add(_document(name, answer))
                else:
                    shown.say([line_about(name, answer)] if isinstance(answer, PuffinError) else job.text(name, answer))
                if isinstance(answer, PuffinError):
                    _tell_stderr(name, answer, settings)
        failed = endings[_FAILED]
        if documents is not None:
            documents.print()
        else:
            endings["skipped as up to date"] = len(wanted) - endings.total()
            print_lines([_counted(endings, asked=len(wanted), seconds=time.monotonic() - started)])
    if failed:
        print_failure(f"{failed} of {len(wanted)} tables failed", settings)
        ctx.exit(1)
    run.check()


def _record(run: RunSummary, name: str, answer: _Report | BaseException, job: Job[_Report]) -> None:
    """Record the outcome of a table in the summary and the log."""
    run.add(name, answer)
    with about(name):
        if isinstance(answer, BaseException):
            _log.error("%s", line_about(name, answer), extra={"error": type(answer).__name__})
        else:
            _log.info("%s: %s, %d rows read", name, job.ending(answer), answer.rows_read)


def _ending(answer: _Report | PuffinError, job: Job[_Report]) -> str:
    return _FAILED if isinstance(answer, PuffinError) else job.ending(answer)


def _counted(endings: Mapping[str, int], *, asked: int, seconds: float) -> str:
    counts = ", ".join(f"{count} {ending}" for ending, count in endings.items() if count)
    return f"{asked} {'table' if asked == 1 else 'tables'} in {seconds:.1f} s: {counts or 'nothing to do'}"


def _document(name: str, answer: JobReport | PuffinError) -> dict[str, Any]:
    return {"table": name, "error": str(answer)} if isinstance(answer, PuffinError) else answer.to_json()


def _tell_stderr(name: str, exc: PuffinError, settings: Mapping[str, Any]) -> None:
    """Tell of one table of several that failed. A person reads of it on stdout, a program in a line of stderr."""
    debug = bool(settings.get("debug"))
    if settings.get("log-format") != JSON:
        if debug:
            traceback.print_exception(exc)
    elif debug or not settings.get("verbose"):  # the log has the line, but for the traceback
        print_failure(str(exc), {**settings, "table": name}, exc)


class Screen:
    """Progress for a person; shows nothing without ``bars``."""

    def __init__(self, bars: Bars | None) -> None:
        self._bars = bars

    @contextlib.contextmanager
    def watch(self, table: str) -> Iterator[Progress | None]:
        """Show a bar for the table during the block, and mark logs as about it; yields what moves the bar."""
        bars = self._bars
        with about(table):
            if bars is None:
                yield None
                return
            task = bars.add_task(table, total=None)
            try:
                yield lambda done, total: bars.update(task, completed=done, total=total)
            finally:
                bars.remove_task(task)

    def say(self, lines: Sequence[str]) -> None:
        """Print lines on stdout; on a terminal, above the bars, so that they do not tear."""
        if self._bars is not None and sys.stdout.isatty():
            self._bars.console.print("\n".join(lines), emoji=False)
        else:
            print_lines(lines)


@contextlib.contextmanager
def screen(*, bars: bool) -> Iterator[Screen]:
    if not (bars and sys.stderr and sys.stderr.isatty()):
        yield Screen(None)
        return
    from rich.progress import Progress as Bars

    err = console(stderr=True)
    with Bars(console=err, transient=True, redirect_stdout=False) as progress:
        yield Screen(progress)
