"""``puffin ndv``: the planner's lookup on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from puffin.cli.options import CatalogChoice, as_json, diagnostics, of_catalog, of_snapshot
from puffin.cli.render import at_snapshot, columns_table, counted, print_result
from puffin.errors import UsageError

if TYPE_CHECKING:
    from puffin.lookup import TableAnswer
    from puffin.tables.base import SnapshotSelector

_OPERATORS = {"=", "==", "!=", "<>", "<", "<=", ">", ">="}


@click.command(name="ndv")
@click.argument("table")
@click.argument("columns", nargs=-1, metavar="[COLUMN]...")
@of_catalog
@of_snapshot
@click.option(
    "--max-staleness",
    type=click.IntRange(min=0),
    metavar="N",
    help="Treat statistics as missing if more than N snapshots changed rows since; compactions do not count.",
)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="K=V[/K=V]",
    help="Only partitions with these values; may be repeated to add others. Needs statistics by partition. Write %2F "
    "for a slash.",
)
@click.option(
    "--where",
    metavar="EXPR",
    help="Only partitions that may hold rows that match this filter, an Iceberg expression; with --partition, both "
    "must hold.",
)
@click.option(
    "--manifests",
    is_flag=True,
    help="Read row counts and bounds from the snapshot's manifests, or a Delta table's log, for columns whose "
    "statistics lack them.",
)
@as_json
@diagnostics
def command(
    *,
    table: str,
    columns: tuple[str, ...],
    catalog: CatalogChoice,
    selector: SnapshotSelector,
    json_output: bool,
    **conditions: Any,
) -> None:
    """
    Look up the number of distinct values of columns, from table metadata alone.

    TABLE is the path or URI of a table directory (Iceberg or Delta, detected from its contents) or of an Iceberg
    metadata file; with --catalog, namespace.table. COLUMN is a name or dotted path in the current schema; by default
    every primitive column outside lists and maps.
    """
    from puffin.lookup import Question, lookup

    if conditions["where"] is not None and columns and columns[0] in _OPERATORS:
        raise UsageError(f"--where: expected the filter in quotes, found {columns[0]!r} as another argument")
    question = Question(table, columns or None, selector, **conditions)
    answer = lookup(catalog.load(table), question)
    print_result(answer, _lines(answer), as_json=json_output)


def _lines(answer: TableAnswer) -> Iterator[str]:
    yield f"{answer.table} ({answer.format}, {at_snapshot(answer.snapshot_id)})"
    yield from columns_table(answer.columns, answer.snapshot_id)
    if answer.partitions is not None and answer.partitions.of is not None:
        matched, of = answer.partitions.matched, counted(answer.partitions.of, "partition")
        if matched:
            yield f"{matched:,} of {of}, counted whole, so rows that do not match may be included"
        else:
            yield f"none of {of} matches"
