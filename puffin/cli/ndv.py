"""``puffin ndv``: what a planner would be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from puffin.cli.options import as_json, diagnostics, of_catalog, of_snapshot
from puffin.cli.render import columns_table, print_json

if TYPE_CHECKING:
    from puffin.lookup import TableAnswer
    from puffin.tables.base import SnapshotSelector


@click.command(name="ndv")
@click.argument("table")
@click.argument("columns", nargs=-1, metavar="[COLUMN]...")
@of_catalog
@of_snapshot
@click.option(
    "--max-staleness",
    type=click.IntRange(min=0),
    metavar="N",
    help="Statistics older than N changes of the rows count as missing; compactions change none.",
)
@click.option("--partition", multiple=True, metavar="K=V", help="NDV of a partition; refused so far.")
@click.option("--where", metavar="EXPR", help="NDV of the partitions that match; refused so far.")
@as_json
@diagnostics
def command(
    *,
    table: str,
    columns: tuple[str, ...],
    catalog: str | None,
    catalog_properties: dict[str, str],
    selector: SnapshotSelector,
    max_staleness: int | None,
    partition: tuple[str, ...],
    where: str | None,
    json_output: bool,
) -> None:
    """
    Look up the number of distinct values of columns, from table metadata alone.

    TABLE is the path or URI of a table directory or of an Iceberg metadata file; with --catalog, namespace.table.
    COLUMN is a name or dotted path in the current schema; by default every primitive column outside lists and maps.
    """
    from puffin.lookup import lookup
    from puffin.tables.load import load_table

    if partition or where is not None:
        raise click.UsageError("--partition and --where are not supported by this version")
    loaded = load_table(table, catalog=catalog, catalog_properties=catalog_properties)
    answer = lookup(loaded, columns or None, selector, max_staleness=max_staleness)
    if json_output:
        print_json(answer.to_json())
    else:
        _print(answer)


def _print(answer: TableAnswer) -> None:
    snapshot = "no snapshot yet" if answer.snapshot_id is None else f"snapshot {answer.snapshot_id}"
    click.echo(f"{answer.table} ({answer.format}, {snapshot})")
    click.echo(columns_table(answer.columns, answer.snapshot_id))
