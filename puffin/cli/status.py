"""``puffin status``: the health of every table of a catalog and below some directories."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from puffin.cli.options import as_json, catalog_property, diagnostics, print_failure
from puffin.cli.render import aligned, human_bytes, print_json, print_lines

if TYPE_CHECKING:
    from puffin.lookup.health import TableStatus

_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


@click.command(name="status")
@click.option("--catalog", metavar="NAME", help="Every table of this pyiceberg catalog.")
@catalog_property
@click.option("--namespace", metavar="NS", help="Only tables of this catalog namespace.")
@click.option(
    "--root", "roots", multiple=True, metavar="URI", help="Every table below this directory; may be repeated."
)
@as_json
@diagnostics
@click.pass_context
def command(
    ctx: click.Context,
    *,
    catalog: str | None,
    catalog_properties: dict[str, str],
    namespace: str | None,
    roots: tuple[str, ...],
    json_output: bool,
) -> None:
    """
    Show how well statistics and index describe every table of a catalog and below directories, worst first.

    No data file is opened. Health is 100 if the statistics are current, and 0 without statistics.
    """
    if catalog is None and not roots:
        raise click.UsageError("expected --catalog or --root")
    if catalog is None and (namespace is not None or catalog_properties):
        raise click.UsageError(f"{'--namespace' if namespace is not None else '--catalog-property'} needs --catalog")
    from puffin.lookup.status import Place, status

    tables = status(Place(catalog, catalog_properties, namespace, roots))
    if json_output:
        print_json({"tables": [table.to_json() for table in tables]})
    else:
        print_lines(_lines(tables))
    failed = sum(table.error is not None for table in tables)
    if failed:
        print_failure(f"{failed} of {len(tables)} tables failed", ctx.find_root().obj)
        ctx.exit(1)


def _lines(tables: Sequence[TableStatus]) -> Iterator[str]:
    if not tables:
        yield "no tables"
        return
    now_ms = time.time_ns() // 1_000_000
    head = ("health", "table", "behind", "age", "changed", "without", "index lacks", "to read", "")
    yield from aligned([head, *(_row(table, now_ms) for table in tables)], right=(0, 2, 3, 4, 5, 6, 7))


def _row(table: TableStatus, now_ms: int) -> tuple[str, ...]:
    share, made = table.rows_changed_share, table.statistics_timestamp_ms
    return (
        str(table.health),
        table.table,
        "-" if table.snapshots_behind is None else f"{table.snapshots_behind:,}",
        "-" if made is None else _age(now_ms - made),
        "-" if share is None else f"{share:.0%}",
        "-" if table.error is not None else f"{len(table.columns_missing):,}",
        "-" if not table.indexed_columns else f"{table.index_files_missing:,}",
        "-" if table.bytes_to_read is None else human_bytes(table.bytes_to_read),
        table.reason if table.error is None else table.error,
    )


def _age(ms: int) -> str:
    """An age for a person, in its largest unit: ``"3 d"``."""
    seconds = max(0, ms // 1000)
    return next((f"{seconds // size:,} {unit}" for size, unit in _UNITS if seconds >= size), f"{seconds} s")
