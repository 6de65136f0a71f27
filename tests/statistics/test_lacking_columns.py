"""A column that a snapshot lacks has its default while the snapshot is current, and is null once it is older."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import puffin
from puffin.iceberg.catalogs.directory import IcebergDirectory
from puffin.tables.base import SnapshotSelector
from stats_jobs import Options, analyze
from stats_jobs.report import Report
from tests.hand_made_table import HandMadeTable
from tests.table_directory import publish, versions_of

ID, ERA = (1, "id", "long"), (2, "era", "string", "early")
IDS = {"id": 1, "era": 2}
MAPPING = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["era"]}]


class Table:
    """Five rows in snapshot 1, and then a column ``era``, which snapshots get when they have other rows."""

    def __init__(self, made: HandMadeTable, *append: Any, **of_file: Any) -> None:
        self.made = made
        self.name = str(made.root)
        self.files: list[dict[str, Any]] = []
        self.append(*append, **of_file)
        made.evolve([ID, ERA])
        self.publish()

    def append(self, rows: dict[str, Any], ids: dict[str, int] | None = IDS, **of_file: Any) -> None:
        path = self.made.write(f"{len(self.files)}.parquet", pa.table({k: list(v) for k, v in rows.items()}), ids)
        self.files.append(self.made.data(path, **of_file))
        parent, now = self.made.document.get("current-snapshot-id"), self.made.snapshot(*self.files)
        more = {"schema-id": self.made.document["current-schema-id"]}
        of_parent = {} if parent is None else {"parent-snapshot-id": parent}
        self.made.document["snapshots"][-1] |= {**more, **of_parent, "sequence-number": now}

    def add_late_rows(self) -> None:
        self.append({"id": [5, 6], "era": ["late", None]})
        self.publish()

    def publish(self) -> None:
        for newest in versions_of(self.made.root)[-1:]:
            self.made.document["statistics"] = json.loads(newest.read_text()).get("statistics", [])
        others = {"last-sequence-number": len(self.files), "last-column-id": 2, "default-spec-id": 0, "next-row-id": 0}
        publish(self.made.root, self.made.document | others | {"last-partition-id": 999})

    def analyze(self, snapshot_id: int | None = None, **options: Any) -> Report:
        selector = SnapshotSelector(snapshot_id=snapshot_id)
        return analyze(IcebergDirectory(self.name), Options(selector=selector, **options))

    def groups(self, snapshot_id: int) -> float:
        """How many pairs of both columns a snapshot has, if that is exact."""
        found = puffin.estimate(self.name, group_by=["id", "era"], snapshot_id=snapshot_id).groups
        assert found.is_exact
        return found.rows


def era(report: Report) -> tuple[int | None, str | None]:
    (found,) = (each for each in report.columns if each.column.name == "era")
    return found.ndv, found.basis


@pytest.fixture
def table(make_table: Callable[..., HandMadeTable]) -> Table:
    return Table(make_table([ID], version=3), {"id": range(5)})


def test_older_snapshot_has_no_default_of_a_column_that_it_lacks(table: Table) -> None:
    table.add_late_rows()
    assert era(table.analyze(1)) == (0, "full")
    assert table.analyze(1).current
    (answer,) = puffin.ndv(table.name, ["era"], snapshot_id=1).columns
    assert (answer.ndv, answer.source, answer.summary.null_count) == (0, "snapshot", 5)
    report = table.analyze()
    assert [(each.ndv, each.basis) for each in report.columns] == [(7, "added-files"), (2, "full")]


def test_snapshot_that_is_no_longer_current_loses_the_default(table: Table) -> None:
    assert era(table.analyze()) == (1, "full")
    table.add_late_rows()
    assert era(table.analyze()) == (2, "added-files")
    assert era(table.analyze(1)) == (0, "full")
    assert table.analyze(1).current
    assert table.analyze().current


def test_nulls_of_an_older_snapshot_answer_for_no_later_one(table: Table) -> None:
    table.add_late_rows()
    table.analyze(1)
    (answer,) = puffin.ndv(table.name, ["era"]).columns
    assert (answer.source, answer.ndv) == ("missing", None)
    assert "since the snapshot lacked it" in (answer.reason or "")
    found = puffin.estimate(table.name, where="era = 'early'").rows
    assert found.lower <= 5 <= found.upper


def test_joint_sketches_with_nulls_of_an_older_snapshot_are_no_base(table: Table) -> None:
    table.append({"id": range(5), "era": ["early"] * 5})
    table.publish()
    table.analyze(1, joint=("id+era",))
    assert table.groups(1) == 5
    table.analyze(joint=("id+era",))
    assert table.groups(2) == 5
    table.analyze()
    assert table.groups(2) == 5


def test_older_snapshot_takes_nothing_by_name_for_a_column_that_it_lacks(
    make_table: Callable[..., HandMadeTable],
) -> None:
    made = make_table([ID], properties={"schema.name-mapping.default": json.dumps(MAPPING)})
    table = Table(made, {"id": range(5), "era": ["by name"] * 5}, None)
    assert era(table.analyze()) == (1, "full")
    table.add_late_rows()
    assert era(table.analyze(1)) == (0, "full")
    assert era(table.analyze()) == (2, "full")


@pytest.mark.parametrize("analyzed_while_current", [False, True])
def test_sketches_by_partition_are_of_the_snapshots_own_columns(
    make_table: Callable[..., HandMadeTable], analyzed_while_current: bool
) -> None:
    made = make_table([ID], version=3, spec=[(1, "identity")])
    table = Table(made, {"id": [5] * 3}, partition=(5,))
    if analyzed_while_current:
        table.analyze(partitions=True)
    table.append({"id": [5], "era": ["late"]}, partition=(5,))
    table.publish()
    if not analyzed_while_current:
        table.analyze(1, partitions=True)
    (answer,) = puffin.ndv(table.name, ["era"], where="id = 5", snapshot_id=1 if analyzed_while_current else 2).columns
    assert (answer.source, answer.ndv) == ("missing", None)
    table.analyze(1, partitions=True)
    table.analyze(2, partitions=True)
    for snapshot_id, ndv in ((1, 0), (2, 2)):
        (answer,) = puffin.ndv(table.name, ["era"], where="id = 5", snapshot_id=snapshot_id).columns
        assert (answer.source, answer.ndv) == ("snapshot", ndv)


def test_column_of_an_earlier_schema_is_null_under_one_that_lacks_it(table: Table) -> None:
    """The files have it, and the current schema has it again."""
    table.add_late_rows()
    had, table.made.document["current-schema-id"] = table.made.document["current-schema-id"], 0
    table.append({"id": [7]})
    table.made.document["current-schema-id"] = had
    table.append({"id": [8], "era": ["late"]})
    table.publish()
    assert era(table.analyze(2)) == (2, "full")
    assert era(table.analyze(3)) == (0, "full")


@pytest.mark.parametrize(("kind", "ndv"), [("branch", 1), ("tag", 0)])
def test_end_of_a_branch_is_read_under_the_current_schema(table: Table, kind: str, ndv: int) -> None:
    """As Iceberg's Java does in ``SnapshotUtil.schemaFor``."""
    table.made.document["refs"] = {"side": {"snapshot-id": 1, "type": kind}}
    table.add_late_rows()
    assert era(table.analyze(1)) == (ndv, "full")
