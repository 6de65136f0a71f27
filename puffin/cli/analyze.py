"""``puffin analyze``: the statistics job on the command line, for one table or for many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from puffin.cli.many_tables import Job, run_job, work_done
from puffin.cli.options import column_names, of_snapshot
from puffin.cli.render import columns_table, counted, human_bytes
from puffin.cli.table_options import TableOptions, how_to_run, of_tables

if TYPE_CHECKING:
    from stats_jobs import Report
    from stats_jobs.report import JointReport, PartitionReport


@click.command(name="analyze")
@of_tables("Analyze", stale="statistics are")
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
@click.option(
    "--joint",
    multiple=True,
    metavar="a+b",
    help="Also compute joint sketches of these 2 to 4 columns; repeatable. Later runs keep them.",
)
@click.option("--no-joint", is_flag=True, help="Drop earlier joint sketches that --joint does not name.")
@click.option("--no-values", is_flag=True, help="Keep hashes only, no value of the table and no min and max.")
@click.option("--lg-k", type=int, default=12, help="Log2 of a sketch's nominal entries, 5 to 26.")
@click.option(
    "--codec",
    type=click.Choice(["none", "zstd", "lz4"]),
    default="none",
    help="Blob compression; sketches hardly shrink, and not every reader knows a codec.",
)
@click.option(
    "--no-row-counts",
    is_flag=True,
    help="Do not keep row counts and distributions. Deletes then need a full read, and filters and joins cannot be "
    "estimated from values. Undo with --mode full.",
)
@click.option("--no-index", is_flag=True, help="Do not catch up the index of a table that has one.")
@click.option(
    "--keep-entries",
    type=click.IntRange(min=1),
    metavar="N",
    help="Keep our N newest statistics entries in the table's metadata, this run's included, and remove older ones.",
)
@click.option("--no-commit", is_flag=True, help="Write the files, but do not change the table's metadata.")
@how_to_run
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    chosen: TableOptions,
    no_row_counts: bool,
    no_index: bool,
    no_commit: bool,
    **options_as_given: Any,
) -> None:
    """
    Compute theta sketches and NDV of a table's columns, write a statistics file, commit it.

    TABLE is the path or URI of a table directory (Iceberg or Delta, detected from its contents); with --catalog,
    namespace.table. Several tables share one Spark session, and one that fails does not stop the others.
    """
    from stats_jobs import Options, analyze, analyze_many

    options = Options(
        **options_as_given,
        **chosen.limits,
        row_counts=not no_row_counts,
        index=not no_index,
        commit=not no_commit,
    )
    run_job(ctx, chosen, Job(analyze, analyze_many, options, _text, _ending))


def _ending(answer: Report) -> str:
    if answer.snapshot is None:
        return "without a snapshot"
    if not answer.columns and answer.entry is None:
        return "without a column to analyze"
    if answer.current:
        return "current"
    if answer.entry is None:
        return "computed only"
    return "committed" if answer.committed else "written only"


def _text(name: str, answer: Report) -> list[str]:
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
    lines += [_joint_text(each) for each in answer.joint]
    if answer.entries_repaired:
        entries = counted(answer.entries_repaired, "entry", "entries")
        lines.append(f"repaired {entries} of the table: every engine can read its statistics files now")
    if answer.index is not None and answer.index.committed:
        lines.append(f"index: {answer.index.files_indexed:,} of {counted(answer.index.files_total, 'file')}")
    if answer.entries_removed:
        entries = counted(answer.entries_removed, "entry", "entries")
        lines.append(f"removed {entries} of earlier snapshots from the table's metadata")
    path = "" if answer.entry is None else answer.entry.statistics_path
    if answer.current:
        return [*lines, f"statistics are current, nothing was read: {path}"]
    return [*lines, *_work_text(answer, path)]


def _work_text(answer: Report, path: str) -> Iterator[str]:
    """What was read, and what came of it."""
    yield work_done(answer)
    if (needs := answer.needs) is not None:
        yield (
            f"memory of a run: up to {human_bytes(needs.driver_bytes)} in Python on the driver, "
            f"up to {human_bytes(needs.task_bytes)} in the Python worker of each task"
        )
    if answer.entry is None:
        yield "dry run: nothing was written"
    elif answer.committed:
        yield f"committed in {counted(answer.attempts, 'attempt')}: {path}"
    else:
        yield f"written, not committed: {path}"


def _joint_text(joint: JointReport) -> str:
    names = "+".join(joint.columns)
    if joint.distinct is None:
        return f"no joint sketch of {names}: {joint.reason}"
    return f"joint sketch of {names}: {counted(joint.distinct.ndv, 'distinct tuple')}"


def _partitions_text(partitions: PartitionReport) -> str:
    if partitions.count is None:
        return f"no sketches by partition: {partitions.reason}"
    return f"sketches of {counted(partitions.count, 'partition')}"
