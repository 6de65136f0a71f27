"""
Orphan removal with age 0, by Trino and by Spark, while a later run needs what an earlier one kept beside its
statistics: rows that were deleted since are subtracted, and the others not read again.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

STATE = "_puffin_sidecar"
COLUMNS = "x AS id, CAST(x % 10 AS int) AS k, CONCAT('s', CAST(x % 100 AS varchar)) AS s"


def by_trino(table) -> None:
    table.trino("ALTER TABLE {t} EXECUTE remove_orphan_files(retention_threshold => '0s')")


def by_spark(table) -> None:
    table.remove_orphans_in_spark()


def by_spark_listing_prefixes(table) -> None:
    table.remove_orphans_in_spark(by_prefix=True)


@pytest.fixture
def analyzed_twice(share, request):
    """A table with two snapshots that have statistics of ours, and files that nothing refers to."""
    table = share(
        f"orphans_{request.node.callspec.id.replace(' ', '_')}",
        in_trino="CREATE TABLE {t} (id bigint, k int, s varchar) WITH (location = '{at}')",
    )
    for first in (1, 501):
        table.trino(f"INSERT INTO {{t}} SELECT {COLUMNS} FROM UNNEST(sequence({first}, {first + 499})) AS numbers(x)")
        table.analyze(mode="full")
    for nobodys in ("data/nobodys.parquet", "metadata/nobodys.stats"):
        (table.location / nobodys).write_bytes(b"nobody refers to this")
    time.sleep(1.1)  # so that all is older than an age of 0
    return table


@pytest.mark.parametrize("remove", [by_trino, by_spark])
def test_orphan_removal_of_any_age_keeps_what_later_runs_need(analyzed_twice, remove):
    table = analyzed_twice
    statistics = [Path(path) for path, _, _ in table.statistics_files().values()]
    state = sorted(path for path in (table.location / STATE).rglob("*") if path.is_file())
    manifests = [table.location / STATE / path.name for path in statistics]
    assert set(manifests) <= set(state)
    remove(table)
    assert not list(table.location.rglob("nobodys.*"))
    assert sorted(path for path in (table.location / STATE).rglob("*") if path.is_file()) == state
    table.look("the removal")
    table.trino("DELETE FROM {t} WHERE id % 100 = 7")
    report = table.bring_up_to_date("DELETE")
    table.had_no_problems()
    assert {column.basis for column in report.columns} == {"changed-files"}


@pytest.mark.parametrize("remove", [by_spark_listing_prefixes])
def test_removal_that_misses_hidden_folders_only_costs_another_read(analyzed_twice, remove):
    """Iceberg 1.12 compares prefixes as text, and then ``file:///x`` has no file below ``file:/x``."""
    table = analyzed_twice
    remove(table)
    assert not [path for path in (table.location / STATE).rglob("*") if path.is_file()]
    table.trino("DELETE FROM {t} WHERE id % 100 = 7")
    report = table.bring_up_to_date("DELETE")
    table.had_no_problems()
    assert {(column.basis, column.reason) for column in report.columns} == {
        ("full", "the private state beside the earlier sketch is gone")
    }


@pytest.mark.parametrize("lose", ["everything", "the parts"])
def test_removed_state_is_computed_again_and_its_cost_is_reported(analyzed_twice, lose):
    table = analyzed_twice
    state = [path for path in (table.location / STATE).rglob("*") if path.is_file()]
    assert state
    for path in state:
        if lose == "everything" or path.parent.name != STATE:
            path.unlink()
    table.trino("DELETE FROM {t} WHERE id % 100 = 7")
    report = table.bring_up_to_date("DELETE")
    table.had_no_problems()
    assert {column.basis for column in report.columns} == {"full"}
    assert all(column.reason for column in report.columns)
    table.trino("DELETE FROM {t} WHERE id % 100 = 8")
    report = table.bring_up_to_date("another DELETE")
    table.had_no_problems()
    assert {column.basis for column in report.columns} == {"changed-files"}
