"""A data file that a table lists twice counts twice, and deletes apply to both listings, as in Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class Twice:
    """A table to which the numbers below 1000, in so many files, can be added any number of times."""

    def __init__(self, spark: Any, name: str, source: Path, properties: str, *, files: int = 2) -> None:
        self._spark = spark
        self._source = source
        self.name = f"hadoop.twice.{name}"
        spark.range(0, 1000, 1, files).write.parquet(str(source))
        spark.sql(f"CREATE TABLE {self.name} (id bigint) USING iceberg TBLPROPERTIES ({properties})")

    def add(self) -> None:
        files = f"source_table => '`parquet`.`{self._source}`', check_duplicate_files => false"
        self.call("add_files", files)

    def call(self, procedure: str, arguments: str) -> None:
        table = self.name.removeprefix("hadoop.")
        self._spark.sql(f"CALL hadoop.system.{procedure}(table => '{table}', {arguments})")

    def delete(self, condition: str) -> None:
        self._spark.sql(f"DELETE FROM {self.name} WHERE {condition}")


def properties(version: int, granularity: str) -> str:
    values = {"format-version": version, "write.delete.granularity": granularity, "write.delete.mode": "merge-on-read"}
    return ", ".join(f"'{key}' = '{value}'" for key, value in values.items())


@pytest.fixture
def same_as_spark(
    spark: Any, open_table: Callable[..., Any], analyze_table: Callable[..., Any], stored_payloads: Callable[..., Any]
) -> Callable[[Twice], tuple[int, str]]:
    """Compares an incremental run with a full one and with Spark; returns the row count and the basis."""

    def check(table: Twice) -> tuple[int, str]:
        opened = open_table(table.name)
        kept, full = analyze_table(table.name), analyze_table(table.name, mode="full", commit=False)
        stored = [stored_payloads(opened, report.entry)[1] for report in (kept, full)]
        assert stored[0] == stored[1]
        rows, distinct = spark.sql(f"SELECT count(id), count(DISTINCT id) FROM {table.name}").first()
        assert [column.ndv for report in (kept, full) for column in report.columns] == [distinct] * 2
        return rows, str(kept.columns[0].basis)

    return check


@pytest.mark.parametrize(("version", "granularity"), [(2, "file"), (2, "partition"), (3, "file")])
def test_deletes_of_every_kind_apply_to_every_listing(
    spark: Any, same_as_spark: Callable[[Twice], tuple[int, str]], tmp_path: Path, version: int, granularity: str
) -> None:
    table = Twice(spark, f"v{version}_{granularity}", tmp_path / "source", properties(version, granularity))
    table.add()
    table.add()
    assert same_as_spark(table) == (2000, "full")
    table.delete("id >= 200 AND id < 700")
    assert same_as_spark(table) == (1000, "changed-files")
    table.call("rewrite_position_delete_files", "options => map('rewrite-all', 'true')")
    assert same_as_spark(table) == (1000, "carried")
    table.delete("id % 4 = 0")
    assert same_as_spark(table) == (750, "changed-files")


def test_compaction_that_brings_deleted_rows_back_changes_rows(
    spark: Any, same_as_spark: Callable[[Twice], tuple[int, str]], tmp_path: Path
) -> None:
    """Iceberg compacts both listings, removes only one, and drops the deletion vectors."""
    # Of several files, Iceberg removes any listings or all: it reads two manifests at once, in no order.
    table = Twice(spark, "compacted", tmp_path / "source", properties(3, "file"), files=1)
    table.add()
    table.add()
    table.delete("id >= 200")
    assert same_as_spark(table) == (400, "full")
    table.call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    assert same_as_spark(table) == (1400, "changed-files")
    table.delete("id >= 100 AND id < 600")
    assert same_as_spark(table)[1] == "changed-files"
