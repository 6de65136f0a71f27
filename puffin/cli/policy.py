"""``puffin policy``: what a policy file means for each table that it covers, or what is wrong with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from puffin.cli.diagnostics import fail_if_any, first_of
from puffin.cli.options import as_json, diagnostics, in_policy
from puffin.cli.render import aligned, counted, human_bytes, print_json, print_lines, with_catalog
from puffin.errors import PolicyError

if TYPE_CHECKING:
    from puffin.autopilot.look import SeenTable, Watcher
    from puffin.policy.model import Policy
    from puffin.policy.table_policy import TablePolicy


@click.command(name="policy")
@click.argument("action", type=click.Choice(["check"]), metavar="check", expose_value=False)
@click.argument("file")
@click.option("--file-only", is_flag=True, help="Check the file, and look at no catalog and no table.")
@in_policy
@as_json
@diagnostics
@click.pass_context
def command(
    ctx: click.Context, *, file: str, file_only: bool, narrowed: Callable[[Policy], Policy], json_output: bool
) -> None:
    """
    Check a policy file for puffin autopilot, and say what it means for each table.

    No data file is opened. Mistakes in the file are listed with their lines.
    """
    from puffin.policy.document import read_policy

    try:
        whole = read_policy(file)
        policy = narrowed(whole)
    except PolicyError as exc:
        mistakes = [{"line": line, "message": message} for line, message in exc.mistakes]
        if json_output:
            print_json({"file": file, "valid": False, "mistakes": mistakes})
        elif len(mistakes) > 1:
            print_lines(f"{file}:{line}: {message}" for line, message in exc.mistakes)
        raise
    from puffin.autopilot.look import Watcher

    watcher = Watcher(policy)
    tables = [] if file_only else watcher.look()
    if json_output:
        print_json(_document(policy, tables))
    else:
        print_lines(_lines(policy, tables, None if file_only else _idle(policy, watcher, is_whole=policy is whole)))
    failures = [each.line_about(each.status.error) for each in tables if each.status.error is not None]
    fail_if_any(ctx, failures, len(tables))


def _document(policy: Policy, tables: Sequence[SeenTable]) -> dict[str, Any]:
    limits, hours = policy.limits, policy.limits.hours
    return {
        "file": policy.file,
        "valid": True,
        "mistakes": [],
        "limits": {
            "bytes-per-day": limits.bytes_per_day,
            "tables-at-once": limits.tables_at_once,
            "hours": None if hours is None else str(hours),
            "time-zone": limits.time_zone,
            "driver-bytes": limits.driver_bytes,
        },
        "tables": [
            {
                "table": table.name,
                "catalog": table.catalog,
                "policy": None if table.policy is None else table.policy.to_json(),
                "error": table.status.error,
            }
            for table in tables
        ],
        "unmatched": [{"rule-line": line or None, "key": key, "name": name} for line, key, name in _unmatched(tables)],
    }


def _lines(policy: Policy, tables: Sequence[SeenTable], idle: Iterable[str] | None) -> Iterator[str]:
    limits = policy.limits
    budget = "no limit on bytes" if limits.bytes_per_day is None else f"{human_bytes(limits.bytes_per_day)} a day"
    when = "at any hour" if limits.hours is None else f"from {str(limits.hours).replace('-', ' to ')}"
    at_once = counted(limits.tables_at_once, "table")
    yield f"{policy.file}: valid; {budget}, {at_once} at once, {when} {limits.time_zone}"
    if idle is None:
        return
    if tables:
        head = ("table", "rule", "columns", "index", "due", "")
        yield from aligned([head, *map(_row, tables)])
    else:
        yield "no tables"
    yield from idle
    from puffin.policy.table_policy import matches_nothing

    for line, key, name in _unmatched(tables):
        yield f"{policy.file}:{line}: {matches_nothing(key, name)} of the tables of this rule"


def _idle(policy: Policy, watcher: Watcher, *, is_whole: bool) -> Iterator[str]:
    """
    Lines about places and patterns of the policy without tables, and about tables without a rule.

    A place that cannot be listed, or is left out, may have what a pattern is for.
    """
    found = [[(place, each.dotted) for place, each in names if each.error is None] for _, names in watcher.found]
    everywhere = {name for names in found for name in names}
    listed = {place for _, names in watcher.found for place, _ in names}
    for catalog in policy.catalogs:
        if catalog.name not in listed:
            yield f"{policy.file}: {catalog.name}: no table in the namespaces {', '.join(catalog.namespaces)}"
    yield from (f"{policy.file}: {root}: no table below it" for root in policy.roots if root not in listed)
    if is_whole and all(names for names in found):
        for rule in policy.rules:
            for pattern in rule.tables:
                one = dataclasses.replace(rule, tables=(pattern,))
                if pattern != "*" and not any(one.covers(*name) for name in everywhere):
                    yield f"{policy.file}:{rule.line}: tables: {pattern} matches no table"
    alone = [
        with_catalog(names[0][1].name, catalog)
        for (catalog, names), known in zip(watcher.found, found, strict=True)
        if known and policy.rule_for(known) is None
    ]
    if alone:
        yield f"{counted(len(alone), 'table')} without a rule, which nothing is done for: {first_of(alone)}"


def _row(table: SeenTable) -> tuple[str, ...]:
    policy = table.policy
    name = with_catalog(table.name, table.catalog)
    if policy is None:
        return name, "-", "-", "-", "-", table.status.error or ""
    columns = "all" if policy.columns is None else ",".join((*policy.columns, *policy.joint)) or "none"
    notes = [
        "by partition" if policy.partitions else "",
        f"without values: {_without_values(policy)}" if policy.no_values else "",
        f"set by the owner: {', '.join(policy.owner_set)}" if policy.owner_set else "",
        *policy.owner_mistakes,
        table.status.error or "",
    ]
    return (
        name,
        f"line {policy.rule.line}" if policy.rule.line else "default",
        columns,
        ",".join(policy.index_columns) or "-",
        str(policy.due),
        "; ".join(note for note in notes if note),
    )


def _unmatched(tables: Sequence[SeenTable]) -> list[tuple[int, str, str]]:
    """The line of each rule, and its keys and names that match no column of any of its tables."""
    by_line: dict[int, frozenset[tuple[str, str]]] = {}
    for policy in (table.policy for table in tables if table.policy is not None):
        line = policy.rule.line
        by_line[line] = policy.unmatched & by_line.get(line, policy.unmatched)
    return sorted((line, key, name) for line, unmatched in by_line.items() for key, name in unmatched)


def _without_values(policy: TablePolicy) -> str:
    return "all columns" if "*" in policy.rule.no_values else ",".join(policy.no_values)
