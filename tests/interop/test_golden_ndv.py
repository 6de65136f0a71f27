"""
Our statistics of tables that Spark analyzed itself agree with its counts and with the hashes in its sketches.

Nothing is committed: the tables stay as their writer left them, and the files written beside them go with the run.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from puffin.load import load_table
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.tables.base import SnapshotSelector

EXPECTED = json.loads(
    (Path(__file__).parents[2] / "fixtures/tables-spark-3.5-iceberg-1.10/iceberg-spark-expected.json").read_text()
)
COLUMNS = [
    (table, column) for table, expected in EXPECTED.items() if expected["rows"] for column in expected["distinct"]
]
NOMINAL_ENTRIES = 4096
THREE_SIGMA = 3 / NOMINAL_ENTRIES**0.5
# What sketches count otherwise than SQL does: -0.0 apart from 0.0, and no empty binary.
COUNTED_OTHERWISE = {("t_types", "f"): +1, ("t_types", "d"): +1, ("t_types", "bin"): -1}
HASHED_AS_TEXT = ("t_types", "u")  # the uuid
OLDER = {"t_mor_v2": 5198458703423075292, "t_evolved": 2121279734115411739}
PROMOTED = {"a", "b"}  # of t_evolved, int to long and float to double after the older snapshot was analyzed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analyzed:
    """Our answers, our sketches and Spark's sketches of one snapshot, by column; dropped columns by field id."""

    ndv: dict[str, int]
    ours: dict[str, ThetaSketch]
    spark: dict[str, ThetaSketch]

    def common(self, column: str) -> tuple[set[int], set[int]]:
        """The hashes in our sketch and in Spark's below the smaller theta."""
        theta = min(self.ours[column].theta, self.spark[column].theta)
        ours, spark = (sketches[column].hashes for sketches in (self.ours, self.spark))
        return set(ours[ours < theta].tolist()), set(spark[spark < theta].tolist())


@pytest.fixture(scope="module")
def analyzed(golden_tables, analyze_table, stored_payloads):
    """Analyzes a golden table once, at its current or another snapshot."""
    known: dict[tuple[str, int | None], Analyzed] = {}

    def run(name: str, snapshot_id: int | None = None) -> Analyzed:
        if (name, snapshot_id) not in known:
            table = load_table(str(golden_tables / name))
            before = table.open().state
            selector = SnapshotSelector(snapshot_id=snapshot_id)
            report = analyze_table(table, mode="full", commit=False, selector=selector)
            names = {column.field_id: column.name for column in before.columns}
            theirs = before.statistics[report.snapshot.snapshot_id]
            ours, spark = (
                {names.get(i, i): ThetaSketch.from_bytes(blob) for i, blob in stored_payloads(table, entry).items()}
                for entry in (report.entry, theirs)
            )
            ndv = {column.column.name: column.ndv for column in report.columns}
            known[name, snapshot_id] = Analyzed(ndv=ndv, ours=ours, spark=spark)
        return known[name, snapshot_id]

    return run


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_ndv_is_exact_up_to_the_sketch_size_and_within_three_sigma_above(analyzed, table, column):
    distinct = EXPECTED[table]["distinct"][column] + COUNTED_OTHERWISE.get((table, column), 0)
    allowed = 0 if distinct <= NOMINAL_ENTRIES else distinct * THREE_SIGMA
    assert abs(analyzed(table).ndv[column] - distinct) <= allowed


@pytest.mark.parametrize(("table", "column"), [pair for pair in COLUMNS if pair != HASHED_AS_TEXT])
def test_hashes_equal_those_in_sparks_sketches(analyzed, table, column):
    ours, spark = analyzed(table).common(column)
    assert ours == spark
    assert len(ours) > 0


def test_uuid_hashes_differ_from_sparks(analyzed):
    """We hash the 16 bytes, Spark hashes the text: as many values, none in common."""
    ours, spark = analyzed("t_types").common(HASHED_AS_TEXT[1])
    assert len(ours) == len(spark) == 2500
    assert not ours & spark


def test_table_that_was_never_written_has_no_statistics(golden_tables, analyze_table):
    report = analyze_table(load_table(str(golden_tables / "t_nosnap")))
    assert (report.snapshot, report.entry, report.committed) == (None, None, False)
    assert [column.ndv for column in report.columns] == [None]


@pytest.mark.parametrize("column", ["id", "s", "cat"])
def test_older_snapshot_includes_rows_deleted_later(analyzed, column):
    older = analyzed("t_mor_v2", OLDER["t_mor_v2"])
    ours, spark = older.common(column)
    assert ours == spark
    if column != "cat":
        assert older.ndv[column] > 1.2 * analyzed("t_mor_v2").ndv[column]


def test_older_snapshot_is_analyzed_under_the_current_schema(analyzed):
    """Columns are matched by field id and hashed as their current, promoted type."""
    older = analyzed("t_evolved", OLDER["t_evolved"])
    by_spark = next(s["ndv"] for s in EXPECTED["t_evolved"]["stats"] if s["snapshot"] == OLDER["t_evolved"])
    assert set(older.ndv) == set(EXPECTED["t_evolved"]["distinct"])
    assert {c: older.ndv[c] for c in ("a", "b", "renamed", "p")} == {
        c: int(by_spark[c]) for c in ("a", "b", "renamed", "p")
    }
    assert (older.ndv["added"], older.ndv["dropme"]) == (0, 0)
    for column in older.ours.keys() & older.spark.keys():
        ours, spark = older.common(column)
        assert (ours == spark) is (column not in PROMOTED), column
