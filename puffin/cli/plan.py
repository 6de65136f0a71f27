"""``puffin plan``: the data files of a table that can hold rows that match a filter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from puffin.cli.options import CatalogChoice, as_json, diagnostics, of_catalog, of_snapshot
from puffin.cli.render import aligned, at_snapshot, counted, human_bytes, print_json, print_lines

if TYPE_CHECKING:
    from puffin.planning.file_plan import FilePlan
    from puffin.tables.base import SnapshotSelector


@click.command(name="plan")
@click.argument("table")
@of_catalog
@of_snapshot
@click.option("--where", metavar="EXPR", help="Only files that can hold rows that match this Iceberg expression.")
@click.option("--explain", is_flag=True, help="Say how many files each predicate excludes by itself, and by what.")
@click.option("--no-index", is_flag=True, help="Plan by partitions and bounds alone.")
@as_json
@diagnostics
def command(
    *,
    table: str,
    catalog: CatalogChoice,
    selector: SnapshotSelector,
    where: str | None,
    explain: bool,
    no_index: bool,
    json_output: bool,
) -> None:
    """
    List the data files of a snapshot that can hold rows that match the filter, with their delete files.

    A file is left out only if its partition, its bounds or the index of a column exclude every matching row. TABLE is
    the path or URI of a table directory or of an Iceberg metadata file; with --catalog, namespace.table.
    """
    from puffin.planning.plan import NO_INDEX, Planner

    plan = Planner(catalog.load(table).open(selector)).plan(where, index=NO_INDEX if no_index else None)
    if json_output:
        print_json({**plan.to_json(), **({"explain": _explained(plan)} if explain else {})})
    else:
        print_lines(_lines(plan, explain=explain))


def _explained(plan: FilePlan) -> list[dict[str, Any]]:
    return [{"predicate": each.predicate, "excludes": each.excludes.to_json()} for each in plan.predicates]


def _lines(plan: FilePlan, *, explain: bool) -> Iterator[str]:
    yield f"{plan.table} ({plan.format}, {at_snapshot(plan.snapshot_id)})"
    matched, total = human_bytes(plan.bytes_matched), human_bytes(plan.bytes_total)
    yield f"{plan.files_matched:,} of {counted(len(plan.all_files), 'file')}, {matched} of {total}"
    pruned = plan.pruned
    yield f"excluded by partition {pruned.partition:,}, by bounds {pruned.bounds:,}, by index {pruned.index:,}"
    if plan.where is not None and not (plan.predicates or plan.files_matched):
        yield "no row can match this filter, whatever the files hold"
    if plan.index.columns:
        yield f"index of {', '.join(plan.index.columns)}: covers {counted(plan.index.files_covered, 'file')}"
    for warning in plan.warnings:
        yield f"warning: {warning}"
    if explain and plan.predicates:
        yield from aligned(
            [
                ("predicate", "partition", "bounds", "index"),
                *((e.predicate, *(f"{n:,}" for n in e.excludes.to_json().values())) for e in plan.predicates),
            ],
            right=range(1, 4),
        )
    for task in plan.files:
        yield task.data_file.file_path
        for each in task.delete_files:
            yield f"  with {each.content.lower().replace('_', ' ')} {each.file_path}"
