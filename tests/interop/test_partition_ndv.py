"""
NDV by partition of tables that Spark wrote equals exact counts through everything that moves rows.

One table lives through appends under two partition specs, deletes of rows, of a partition and by overwriting, and a
compaction that writes rows into other partitions. After each step the sketches are brought up to date, held against
the values that Spark reads in every partition, and against a run over all rows: they have to be the same bytes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from types import SimpleNamespace

import pytest

import puffin
from puffin.errors import UnsupportedError
from puffin.format import PARTITION_SKETCHES_V1
from puffin.lookup import PartitionMatch
from puffin.sketches.partition_sketches import PartitionSketches
from puffin.values.partition_tuples import partition_key

NAME = "hadoop.partition_ndv.visits"
COLUMNS = {1: "id", 2: "city", 4: "visitor", 5: "note"}
FIELDS = {"city": 1000, "at_day": 1001, "id_bucket_2": 1002}
SPECS = {0: ("city", "at_day"), 1: ("city", "at_day", "id_bucket_2")}

ROWS = """
    SELECT id, element_at(array('Oslo', 'São Paulo', NULL), cast(id % 3 + 1 AS int)) AS city,
        timestamp'2024-01-01 00:00:00' + make_dt_interval(cast(id % 4 AS int), 1) AS at,
        id % 7 AS visitor, if(id % 5 = 0, NULL, concat('n', id % 40)) AS note
    FROM range({start}, {stop}, 1, 1)
"""
SPLIT = f"ALTER TABLE {NAME} ADD PARTITION FIELD bucket(2, id)"
STEPS = {
    "append to some": f"INSERT INTO {NAME} SELECT * FROM (" + ROWS.format(start=0, stop=99) + ") WHERE city = 'Oslo'",
    "evolve": SPLIT,
    "append under the new spec": f"INSERT INTO {NAME} " + ROWS.format(start=3000, stop=3500),
    "delete rows": f"DELETE FROM {NAME} WHERE city = 'Oslo' AND visitor IN (1, 2)",
    "delete a partition": f"DELETE FROM {NAME} WHERE city IS NULL AND at < timestamp'2024-01-02 00:00:00'",
    "compact": "CALL hadoop.system.rewrite_data_files(table => 'partition_ndv.visits', where => 'city = \"Oslo\"')",
    "overwrite": f"SELECT * FROM ({ROWS.format(start=5000, stop=5020)}) WHERE city = 'Oslo'",
    "delete every row of a city": f"DELETE FROM {NAME} WHERE city = 'São Paulo' AND id >= 0",
}


@pytest.fixture(scope="module")
def visits(spark, warehouse, open_table, analyze_table, private_payloads):
    """The table after its first run, and functions that check it."""
    spark.sql(f"""
        CREATE TABLE {NAME} (id bigint, city string, at timestamp, visitor int, note string)
        USING iceberg PARTITIONED BY (city, days(at))
        TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read',
                       'write.distribution-mode' = 'hash')
    """)
    spark.sql(f"INSERT INTO {NAME} " + ROWS.format(start=0, stop=2000))
    table = open_table(NAME)

    def exact():
        """Return how many distinct values Spark reads of each column, by partition."""
        found = defaultdict(lambda: {field_id: set() for field_id in COLUMNS})
        rows = spark.sql(f"SELECT _spec_id, _partition, {', '.join(COLUMNS.values())} FROM {NAME}").collect()
        for spec_id, partition, *row in rows:
            for values, value in zip(found[spec_id, partition].values(), row, strict=True):
                values.update({value} - {None})
        return {_key(*place): {i: len(values) for i, values in of.items()} for place, of in found.items()}

    def analyze(**options):
        return analyze_table(table, columns=tuple(COLUMNS.values()), partitions=True, **options)

    def stored(report):
        """Return the partition sketches of a run, by field id."""
        return private_payloads(table, report.entry, PARTITION_SKETCHES_V1)

    path = str(warehouse / "partition_ndv" / "visits")
    return SimpleNamespace(
        stored=stored, spark=spark, table=table, name=path, exact=exact, analyze=analyze, first=analyze()
    )


def _key(spec_id, partition):
    values = {str(FIELDS[name]): partition[name] for name in SPECS[spec_id]}
    return partition_key(spec_id, {**values, "1001": str(values["1001"])})


def check(visits, report, step):
    """Compare a run with one over all rows, which it returns, and with the values that Spark reads."""
    payloads, full = visits.stored(report), visits.analyze(mode="full", commit=False)
    assert payloads == visits.stored(full), step
    sketches = {field_id: PartitionSketches.from_bytes(payload) for field_id, payload in payloads.items()}
    found = {
        key: {field_id: s.union(lambda other, key=key: other == key).ndv for field_id, s in sketches.items()}
        for key in sketches[1].keys
    }
    assert found == visits.exact(), step
    assert report.to_json()["partitions"] == {"kept": True, "count": len(found), "reason": None}
    return full


def test_each_step_reads_only_the_partitions_it_touched(visits):
    check(visits, visits.first, "create")
    on_executors = visits.analyze(mode="full", commit=False, driver_bytes=0)
    assert visits.stored(on_executors) == visits.stored(visits.first)
    assert {column.basis for column in visits.first.columns} == {"full"}
    for step, statement in STEPS.items():
        rows = visits.spark.sql(statement)
        if step == "overwrite":
            rows.writeTo(NAME).overwritePartitions()
        report = visits.analyze()
        assert report.files_read < check(visits, report, step).files_read, step
        assert report.current is (step == "evolve")


def test_lookups_find_the_requested_partitions(visits):
    """By name and by filter under both specs; a filter may match fewer rows than the partitions it keeps."""
    visits.spark.sql(f"INSERT INTO {NAME} " + ROWS.format(start=7000, stop=7700))
    visits.analyze()
    everything = len(visits.exact())

    def rows(condition):
        return visits.spark.sql(f"SELECT count(DISTINCT id) AS n FROM {NAME} WHERE {condition}").first().n

    def lookup(*partitions, where=None):
        answer = puffin.ndv(visits.name, ["id"], partitions=partitions, where=where)
        assert answer.partitions.of == everything
        return answer.partitions.matched, answer.columns[0].ndv

    by_name = lookup("city=São Paulo/at_day=2024-01-02")
    assert by_name == lookup(
        where="city = 'São Paulo' and at >= '2024-01-02T00:00:00+00:00' and at < '2024-01-03T00:00:00+00:00'"
    )
    assert by_name[1] == rows("city = 'São Paulo' AND date(at) = date'2024-01-02'") > 0
    assert lookup("city=null")[1] == lookup(where="city is null")[1] == rows("city IS NULL") > 0
    assert lookup("city=Oslo", "at_day=2024-01-04")[1] == rows("city = 'Oslo' OR date(at) = date'2024-01-04'")
    assert lookup("city=Oslo", where="at < '2024-01-02T00:00:00+00:00'")[1] == rows(
        "city = 'Oslo' AND at < timestamp'2024-01-02'"
    )
    assert lookup(where="id = 7000")[1] >= 1
    assert lookup(where="at > '2030-01-01T00:00:00+00:00'") == (0, 0)


def test_older_partition_statistics_answer_until_newer_ones_exist(visits, analyze_table):
    """A run without partitions leaves them under the snapshot that has them."""
    before = visits.table.open().state.current_snapshot_id
    visits.spark.sql(f"INSERT INTO {NAME} " + ROWS.format(start=9000, stop=9010))
    plain = analyze_table(visits.table, columns=("id",))
    assert plain.partitions.reason == f"they were not asked for, and rows have changed since those of snapshot {before}"
    answer = puffin.ndv(visits.name, ["id"], where="true")
    (column,) = answer.columns
    assert (column.source, column.stats_snapshot_id) == ("ancestor", before)
    report = visits.analyze()
    check(visits, report, "append")
    assert report.files_read < 30
    assert puffin.ndv(visits.name, ["id"], where="true").columns[0].source == "snapshot"


def test_partition_sketches_are_added_to_current_statistics(spark, warehouse, analyze_table):
    """Our sketches stay; another engine's are computed again, because they cannot be split by partition."""
    for maker in ("ours", "spark"):
        name = f"hadoop.partition_ndv.by_{maker}"
        spark.sql(f"CREATE TABLE {name} USING iceberg PARTITIONED BY (p) AS SELECT id, id % 3 AS p FROM range(60)")
        if maker == "ours":
            analyze_table(name)
        else:
            spark.sql(f"CALL hadoop.system.compute_table_stats(table => '{name.removeprefix('hadoop.')}')")
        with pytest.raises(UnsupportedError, match="there are no sketches by partition that fit"):
            analyze_table(name, partitions=True, mode="incremental")
        report = analyze_table(name, partitions=True)
        assert {c.basis for c in report.columns} == {"carried" if maker == "ours" else "full"}
        assert (report.partitions.count, report.current, report.committed) == (3, False, True)
        assert puffin.ndv(report.table, ["id"], partitions=["p=2"]).columns[0].ndv == 20
        again = analyze_table(name, partitions=True)
        assert (again.partitions.count, again.current, again.files_read) == (3, True, 0)


def test_unpartitioned_table_reports_that_it_has_no_partitions(spark, analyze_table):
    spark.sql("CREATE TABLE hadoop.partition_ndv.plain USING iceberg AS SELECT id FROM range(5)")
    for current in (False, True):
        report = analyze_table("hadoop.partition_ndv.plain", partitions=True)
        assert report.current is current
        assert json.loads(json.dumps(report.to_json()))["partitions"] == {
            "kept": False,
            "count": None,
            "reason": "the table is not partitioned",
        }
    assert puffin.ndv(report.table, where="id = 1").partitions == PartitionMatch(None, None)
