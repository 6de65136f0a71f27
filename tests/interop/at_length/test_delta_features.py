"""
Tables with each feature of delta-spark, analyzed and compared with delta-spark's own counts.

Every maker below is a table with one feature or a few that go together, as small as it can be and still have files from
before and after what matters. Delta must read and write the table after we have committed to it.
"""

from __future__ import annotations

import datetime
import functools
import json
import math
import shutil
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from puffin.load import load_table
from puffin.tables.base import SnapshotSelector

DELETION_VECTORS = "'delta.enableDeletionVectors' = 'true'"
NO_DELETION_VECTORS = "'delta.enableDeletionVectors' = 'false'"
APPENDED = 1000
"""The id of a row that delta-spark appends to every table after it has been analyzed."""
ROWS = "SELECT id, concat('s', id % 7) AS s FROM range({}, {}, 1, {})"

MAKERS: dict[str, Callable[[DeltaTable], None]] = {}


class DeltaTable:
    """A table that delta-spark writes to, by path."""

    def __init__(self, spark, path: Path) -> None:
        self.spark = spark
        self.path = path
        self.log = path / "_delta_log"

    def sql(self, *statements: str):
        """Run statements in which ``{t}`` is the table, and return the last result."""
        for statement in statements:
            result = self.spark.sql(statement.replace("{t}", f"delta.`{self.path}`"))
        return result

    def create(self, select: str, properties: str = NO_DELETION_VECTORS, clauses: str = "") -> None:
        """Create a table of rows, in as many files as the selection has partitions."""
        self.sql(f"CREATE TABLE {{t}} USING delta {clauses} TBLPROPERTIES ({properties}) AS {select}")

    def write(self, frame, *partitioned_by: str) -> None:
        frame.coalesce(1).write.format("delta").mode("append").partitionBy(*partitioned_by).save(str(self.path))

    def checkpoint(self) -> int:
        """Write a checkpoint of the newest version, and return it."""
        jvm = self.spark._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self.spark._jsparkSession, str(self.path))
        log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty())
        log.checkpoint()
        return log.unsafeVolatileSnapshot().version()

    def read(self, version: int | None = None):
        """The table as delta-spark reads it."""
        reader = self.spark.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(str(self.path))


def maker(make: Callable[[DeltaTable], None]) -> Callable[[DeltaTable], None]:
    MAKERS[make.__name__] = make
    return make


def counted(frame) -> tuple[int, dict[str, int]]:
    """
    Count rows except the one of `APPENDED`, and the distinct non-empty values of each column; the two zeros differ.
    """
    leaves = list(_leaves(frame.schema))
    selected = frame.selectExpr(*(f"{_quoted(name)} AS `{name}`" for name in leaves)).collect()
    rows = [row for row in selected if row["id"] != APPENDED]
    return len(rows), {name: len({_hashed(row[name]) for row in rows} - {None, "", b""}) for name in leaves}


def _hashed(value):
    if isinstance(value, float):
        return struct.pack("d", value)
    return bytes(value) if isinstance(value, bytearray) else value


def _quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


def _leaves(schema, prefix: str = "") -> Iterator[str]:
    """Return the dotted names of countable columns: none in lists and maps, and no variant."""
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    for field in schema.fields:
        if isinstance(field.dataType, StructType):
            yield from _leaves(field.dataType, f"{prefix}{field.name}.")
        elif not isinstance(field.dataType, ArrayType | MapType | VariantType):
            yield prefix + field.name


ODD_STRINGS = [None, "", " ", "a b/c%d=e:f", "ünï ☃ 😀", "%20", "a+b&c?d#e", "null", "x\ty", "q\"uo'te\\", "{}[]^~|<>*"]
PARTITION_COLUMNS = (
    "p string, i int, b byte, sh short, l bigint, f float, d double, dec decimal(12,3), bo boolean, bin binary, "
    "da date, ts timestamp, ntz timestamp_ntz"
)


@maker
def partitioned_by_every_type_and_odd_strings(table: DeltaTable) -> None:
    at = datetime.datetime(2024, 3, 1, 12, 30, 15, 123456)
    midnight, early = datetime.datetime(2024, 3, 1), datetime.datetime(1969, 12, 31, 23, 59, 59, 1)
    first, last = datetime.date(1969, 12, 31), datetime.date(9999, 12, 31)
    values = [
        (1, 2, 3, 2**40, 1.5, 0.1, Decimal("12.300"), True, bytearray(b" /%a"), first, at, at),
        (-1, -2, -3, -(2**40), -0.0, math.nan, Decimal("-0.001"), False, bytearray(b"\x01a"), last, midnight, early),
        (None,) * 12,
        (7, 7, 7, 7, math.inf, 1e300, Decimal(0), True, bytearray(b""), first, early, midnight),
        (1, 2, 3, 2**40, 0.0, 0.1, Decimal("12.300"), True, bytearray(b" /%a"), first, at, at),
    ]  # fmt: skip
    rows = [(i, string, *values[i % len(values)]) for i, string in enumerate(ODD_STRINGS)]
    names = [column.split()[0] for column in PARTITION_COLUMNS.split(", ")]
    table.write(table.spark.createDataFrame(rows, f"id bigint, {PARTITION_COLUMNS}"), *names)


@maker
def numbers_timestamps_and_variants(table: DeltaTable) -> None:
    """Timestamps as INT96, microseconds and milliseconds in one column, and without a zone."""
    for unit in ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"):
        table.spark.conf.set("spark.sql.parquet.outputTimestampType", unit)
        table.write(
            table.spark.sql(
                """SELECT *, parse_json('{"a": ' || id || '}') AS v,
                          timestamp_micros((id - 3) * 777777777777000) AS ts,
                          timestamp_ntz'1969-12-31 23:59:59.999998' + make_dt_interval(0, 0, 0, id / 1000000) AS ntz
                   FROM VALUES
                     (1L, -128Y, -32768S, -2147483648, -9223372036854775808L, float('NaN'), double('NaN')),
                     (2L, 127Y, 32767S, 2147483647, 9223372036854775807L, float('-0.0'), double('-0.0')),
                     (3L, 0Y, 0S, 0, 0L, float('0.0'), double('0.0')),
                     (4L, 1Y, 1S, 1, 1L, float('Infinity'), double('-Infinity')),
                     (5L, NULL, NULL, NULL, NULL, NULL, NULL) AS numbers (id, b, sh, i, l, f, d)"""
            )
        )
    table.spark.conf.unset("spark.sql.parquet.outputTimestampType")


@maker
def structs_and_columns_added_later(table: DeltaTable) -> None:
    table.create(
        """SELECT id, if(id % 10 = 0, NULL, named_struct('a', int(id % 3), 'deep', if(id % 7 = 0, NULL,
               named_struct('b', concat('b', id % 4), 'list', array(named_struct('c', id)))))) AS st,
               array(array(id)) AS lists, map('k', array(1, 2)) AS m FROM range(40)"""
    )
    table.sql(
        "ALTER TABLE {t} ADD COLUMNS (late string, st.e int, st.deep.f double)",
        """INSERT INTO {t} SELECT id, named_struct('a', 9, 'deep', named_struct('b', 'b', 'list', NULL, 'f', id / 4),
           'e', int(id % 2)), NULL, NULL, concat('l', id) FROM range(5)""",
    )


@maker
def widened_types(table: DeltaTable) -> None:
    table.create(
        """SELECT id, tinyint(id) AS b, smallint(id) AS sh, int(id) AS i, int(id) AS i2, int(id) AS i3,
                  float(id / 10) AS f, decimal(id / 8) AS de, date_add(DATE'1969-12-25', int(id)) AS da,
                  named_struct('n', smallint(id)) AS st, array(int(id)) AS list, int(id % 2) AS p FROM range(10)""",
        f"'delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported', {NO_DELETION_VECTORS}",
        "PARTITIONED BY (p)",
    )
    wider = {
        "b": "short", "sh": "int", "i": "bigint", "i2": "double", "i3": "decimal(12,1)", "f": "double",
        "de": "decimal(20,5)", "da": "timestamp_ntz", "st.n": "int", "list.element": "bigint", "p": "bigint",
    }  # fmt: skip
    changes = ", ".join(f"{column} TYPE {type_}" for column, type_ in wider.items())
    table.sql(
        f"ALTER TABLE {{t}} ALTER COLUMN {changes}",
        """INSERT INTO {t} SELECT id, smallint(id * 1000), int(id * 10000), id * 10000000000, id / 2D, id + 0.5,
           id / 10D, id / 16, timestamp_ntz'1969-12-25 00:00:00' + make_dt_interval(int(id)),
           named_struct('n', int(id * 70000)), array(id), id % 3 FROM range(5, 15)""",
        "ALTER TABLE {t} ALTER COLUMN b TYPE bigint",
    )


# --- columns by name and by id ------------------------------------------------------------------------------------


def mapped(mode: str, table: DeltaTable) -> None:
    table.create(
        """SELECT id, concat('a', id % 5) AS a, int(id % 4) AS b, array(named_struct('k', id)) AS list,
                  named_struct('x', int(id % 3), 'y', concat('y', id % 6)) AS st, concat('p ', id % 2) AS p
           FROM range(20)""",
        f"'delta.columnMapping.mode' = '{mode}', {NO_DELETION_VECTORS}",
        "PARTITIONED BY (p)",
    )
    table.sql(
        "ALTER TABLE {t} RENAME COLUMN a TO `a renamed`",
        "ALTER TABLE {t} RENAME COLUMN st.x TO z",
        "ALTER TABLE {t} DROP COLUMN b",
        "ALTER TABLE {t} ADD COLUMN b int",
        "ALTER TABLE {t} RENAME COLUMN p TO part",
        """INSERT INTO {t} SELECT id + 20, concat('n', id % 3), array(), named_struct('z', 100, 'y', 'q'), 'p 1',
           int(id % 9) FROM range(10)""",
    )


MAKERS.update({f"mapped by {mode}": functools.partial(mapped, mode) for mode in ("name", "id")})


@maker
def mapped_later(table: DeltaTable) -> None:
    """Earlier files have no field ids; names are swapped, and a column is dropped for another of its name."""
    table.create("SELECT id, concat('a', id % 5) AS a, concat('b', id % 3) AS b, int(id) AS c FROM range(20)")
    table.sql(
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        *(f"ALTER TABLE {{t}} RENAME COLUMN {names}" for names in ("a TO tmp", "b TO a", "tmp TO b")),
        "ALTER TABLE {t} DROP COLUMN c",
        "ALTER TABLE {t} ADD COLUMN c int",
        "INSERT INTO {t} VALUES (100, 'new a', 'new b', 7)",
    )


# --- checkpoints: the log entries before them are gone --------------------------------------------------------------


V2 = "'delta.checkpointPolicy' = 'v2'"
PARTS_OF_3 = {"checkpoint.partSize": "3"}
CHECKPOINTS: dict[str, tuple[str, dict[str, str], str]] = {
    "multi-part, without statistics in JSON": (
        "'delta.checkpoint.writeStatsAsJson' = 'false'",
        PARTS_OF_3,
        "*.checkpoint.*.*.parquet",
    ),
    "v2 in Parquet": (V2, {**PARTS_OF_3, "checkpointV2.topLevelFileFormat": "parquet"}, "_sidecars/*.parquet"),
    "v2 in JSON": (V2, {**PARTS_OF_3, "checkpointV2.topLevelFileFormat": "json"}, "*.checkpoint.*.json"),
}
"""
Table properties, settings below ``spark.databricks.delta``, and the files that they make, by what they are.

Delta's log cleanup leaves the classic kind in `test_delta_goes_on`.
"""


def without_checkpoints(table: DeltaTable) -> Path:
    """A table to copy for each checkpoint and the clone, with a vector and more files than one part holds."""
    made = DeltaTable(table.spark, table.path.with_name("without checkpoints"))
    if not made.path.exists():
        two_partitions = ROWS.format(0, 60, 2).replace("% 7", "% 2")
        made.create(two_partitions, DELETION_VECTORS, "PARTITIONED BY (s)")
        made.sql("DELETE FROM {t} WHERE id IN (3, 4)")
    return made.path


def checkpointed(kind: str, table: DeltaTable) -> None:
    properties, settings, files = CHECKPOINTS[kind]
    for key, value in settings.items():
        table.spark.conf.set(f"spark.databricks.delta.{key}", value)
    shutil.copytree(without_checkpoints(table), table.path)
    if properties:
        table.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({properties})")
    version = table.checkpoint()
    for key in settings:
        table.spark.conf.unset(f"spark.databricks.delta.{key}")
    assert list(table.log.glob(files))
    for entry in range(version):
        (table.log / f"{entry:020d}.json").unlink()


MAKERS.update({f"checkpoint, {kind}": functools.partial(checkpointed, kind) for kind in CHECKPOINTS})


@maker
def compacted_log(table: DeltaTable) -> None:
    """A compaction file beside the entries that it repeats."""
    table.create(ROWS.format(0, 20, 2))
    table.sql(f"INSERT INTO {{t}} {ROWS.format(20, 30, 1)}", f"INSERT INTO {{t}} {ROWS.format(30, 35, 1)}")
    lines = [line for v in (0, 1, 2) for line in (table.log / f"{v:020d}.json").read_text().splitlines()]
    compacted = [line for line in lines if "commitInfo" not in json.loads(line)]
    (table.log / f"{0:020d}.{2:020d}.compacted.json").write_text("\n".join(compacted) + "\n")


@maker
def shallow_clone(table: DeltaTable) -> None:
    """Data files and deletion vectors by absolute path, and the clone's own deletion vector on a file of the source."""
    source = DeltaTable(table.spark, table.path.with_name("source of a clone"))
    shutil.copytree(without_checkpoints(table), source.path)
    table.sql(f"CREATE TABLE {{t}} SHALLOW CLONE delta.`{source.path}`", "DELETE FROM {t} WHERE id = 42")


@maker
def change_data_feed_and_backfilled_row_tracking(table: DeltaTable) -> None:
    """Change files beside the data; known files are added again without a removal."""
    table.create(ROWS.format(0, 20, 1), f"'delta.enableChangeDataFeed' = 'true', {DELETION_VECTORS}")
    table.sql(
        "UPDATE {t} SET s = 'updated' WHERE id = 3",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    )
    assert (table.path / "_change_data").exists()


FLAGS_FOR_WRITERS = {
    "delta.feature.vacuumProtocolCheck": "supported",
    "delta.appendOnly": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.feature.materializePartitionColumns": "supported",
}


@maker
def generated_and_identity_columns_and_flags_for_writers(table: DeltaTable) -> None:
    delta = table.spark._jvm.io.delta.tables.DeltaTable
    column = lambda name: delta.columnBuilder(table.spark._jsparkSession, name).dataType("BIGINT")  # noqa: E731
    builder = delta.create(table.spark._jsparkSession).location(str(table.path))
    builder = builder.addColumn(column("k").generatedAlwaysAsIdentity(1, 1).build())
    builder = builder.addColumn(column("id").nullable(False).build())
    builder = builder.addColumn(column("g").generatedAlwaysAs("id % 3").build())
    builder = builder.partitionedBy(table.spark._jvm.PythonUtils.toSeq(["g"]))
    for key, value in FLAGS_FOR_WRITERS.items():
        builder = builder.property(key, value)
    builder.execute()
    table.sql("ALTER TABLE {t} ADD CONSTRAINT natural CHECK (id >= 0)", "INSERT INTO {t} (id) SELECT id FROM range(10)")


@maker
def everything_at_once(table: DeltaTable) -> None:
    table.sql(
        f"""CREATE TABLE {{t}} (id bigint, s string, n int) USING delta CLUSTER BY (s)
            TBLPROPERTIES (
                {DELETION_VECTORS}, 'delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true',
                'delta.enableRowTracking' = 'true', 'delta.enableInCommitTimestamps' = 'true',
                'delta.checkpointPolicy' = 'v2', 'delta.enableTypeWidening' = 'true', 'delta.checkpointInterval' = '3'
            )""",
        "INSERT INTO {t} SELECT id, concat('s', id % 3), int(id) FROM range(0, 30, 1, 1)",
        "ALTER TABLE {t} ALTER COLUMN n TYPE bigint",
        "ALTER TABLE {t} RENAME COLUMN s TO s2",
        "UPDATE {t} SET n = 5000000000 WHERE id < 3",
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("delta features")


@pytest.mark.parametrize("name", MAKERS)
def test_counts_equal_those_of_delta_spark_and_delta_continues(spark, home, analyze_table, name):
    delta = DeltaTable(spark, home / name)
    MAKERS[name](delta)
    table = load_table(str(delta.path))
    report = analyze_table(table)
    delta.sql(f"INSERT INTO {{t}} (id) VALUES ({APPENDED})")
    rows, distinct = counted(delta.read())
    assert {column.column.name: column.ndv for column in report.columns} == distinct
    assert all(column.distinct.exact for column in report.columns)
    assert (report.rows_read, report.committed) == (rows, True)
    later = analyze_table(table)
    assert ({column.basis for column in later.columns}, later.rows_read) == ({"added-files"}, 1)


def test_each_version_with_deletion_vectors_has_its_own_counts(spark, home, analyze_table):
    """Several vectors in one file, two for one file, a file deleted whole, and a restore."""
    delta = DeltaTable(spark, home / "deletion vectors")
    delta.create(ROWS.format(0, 90, 3), DELETION_VECTORS)
    delta.sql(
        "DELETE FROM {t} WHERE id % 10 = 0",
        "DELETE FROM {t} WHERE id % 10 = 1 OR id >= 60",
        "RESTORE TABLE {t} TO VERSION AS OF 1",
    )
    assert list(delta.path.glob("deletion_vector_*.bin"))
    table = load_table(str(delta.path))
    of_versions = [counted(delta.read(version)) for version in (0, 1, 2)]
    of_versions.append(of_versions[1])
    bases = ["full", "changed-files", "changed-files", "changed-files"]
    for version, ((rows, distinct), basis) in enumerate(zip(of_versions, bases, strict=True)):
        selector = SnapshotSelector(snapshot_id=version)
        full = analyze_table(table, selector=selector, mode="full", dry_run=True)
        assert ({c.column.name: c.ndv for c in full.columns}, full.rows_read) == (distinct, rows), version
        kept = analyze_table(table, selector=selector)
        assert {(c.column.name, c.ndv, c.basis) for c in kept.columns} == {
            (*count, basis) for count in distinct.items()
        }
