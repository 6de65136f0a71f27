"""The kinds of tables that both catalogs read, as steps: versions, deletes, specs and schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tests.interop.test_java_equality_deletes import JavaDeletes

Step: TypeAlias = "str | Callable[[Any, str], None]"
"""A statement of Spark's, with ``{t}`` for the table, or a function of the session and the table's name."""

COLUMNS = """row bigint, i int, l bigint, s string, d date, ts timestamp, tn timestamp_ntz, de decimal(9, 2),
    f float, db double, b boolean, bin binary, st struct<n: int, t: string>"""
CREATE = f"CREATE TABLE {{t}} ({COLUMNS}) USING iceberg"
MERGE_ON_READ = "'write.delete.mode' = 'merge-on-read'"
TAKEN_BACK = "'puffin-sidecar.scan-planning-mode' = 'client'"
BINARY = "IF(id % 5 = 0, NULL, unhex(hex(id % 40)))"
STRUCT = "named_struct('n', CAST(id % 12 AS int), 't', concat('t', id % 4))"
VALUES = f"""
    id,
    IF(id % 11 = 0, NULL, CAST(id % 5 - 2 AS int)),
    IF(id % 13 = 0, NULL, id * 7919 % 1000 - 300),
    CASE id % 9 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'é' ELSE concat('key-', id % 4) END,
    IF(id % 17 = 0, NULL, date_add(DATE'1969-12-30', CAST(id % 5 AS int))),
    IF(id % 19 = 0, NULL, timestamp_micros((id % 6 - 3) * 8 * 3600000000 + id % 2)),
    CAST(timestamp_micros((id * 41 % 300 - 60) * 12 * 3600000000 - id % 2) AS timestamp_ntz),
    IF(id % 7 = 0, NULL, CAST(id % 50 - 10 AS decimal(9, 2)) + 0.25BD),
    CASE id % 8 WHEN 0 THEN NULL WHEN 1 THEN float('NaN') WHEN 2 THEN float('-0.0') WHEN 3 THEN float('Infinity')
        ELSE CAST(id % 6 / 10.0 AS float) END,
    CASE id % 9 WHEN 0 THEN NULL WHEN 1 THEN double('NaN') WHEN 2 THEN double('-0.0') ELSE id % 5 - 2.5D END,
    CASE id % 3 WHEN 0 THEN NULL WHEN 1 THEN true ELSE false END,
    {BINARY},
    IF(id % 10 = 0, NULL, {STRUCT})"""


def rows(start: int, stop: int, values: str = VALUES) -> str:
    """Insert rows by ascending ``row``, as files of their own."""
    return f"INSERT INTO {{t}} SELECT {values} FROM range({start}, {stop}, 1, 1)"


def version(number: int, more: str = MERGE_ON_READ) -> str:
    return f"TBLPROPERTIES ('format-version' = '{number}', {more})"


def add_column_with_default(spark: Any, name: str) -> None:
    """Rows of older files have 7 in it."""
    iceberg = spark._jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    type_, default = iceberg.types.Types.IntegerType.get(), iceberg.expressions.Expressions.lit(7)
    table.updateSchema().addColumn("seven", type_, None, default).commit()


def delete_by_value(spark: Any, name: str) -> None:
    """By one column in all partitions, by two columns, and in one partition."""
    deletes = JavaDeletes(spark, name, "parquet")
    deletes.commit(["s"], ("",), ("key-2",))
    deletes.commit(["i", "d"], (None, None), (1, None))


BATCHES = tuple(rows(start, start + 40) for start in range(0, 160, 40))

BY_SERVER: dict[str, tuple[Step, ...]] = {
    "v1": (f"{CREATE} PARTITIONED BY (days(ts), b) {version(1)}", *BATCHES[:3]),
    "v1_dropped_field": (
        f"{CREATE} PARTITIONED BY (i, months(d)) {version(1)}",
        *BATCHES[:2],
        "ALTER TABLE {t} DROP PARTITION FIELD i",
        BATCHES[2],
    ),
    "position_deletes": (
        f"{CREATE} PARTITIONED BY (bucket(3, row)) {version(2)}",
        *BATCHES,
        "DELETE FROM {t} WHERE row % 7 = 3",
        "DELETE FROM {t} WHERE s = 'key-1' AND row < 80",
        rows(1000, 1020),
        "DELETE FROM {t} WHERE row IN (1000, 1001, 20)",
    ),
    "deletion_vectors": (
        f"{CREATE} PARTITIONED BY (truncate(5, s)) {version(3)}",
        *BATCHES[:3],
        "DELETE FROM {t} WHERE row % 7 = 3",
        "DELETE FROM {t} WHERE row % 11 = 4",
    ),
    "equality_deletes": (
        f"{CREATE} {version(2)}",
        *BATCHES[:3],
        delete_by_value,
        rows(500, 520),
        "DELETE FROM {t} WHERE row % 7 = 3",
    ),
    "specs": (
        f"{CREATE} {version(2)}",
        BATCHES[0],
        "ALTER TABLE {t} ADD PARTITION FIELD days(d)",
        BATCHES[1],
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, i)",
        BATCHES[2],
        "ALTER TABLE {t} DROP PARTITION FIELD days(d)",
        BATCHES[3],
        "ALTER TABLE {t} REPLACE PARTITION FIELD bucket(2, i) WITH truncate(100, l)",
        rows(200, 220),
    ),
    "same_field_in_all_specs": (
        f"{CREATE} PARTITIONED BY (d) {version(2)}",
        *BATCHES[:2],
        "ALTER TABLE {t} ADD PARTITION FIELD hours(ts)",
        BATCHES[2],
    ),
    "schemas": (
        f"{CREATE} PARTITIONED BY (i) {version(3)}",
        *BATCHES[:2],
        "ALTER TABLE {t} RENAME COLUMN s TO text",
        "ALTER TABLE {t} ALTER COLUMN i TYPE bigint",
        "ALTER TABLE {t} ALTER COLUMN f TYPE double",
        "ALTER TABLE {t} ALTER COLUMN de TYPE decimal(18, 2)",
        "ALTER TABLE {t} DROP COLUMN bin",
        "ALTER TABLE {t} ADD COLUMN st.more int",
        "ALTER TABLE {t} RENAME COLUMN st.t TO st_text",
        rows(
            80, 120, VALUES.replace(f"{BINARY},", "").replace("'t', concat('t', id % 4)", "'st_text', 'x', 'more', 3")
        ),
        add_column_with_default,
        "ALTER TABLE {t} ADD COLUMN late int",
        "CALL {c}.system.expire_snapshots(table => '{t}', older_than => TIMESTAMP'2100-01-01', retain_last => 1)",
    ),
}
"""Tables whose scans the server plans."""

BY_CLIENT: dict[str, tuple[Step, ...]] = {
    "floats": (f"{CREATE} PARTITIONED BY (f, db) {version(2)}", BATCHES[0]),
    "swapped_names": (
        f"{CREATE} {version(2)}",
        BATCHES[0],
        "ALTER TABLE {t} RENAME COLUMN i TO old",
        "ALTER TABLE {t} RENAME COLUMN l TO i",
        "ALTER TABLE {t} RENAME COLUMN old TO l",
        rows(80, 100),
    ),
    "promoted_partition": (
        f"{CREATE} PARTITIONED BY (i) {version(2)}",
        BATCHES[0],
        "ALTER TABLE {t} ALTER COLUMN i TYPE bigint",
        BATCHES[1],
    ),
    "taken_back": (f"{CREATE} {version(2, TAKEN_BACK)}", *BATCHES[:2]),
}
"""Tables that are given back to the client."""
