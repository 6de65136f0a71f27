"""What is due, and in which order: status, policy and clock in, verdicts out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from puffin.autopilot.decide import (
    BROKEN,
    DUE,
    FRESH,
    HELD,
    NEVER,
    WAITING,
    Failure,
    Past,
    decide,
    judge,
    spread,
    within,
)
from puffin.autopilot.look import CoveredTable, SeenTable
from puffin.load import FoundTable
from puffin.lookup.health import Since, TableStatus
from puffin.policy.model import Due, Rule
from puffin.policy.table_policy import TablePolicy, table_policy

NOW = 1_000_000_000.0
HOUR, DAY = 3600, 86_400
MIB = 1024 * 1024
SINCE = Since(int((NOW - HOUR) * 1000), snapshots_behind=3, rows_changed_share=0.04)
BEHIND = TableStatus(
    table="t",
    format="iceberg",
    snapshot_id=5,
    statistics_snapshot_id=2,
    since_newest=SINCE,
    since_oldest=SINCE,
    index_files_missing=0,
    index_bytes_to_read=0,
    bytes_to_read=MIB,
    health=98,
    reason="4 % of the rows are in files that came or went",
)
COLUMNS = {"id": "long", "name": "string"}


def since(**changes: Any) -> dict[str, Any]:
    return {"since_oldest": dataclasses.replace(SINCE, **changes)}


def seen(status: TableStatus = BEHIND, rule: Rule = Rule(), **changes: Any) -> SeenTable:  # noqa: B008 - frozen
    status = dataclasses.replace(status, **changes)
    policy: TablePolicy | None = table_policy(rule, {}, COLUMNS)
    found = FoundTable(status.table, None, "iceberg", lambda: pytest.fail("it is not loaded"))
    table = CoveredTable("prod", found, rule)
    return SeenTable(table, policy, status)


def due(**conditions: Any) -> Rule:
    return Rule(due=Due(**{"rows_changed": None, "age": None, "index_files": None, **conditions}))


@pytest.mark.parametrize(
    ("conditions", "changes", "why"),
    [
        ({"rows_changed": 0.04}, {}, "4 % of the rows in changed files"),
        ({"rows_changed": 0.0}, {}, "4 % of the rows in changed files"),
        ({"rows_changed": 0.05}, {}, None),
        ({"rows_changed": 0.0}, since(rows_changed_share=0.0), None),
        ({"rows_changed": 0.9}, since(rows_changed_share=None), "the number of changed rows is unknown"),
        ({}, since(rows_changed_share=None), None),
        ({"snapshots": 3}, {}, "3 snapshots behind"),
        ({"snapshots": 4}, {}, None),
        ({"snapshots": 4}, since(snapshots_behind=None), "the number of snapshots since is unknown"),
        ({"age": HOUR}, {}, "statistics 1h old"),
        ({"age": HOUR + 1}, {}, None),
        ({"age": HOUR}, since(snapshots_behind=0) | {"bytes_to_read": 9}, "statistics 1h old"),
        ({"age": HOUR}, since(snapshots_behind=0) | {"bytes_to_read": 0, "index_files_missing": 2}, None),
        ({"age": HOUR}, since(statistics_timestamp_ms=None), "the age of the statistics is unknown"),
        (
            {"rows_changed": 0.05},
            since(snapshots_behind=9, rows_changed_share=0.5),
            "50 % of the rows in changed files",
        ),
        ({"snapshots": 9}, since(snapshots_behind=9, rows_changed_share=0.5), "9 snapshots behind"),
        ({"age": 2 * HOUR}, since(statistics_timestamp_ms=int((NOW - DAY) * 1000)), "statistics 1d old"),
        ({"age": DAY}, since(statistics_timestamp_ms=int((NOW - 8.6 * DAY) * 1000)), "statistics 8d old"),
        ({}, {"columns_missing": ("a",)}, "column a has no statistics"),
        ({}, {"columns_missing": ("a", "b")}, "2 columns have no statistics"),
        ({}, {"statistics_snapshot_id": None, "columns_missing": ("a", "b"), "health": 0}, "there are no statistics"),
        ({"rows_changed": 0.0, "snapshots": 1, "age": 1}, {"health": 100}, None),
    ],
)
def test_statistics_are_due_when_one_condition_holds(
    conditions: dict[str, Any], changes: dict[str, Any], why: str | None
) -> None:
    verdict = judge(seen(rule=due(**conditions), **changes), NOW)
    assert (verdict.state, verdict.statistics) == ((FRESH, False) if why is None else (DUE, True))
    assert why in (None, verdict.why)


@pytest.mark.parametrize(
    ("rule", "changes", "why"),
    [
        (due(index_files=2), {"index_files_missing": 2, "indexed_columns": ("id",)}, "the index lacks 2 files"),
        (due(index_files=3), {"index_files_missing": 2, "indexed_columns": ("id",)}, None),
        (dataclasses.replace(due(), index_columns=("id",)), {"index_files_missing": 1}, "column id has no index"),
        (dataclasses.replace(due(), index_columns=("*",)), {"index_files_missing": 1}, "2 columns have no index"),
        (dataclasses.replace(due(), index_columns=("id",)), {"index_files_missing": 0}, None),
        (dataclasses.replace(due(), index_columns=("id",)), {"index_files_missing": None}, "the index cannot be read"),
        (due(), {"index_files_missing": None}, None),
    ],
)
def test_index_is_due_by_files_and_new_columns(rule: Rule, changes: dict[str, Any], why: str | None) -> None:
    verdict = judge(seen(rule=rule, index_bytes_to_read=7, **changes), NOW)
    if why is None:
        assert verdict.state == FRESH
    else:
        assert (verdict.state, verdict.index, verdict.statistics, verdict.why) == (DUE, True, False, why)
        assert verdict.bytes == 7


def test_table_that_keeps_changing_is_run_at_most_every_so_often() -> None:
    rule = due(rows_changed=0.01, at_most_every=2 * HOUR)
    waits = judge(seen(rule=rule), NOW)
    assert (waits.state, waits.why) == (WAITING, "4 % of the rows in changed files; waits for 1h")
    assert judge(seen(rule=rule), NOW + 62.5).why == "4 % of the rows in changed files; waits for 58m"
    assert judge(seen(rule=rule), NOW + HOUR).state == DUE
    ran = Past(ended={"prod:t": NOW - 60})
    old = since(statistics_timestamp_ms=0)
    assert judge(seen(rule=rule, **old), NOW).state == DUE
    assert judge(seen(rule=rule, **old), NOW, ran).state == WAITING


def test_nothing_waits_for_a_time_that_is_yet_to_come() -> None:
    """Of a clock that was set back, or of a writer's that is wrong."""
    rule = due(rows_changed=0.01, at_most_every=2 * HOUR)
    ahead = since(statistics_timestamp_ms=int((NOW + 365 * DAY) * 1000))
    assert judge(seen(rule=rule, **ahead), NOW).state == DUE
    assert judge(seen(rule=rule, **ahead), NOW, Past(ended={"prod:t": NOW + DAY})).state == DUE
    assert judge(seen(rule=rule, **ahead), NOW, Past(ended={"prod:t": NOW - 60})).state == WAITING


def test_failed_table_is_held_back_and_then_tried_again() -> None:
    past = Past({"prod:t": Failure(3, "the storage failed", NOW + HOUR)})
    held = judge(seen(rule=due(snapshots=1)), NOW, past)
    assert (held.state, held.why) == (HELD, "failed 3 times, again in 1h: the storage failed")
    assert judge(seen(rule=due(snapshots=1)), NOW + HOUR, past).state == DUE


def test_fresh_table_says_what_is_asked_of_it_in_vain() -> None:
    """A mistyped column is otherwise silent: the table without it is current."""
    table = seen(rule=Rule(columns=("idd",)), health=100, reason="no column can have statistics")
    assert judge(table, NOW).why == "no column can have statistics; columns: idd matches no column"
    properties = {"puffin-sidecar.columns": "idd", "puffin-sidecar.colums": "id"}
    owned = dataclasses.replace(table, policy=table_policy(Rule(), properties, COLUMNS))
    assert (judge(owned, NOW).state, judge(owned, NOW).why) == (
        FRESH,
        "no column can have statistics; puffin-sidecar.columns: idd matches no column; "
        "unknown property puffin-sidecar.colums",
    )


def test_table_that_cannot_be_read_and_one_that_is_never_due_do_not_run() -> None:
    broken = dataclasses.replace(seen(), policy=None, status=TableStatus.of_error("t", "no metadata"))
    assert (judge(broken, NOW).state, judge(broken, NOW).why) == (BROKEN, "no metadata")
    never = seen(rule=Rule(due=Due(never=True)), statistics_snapshot_id=None, health=0)
    assert judge(never, NOW).state == NEVER


def test_due_tables_come_first_in_the_order_of_value_per_byte() -> None:
    rule = due(snapshots=1)
    tables = [
        seen(table="fresh", health=100),
        seen(table="large", rule=rule, bytes_to_read=1000 * MIB, health=50),
        seen(table="small", rule=rule, bytes_to_read=10 * MIB, health=50),
        seen(table="worse", rule=rule, bytes_to_read=10 * MIB, health=20),
        seen(table="tiny", rule=rule, bytes_to_read=10, health=99),
        seen(table="asked", rule=rule, bytes_to_read=1000 * MIB, health=50),
    ]
    verdicts = decide(tables, NOW, questions={"asked": 10_000})
    assert [each.seen.name for each in verdicts] == ["asked", "worse", "small", "tiny", "large", "fresh"]


def test_instances_begin_with_different_tables_of_the_same_value() -> None:
    rule = due(snapshots=1)
    alike = [seen(table=f"t{n}", rule=rule, bytes_to_read=(10 + n % 3) * MIB) for n in range(20)]
    small = seen(table="small", rule=rule, bytes_to_read=MIB)
    verdicts = decide([*alike, small, seen(table="fresh", health=100)], NOW)
    orders = {seed: [each.seen.name for each in spread(verdicts, seed)] for seed in (1, 2)}
    assert orders[1][0] == orders[2][0] == "small"
    assert orders[1] != orders[2]
    assert sorted(orders[1]) == sorted(orders[2]) == sorted(["small", *(f"t{n}" for n in range(20))])


def test_budget_is_passed_by_the_last_table_at_most() -> None:
    rule = due(snapshots=1)
    tables = [seen(table=name, rule=rule, bytes_to_read=10 * MIB) for name in "abcd"]
    verdicts = decide(tables, NOW)
    starts = [may for _, may in within(verdicts, 15 * MIB)]
    assert starts == [True, True, False, False]
    assert [may for _, may in within(verdicts, None)] == [True] * 4
    assert [may for _, may in within(verdicts, 0)] == [False] * 4
