"""``puffin status``: the health of named tables, or of every table of a catalog and below some directories."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from puffin.cli.diagnostics import fail_if_any
from puffin.cli.options import as_json, by_name, catalog_property, check_catalog, diagnostics
from puffin.cli.render import aligned, human_bytes, print_json, print_lines, with_catalog
from puffin.errors import line_about
from puffin.policy.quantities import about_seconds

if TYPE_CHECKING:
    from puffin.autopilot.decide import Verdict
    from puffin.lookup.health import TableStatus
    from puffin.lookup.places import NamePatterns


class _Shown(NamedTuple):
    """A table: its status for people, its document for programs, and a line about why it cannot be read, if so."""

    status: TableStatus
    document: dict[str, Any]
    failure: str | None


@click.command(name="status")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--catalog", metavar="NAME", help="Every table of this pyiceberg catalog, or those that are named.")
@catalog_property
@click.option("--namespace", metavar="NS", help="Only tables of this catalog namespace, and not of those below it.")
@click.option(
    "--root", "roots", multiple=True, metavar="URI", help="Every table below this directory; may be repeated."
)
@click.option(
    "--policy",
    metavar="FILE",
    help="Every table that this policy covers, and whether it is due.",
)
@by_name
@as_json
@diagnostics
@click.pass_context
def command(
    ctx: click.Context,
    *,
    tables: tuple[str, ...],
    policy: str | None,
    catalog: str | None,
    catalog_properties: dict[str, str],
    namespace: str | None,
    roots: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    json_output: bool,
) -> None:
    """
    Show how well statistics and index describe tables, worst first: each TABLE, or every one of a catalog and below
    directories.

    No data file is opened. Health is 100 if the statistics are current, and 0 without statistics.
    """
    if policy is not None and (tables or catalog is not None or namespace is not None or roots or catalog_properties):
        raise click.UsageError("--policy excludes TABLE..., --catalog, --catalog-property, --namespace and --root")
    if policy is None and catalog is None and not (tables or roots):
        raise click.UsageError("expected TABLE..., --catalog, --root or --policy")
    if tables and namespace is not None:
        raise click.UsageError("expected either TABLE... or --namespace")
    if namespace is not None and catalog is None:
        raise click.UsageError("--namespace needs --catalog")
    check_catalog(catalog, catalog_properties)
    from puffin.lookup.places import NamePatterns, Place

    names = NamePatterns(include, exclude)
    if policy is None:
        from puffin.lookup.status import status

        found = status(Place(catalog, catalog_properties, namespace, roots, names=names, tables=tables))
        shown = [_Shown(of, of.to_json(), None if of.error is None else line_about(of.table, of.error)) for of in found]
    else:
        shown = _of_policy(policy, names)
    if json_output:
        print_json({"tables": [each.document for each in shown]})
    else:
        print_lines(_lines([each.status for each in shown]))
    fail_if_any(ctx, [each.failure for each in shown if each.failure is not None], len(shown))


def _of_policy(file: str, names: NamePatterns) -> list[_Shown]:
    """The tables of a policy, with what that says of each."""
    from puffin.autopilot.decide import NEVER, Past, judge
    from puffin.autopilot.ledger import Ledger
    from puffin.autopilot.look import Watcher
    from puffin.policy.document import read_policy

    rules = read_policy(file)
    seen = Watcher(rules, names).look()
    now = time.time()
    ledger = Ledger(rules.state, writes=False)
    past = Past(ledger.failures(now + rules.retry.most), ledger.ended())
    verdicts = [judge(each, now, past) for each in seen]
    verdicts.sort(key=lambda each: (each.state == NEVER, each.seen.status.need))  # what is left alone needs nothing
    return [_judged(each) for each in verdicts]


def _judged(verdict: Verdict) -> _Shown:
    seen, error = verdict.seen, verdict.seen.status.error
    reason = f"{verdict.state}: {verdict.why}" if error is None else seen.status.reason
    status = dataclasses.replace(seen.status, table=with_catalog(seen.name, seen.catalog), reason=reason)
    document = {**seen.to_json(), "state": verdict.state, "state-reason": verdict.why}
    return _Shown(status, document, None if error is None else seen.line_about(error))


def _lines(tables: Sequence[TableStatus]) -> Iterator[str]:
    if not tables:
        yield "no tables"
        return
    now_ms = time.time_ns() // 1_000_000
    head = ("health", "table", "behind", "age", "changed", "without", "index lacks", "to read", "")
    yield from aligned([head, *(_row(table, now_ms) for table in tables)], right=(0, 2, 3, 4, 5, 6, 7))


def _row(table: TableStatus, now_ms: int) -> tuple[str, ...]:
    from puffin.lookup.health import about_share

    since = table.since_newest
    share, made = since.rows_changed_share, since.statistics_timestamp_ms
    return (
        str(table.health),
        table.table,
        "-" if since.snapshots_behind is None else f"{since.snapshots_behind:,}",
        "-" if made is None else about_seconds((now_ms - made) / 1000),
        "-" if share is None else about_share(share),
        "-" if table.error is not None else f"{len(table.columns_missing):,}",
        f"{table.index_files_missing:,}" if table.indexed_columns or table.index_files_missing else "-",
        "-" if table.run_bytes is None else human_bytes(table.run_bytes),
        table.reason if table.error is None else table.error,
    )
