"""``puffin estimate``: the rows that a filter leaves, and the groups that a grouping makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from puffin.cli.options import CatalogChoice, as_json, column_names, diagnostics, of_catalog, of_snapshot
from puffin.cli.render import aligned, at_snapshot, changed_since, counted, print_result

if TYPE_CHECKING:
    from puffin.lookup.estimates import TableEstimate
    from puffin.lookup.table_rows import RowsChanged
    from puffin.tables.base import SnapshotSelector


@click.command(name="estimate")
@click.argument("table")
@of_catalog
@of_snapshot
@click.option("--where", metavar="EXPR", help="Estimate the rows that match this Iceberg expression.")
@click.option(
    "--group-by",
    multiple=True,
    callback=column_names,
    metavar="a,b",
    help="Estimate the groups that these columns make; null is one group.",
)
@as_json
@diagnostics
def command(
    *,
    table: str,
    catalog: CatalogChoice,
    selector: SnapshotSelector,
    where: str | None,
    group_by: tuple[str, ...] | None,
    json_output: bool,
) -> None:
    """
    Estimate how many rows a filter leaves and how many groups a grouping makes, from statistics alone.

    Bounds hold 95 times in 100, those of filters on several columns always. TABLE is the path or URI of a table
    directory or of an Iceberg metadata file; with --catalog, namespace.table.
    """
    from puffin.lookup.estimates import Estimator

    estimator = Estimator(catalog.load(table).open(selector))
    found = estimator.estimate(where, group_by)
    grouped = () if group_by is None else estimator.opened.state.select_columns(group_by)
    print_result(found, _lines(found, estimator.rows_changed(grouped, found.how)), as_json=json_output)


def _lines(found: TableEstimate, rows_changed: RowsChanged | None) -> Iterator[str]:
    document = found.to_json()
    yield f"{found.table} ({found.format}, {at_snapshot(found.snapshot_id)}, {counted(found.row_count, 'row')})"
    yield _line("row", document["rows"], document["lower"], document["upper"])
    if found.groups is not None:
        yield _line("group", document["groups"], document["groups-lower"], document["groups-upper"])
    if found.guessed:
        yield f"no statistics of {', '.join(found.guessed)}: the number of groups is a guess"
    if rows_changed is not None:
        yield f"{changed_since(rows_changed)}; the bounds allow for them"
    if found.methods:
        yield from aligned([("predicate", "method"), *found.methods])


def _line(what: str, number: int, lower: int, upper: int) -> str:
    return f"{counted(number, what)} ({'exact' if lower == upper else f'{lower:,} to {upper:,}'})"
