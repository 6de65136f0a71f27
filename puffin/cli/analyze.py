"""
``puffin analyze``: the statistics job, for one table or for many in one Spark session.

A call that names one table prints its report, or fails with its error. A call that names several tables or a pattern
prints a list, even if one table matches, and fails if any of them failed.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from puffin.cli.logs import JSON, about, failure
from puffin.cli.options import (
    as_json,
    column_names,
    diagnostics,
    key_values,
    log_format,
    of_catalog,
    of_home,
    of_snapshot,
    print_failure,
)
from puffin.cli.render import columns_table, console, human_bytes, print_json, print_lines, print_result
from puffin.cli.summary import RunSummary
from puffin.errors import PuffinError

if TYPE_CHECKING:
    from rich.progress import Progress

    from puffin.tables.snapshot import Table
    from stats_jobs import Report
    from stats_jobs.report import PartitionReport

_log = logging.getLogger(__name__)


@click.command(name="analyze")
@click.argument("tables", nargs=-1, metavar="TABLE...")
@of_catalog
@click.option(
    "--spark-table",
    "spark_tables",
    multiple=True,
    metavar="CATALOG.NS.TABLE",
    help="An Iceberg table of a catalog that Spark is configured with, by --conf or spark-submit; may be repeated.",
)
@click.option("--namespace", metavar="NS", help="Analyze every table of this catalog namespace.")
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Only tables whose name matches: * stands for any characters, ? for one, [ab] for either. The name is what "
    "follows the namespace, or the last part of a path; case matters. May be repeated.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Skip tables whose name matches, even if --include matches it too. May be repeated.",
)
@click.option("--only-stale", is_flag=True, help="Skip tables whose statistics are up to date.")
@click.option(
    "--columns", multiple=True, callback=column_names, metavar="a,b.c", help="Only these columns; repeatable."
)
@of_snapshot
@click.option(
    "--mode",
    type=click.Choice(["auto", "full", "incremental"]),
    default="auto",
    help="auto reads what changed since earlier statistics, or every row if it must; incremental never reads every "
    "row; full always does.",
)
@click.option("--partitions", is_flag=True, help="Also compute NDV by partition and a partition statistics file.")
@click.option("--lg-k", type=int, default=12, help="Log2 of a sketch's nominal entries, 5 to 26.")
@click.option(
    "--codec",
    type=click.Choice(["none", "zstd", "lz4"]),
    default="none",
    help="Blob compression; sketches hardly shrink, and not every reader knows a codec.",
)
@click.option("--no-row-counts", is_flag=True, help="Keep no row counts to subtract deleted rows with.")
@of_home
@click.option(
    "--driver-bytes",
    type=click.IntRange(min=0),
    metavar="N",
    help="Read up to N bytes of files without starting Spark; 256 MiB by default.",
)
@click.option("--master", metavar="URL", help="Spark master; by default every core of this machine.")
@click.option("--conf", multiple=True, callback=key_values, metavar="K=V", help="Spark configuration; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Compute only; write nothing.")
@click.option("--no-commit", is_flag=True, help="Write the files, but do not change the table's metadata.")
@click.option("--summary", metavar="FILE", help="Append a JSON line for each table to this local file.")
@as_json
@log_format
@diagnostics
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    tables: tuple[str, ...],
    catalog: str | None,
    catalog_properties: dict[str, str],
    spark_tables: tuple[str, ...],
    namespace: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    only_stale: bool,
    no_row_counts: bool,
    driver_bytes: int | None,
    master: str | None,
    conf: dict[str, str],
    no_commit: bool,
    summary: str | None,
    json_output: bool,
    **options_as_given: Any,
) -> None:
    """
    Compute theta sketches and NDV of a table's columns, write a statistics file, commit it.

    TABLE is the path or URI of a table directory (Iceberg or Delta, detected from its contents); with --catalog,
    namespace.table. Several tables share one Spark session, and one that fails does not stop the others.
    """
    from stats_jobs import Options, SparkStarter, SparkTable, analyze
    from stats_jobs.many import analyze_many
    from stats_jobs.options import DRIVER_BYTES

    if not (tables or spark_tables or namespace is not None):
        raise click.UsageError("expected TABLE..., --spark-table or --namespace")
    found = _names(tables, namespace, catalog, catalog_properties)
    names = [name for name in found if _is_wanted(_last_of(name, dotted=catalog is not None), include, exclude)]
    options = Options(
        **options_as_given,
        row_counts=not no_row_counts,
        commit=not no_commit,
        driver_bytes=DRIVER_BYTES if driver_bytes is None else driver_bytes,
    )
    settings = ctx.find_root().obj
    as_text = settings.get("log-format") != JSON  # otherwise stderr is for programs: no bars, no Spark output
    table_in: dict[str, Any] = {"catalog": catalog, "catalog_properties": catalog_properties}
    run = RunSummary(summary)
    with SparkStarter(master=master, conf=conf, verbose=as_text and bool(settings.get("verbose"))) as spark:
        of_spark = [SparkTable(name, spark) for name in dict.fromkeys(spark_tables)]
        wanted: list[str | Table] = [
            *names,
            *(t for t in of_spark if _is_wanted(_last_of(t.name, dotted=True), include, exclude)),
        ]
        if len(tables) + len(spark_tables) == 1 and namespace is None and not (include or exclude or only_stale):
            (name,) = (*tables, *spark_tables)
            settings["table"] = name
            try:
                with _screen(bars=as_text) as screen, screen.watch(name) as progress:
                    report = analyze(wanted[0], options, spark, progress, **table_in)
            except BaseException as exc:
                _record(run, name, exc)
                raise
            _record(run, name, report)
            print_result(report, _text(name, report), as_json=json_output)
            run.check()
            return
        started = time.monotonic()
        answers = {}
        with _screen(bars=as_text) as screen:
            outcomes = analyze_many(wanted, options, spark, only_stale=only_stale, watch=screen.watch, **table_in)
            with contextlib.closing(outcomes):
                for name, answer in outcomes:
                    answers[name] = answer
                    _record(run, name, answer)
                    if not json_output:
                        screen.say(_text(name, answer))
                    if settings.get("debug") and isinstance(answer, PuffinError):
                        _show_traceback(name, answer, as_text=as_text)
        if json_output:
            print_json({"tables": [_document(name, answer) for name, answer in answers.items()]})
        else:
            print_lines([_summary(answers, asked=len(wanted), seconds=time.monotonic() - started)])
    failed = sum(isinstance(answer, PuffinError) for answer in answers.values())
    if failed:
        print_failure(f"{failed} of {len(wanted)} tables failed", settings)
        ctx.exit(1)
    run.check()


def _names(
    tables: tuple[str, ...], namespace: str | None, catalog: str | None, catalog_properties: dict[str, str]
) -> Iterable[str]:
    if tables and namespace is not None:
        raise click.UsageError("expected either TABLE... or --namespace")
    if namespace is None:
        return dict.fromkeys(tables)  # without duplicates
    if catalog is None:
        raise click.UsageError("--namespace needs --catalog")
    from puffin.load import Tables

    return Tables(catalog, catalog_properties).of_namespace(namespace)


def _last_of(table: str, *, dotted: bool) -> str:
    return table.rpartition(".")[2].strip("`") if dotted else table.rstrip("/").rpartition("/")[2]


def _is_wanted(name: str, include: tuple[str, ...], exclude: tuple[str, ...]) -> bool:
    included = not include or any(fnmatchcase(name, pattern) for pattern in include)
    return included and not any(fnmatchcase(name, pattern) for pattern in exclude)


def _record(run: RunSummary, name: str, answer: Report | BaseException) -> None:
    """Record the outcome of a table in the summary and the log."""
    run.add(name, answer)
    with about(name):
        if isinstance(answer, BaseException):
            _log.error("%s: %s", name, answer, extra={"error": type(answer).__name__})
        else:
            _log.info("%s: %s, %d rows read", name, _outcome(answer), answer.rows_read)


def _show_traceback(name: str, exc: PuffinError, *, as_text: bool) -> None:
    if as_text:
        traceback.print_exception(exc)
    else:
        click.echo(failure(str(exc), exc, table=name, debug=True), err=True)


def _document(name: str, answer: Report | PuffinError) -> dict[str, Any]:
    return {"table": name, "error": str(answer)} if isinstance(answer, PuffinError) else answer.to_json()


def _summary(answers: Mapping[str, Report | PuffinError], *, asked: int, seconds: float) -> str:
    endings = Counter(map(_outcome, answers.values()))
    endings["skipped as up to date"] = asked - len(answers)
    counts = ", ".join(f"{count} {ending}" for ending, count in endings.items() if count)
    return f"{asked} {'table' if asked == 1 else 'tables'} in {seconds:.1f} s: {counts or 'nothing to do'}"


def _outcome(answer: Report | PuffinError) -> str:
    if isinstance(answer, PuffinError):
        return "failed"
    if answer.snapshot is None:
        return "without a snapshot"
    if not answer.columns and answer.entry is None:
        return "without a column to analyze"
    if answer.current:
        return "current"
    if answer.entry is None:
        return "computed only"
    return "committed" if answer.committed else "written only"


def _text(name: str, answer: Report | PuffinError) -> list[str]:
    if isinstance(answer, PuffinError):
        return [f"{name}: {answer}"]
    if answer.snapshot is None:
        return [f"{name}: no snapshot yet, nothing to analyze"]
    if not answer.columns and answer.entry is None:
        return [f"{name}: no column outside lists and maps that can be hashed, nothing to analyze"]
    lines = [
        f"{name} ({answer.format}, snapshot {answer.snapshot.snapshot_id})",
        *columns_table(answer.columns, answer.snapshot.snapshot_id),
    ]
    if answer.partitions is not None:
        lines.append(_partitions_text(answer.partitions))
    if answer.entries_repaired:
        entries = "1 entry" if answer.entries_repaired == 1 else f"{answer.entries_repaired} entries"
        lines.append(f"repaired {entries} of the table: every engine can read its statistics files now")
    path = "" if answer.entry is None else answer.entry.statistics_path
    spark = answer.session_seconds
    if answer.current:
        return [*lines, f"statistics are current, nothing was read: {path}"]
    lines.append(
        f"{answer.files_read:,} files, {answer.rows_read:,} rows, {human_bytes(answer.bytes_read)} read in "
        f"{answer.elapsed_seconds:.1f} s" + (f" (and {spark:.1f} s to start Spark)" if spark else "")
    )
    if answer.entry is None:
        lines.append("dry run: nothing was written")
    elif answer.committed:
        attempts = "1 attempt" if answer.attempts == 1 else f"{answer.attempts} attempts"
        lines.append(f"committed in {attempts}: {path}")
    else:
        lines.append(f"written, not committed: {path}")
    return lines


def _partitions_text(partitions: PartitionReport) -> str:
    if partitions.count is None:
        return f"no sketches by partition: {partitions.reason}"
    return "sketches of 1 partition" if partitions.count == 1 else f"sketches of {partitions.count:,} partitions"


class _Screen:
    """Progress for a person; shows nothing without ``bars``."""

    def __init__(self, bars: Progress | None) -> None:
        self._bars = bars

    @contextlib.contextmanager
    def watch(self, table: str) -> Iterator[Callable[[int, int], None] | None]:
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
def _screen(*, bars: bool) -> Iterator[_Screen]:
    err = console(stderr=True)
    if not (bars and err.is_terminal):
        yield _Screen(None)
        return
    from rich.progress import Progress

    with Progress(console=err, transient=True, redirect_stdout=False) as progress:
        yield _Screen(progress)
