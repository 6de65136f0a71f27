"""
What a table goes through where Trino, Spark, pyiceberg and we work on it: after every step everybody loads it, and our
``auto`` run equals a full one.

Trino 476 takes every step on version 2. On version 1 it deletes whole partitions only, so that Spark updates and merges
there. Version 3 is Spark's: Trino 476 refuses to delete from it and to maintain it, but writes statistics over ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

FLAT = {
    "id": ("bigint", "x"),
    "k": ("int", "CAST(x % 10 AS int)"),
    "p": ("int", "CAST(x % 4 AS int)"),
    "s": ("{text}", "IF(x % 11 = 0, NULL, CONCAT('s', CAST(x % 300 AS {text})))"),
    "d": ("date", "CAST(CONCAT('2024-01-', CAST(10 + x % 20 AS {text})) AS date)"),
    "amount": ("decimal(9, 2)", "CAST(x % 997 AS decimal(9, 2)) / 4"),
    "f": ("double", "CAST(x % 50 AS double) / 4"),
}


def flat(text: str) -> dict[str, tuple[str, str]]:
    """The columns that are not nested, where this is the type of texts."""
    return {name: (type_.format(text=text), value.format(text=text)) for name, (type_, value) in FLAT.items()}


IN_TRINO = {
    **flat("varchar"),
    "st": ("ROW(x int, y varchar)", "CAST(ROW(x % 7, CONCAT('y', CAST(x AS varchar))) AS ROW(x int, y varchar))"),
    "many": ("ARRAY(int)", "ARRAY[CAST(x AS int)]"),
}
IN_SPARK = {
    **flat("string"),
    "st": ("STRUCT<x: int, y: string>", "named_struct('x', CAST(x % 7 AS int), 'y', CONCAT('y', x))"),
    "many": ("ARRAY<int>", "array(CAST(x AS int))"),
}


def declared(columns: dict[str, tuple[str, str]]) -> str:
    return ", ".join(f"{name} {type_}" for name, (type_, _) in columns.items())


def values(columns: dict[str, tuple[str, str]]) -> str:
    return ", ".join(f"{value} AS {name}" for name, (_, value) in columns.items())


def trino_rows(columns: dict[str, tuple[str, str]], first: int, last: int) -> str:
    return f"SELECT {values(columns)} FROM UNNEST(sequence({first}, {last})) AS numbers(x)"


def spark_rows(columns: dict[str, tuple[str, str]], first: int, last: int) -> str:
    return f"SELECT {values(columns)} FROM (SELECT id AS x FROM range({first}, {last + 1}, 1, 1))"


def merge(columns: dict[str, tuple[str, str]], rows: str) -> str:
    """Rows that exist get another ``k``, the others are inserted."""
    names = ", ".join(columns)
    new = ", ".join(f"s.{name}" for name in columns)
    return f"""MERGE INTO {{t}} t USING ({rows}) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET k = -1 WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({new})"""


def insert(columns: dict[str, tuple[str, str]], rows: str) -> str:
    return f"INSERT INTO {{t}} ({', '.join(columns)}) {rows}"


def without(columns: dict[str, tuple[str, str]], *names: str) -> dict[str, tuple[str, str]]:
    return {name: column for name, column in columns.items() if name not in names}


def steps_of_trino(table, version: int) -> Iterable[tuple[str, Callable[[], object]]]:
    """What each step is called, and how it is taken; what Trino does not do with version 1 is Spark's."""
    t, columns, in_spark = table.trino, IN_TRINO, IN_SPARK
    left, left_in_spark = without(columns, "s"), without(in_spark, "s")
    yield "INSERT", lambda: t(insert(columns, trino_rows(columns, 1001, 1400)))
    yield "ANALYZE", lambda: t("ANALYZE {t}")
    yield "ANALYZE of a column", lambda: t("ANALYZE {t} WITH (columns = ARRAY['k'])")
    yield "DELETE of a partition", lambda: t("DELETE FROM {t} WHERE p = 3")
    if version == 1:
        yield "DELETE", lambda: table.sql("DELETE FROM {t} WHERE id % 3 = 0")
        yield "MERGE", lambda: table.sql(merge(in_spark, spark_rows(in_spark, 1300, 1500)))
        yield "UPDATE", lambda: table.sql("UPDATE {t} SET k = k + 100 WHERE p = 1")
    else:
        yield "DELETE", lambda: t("DELETE FROM {t} WHERE id % 3 = 0")
        yield "MERGE", lambda: t(merge(columns, trino_rows(columns, 1300, 1500)))
        yield "UPDATE", lambda: t("UPDATE {t} SET k = k + 100 WHERE p = 1")
    yield "OPTIMIZE", lambda: t("ALTER TABLE {t} EXECUTE optimize")
    yield "DROP COLUMN", lambda: t("ALTER TABLE {t} DROP COLUMN s")
    yield "INSERT into what is left", lambda: t(insert(left, trino_rows(left, 2001, 2200)))
    yield "ANALYZE of what is left", lambda: t("ANALYZE {t}")
    yield "append by Spark", lambda: table.sql(insert(left_in_spark, spark_rows(left_in_spark, 2301, 2400)))
    yield "append by pyiceberg", lambda: append_again(table)
    yield "expire_snapshots", lambda: t("ALTER TABLE {t} EXECUTE expire_snapshots(retention_threshold => '0s')")
    yield "remove_orphan_files", lambda: t("ALTER TABLE {t} EXECUTE remove_orphan_files(retention_threshold => '0s')")
    yield "DELETE after that", lambda: t("DELETE FROM {t} WHERE p = 2")
    yield "TRUNCATE", lambda: t("TRUNCATE TABLE {t}")


def append_again(table) -> None:
    """Ten of its rows once more."""
    opened = table.in_pyiceberg()
    opened.append(opened.scan(limit=10).to_arrow())


def steps_of_spark(table) -> Iterable[tuple[str, Callable[[], object]]]:
    """Trino writes statistics of version 3 while there are no deletion vectors, which it does not read."""
    columns, left = IN_SPARK, without(IN_SPARK, "s")

    def call(procedure: str, *arguments: str) -> object:
        return table.sql(f"CALL shared.system.{procedure}({', '.join([f'''table => '{table.name}' ''', *arguments])})")

    yield "INSERT by Trino", lambda: table.trino(insert(IN_TRINO, trino_rows(IN_TRINO, 1001, 1200)))
    yield "ANALYZE by Trino", lambda: table.trino("ANALYZE {t}")
    yield "INSERT", lambda: table.sql(insert(columns, spark_rows(columns, 1201, 1400)))
    yield "ANALYZE of a column by Trino", lambda: table.trino("ANALYZE {t} WITH (columns = ARRAY['k'])")
    yield "DELETE", lambda: table.sql("DELETE FROM {t} WHERE id % 3 = 0")
    yield "compute_table_stats", lambda: call("compute_table_stats")
    yield "MERGE", lambda: table.sql(merge(columns, spark_rows(columns, 1300, 1500)))
    yield "UPDATE", lambda: table.sql("UPDATE {t} SET k = k + 100 WHERE p = 1")
    yield "compaction", lambda: call("rewrite_data_files", "options => map('rewrite-all', 'true')")
    yield "DROP COLUMN", lambda: table.trino("ALTER TABLE {t} DROP COLUMN s")
    yield "INSERT into what is left", lambda: table.sql(insert(left, spark_rows(left, 2001, 2200)))
    yield "compute_table_stats of what is left", lambda: call("compute_table_stats")
    yield "expiry", lambda: call("expire_snapshots", "older_than => TIMESTAMP '2100-01-01'", "retain_last => 1")
    yield "removal of orphans", table.remove_orphans_in_spark
    yield "DELETE after that", lambda: table.sql("DELETE FROM {t} WHERE p = 2")


def go_through(table, steps: Iterable[tuple[str, Callable[[], object]]]) -> None:
    """Analyze the table in full, then take each step and bring the statistics up to date after it."""
    table.does("full", lambda: table.analyze(mode="full"))
    if table.estimated_join_rows("k") is None:
        table.problems.append("full: Trino does not know how many rows a join has")
    table.bring_up_to_date("full")
    for what, step in steps:
        table.does(what, step)
        table.bring_up_to_date(what)
    table.had_no_problems()


@pytest.mark.parametrize("version", [1, 2])
def test_every_engine_loads_the_table_after_every_step_of_trino(share, version):
    table = share(
        f"trino_v{version}",
        in_trino=f"""CREATE TABLE {{t}} ({declared(IN_TRINO)}) WITH (location = '{{at}}', format_version = {version},
            partitioning = ARRAY['p'])""",
    )
    table.trino(insert(IN_TRINO, trino_rows(IN_TRINO, 1, 1000)))
    go_through(table, steps_of_trino(table, version))


def test_every_engine_loads_the_version_3_table_after_every_step(share):
    table = share(
        "spark_v3",
        in_spark=f"""CREATE TABLE {{t}} ({declared(IN_SPARK)}) USING iceberg PARTITIONED BY (p) LOCATION '{{at}}'
            TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read',
            'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')""",
    )
    table.sql(insert(IN_SPARK, spark_rows(IN_SPARK, 1, 1000)))
    go_through(table, steps_of_spark(table))
