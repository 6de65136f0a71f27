"""Tables that Spark wrote are read as Spark reads them: every column's sketch equals that of Spark's values."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin.files.formats import DataFiles
from puffin.files.rows import Wants
from puffin.files.task_reader import TaskReader
from puffin.iceberg.catalogs.directory import IcebergDirectory
from puffin.iceberg.scan.plan import plan_snapshot
from puffin.sketches.theta_sketch import ThetaSketch, ThetaSketchBuilder
from puffin.storage import store_for
from puffin.tables.base import SnapshotSelector
from puffin.tables.scan_task import ScanBatch, ScanContext
from stats_jobs import Options, SparkStarter, analyze
from stats_jobs.plan import split_task
from tests.bound import bound
from tests.sent import sent

GOLDEN = Path(__file__).parents[2] / "fixtures" / "tables-spark-3.5-iceberg-1.10" / "iceberg-spark-expected.json"


class SparkTable:
    """A table of the catalog, from Spark's side and from ours."""

    def __init__(self, spark, warehouse: Path, name: str) -> None:
        self._spark = spark
        self.name = f"hadoop.reading.{name}"
        self.location = str(warehouse / "reading" / name)

    def sql(self, statement: str) -> None:
        self._spark.sql(statement.format(t=self.name))

    def values(self, expressions: list[str], where: str = "") -> pa.Table:
        """Spark's values of expressions, as columns 0, 1, 2, ...; ``where`` may name a snapshot."""
        selected = ", ".join(f"{expression} AS `{i}`" for i, expression in enumerate(expressions))
        return self._spark.sql(f"SELECT {selected} FROM {self.name} {where}").toArrow()

    def state(self):
        return IcebergDirectory(self.location).open().state

    def snapshot_ids(self) -> list[int]:
        return [snapshot_id for _, snapshot_id in self.state().history]

    def values_by_snapshot(self, columns: list[str]) -> dict[int, pa.Table]:
        """Spark's values of columns in each snapshot, all read by one query."""
        selected, ids = ", ".join(columns), self.snapshot_ids()
        selects = (f"SELECT {i}L AS snapshot, {selected} FROM {self.name} VERSION AS OF {i}" for i in ids)
        values = self._spark.sql(" UNION ALL ".join(selects)).toArrow()
        return {i: values.filter(pc.equal(values["snapshot"], i)) for i in ids}

    def tasks(self, **selector):
        state = self.state()
        return plan_snapshot(bound(state), state.select_snapshot(SnapshotSelector(**selector)))

    def read(self, target_bytes: int = 2000, **selector) -> tuple[dict[str, ThetaSketch], int]:
        state = self.state()
        columns = state.select_columns(None)
        batch = ScanBatch(
            columns=columns,
            tasks=tuple(piece for task in self.tasks(**selector) for piece in split_task(task, target_bytes)),
            context=ScanContext(state.partition_specs, state.name_mapping, {}),
        )
        builders, rows = {column.name: ThetaSketchBuilder() for column in columns}, 0
        batch = sent(batch)
        reader = TaskReader(batch, DataFiles(store_for), Wants())
        for task in batch.tasks:
            for live in reader.read(task):
                rows += live.count
                for column in batch.columns:
                    if column.field_id in live.columns:
                        builders[column.name].update(live.columns[column.field_id].array, column.type)
        return {name: builder.compact() for name, builder in builders.items()}, rows

    def check(self, where: str = "", renamed: dict[str, str | None] | None = None, **selector) -> None:
        """Compare every column; ``renamed`` gives Spark's name of a column, or None if Spark lacks it."""
        sketches, rows = self.read(**selector)
        spark_names = {name: (renamed or {}).get(name, name) for name in sketches}
        values = self.values([name or "NULL" for name in spark_names.values()], where)
        assert rows == values.num_rows
        for column in self.state().select_columns(None):
            array = values[list(spark_names).index(column.name)]
            assert sketches[column.name] == ThetaSketch.from_arrow(array, column.type), column.name


@pytest.fixture
def make(spark, warehouse):
    def make_spark_table(name, columns, *, version=2, clause="", **properties):
        table = SparkTable(spark, warehouse, name)
        given = {"format-version": version, **{key.replace("_", "."): value for key, value in properties.items()}}
        options = ", ".join(f"'{key}'='{value}'" for key, value in given.items())
        table.sql(f"CREATE TABLE {{t}} ({columns}) USING iceberg {clause} TBLPROPERTIES ({options})")
        return table

    return make_spark_table


MERGE_ON_READ = {"write_delete_mode": "merge-on-read", "write_update_mode": "merge-on-read"}
ALL_TYPES = (
    "b boolean, i int, l bigint, f float, d double, dec decimal(9,2), wide decimal(38,10), dt date, "
    "ntz timestamp_ntz, tz timestamp, s string, bin binary, st struct<x:int, deep:struct<y:string>>, li array<int>"
)
ALL_VALUES = """
    SELECT id % 2 = 0, CAST(id AS int), id * 10000000000, CAST(id / 3 AS float), id / 7, CAST(id / 100 AS decimal(9,2)),
           CAST(id AS decimal(38,10)) / 7, date_add(DATE'1969-12-25', CAST(id % 9 AS int)),
           CAST(timestamp_micros(id * 1000003 - 5000000) AS timestamp_ntz), timestamp_micros(id * 999983 - 7000000),
           concat('s', id % 11), CAST(concat('b', id % 5) AS binary),
           IF(id % 3 = 0, NULL, named_struct('x', CAST(id AS int), 'deep',
              IF(id % 4 = 0, NULL, named_struct('y', CAST(id % 6 AS string))))), array(1)
    FROM range({first}, {last})
"""


PARTITIONED = "PARTITIONED BY (b, dt, dec, s, bucket(4, l), days(tz))"


@pytest.mark.parametrize(("version", "clause"), [(1, PARTITIONED), (2, PARTITIONED), (3, ""), (3, PARTITIONED)])
@pytest.mark.table_kind("Every transform, every type of source")
def test_tables_of_every_version_and_type_equal_spark(make, version, clause):
    table = make(f"types_v{version}_{len(clause)}", ALL_TYPES, version=version, clause=clause)
    table.sql("INSERT INTO {t} " + ALL_VALUES.format(first=0, last=16))
    table.sql("INSERT INTO {t} " + ALL_VALUES.format(first=12, last=20))
    table.sql("INSERT INTO {t} SELECT " + ", ".join(["NULL"] * 14))
    table.check()


@pytest.mark.parametrize(("version", "granularity"), [(2, "file"), (2, "partition"), (3, "file")])
def test_merge_on_read_deletes_equal_spark(make, version, granularity):
    """Version 2 writes position delete files, version 3 deletion vectors."""
    table = make(
        f"mor_v{version}_{granularity}",
        "id bigint, p string, v int",
        version=version,
        clause="PARTITIONED BY (p)",
        write_delete_granularity=granularity,
        write_parquet_row__group__size__bytes="2000",
        **MERGE_ON_READ,
    )
    values = "SELECT id, IF(id % 3 = 0, NULL, concat('p', id % 3)), CAST(id % 13 AS int) FROM range({}, {})"
    table.sql("INSERT INTO {t} " + values.format(0, 3000))
    table.sql("INSERT INTO {t} " + values.format(3000, 4000))
    table.sql("DELETE FROM {t} WHERE id % 10 = 3 OR (id BETWEEN 1000 AND 1500 AND p IS NULL)")
    table.sql("UPDATE {t} SET v = 1000 + v WHERE id % 7 = 1")
    table.sql("INSERT INTO {t} " + values.format(3900, 4100))
    table.sql("DELETE FROM {t} WHERE id % 11 = 5")
    formats = {delete.file_format for task in table.tasks() for delete in task.delete_files}
    assert formats == {"PARQUET" if version == 2 else "PUFFIN"}
    columns = table.state().select_columns(None)
    history = table.values_by_snapshot([column.name for column in columns])
    assert len(history) == 6
    for snapshot_id, values in history.items():
        sketches, rows = table.read(snapshot_id=snapshot_id)
        assert rows == values.num_rows
        assert sketches == {c.name: ThetaSketch.from_arrow(values[c.name], c.type) for c in columns}
    table.sql("DELETE FROM {t} WHERE id >= 0")
    table.check()


@pytest.mark.table_kind("Position deletes, deletion vectors, both after an upgrade", "3")
def test_upgraded_table_has_position_deletes_and_vectors(make):
    table = make("upgraded", "id bigint", version=1)
    table.sql("INSERT INTO {t} SELECT id FROM range(0, 100)")
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')")
    table.sql("INSERT INTO {t} SELECT id FROM range(100, 200)")
    table.sql("DELETE FROM {t} WHERE id % 10 = 0")
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')")
    table.sql("DELETE FROM {t} WHERE id < 55 AND id % 10 = 1")
    assert {d.file_format for task in table.tasks() for d in task.delete_files} == {"PARQUET", "PUFFIN"}
    table.check()


def test_evolved_columns_and_earlier_snapshots_equal_spark(make):
    table = make("evolved", "id int, f float, dec decimal(9,2), gone string, st struct<x:int, y:string>")
    table.sql(
        "INSERT INTO {t} SELECT CAST(id AS int), CAST(id / 3 AS float), CAST(id AS decimal(9,2)), concat('g', id), "
        "named_struct('x', CAST(id AS int), 'y', 'k') FROM range(50)"
    )
    (old,) = table.snapshot_ids()
    for change in (
        "ALTER COLUMN id TYPE bigint",
        "ALTER COLUMN f TYPE double",
        "ALTER COLUMN dec TYPE decimal(20,2)",
        "DROP COLUMN gone",
        "ADD COLUMN gone string",
        "RENAME COLUMN f TO factor",
        "RENAME COLUMN st.x TO u",
        "ADD COLUMN st.z int",
        "ALTER COLUMN dec FIRST",
        "ADD COLUMN late struct<a:int>",
    ):
        table.sql(f"ALTER TABLE {{t}} {change}")
    table.check()
    table.sql(
        "INSERT INTO {t} SELECT 1.25, 70000000000, 0.1D, named_struct('u', 7, 'y', 'l', 'z', 8), 'new', "
        "named_struct('a', 1)"
    )
    table.check()
    assert [c.type for c in table.state().columns][:3] == ["decimal(20, 2)", "long", "double"]
    before = {"factor": "f", "st.u": "st.x", "st.z": None, "gone": None, "late.a": None}
    table.check(f"VERSION AS OF {old}", before, snapshot_id=old)


def test_branches_tags_and_times_equal_spark(make, spark):
    table = make("refs", "id bigint")
    table.sql("INSERT INTO {t} SELECT id FROM range(10)")
    table.sql("ALTER TABLE {t} CREATE TAG first")
    table.sql("ALTER TABLE {t} CREATE BRANCH side")
    table.sql("INSERT INTO {t} SELECT id FROM range(10, 20)")
    spark.sql(f"INSERT INTO {table.name}.branch_side SELECT id FROM range(100, 105)")
    table.check()
    table.check("VERSION AS OF 'first'", ref="first")
    table.check("VERSION AS OF 'side'", ref="side")
    first = table.state().history[0][0]
    assert table.read(as_of_ms=first)[1] == 10
    assert table.read(as_of_ms=first + 10**9)[1] == 20


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.table_kind("A partition column that was dropped (version 1: `void`)")
def test_dropped_partition_column_equals_spark(make, version):
    table = make(f"dropped_v{version}", "id bigint, p string, q int", version=version, clause="PARTITIONED BY (p, q)")
    table.sql("INSERT INTO {t} SELECT id, concat('p', id % 2), CAST(id % 3 AS int) FROM range(20)")
    table.sql("ALTER TABLE {t} DROP PARTITION FIELD p")
    table.sql("ALTER TABLE {t} DROP COLUMN p")
    table.check()
    if version == 1:
        return  # Iceberg itself can no longer write to it
    table.sql("INSERT INTO {t} SELECT id, CAST(id % 3 AS int) FROM range(20, 30)")
    table.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)")
    table.sql("INSERT INTO {t} SELECT id, NULL FROM range(30, 40)")
    table.check()


def test_hive_files_without_ids_and_partition_columns_equal_spark(make, spark, tmp_path):
    source = tmp_path / "hive"
    frame = spark.sql(
        "SELECT id, named_struct('x', CAST(id AS int)) AS st, CAST(id % 2 AS int) AS i, "
        "date_add(DATE'1970-01-01', CAST(id % 3 AS int)) AS d, "
        "IF(id % 5 = 0, NULL, concat('a b/', id % 5)) AS s FROM range(40)"
    )
    frame.write.partitionBy("i", "d", "s").parquet(str(source))
    table = make("imported", "id bigint, st struct<x:int>, i int, d date, s string", clause="PARTITIONED BY (i, d, s)")
    spark.sql(f"CALL hadoop.system.add_files(table => 'reading.imported', source_table => '`parquet`.`{source}`')")
    table.check()
    table.sql("ALTER TABLE {t} RENAME COLUMN st.x TO renamed")
    table.sql("ALTER TABLE {t} RENAME COLUMN id TO key")
    table.check()


def test_names_with_dots_and_other_characters_equal_spark(make):
    table = make("names", "`a.b` bigint, a struct<c:int, `d.e`:string>, `ü x` string")
    table.sql(
        "INSERT INTO {t} SELECT id, named_struct('c', CAST(id AS int), 'd.e', concat('e', id)), concat('u', id) "
        "FROM range(5)"
    )
    table.check(renamed={"a.b": "`a.b`", "a.d.e": "a.`d.e`", "ü x": "`ü x`"})


def test_empty_and_fully_overwritten_tables_equal_spark(make):
    table = make("emptied", "id bigint")
    assert table.state().select_snapshot(SnapshotSelector()) is None
    table.sql("INSERT INTO {t} SELECT id FROM range(5)")
    table.sql("INSERT OVERWRITE {t} SELECT id FROM range(0)")
    table.check()
    table.sql("TRUNCATE TABLE {t}")
    table.check()


@pytest.mark.table_kind("Initial defaults", "3")
def test_initial_defaults_of_version_3_equal_spark(make, spark):
    table = make("defaults", "id bigint, st struct<x:int>", version=3)
    table.sql("INSERT INTO {t} SELECT id, IF(id = 0, NULL, named_struct('x', 1)) FROM range(5)")
    jvm = spark.sparkContext._jvm
    java_table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table.name)
    types, literal = jvm.org.apache.iceberg.types.Types, jvm.org.apache.iceberg.expressions.Expressions.lit
    update = java_table.updateSchema()
    update.addColumn("n", types.IntegerType.get(), literal(34))
    update.addColumn("st", "y", types.StringType.get(), literal("why"))
    update.addColumn("d", types.DateType.get(), literal(19_000).to(types.DateType.get()))
    update.commit()
    table.check()
    table.sql("INSERT INTO {t} SELECT 9, named_struct('x', 2, 'y', NULL), NULL, DATE'2020-01-01'")
    table.check()


def test_job_counts_what_spark_counts(make, spark):
    table = make("job", "id bigint, v string", version=3, **MERGE_ON_READ)
    table.sql("INSERT INTO {t} SELECT id, concat('v', id % 17) FROM range(20000)")
    table.sql("DELETE FROM {t} WHERE id % 2 = 0")
    with SparkStarter(session=spark) as starter:
        report = analyze(IcebergDirectory(table.location), Options(dry_run=True), starter)
    assert report.rows_read == 10_000
    assert report.files_read == len({task.data_file.file_path for task in table.tasks()})
    values = table.values(["id", "v"])
    for answer, array in zip(report.columns, values.columns, strict=True):
        assert answer.distinct.ndv == ThetaSketch.from_arrow(array, answer.column.type).ndv


@pytest.mark.parametrize("name", ["t_types", "t_mor_v2", "t_dv_v3", "t_evolved"])
def test_golden_tables_have_the_counts_of_spark_and_iceberg(golden_tables, name):
    """From another Spark and Iceberg release, with its own statistics."""
    expected = json.loads(GOLDEN.read_text())[name]
    table = SparkTable(None, golden_tables, name)
    table.location = str(golden_tables / name)
    sketches, rows = table.read()
    assert rows == expected["rows"]
    for column, distinct in expected["distinct"].items():
        assert sketches[column].lower_bound(3) <= distinct + 1, column  # to Java -0.0 is a value of its own
        assert distinct <= sketches[column].upper_bound(3) + 1, column  # and an empty value is none
    java = next((s["ndv"] for s in expected["stats"] if s["snapshot"] == expected["current_snapshot"]), {})
    for column in (column for column in java if not sketches[column].estimating):
        assert str(sketches[column].ndv) == java[column], column
