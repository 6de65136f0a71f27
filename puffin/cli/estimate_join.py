"""``puffin estimate-join``: the overlap of two columns and the rows of their join."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from puffin.cli.options import CatalogChoice, as_json, diagnostics, of_catalog
from puffin.cli.render import aligned, changed_since, counted, print_result

if TYPE_CHECKING:
    from puffin.lookup import JoinEstimate


@click.command(name="estimate-join")
@click.argument("left_table")
@click.argument("left_column")
@click.argument("right_table")
@click.argument("right_column")
@click.option("--left-where", metavar="EXPR", help="Join only rows of the left table that match this expression.")
@click.option("--right-where", metavar="EXPR", help="Likewise, of the right table.")
@of_catalog
@as_json
@diagnostics
def command(
    *,
    left_table: str,
    left_column: str,
    right_table: str,
    right_column: str,
    left_where: str | None,
    right_where: str | None,
    catalog: CatalogChoice,
    json_output: bool,
) -> None:
    """
    Estimate the overlap of two columns and the rows of their equi-join, from statistics alone.

    Tables are named as for puffin ndv and may have different formats; with --catalog, a name with a slash is still a
    path or URI. For a join on several columns, write a+b; pairs are matched in this order. Both columns need the same
    type: an int and a long are hashed differently.
    """
    from puffin.lookup import Lookup

    lookup = Lookup(**catalog.arguments, locations=catalog.name is not None)
    sides = left_table, left_column, right_table, right_column
    estimate = lookup.estimate_join(*sides, left_where, right_where)
    is_filtered = left_where is not None or right_where is not None
    print_result(estimate, _lines(estimate, is_filtered), as_json=json_output)


def _lines(estimate: JoinEstimate, is_filtered: bool) -> Iterator[str]:
    before, after = ("without filters", "with filters") if is_filtered else ("", "")
    rows = [(before, "column", "rows", "ndv", "in the other column")]
    sides = {"left": estimate.left, "right": estimate.right}
    for of, side in sides.items():
        share = "-" if side.containment is None else f"{side.containment:.1%}"
        rows.append((of, f"{side.table} {side.column}", _number(side.row_count), _number(side.ndv), share))
    yield from aligned(rows, right=(2, 3, 4))
    changes = {of: side.changed for of, side in sides.items() if side.changed is not None}
    overlap = estimate.overlap
    if overlap is not None:
        bounds = "exact" if overlap.exact else f"{overlap.lower:,} to {overlap.upper:,} at 95 %"
        then = " when the statistics were made" if changes else ""
        yield f"{before and f'{before}, '}both have {counted(overlap.ndv, 'value')}{then} ({bounds})"
    within = "" if estimate.rows is None else _within(*estimate.rows.rows.rounded())
    rows_joined = "unknown rows" if estimate.join_rows is None else counted(estimate.join_rows, "row")
    yield f"{after and f'{after}, '}the join has about {rows_joined}{within}"
    if estimate.rows is not None:
        by_side = [(of, *(_bounded(*each.rounded()) for each in side.rows or ())) for of, side in sides.items()]
        yield from aligned([(after, "rows", "with a partner", "without", "outer join"), *by_side], right=range(1, 5))
    for of, changed in changes.items():
        allowed = "" if estimate.rows is None else "; the bounds of rows allow for them"
        yield f"{of}: {changed_since(changed)}{allowed}"


def _bounded(rows: int, lower: int, upper: int) -> str:
    return f"{rows:,}" if lower == upper else f"{rows:,} ({lower:,} to {upper:,})"


def _within(_: int, lower: int, upper: int) -> str:
    return " (exact)" if lower == upper else f" ({lower:,} to {upper:,})"


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
