"""pyiceberg reads the files of a plan: the same rows as from its own scan and from Spark, out of fewer files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table

import puffin
from puffin.errors import UnsupportedTableError, UsageError
from stats_jobs.index import index
from stats_jobs.options import IndexOptions


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Four files whose ``k`` overlap, with rows of other keys between them."""
    catalog = SqlCatalog("t", uri="sqlite://", warehouse=tmp_path.as_uri())
    catalog.create_namespace("n")
    rows = [pa.table({"k": pa.array([i, i + 10, 100], pa.int64()), "s": [f"a{i}", None, "z"]}) for i in range(4)]
    made = catalog.create_table("n.t", rows[0].schema)
    for each in rows:
        made.append(each)
    return made


def location(table: Table) -> str:
    return table.metadata_location


def planned(table: Table, where: str | None, **arguments: Any) -> puffin.lookup.FilePlan:
    return puffin.plan(location(table), where, **arguments)


def rows_of(scanned: pa.Table) -> list[dict[str, Any]]:
    return sorted(scanned.to_pylist(), key=repr)


@pytest.mark.parametrize("column", ["k", "s"])
def test_file_that_is_listed_twice_is_planned_twice(table: Table, column: str) -> None:
    paths = [task.file.file_path for task in table.scan().plan_files()]
    table.add_files([paths[1]], check_duplicate_files=False)
    index(location(table), IndexOptions(columns=(column,)))
    wheres = [f"k = {key}" for key in (0, 2, 12, 100, 5000)]
    for where in (*wheres, "k < 2", "k in (1, 3)"):
        scan = table.scan(where)
        assert rows_of(planned(table, where).for_pyiceberg(scan).to_arrow()) == rows_of(scan.to_arrow())


WHERES = [
    "k = 12",
    "k = 12 or s = 'a1'",
    "k in (2, 13)",
    "s is null and k > 11",
    "not s like 'a%'",
    "k = 5000",
    None,
]


@pytest.mark.parametrize("where", WHERES)
def test_rows_are_those_of_the_filter(table: Table, where: str | None) -> None:
    own = table.scan() if where is None else table.scan(where)
    plan = planned(table, where)
    expected = rows_of(own.to_arrow())
    for scan in (own, table.scan()):
        ours = plan.for_pyiceberg(scan)
        assert rows_of(ours.to_arrow()) == expected
        assert rows_of(pa.table(ours.to_arrow_batch_reader().read_all())) == expected
        assert ours.count() == len(expected)
        assert {task.file.file_path for task in ours.plan_files()} == {f.data_file.file_path for f in plan.files}


def test_index_spares_files_that_bounds_do_not(table: Table) -> None:
    home = Path(table.location().removeprefix("file://")) / "home"
    table.transaction().set_properties({"puffin-sidecar.home": str(home)}).commit_transaction()
    index(location(table), IndexOptions(columns=("k",)))
    where = "k = 12"
    assert puffin.Lookup().plan(location(table), where).to_json() == planned(table, where).to_json()
    scan = planned(table, where).for_pyiceberg(table.scan(where))
    assert (len(list(scan.plan_files())), len(list(table.scan(where).plan_files()))) == (1, 4)
    assert rows_of(scan.to_arrow()) == rows_of(table.scan(where).to_arrow())


def test_scan_keeps_its_own_filter_columns_and_limit(table: Table) -> None:
    scan = planned(table, "k < 100").for_pyiceberg(table.scan("s is not null", selected_fields=("s",), limit=3))
    assert scan.to_arrow().column_names == ["s"]
    assert scan.to_arrow().num_rows == 3
    wider = planned(table, "k < 100").for_pyiceberg(table.scan("s is not null"))
    assert rows_of(wider.to_arrow()) == rows_of(table.scan("k < 100 and s is not null").to_arrow())


def test_name_of_a_column_may_be_that_of_a_field_in_another(tmp_path: Path) -> None:
    """A name is matched whole before it is taken as a dotted path."""
    rows = {"a.b": [1, 2], "a": [{"b": "x", "c": 1}, {"b": "y", "c": 2}], "l.element": [1, 2], "l": [[3], [4]]}
    for values in ([0], [1]):
        taken = {name: [each[value] for value in values] for name, each in {**rows, "p": ["k", "m"]}.items()}
        write_deltalake(tmp_path, pa.table(taken), mode="append", partition_by=["p"])
    index(str(tmp_path), IndexOptions(columns=("a.b",)))
    for where in ("p = 'k'", "a.b = 1", "l.element = 1", "a.c = 1", '"a.b" < 2'):
        assert sum(1 for _ in puffin.plan(tmp_path, where).files) == 1, where


def test_number_beyond_the_type_of_a_column_matches_nothing(tmp_path: Path) -> None:
    """pyiceberg takes it for the largest number of the type."""
    catalog = SqlCatalog("t", uri="sqlite://", warehouse=tmp_path.as_uri())
    catalog.create_namespace("n")
    rows = pa.table({"i": pa.array([5, 2**31 - 1], pa.int32())})
    made = catalog.create_table("n.t", rows.schema)
    made.append(rows)
    for where, expected in (("i in (5, 99999999999)", [5]), ("i not in (5, 99999999999)", [2**31 - 1])):
        for scan in (made.scan(), made.scan(where)):
            assert planned(made, where).for_pyiceberg(scan).to_arrow()["i"].to_pylist() == expected


def test_scan_can_be_narrowed_further(table: Table) -> None:
    scan = planned(table, "k < 100").for_pyiceberg(table.scan())
    assert sorted(scan.filter("k > 11").select("k").to_arrow()["k"].to_pylist()) == [12, 13]


def test_scan_of_another_snapshot_is_refused(table: Table) -> None:
    """Its rows could be in files that the plan does not have."""
    plan = planned(table, "k = 12")
    table.append(pa.table({"k": pa.array([12], pa.int64()), "s": ["new"]}))
    with pytest.raises(UsageError, match="expected a scan of the plan's snapshot"):
        plan.for_pyiceberg(table.scan()).to_arrow()
    same = plan.for_pyiceberg(table.scan(snapshot_id=plan.snapshot_id))
    assert same.to_arrow()["s"].to_pylist() == [None]
    with pytest.raises(UsageError, match="expected a scan of the plan's snapshot"):
        same.update(snapshot_id=table.current_snapshot().snapshot_id).count()


def test_earlier_snapshot_is_read_as_of_then(table: Table) -> None:
    first = table.history()[0].snapshot_id
    plan = planned(table, "k = 100", snapshot_id=first)
    assert plan.for_pyiceberg(table.scan(snapshot_id=first)).count() == 1


def test_rows_reach_pandas_and_duckdb(table: Table) -> None:
    scan = planned(table, "k = 12").for_pyiceberg(table.scan())
    assert scan.to_pandas()["k"].tolist() == [12]
    assert scan.to_duckdb("t").execute("SELECT k, s FROM t").fetchall() == [(12, None)]


def test_empty_table_has_no_rows(tmp_path: Path) -> None:
    catalog = SqlCatalog("t", uri="sqlite://", warehouse=tmp_path.as_uri())
    catalog.create_namespace("n")
    made = catalog.create_table("n.t", pa.schema([("k", pa.int64())]))
    assert planned(made, "k = 1").for_pyiceberg(made.scan()).to_arrow().num_rows == 0


def test_plan_of_a_delta_table_is_refused(tmp_path: Path, table: Table) -> None:
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "d", pa.table({"k": [1]}))
    with pytest.raises(UsageError, match="format iceberg, found delta"):
        puffin.plan(str(tmp_path / "d")).for_pyiceberg(table.scan())


def test_only_planned_files_with_equality_deletes_are_refused(make_table: Callable[..., Any]) -> None:
    """pyiceberg refuses the whole table; ours reads the files that have none."""
    table = make_table([(1, "k", "long"), (2, "p", "int")], spec=[(2, "identity")])
    files = [
        table.write(f"{i}.parquet", pa.table({"k": [i, 7], "p": pa.array([i, i], pa.int32())}), {"k": 1, "p": 2})
        for i in range(2)
    ]
    entries = [table.data(file, partition=(i,)) for i, file in enumerate(files)]
    deleted = table.write("deletes.parquet", pa.table({"k": [7]}), {"k": 1})
    deletes = table.data(deleted, content=2, equality_ids=[1], sequence_number=2, partition=(1,))
    table.snapshot(*entries, deletes)
    metadata = write_document(table)
    scan = StaticTable.from_metadata(metadata).scan("k < 100")
    plan = puffin.plan(metadata, "p = 0")
    with pytest.raises(ValueError, match="equality deletes"):
        scan.to_arrow()
    assert rows_of(plan.for_pyiceberg(scan).to_arrow()) == [{"k": 0, "p": 0}, {"k": 7, "p": 0}]
    with pytest.raises(UnsupportedTableError, match="equality deletes"):
        puffin.plan(metadata, "k = 7").for_pyiceberg(StaticTable.from_metadata(metadata).scan()).to_arrow()


def write_document(table: Any) -> str:
    """The metadata of a hand-made table with what pyiceberg requires beside it."""
    import json

    document = {
        "last-sequence-number": 10,
        "last-column-id": 100,
        "last-partition-id": 1100,
        "default-spec-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        **table.document,
    }
    path = table.root / "v1.metadata.json"
    path.write_text(json.dumps(document))
    return str(path)


EVOLVED = [
    "CREATE TABLE {t} (id int, name string, gone int, day date, at timestamp, price decimal(9,2), f float) "
    "USING iceberg PARTITIONED BY (day, bucket(4, id)) TBLPROPERTIES ('format-version'='{version}', "
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')",
    "INSERT INTO {t} SELECT CAST(id AS int), concat('n', id % 7), 1, date_add(DATE'2024-01-01', CAST(id % 3 AS int)), "
    "timestamp_micros(id * 86400000000), CAST(id / 4 AS decimal(9,2)), CAST(id / 8 AS float) FROM range(60)",
    "DELETE FROM {t} WHERE id % 10 = 3",
    "ALTER TABLE {t} RENAME COLUMN name TO label",
    "ALTER TABLE {t} DROP COLUMN gone",
    "ALTER TABLE {t} ADD COLUMN name string",
    "ALTER TABLE {t} ALTER COLUMN id TYPE bigint",
    "ALTER TABLE {t} REPLACE PARTITION FIELD day WITH month(at)",
    "ALTER TABLE {t} ADD PARTITION FIELD truncate(1, label)",
    "INSERT INTO {t} (id, label, name, day, at, price, f) SELECT id, concat('n', id % 7), concat('x', id), "
    "date_add(DATE'2024-01-01', CAST(id % 3 AS int)), timestamp_micros(id * 86400000000), "
    "CAST(id / 4 AS decimal(9,2)), CAST(id / 8 AS float) FROM range(60, 120)",
    "DELETE FROM {t} WHERE id % 10 = 4",
]
FILTERS = {
    "id = 17": "id = 17",
    "id in (3, 4, 5, 63, 65)": "id in (3, 4, 5, 63, 65)",
    "label = 'n2' and day = '2024-01-02'": "label = 'n2' and day = DATE'2024-01-02'",
    "name is null and price < 3.50": "name is null and price < 3.5",
    "name like 'x7%'": "name like 'x7%'",
    "not (id < 70 or f > 12.0)": "not (id < 70 or f > 12.0)",
    "at >= '1970-03-02T00:00:00+00:00'": "at >= TIMESTAMP'1970-03-02 00:00:00 UTC'",
    "day != '2024-01-01'": "day != DATE'2024-01-01'",
}


@pytest.mark.parametrize("version", [2, 3])
def test_evolved_tables_with_deletes_are_read_as_spark_reads_them(spark: Any, warehouse: Path, version: int) -> None:
    """Columns renamed, dropped, added and promoted, specs replaced; deletes as files and as vectors."""
    name, path = f"hadoop.planned.evolved{version}", warehouse / "planned" / f"evolved{version}"
    for statement in EVOLVED:
        spark.sql(statement.replace("{t}", name).replace("{version}", str(version)))
    try:
        newest = max(path.glob("metadata/*.metadata.json"), key=lambda file: int(file.name[1:].split(".")[0]))
        table = StaticTable.from_metadata(str(newest))
        index(str(path), IndexOptions(columns=("id", "label")))
        kinds = {f.file_format for task in puffin.plan(str(path)).files for f in task.delete_files}
        assert kinds == {"PARQUET" if version == 2 else "PUFFIN"}
        spared = 0
        for where, in_spark in FILTERS.items():
            plan = puffin.plan(str(path), where)
            scan = plan.for_pyiceberg(table.scan(selected_fields=("id", "label", "name", "day", "price")))
            expected = spark.sql(f"SELECT id, label, name, day, price FROM {name} WHERE {in_spark}").toArrow()
            assert rows_of(scan.to_arrow()) == rows_of(expected), where
            assert scan.count() == expected.num_rows
            spared += len(plan.all_files) - len(list(scan.plan_files()))
            own = {task.file.file_path: task for task in table.scan(where).plan_files()}
            for task in scan.plan_files():
                if (other := own.get(task.file.file_path)) is not None:
                    assert task.file.partition == other.file.partition
                    assert task.file.spec_id == other.file.spec_id
                    assert {d.file_path for d in task.delete_files} <= {d.file_path for d in other.delete_files}
        assert spared > 0
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name} PURGE")
