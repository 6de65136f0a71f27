"""``puffin analyze``: the statistics job, for one table or for many in one Spark session."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from puffin.cli.options import as_json, column_names, diagnostics, key_values, of_catalog, of_snapshot
from puffin.cli.render import columns_table, console, human_bytes, print_json
from puffin.errors import PuffinError

if TYPE_CHECKING:
    from puffin.tables.base import SnapshotSelector
    from stats_jobs import Report


@click.command(name="analyze")
@click.argument("tables", nargs=-1, metavar="TABLE...")
@of_catalog
@click.option("--namespace", metavar="NS", help="Every table of this namespace of the catalog.")
@click.option("--columns", multiple=True, callback=column_names, metavar="a,b.c", help="Only these; may be repeated.")
@of_snapshot
@click.option(
    "--mode",
    type=click.Choice(["auto", "full", "incremental"]),
    default="auto",
    show_default=True,
    help="auto computes nothing if the statistics are current; full computes always; incremental is refused so far.",
)
@click.option("--partitions", is_flag=True, help="Statistics by partition; refused so far.")
@click.option("--lg-k", type=int, default=12, show_default=True, help="Log2 of a sketch's nominal entries, 5 to 26.")
@click.option(
    "--codec",
    type=click.Choice(["none", "zstd", "lz4"]),
    default="none",
    show_default=True,
    help="Blob compression; sketches hardly shrink, and not every reader knows a codec.",
)
@click.option("--master", metavar="URL", help="Spark master; every core of this machine by default.")
@click.option("--conf", multiple=True, callback=key_values, metavar="K=V", help="Spark configuration; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Compute only; write nothing.")
@click.option("--no-commit", is_flag=True, help="Write the statistics file, leave the table's metadata as it is.")
@as_json
@diagnostics
@click.pass_context
def command(
    ctx: click.Context,
    *,
    tables: tuple[str, ...],
    catalog: str | None,
    catalog_properties: dict[str, str],
    namespace: str | None,
    columns: tuple[str, ...] | None,
    selector: SnapshotSelector,
    mode: str,
    partitions: bool,
    lg_k: int,
    codec: str,
    master: str | None,
    conf: dict[str, str],
    dry_run: bool,
    no_commit: bool,
    json_output: bool,
) -> None:
    """
    Compute theta sketches and NDV of a table's columns, write a statistics file, commit it.

    TABLE is the path or URI of a table directory; with --catalog, namespace.table. Several tables share one Spark
    session, and one that fails does not stop the others.
    """
    from puffin.tables.load import load_table
    from stats_jobs import Options, SparkStarter, analyze

    if mode == "incremental" or partitions:
        raise click.UsageError("--mode incremental and --partitions are not supported by this version")
    names = _names(tables, namespace, catalog, catalog_properties)
    options = Options(
        columns=columns,
        selector=selector,
        mode=mode,
        lg_k=lg_k,
        codec=codec,
        commit=not no_commit,
        dry_run=dry_run,
    )
    with SparkStarter(master=master, conf=conf, verbose=bool(ctx.find_root().obj.get("verbose"))) as spark:

        def run(name: str) -> Report:
            table = load_table(name, catalog=catalog, catalog_properties=catalog_properties)
            with _progress_bar(name) as progress:
                return analyze(table, options, spark, progress)

        if len(names) == 1 and namespace is None:
            _show(run(names[0]), json_output)
        else:
            _run_each(ctx, names, run, json_output)


def _names(
    tables: tuple[str, ...], namespace: str | None, catalog: str | None, catalog_properties: dict[str, str]
) -> tuple[str, ...]:
    if bool(tables) == (namespace is not None):
        raise click.UsageError("expected either TABLE... or --namespace")
    if namespace is None:
        return tables
    if catalog is None:
        raise click.UsageError("--namespace needs --catalog")
    from puffin.tables.load import namespace_tables

    return tuple(namespace_tables(namespace, catalog=catalog, catalog_properties=catalog_properties))


def _run_each(ctx: click.Context, names: tuple[str, ...], run: Callable[[str], Report], json_output: bool) -> None:
    documents: list[dict[str, Any]] = []
    failed = 0
    for name in names:
        try:
            report = run(name)
        except PuffinError as exc:
            failed += 1
            documents.append({"table": name, "error": str(exc)})
            if not json_output:
                click.echo(f"{name}: {exc}")
            continue
        documents.append(report.to_json())
        if not json_output:
            _show(report, json_output)
    if json_output:
        print_json({"tables": documents})
    if failed:
        click.echo(f"puffin: {failed} of {len(names)} tables failed", err=True)
        ctx.exit(1)


def _show(report: Report, json_output: bool) -> None:
    if json_output:
        print_json(report.to_json())
        return
    if report.snapshot is None:
        click.echo(f"{report.table}: no snapshot yet, nothing to analyze")
        return
    click.echo(f"{report.table} ({report.format}, snapshot {report.snapshot.snapshot_id})")
    click.echo(columns_table(report.columns, report.snapshot.snapshot_id))
    if not report.attempts and report.entry is not None and report.mode != "full":
        click.echo(f"statistics are current, nothing was read: {report.entry.statistics_path}")
        return
    click.echo(
        f"{report.files_read:,} files, {report.rows_read:,} rows, {human_bytes(report.bytes_read)} read in "
        f"{report.elapsed_seconds:.1f} s (and {report.session_seconds:.1f} s to start Spark)"
    )
    if report.entry is None:
        click.echo("dry run: nothing was written")
    elif report.committed:
        attempts = "1 attempt" if report.attempts == 1 else f"{report.attempts} attempts"
        click.echo(f"committed in {attempts}: {report.entry.statistics_path}")
    else:
        click.echo(f"written, not committed: {report.entry.statistics_path}")


@contextlib.contextmanager
def _progress_bar(table: str) -> Iterator[Callable[[int, int], None] | None]:
    err = console(stderr=True)
    if not err.is_terminal:
        yield None
        return
    from rich.progress import Progress

    with Progress(console=err, transient=True) as bar:
        task = bar.add_task(table, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
