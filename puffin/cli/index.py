"""``puffin index``: the index job on the command line, for one table or for many."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from puffin.cli.index_advice import print_advice
from puffin.cli.many_tables import Job, run_job, work_done
from puffin.cli.options import column_names
from puffin.cli.render import aligned, counted, human_bytes
from puffin.cli.table_options import TableOptions, how_to_run, of_tables

if TYPE_CHECKING:
    from stats_jobs.index_report import IndexReport


@click.command(name="index")
@of_tables("Index", stale="index is")
@click.option(
    "--columns",
    multiple=True,
    callback=column_names,
    metavar="a,b.c",
    help="Index these columns too; by default, catch up those that the index has. May be repeated.",
)
@click.option(
    "--drop",
    multiple=True,
    callback=column_names,
    metavar="a,b.c",
    help="Take these columns out of the index. May be repeated.",
)
@click.option(
    "--fpp",
    type=float,
    metavar="P",
    help="False-positive rate: the share of files without the value that a plan still keeps; 0.01 by default. Changing "
    "it re-reads the column.",
)
@click.option(
    "--advise",
    is_flag=True,
    help="Index nothing; say from statistics and bounds, for --columns or for each column, whether an index would pay.",
)
@how_to_run
@click.pass_context
def command(
    ctx: click.Context, /, *, chosen: TableOptions, drop: tuple[str, ...] | None, advise: bool, **options_as_given: Any
) -> None:
    """
    Build or catch up an index that tells which data files may hold a value of a column.

    TABLE is the path or URI of a table directory (Iceberg or Delta, detected from its contents); with --catalog,
    namespace.table. A run reads only files that the index does not have yet. puffin plan uses the index.
    """
    if advise:
        if drop:
            raise click.UsageError("--advise and --drop exclude each other")
        print_advice(ctx, chosen, options_as_given["columns"], options_as_given["fpp"])
        return
    from stats_jobs import index, index_many
    from stats_jobs.options import IndexOptions

    options = IndexOptions(**options_as_given, **chosen.limits, drop=drop or ())
    # A dry run leaves the columns in the index, too.
    text = functools.partial(_text, to_drop=() if options.dry_run else options.drop)
    run_job(ctx, chosen, Job(index, index_many, options, text, _ending))


def _ending(report: IndexReport) -> str:
    if report.snapshot_id is None:
        return "without a snapshot"
    if report.committed:
        return "committed"
    return "computed only" if report.files_read or report.files_lifted else "current"


def _text(name: str, report: IndexReport, to_drop: Sequence[str] = ()) -> list[str]:
    if report.snapshot_id is None:
        return [f"{name}: no snapshot yet, nothing to index"]
    head = f"{name} ({report.format}, snapshot {report.snapshot_id})"
    if not report.columns:
        return [head, "no column is indexed", _ending(report)]
    rows = [
        ("column", "type", "fpp", "size"),
        *((each.column.name, each.column.type, f"{each.fpp:g}", human_bytes(each.bytes)) for each in report.columns),
    ]
    files = counted(report.files_total, "file is", "files are")
    done = f"{report.files_indexed:,} of {files} indexed, in {counted(report.segments, 'segment')}"
    lines = [head, *aligned(rows, right=(2, 3)), done]
    if report.files_read:
        lines.append(work_done(report))
    if report.files_lifted:
        lines.append(f"took the Bloom filters that {counted(report.files_lifted, 'file has', 'files have')}")
    if to_drop and not report.committed:
        lines.append(f"nothing to drop: no index of {', '.join(to_drop)}")
    return [*lines, _ending(report)]
