"""``puffin ndv``: what a planner would be told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from puffin.cli.options import as_json, diagnostics, of_catalog, of_snapshot
from puffin.cli.render import columns_table, print_json, print_lines

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
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="K=V[/K=V]",
    help="Only the rows of the partitions that agree with this in each field K; may be repeated: one match is enough. "
    "Needs statistics by partition. %2F stands for a slash.",
)
@click.option(
    "--where",
    metavar="EXPR",
    help="Only the rows of the partitions that may have rows which pass this filter, an Iceberg expression; together "
    "with --partition both must hold.",
)
@click.option(
    "--manifests",
    is_flag=True,
    help="Read row counts and bounds from the snapshot's manifests, or a Delta table's log, for columns that "
    "another engine analyzed or nobody.",
)
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
    partitions: tuple[str, ...],
    where: str | None,
    manifests: bool,
    json_output: bool,
) -> None:
    """
    Look up the number of distinct values of columns, from table metadata alone.

    TABLE is the path or URI of a table directory or of an Iceberg metadata file; with --catalog, namespace.table.
    COLUMN is a name or dotted path in the current schema; by default every primitive column outside lists and maps.
    """
    from puffin.load import load_table
    from puffin.lookup import Question, lookup

    loaded = load_table(table, catalog=catalog, catalog_properties=catalog_properties)
    question = Question(
        columns=columns or None,
        selector=selector,
        max_staleness=max_staleness,
        partitions=partitions,
        where=where,
        manifests=manifests,
    )
    answer = lookup(loaded, question)
    if json_output:
        print_json(answer.to_json())
    else:
        print_lines(_lines(answer))


def _lines(answer: TableAnswer) -> Iterator[str]:
    snapshot = "no snapshot yet" if answer.snapshot_id is None else f"snapshot {answer.snapshot_id}"
    yield f"{answer.table} ({answer.format}, {snapshot})"
    yield from columns_table(answer.columns, answer.snapshot_id)
    if answer.partitions is not None and answer.partitions.of is not None:
        count = f"{answer.partitions.matched:,} of {answer.partitions.of:,} partitions"
        yield f"{count}, all rows of each: an upper view of the rows that a filter means"
