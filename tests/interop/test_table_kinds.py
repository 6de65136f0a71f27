"""
Rare kinds of tables are analyzed, committed, looked up, and read by Iceberg's Java library and Spark.

Each is a row of `KINDS`: how Spark makes it, and what Spark does to it after the first analysis. The second
analysis builds on the first, and after it the sketches are those of the values that Spark returns, byte for byte, and
Java finds them in the table's own metadata. The catalog does not depend on the kind of table: one with a long history
goes through every catalog.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from puffin.errors import UnsupportedTypeError
from puffin.load import load_table
from puffin.lookup import Question, lookup
from puffin.sketches.theta_sketch import ThetaSketch
from stats_jobs import Options, analyze

EVERY_VERSION = (1, 2, 3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """
    How a table is made; in statements ``{t}`` is its name.

    Attributes:
        first: Statements before the first analysis.
        then: Statements between it and the second one.
        basis: What the second analysis builds its columns on.
        where: A filter that selects whole partitions, so that its answer is exact.
        extension: Of the metadata files.
        shown: What the table of kinds in the documentation calls it, and in which versions each is one; all by default.
    """

    columns: str
    first: Sequence[str]
    then: Sequence[str]
    basis: set[str]
    clause: str = ""
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    versions: Sequence[int] = EVERY_VERSION
    where: str | None = None
    extension: str = ".metadata.json"
    shown: Sequence[tuple[str, str] | tuple[str]]


ROWS = "INSERT INTO {{t}} SELECT id, concat('p', id % 3), id / 4D FROM range({}, {})"
KINDS = {
    "no files": Kind(
        shown=(("A snapshot without files",),),
        columns="id bigint, p string, d double",
        first=[ROWS.format(0, 0)],
        then=[ROWS.format(0, 9), "DELETE FROM {t}"],
        basis={"carried"},
    ),
    "nothing but nulls": Kind(
        shown=(("Columns of nulls alone",),),
        columns="id bigint, i int, s string, st struct<x: date, y: binary>",
        first=["INSERT INTO {t} SELECT id, NULL, NULL, NULL FROM range(9)"],
        then=["INSERT INTO {t} SELECT id, NULL, NULL, named_struct('x', NULL, 'y', NULL) FROM range(9)"],
        basis={"added-files"},
    ),
    "columns dropped, added anew, renamed, moved, widened and no longer required": Kind(
        shown=(("Columns dropped, added anew, renamed, moved, widened, no longer required",),),
        columns="i int, f float, c decimal(9,2), again string, s string, r bigint NOT NULL, st struct<x: int, y: int>",
        first=[
            """INSERT INTO {t} SELECT CAST(id AS int), id / 8, id / 100, 'old', concat('s', id), id,
               named_struct('x', CAST(id AS int), 'y', 5) FROM range(20)"""
        ],
        then=[
            """ALTER TABLE {t} ALTER COLUMN i TYPE bigint, f TYPE double, c TYPE decimal(18,2), st.x TYPE bigint,
               r DROP NOT NULL""",
            "ALTER TABLE {t} DROP COLUMNS (again, st.y)",
            "ALTER TABLE {t} ADD COLUMN again string",
            "ALTER TABLE {t} RENAME COLUMN s TO renamed",
            "ALTER TABLE {t} ALTER COLUMN renamed FIRST",
            """INSERT INTO {t} SELECT concat('s', id), id, id / 8, id / 100, NULL,
               named_struct('x', id), concat('new', id % 3) FROM range(10, 30)""",
        ],
        basis={"full", "added-files"},
    ),
    "partitioned anew twice": Kind(
        shown=(("Partitioned anew twice; filters over three specs",),),
        columns="id bigint, p string, d double",
        clause="PARTITIONED BY (p)",
        first=[ROWS.format(0, 30)],
        then=[
            "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)",
            ROWS.format(30, 60),
            "ALTER TABLE {t} REPLACE PARTITION FIELD p WITH truncate(2, p)",
            "ALTER TABLE {t} DROP PARTITION FIELD bucket(4, id)",
            ROWS.format(60, 99),
        ],
        basis={"added-files"},
        where="p = 'p1'",
    ),
    "every transform": Kind(
        shown=(("Every transform, every type of source",),),
        columns="id bigint, s string, b binary, y date, m timestamp, d timestamp_ntz, h timestamp, c decimal(9,2)",
        clause="""PARTITIONED BY
            (id, bucket(3, s), truncate(2, b), years(y), months(m), days(d), hours(h), truncate(100, c))""",
        first=[
            """INSERT INTO {t} SELECT id % 2, concat('s', id), CAST(concat('b', id) AS binary),
               add_months(DATE'1968-06-01', CAST(7 * id AS int)), timestamp_micros(id * 1000000000000 - 7),
               CAST(timestamp_micros(id * 50000000000 - 7) AS timestamp_ntz), timestamp_micros(id * 3600000000 - 7),
               id / 3 FROM range(4)"""
        ],
        then=["INSERT INTO {t} SELECT 5, NULL, NULL, NULL, NULL, NULL, NULL, NULL", "DELETE FROM {t} WHERE id = 0"],
        basis={"changed-files"},
        versions=[1, 3],
        where="id = 1",
    ),
    "rows rewritten, compressed metadata": Kind(
        shown=(("Row lineage in data files",), ("Compressed metadata, in either spelling",)),
        columns="id bigint, p string, d double",
        versions=[3],
        properties={"write.metadata.compression-codec": "gzip"},
        extension=".gz.metadata.json",
        first=[ROWS.format(0, 30)],
        then=["UPDATE {t} SET p = concat('new', id % 5) WHERE id % 3 = 0", "DELETE FROM {t} WHERE id = 7"],
        basis={"changed-files"},
    ),
    "a variant beside": Kind(
        shown=(("Columns of type unknown, variant, geometry, geography (left out, refused by name)",),),
        columns="id bigint, v variant",
        versions=[3],
        first=["INSERT INTO {t} SELECT id, parse_json('{\"a\": 1}') FROM range(9)"],
        then=["INSERT INTO {t} SELECT id, NULL FROM range(9, 20)"],
        basis={"added-files"},
    ),
}
CASES = [
    pytest.param(
        kind, version, id=f"{kind}, v{version}", marks=[pytest.mark.table_kind(*shown) for shown in made.shown]
    )
    for kind, made in KINDS.items()
    for version in made.versions
]


class Witnessed:
    """What Spark and Java say of a table, for comparison with us."""

    def __init__(self, spark: Any, name: str, table: Any, stored_payloads: Any, java_statistics: Any) -> None:
        self._spark = spark
        self.name = name
        self.table = table
        self._stored_payloads = stored_payloads
        self._java_statistics = java_statistics

    def check(self, report: Any, where: str | None = None) -> None:
        """Check that sketches, lookups and Java agree with the values that Spark returns."""
        columns = [answer.column for answer in report.columns]
        rows = self._rows([column.name for column in columns], where or "true")
        images = {c.field_id: ThetaSketch.from_arrow(rows[i], c.type).to_bytes() for i, c in enumerate(columns)}
        assert self._stored_payloads(self.table, report.entry) == images
        java = self._java_statistics(self.name)[report.snapshot.snapshot_id]
        assert java.payloads == images
        assert java.path == report.entry.statistics_path
        answer = lookup(self.table, Question(self.table.name))
        assert [(c.column, c.ndv, c.source) for c in answer.columns] == [
            (column, distinct, "snapshot") for column, distinct in zip(columns, _distinct(rows), strict=True)
        ]
        assert {column.summary.row_count for column in answer.columns} == {len(rows)}
        if where is not None:
            some = lookup(self.table, Question(self.table.name, where=where))
            assert [column.ndv for column in some.columns] == _distinct(rows.filter(rows["passes"]))
            assert some.partitions.matched < some.partitions.of

    def _rows(self, names: Sequence[str], where: str) -> pa.Table:
        """Return columns 0, 1, 2, ... as Spark reads them, and whether a row passes the filter."""
        columns = [f"{name} AS `{i}`" for i, name in enumerate(names)]
        return self._spark.table(self.name).selectExpr(*columns, f"({where}) <=> true AS passes").toArrow()


def _distinct(rows: pa.Table) -> list[int]:
    return [len(column.drop_null().unique()) for column in rows.drop_columns(["passes"]).columns]


@pytest.fixture(scope="module")
def create(spark):
    """Makes a table of a kind in the catalog ``hadoop``, and runs its first statements."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS hadoop.kinds")
    names = []

    def make(kind: Kind, version: int) -> str:
        name = f"hadoop.kinds.t{len(names)}"
        names.append(name)
        given = {"format-version": version, **kind.properties}
        options = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        spark.sql(f"CREATE TABLE {name} ({kind.columns}) USING iceberg {kind.clause} TBLPROPERTIES ({options})")
        for statement in kind.first:
            spark.sql(statement.replace("{t}", name))
        return name

    return make


@pytest.mark.parametrize(("kind", "version"), CASES)
def test_rare_table_kind_is_analyzed_and_looked_up(
    spark, create, open_table, analyze_table, stored_payloads, java_statistics, kind, version
):
    made = KINDS[kind]
    name = create(made, version)
    table = open_table(name)
    witnessed = Witnessed(spark, name, table, stored_payloads, java_statistics)
    assert analyze_table(table, partitions=True).committed
    for statement in made.then:
        spark.sql(statement.replace("{t}", name))
    second = analyze_table(table, partitions=True)
    assert {column.basis for column in second.columns} == made.basis
    witnessed.check(second, made.where)
    assert table.open().state.metadata_location.partition(".")[2] == made.extension[1:]
    assert not analyze_table(table, partitions=True).committed


@pytest.fixture
def in_catalog(request, tmp_path):
    """Registers a metadata file as a table of a catalog, and opens it there."""

    def register(catalog: str, identifier: str, metadata_location: str) -> Any:
        properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}
        if catalog == "rest":
            properties = request.getfixturevalue("rest_catalog")
        opened = load_catalog(catalog, **properties)
        opened.create_namespace_if_not_exists("kinds")
        opened.register_table(identifier, metadata_location)
        return load_table(identifier, catalog=catalog, catalog_properties=properties)

    return register


@pytest.fixture(scope="module", params=EVERY_VERSION, ids="v{}".format)
def seen_much(request, spark, create, open_table):
    """The metadata file of a table with two partition specs, and what Spark counts in its columns."""
    made = KINDS["partitioned anew twice"]
    name = create(made, request.param)
    for statement in made.then[:2]:
        spark.sql(statement.replace("{t}", name))
    distinct = _distinct(spark.table(name).selectExpr("*", "true AS passes").toArrow())
    return open_table(name).open().state.metadata_location, distinct, made.where


@pytest.mark.parametrize("catalog", ["sql", "rest"])
@pytest.mark.table_kind("In a SQL catalog, in a REST catalog")
def test_table_with_a_long_history_works_in_each_catalog(spark, seen_much, in_catalog, catalog):
    """Java finds what was committed to both catalogs; `KINDS` covers the directory."""
    metadata_location, distinct, where = seen_much
    identifier = f"kinds.{metadata_location.split('/')[-3]}"
    table = in_catalog(catalog, identifier, metadata_location)
    report = analyze(table, Options(partitions=True))
    assert report.committed
    assert [column.ndv for column in lookup(table, Question(table.name)).columns] == distinct
    assert lookup(table, Question(table.name, ["id"], where=where)).columns[0].ndv == 20
    java = spark._jvm.org.apache.iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())
    (entry,) = java.load(table.open().state.metadata_location).statisticsFiles()
    assert (entry.snapshotId(), entry.path()) == (report.snapshot.snapshot_id, report.entry.statistics_path)
    assert [int(dict(blob.properties())["ndv"]) for blob in entry.blobMetadata()] == distinct
    assert not analyze(table, Options(partitions=True)).committed


@pytest.mark.table_kind("`write.metadata.path`", "2")
def test_rest_statistics_follow_the_tables_metadata_path(spark_rest, analyze_table, tmp_path):
    name = "rest.kinds.elsewhere"
    spark_rest.sql("CREATE NAMESPACE IF NOT EXISTS rest.kinds")
    spark_rest.sql(
        f"""CREATE TABLE {name} (id bigint) USING iceberg
            TBLPROPERTIES ('write.metadata.path' = '{tmp_path.as_uri()}/m/')"""
    )
    spark_rest.sql(f"INSERT INTO {name} VALUES (1)")
    path = analyze_table(name).entry.statistics_path
    assert path.rpartition("/")[0] == f"{tmp_path.as_uri()}/m"
    assert (tmp_path / "m" / path.rpartition("/")[2]).exists()


@pytest.mark.parametrize("version", EVERY_VERSION)
@pytest.mark.table_kind("No snapshot yet")
@pytest.mark.table_kind("No column that can be hashed")
def test_table_without_a_snapshot_or_hashable_column_has_nothing_to_compute(spark, open_table, analyze_table, version):
    """Nothing is written or committed in any mode until there is something to compute."""
    name = f"hadoop.kinds.nothing_v{version}"
    spark.sql(
        f"""CREATE TABLE {name} (l array<int>, m map<string, int>) USING iceberg
            TBLPROPERTIES ('format-version' = '{version}')"""
    )
    table = open_table(name)
    created = table.open().state.metadata_location
    assert analyze_table(table).snapshot is None
    assert (table.open().state.metadata_location, lookup(table, Question(table.name)).columns) == (created, ())
    spark.sql(f"INSERT INTO {name} SELECT array(1), map('a', 1)")
    written = table.open().state.metadata_location
    for options in ({}, {"mode": "full"}, {"mode": "incremental"}, {"partitions": True}):
        report = analyze_table(table, **options)
        assert (report.committed, report.entry, report.columns, report.files_read) == (False, None, (), 0)
    assert table.open().state.metadata_location == written
    spark.sql(f"ALTER TABLE {name} ADD COLUMN x int")
    assert [column.ndv for column in analyze_table(table).columns] == [0]
    spark.sql(f"ALTER TABLE {name} DROP COLUMN x")
    assert analyze_table(table).committed  # the entry names a field that is gone, which makes Spark's planner fail
    assert [entry.blobs for entry in table.open().state.statistics.values()] == [()]
    assert not analyze_table(table).committed


@pytest.mark.table_kind("Columns of type unknown, variant, geometry, geography (left out, refused by name)", "3")
def test_columns_without_single_value_bytes_are_skipped_or_refused_by_name(spark, create, analyze_table, open_table):
    name = create(KINDS["a variant beside"], 3)
    table = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    types = spark._jvm.org.apache.iceberg.types
    update = table.updateSchema()
    for type_ in ("Unknown", "Geometry", "Geography"):
        kind = getattr(types, f"Types${type_}Type")
        update = update.addColumn(type_.lower(), kind.get() if type_ == "Unknown" else kind.crs84())
    update.commit()
    assert [column.column.name for column in analyze_table(name).columns] == ["id"]
    assert len(open_table(name).open().state.columns) == 5
    for column in ("v", "unknown", "geometry", "geography"):
        with pytest.raises(UnsupportedTypeError, match=f"column {column}: type .* has no single-value bytes"):
            analyze_table(name, columns=(column,))
