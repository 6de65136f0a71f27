"""How results leave the process: one JSON document, or text for a person."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from puffin.lookup import ColumnAnswer


def print_json(document: Any) -> None:
    """The document on stdout, indented, and nothing else."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def console(*, stderr: bool = False) -> Console:
    """Where text for a person goes; nothing in it is taken for markup unless it is asked for."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)


def columns_table(columns: Iterable[ColumnAnswer]) -> Table:
    """NDV and bounds, a row for each column."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("column", "type"):
        table.add_column(heading)
    for heading in ("ndv", "95 % bounds"):
        table.add_column(heading, justify="right")
    table.add_column("from")
    for answer in columns:
        distinct = answer.distinct
        table.add_row(
            answer.column.name,
            answer.column.type,
            "-" if distinct is None else f"{distinct.ndv:,}",
            "" if distinct is None else "exact" if distinct.exact else f"{distinct.lower:,} to {distinct.upper:,}",
            answer.source if answer.stats_snapshot_id is None else f"{answer.source} {answer.stats_snapshot_id}",
        )
    return table


def human_bytes(size: int) -> str:
    """A size for a person: ``"1.5 MiB"``."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{size} B" if units[0] == "B" else f"{value:.1f} {units[0]}"
