"""``puffin clean``: list and remove files and entries that are no longer needed."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from puffin.cli.options import CatalogChoice, as_json, diagnostics, duration, of_catalog, of_home
from puffin.cli.render import human_bytes, print_result

if TYPE_CHECKING:
    from puffin.clean import Cleaning


@click.command(name="clean")
@click.argument("table")
@of_catalog
@click.option(
    "--older-than",
    default="7d",
    metavar="DURATION",
    callback=duration,
    help="Only files older than this: 90s, 5m, 2h, 7d. A running job may be about to use a younger one.",
)
@click.option("--yes", is_flag=True, help="Remove what is listed.")
@click.option("--dry-run", is_flag=True, help="Only list, as without --yes.")
@of_home
@as_json
@diagnostics
def command(
    *,
    table: str,
    catalog: CatalogChoice,
    older_than: datetime.timedelta,
    yes: bool,
    dry_run: bool,
    home: str | None,
    json_output: bool,
) -> None:
    """
    List our unreferenced files and the entries of expired snapshots; --yes removes them.

    TABLE is the path or URI of a table directory; with --catalog, namespace.table. Whatever is not provably
    ours, unreferenced and old stays, and is listed with the reason.
    """
    from puffin.clean import clean

    if yes and dry_run:
        raise click.UsageError("expected either --yes or --dry-run")
    cleaning = clean(catalog.load(table), older_than=older_than, remove=yes, home=home)
    print_result(cleaning, _lines(cleaning), as_json=json_output)


def _lines(cleaning: Cleaning) -> Iterator[str]:
    done = "removed" if cleaning.removed else "to remove"
    for entry in cleaning.entries:
        yield f"{done}: entry of the expired snapshot {entry.snapshot_id}: {entry.statistics_path}"
    for leftover in cleaning.files:
        yield f"{done}: {leftover.file.uri} ({human_bytes(leftover.file.size)}): {leftover.reason}"
    for kept in cleaning.kept:
        yield f"kept: {kept.path}: {kept.reason}"
    size = human_bytes(sum(leftover.file.size for leftover in cleaning.files))
    total = f"files {len(cleaning.files)} ({size}), entries {len(cleaning.entries)}; kept: {len(cleaning.kept)}"
    hint = "" if cleaning.removed or not (cleaning.files or cleaning.entries) else "; --yes removes them"
    yield f"{cleaning.table} ({cleaning.format}): {done}: {total}{hint}"
