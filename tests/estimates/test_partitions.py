"""What partitions tell of a filter is exact or a bound: random tables, judged row by row."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from puffin.estimates.filters import OfColumn
from puffin.estimates.interval import Interval
from puffin.estimates.partitions import Partitions
from puffin.estimates.value_set import ValueSet
from puffin.iceberg.commit.partition_stats import partition_statistics, write_partition_statistics
from puffin.load import load_table
from puffin.lookup import Lookup
from puffin.lookup.estimates import Estimator, TableEstimate, estimate
from puffin.tables.expression import Op
from puffin.tables.partition_rows import PartitionRows
from stats_jobs import Options, analyze
from tests.planning.random_filters import FLOATS, Filter, Reading, Row, leaf_tests
from tests.planning.random_tables import KnownFile, RandomTable

FILTERS_OF_A_TABLE = 40


def test_delta_partitions_are_exact_after_an_append_and_a_delete(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(1), str(tmp_path / "t")
    rows = pa.table({"k": pa.array([*range(7), None] * 400), "x": rng.integers(0, 3000, 3200)})
    write_deltalake(path, rows, partition_by=["k"])
    analyze(path, Options())
    write_deltalake(path, rows.slice(0, 1000), mode="append", partition_by=["k"])
    DeltaTable(path).delete("x < 500")
    left = pc.value_counts(DeltaTable(path).to_pyarrow_table()["k"]).to_pylist()
    count = {each["values"]: each["counts"] for each in left}
    for where, chosen in [
        ("k = 3", {3}),
        ("k != 3", {0, 1, 2, 4, 5, 6}),
        ("not (k in (1, 2))", {0, 3, 4, 5, 6}),
        ("k > 1 and k <= 4", {2, 3, 4}),
        ("k is null or k = 0", {None, 0}),
        ("k = 99", set()),
    ]:
        found = estimate(path, where)
        assert found.rows == (sum(count[each] for each in chosen),) * 3, where
        assert {method for _, method in found.methods} == {"partition"}
    found = estimate(path, "k = 3 and x < 1500")
    assert found.rows.upper == count[3]
    assert dict(found.methods)["k = 3"] == "partition"


def test_groups_of_a_partition_column_are_counted_without_statistics(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(4), str(tmp_path / "t")
    rows = pa.table({"k": pa.array([*range(7), None] * 40), "t": [f"t{i % 3}" for i in range(320)], "x": range(320)})
    write_deltalake(path, rows, partition_by=["k", "t"])
    DeltaTable(path).delete("k = 2")
    left = [row for row in rows.to_pylist() if row["k"] != 2]
    for where, passes in [
        (None, lambda _: True),
        ("k > 1 and k <= 4", lambda row: row["k"] is not None and 1 < row["k"] <= 4),
        ("k is null or k = 0", lambda row: row["k"] in (None, 0)),
        ("k = 2", lambda _: False),
    ]:
        found = estimate(path, where, ["k"])
        assert found.groups == (len({row["k"] for row in left if passes(row)}),) * 3, where
        assert found.guessed == ()
        both = estimate(path, where, ["k", "t"]).groups
        assert both is not None
        assert both.lower <= len({(row["k"], row["t"]) for row in left if passes(row)}) <= both.upper
    where = f"x < {rng.integers(10, 300)}"
    some = estimate(path, where, ["k"]).groups
    assert some is not None
    assert some.upper == 7


def test_delta_file_without_record_count_leaves_partitions_out(delta_table) -> None:
    table = delta_table("t", {"k": "long", "x": "long"}, partitioned_by=["k"])
    table.commit(table.protocol(), table.metadata({"k": "long", "x": "long"}))
    table.commit(table.add({"x": pa.array([1, 2])}, "a.parquet", partitionValues={"k": "1"}, stats="{}"))
    analyze(str(table.path), Options(columns=("x",)))  # which count the rows of the table
    found = estimate(str(table.path), "k = 1")
    assert (found.methods, found.row_count) == ((("k = 1", "no statistics"),), 2)


class Partitioned(RandomTable):
    """A random table of few specs, without fields that say nothing."""

    def change_spec(self) -> None:
        specs = self.table.document["partition-specs"]
        if not specs or not specs[0]["fields"] or self.source.random() < 0.3:
            super().change_spec()

    def _transform(self, type_: str) -> str:
        while (found := super()._transform(type_)) == "void":
            pass
        return found

    def delete_first_row(self, known: KnownFile) -> None:
        shared = {name: known.entry[name] for name in ("spec_id", "partition", "schema_id")}
        self._written += 1
        row = Path(known.entry["file_path"]), 0
        self._deletes.append(self.table.position_deletes(f"deletes-{self._written}.parquet", [row], **shared))

    def write_partition_statistics(self) -> None:
        opened = load_table(str(self.table.root)).open()
        entry = write_partition_statistics(partition_statistics(opened), opened, opened.snapshot.snapshot_id)
        self.table.document["partition-statistics"] = [
            {
                "snapshot-id": entry.snapshot_id,
                "statistics-path": entry.statistics_path,
                "file-size-in-bytes": entry.file_size_in_bytes,
            }
        ]
        self.write_metadata()


def holds(found: TableEstimate, filter_: Filter, rows: list[Row]) -> bool:
    """Whether the true count is within the bounds, in either width in which an engine may compare a float."""
    readings = (Reading.SQL, Reading.SQL_ROUNDED)
    counts = [sum(filter_.holds(row, reading) is True for row in rows) for reading in readings]
    return any(found.rows.lower <= count <= found.rows.upper for count in counts)


def has_a_fraction(filter_: Filter) -> bool:
    """Whether it compares with a fraction; if the column cannot have it, that is a constant even where it is null."""
    return any(test.op in ("=", "!=") and isinstance(test.values[0], Decimal) for test in leaf_tests(filter_))


@pytest.mark.parametrize("is_planned", [False, True])
def test_iceberg_partitions_bound_every_filter(tmp_path: Path, monkeypatch, is_planned: bool) -> None:
    exact = 0
    for seed in range(6):
        made = Partitioned(tmp_path / str(seed), seed + 10 * is_planned, is_late=seed > 2)
        made.grow(lambda: None, with_deletes=False)
        gone = random.Random(seed).sample(made.files, 2 * (seed % 2))
        for known in (*gone, *gone):  # twice: the counts of delete files are no counts of rows
            made.delete_first_row(known)
        made.commit()
        rows = [row for known in made.files for row in known.rows[known in gone :]]
        made.write_partition_statistics()
        estimator = Estimator(load_table(str(made.table.root)).open())
        if not is_planned:
            estimator.__dict__["counted_rows"] = Interval.exactly(len(rows))
            monkeypatch.setattr(type(estimator.opened), "_plan", lambda _: pytest.fail("manifests were read"))
        filters = made.filters(without=FLOATS)
        for _ in range(FILTERS_OF_A_TABLE):
            filter_ = filters.draw(made.source.randint(0, 2))
            if not has_a_fraction(filter_):
                found = estimator.estimate(str(filter_))
                assert holds(found, filter_, rows), f"seed {seed}: {filter_}"
                exact += [method for _, method in found.methods] == ["partition"]
        monkeypatch.undo()
    assert exact > 5


def test_lookup_takes_partition_statistics_as_the_function_does(tmp_path: Path) -> None:
    made = Partitioned(tmp_path / "t", 5)
    made.grow(lambda: None, with_deletes=False)
    made.write_partition_statistics()
    path, lookup, exact = str(made.table.root), Lookup(), 0
    filters = made.filters(without=FLOATS)
    for _ in range(FILTERS_OF_A_TABLE):
        where = str(filters.draw(0))
        found = estimate(path, where)
        assert lookup.estimate(path, where) == found, where
        exact += [method for _, method in found.methods] == ["partition"]
    assert exact


@pytest.mark.parametrize("odd", [{"source-ids": [1, 2]}, {"transform": "zorder"}])
def test_field_of_several_columns_or_of_an_unknown_transform_tells_nothing(odd) -> None:
    five = OfColumn(1, ValueSet.of(Op.EQ, [5]))

    def found(**others: object) -> tuple[int, int] | None:
        field = {"source-id": 1, "field-id": 1000, "name": "p", "transform": "bucket[4]", **others}
        return Partitions({0: [field]}, lambda _: "int", lambda: [PartitionRows(0, {"1000": 0}, 7, 7)]).rows(five)

    assert found() == (0, 0)  # it is in another bucket
    assert found(**odd) is None


def test_partition_statistics_file_that_contradicts_the_snapshot_is_left_out(tmp_path: Path, caplog) -> None:
    made = Partitioned(tmp_path / "t", 2)
    made.grow(lambda: None, with_deletes=False)
    made.write_partition_statistics()
    totals = {"total-records": "1000", "total-position-deletes": "0", "total-equality-deletes": "0"}
    made.table.document["snapshots"][-1]["summary"] |= totals
    made.write_metadata()
    assert load_table(str(made.table.root)).open().partition_rows() is None
    assert "expected 1,000 rows, as in the snapshot" in caplog.text
