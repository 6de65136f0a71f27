"""``puffin index --advise``: whether an index of each column would pay, for one table or for many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from puffin.cli.diagnostics import diagnostics_of, fail_if_any
from puffin.cli.render import aligned, at_snapshot, counted, human_bytes, print_json, print_lines, print_result
from puffin.cli.table_options import TableOptions
from puffin.errors import PuffinError, line_about

if TYPE_CHECKING:
    from puffin.lookup.index_advice import IndexAdvice
    from puffin.planning.advice import ColumnAdvice


def print_advice(ctx: click.Context, chosen: TableOptions, columns: Sequence[str] | None, fpp: float | None) -> None:
    """Print the advice for each chosen table; exit code 1 if a table fails."""
    if chosen.spark_tables or chosen.only_stale or chosen.summary:
        raise click.UsageError("--advise takes neither --spark-table nor --only-stale nor --summary")
    names = chosen.names()
    diagnostics = diagnostics_of(ctx)
    if chosen.is_one:
        diagnostics.table = names[0]
        advice = _advice(names[0], chosen, columns, fpp)
        print_result(advice, _lines(advice), as_json=chosen.json_output)
        return
    documents: list[dict[str, Any]] = []
    failures = []
    for name in names:
        try:
            advice = _advice(name, chosen, columns, fpp)
            document, lines = advice.to_json(), _lines(advice)
        except PuffinError as exc:
            document, lines = {"table": name, "error": str(exc)}, [line_about(name, exc)]
            failures += lines
            if diagnostics.is_json:
                diagnostics.print_failure(str(exc), exc, table=name)
        documents.append(document)
        if not chosen.json_output:
            print_lines(lines)
    if chosen.json_output:
        print_json({"tables": documents})
    fail_if_any(ctx, failures, len(names))


def _advice(name: str, chosen: TableOptions, columns: Sequence[str] | None, fpp: float | None) -> IndexAdvice:
    from puffin.lookup.index_advice import advise

    return advise(chosen.catalog.load(name), columns, fpp)


def _lines(advice: IndexAdvice) -> list[str]:
    head = ("column", "type", "ndv", "overlap", "files per key", "with index", "size", "indexed", "index it?", "")
    rows = [head, *(_row(each, advice.files_total) for each in advice.columns)]
    return [
        f"{advice.table} ({advice.format}, {at_snapshot(advice.snapshot_id)}), {counted(advice.files_total, 'file')}",
        *aligned(rows, right=range(2, 8)),
    ]


def _row(each: ColumnAdvice, total: int) -> tuple[str, ...]:
    return (
        each.column.name,
        each.column.type,
        "-" if each.ndv is None else f"{each.ndv:,}",
        "-" if each.overlap is None else f"{each.overlap:.0%}",
        "-" if each.by_bounds is None else f"{each.by_bounds:,.1f}",
        "-" if each.by_index is None else f"{each.by_index:,.1f}",
        "-" if each.bytes is None else human_bytes(each.bytes),
        f"{each.files_indexed:,} of {total:,}" if each.files_indexed else "-" if each.files_indexed == 0 else "unknown",
        "yes" if each.recommended else "no",
        each.reason,
    )
