"""Tables of Spark's catalogs are read and committed through Spark, without any other settings."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    SetupError,
    StorageError,
    TableNotFound,
    UnsupportedTableError,
    UsageError,
)
from puffin.tables.commit import commit_statistics
from stats_jobs import Options, SparkStarter, SparkTable, analyze, analyze_many
from stats_jobs.spark_iceberg import JavaIceberg

NDV = {"id": 300, "s": 30, "k": 7}


@pytest.fixture(scope="module")
def catalogs(spark_rest, tmp_path_factory):
    """The session with another JDBC catalog that caches its tables, as Spark's catalogs do by default."""
    home = tmp_path_factory.mktemp("jdbc")
    settings = {"type": "jdbc", "uri": f"jdbc:sqlite:{home}/catalog.db", "warehouse": str(home), "clients": "1"}
    spark_rest.conf.set("spark.sql.catalog.jdbc", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in settings.items():
        spark_rest.conf.set(f"spark.sql.catalog.jdbc.{key}", value)
    for name in ("hadoop", "jdbc", "rest"):
        spark_rest.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}.through_spark")
    return spark_rest


@pytest.fixture(scope="module")
def starter(catalogs):
    with SparkStarter(catalogs) as starter:
        yield starter


@pytest.fixture
def make(catalogs, starter):
    """Makes a table of 300 rows, and returns it as Spark sees it."""

    def make(name: str, version: int = 2, *, partitioned_by: str = "") -> SparkTable:
        catalogs.sql(
            f"""CREATE TABLE {name} (id bigint, s string, k bigint) USING iceberg {partitioned_by}
                TBLPROPERTIES ('format-version' = '{version}', 'commit.retry.min-wait-ms' = '1')"""
        )
        append(catalogs, name, 0, 300)
        return SparkTable(name, starter)

    return make


def append(spark, name: str, first: int, last: int) -> None:
    spark.sql(f"INSERT INTO {name} SELECT id, concat('s', id % 30), id % 7 FROM range({first}, {last})")


def ndv_of(report) -> dict[str, int]:
    return {answer.column.name: answer.ndv for answer in report.columns}


@pytest.mark.parametrize(("catalog", "version"), [("hadoop", 1), ("jdbc", 2), ("jdbc", 3), ("rest", 3)])
def test_table_is_analyzed_and_committed_through_its_catalog(
    catalogs, make, java_statistics, catalog: str, version: int
) -> None:
    """Iceberg's reader finds the statistics; a second run is current; after an append only the new rows are read."""
    table = make(f"{catalog}.through_spark.v{version}", version)
    before = table.open().state
    report = analyze(table)
    assert (report.table, report.committed, report.attempts) == (table.name, True, 1)
    assert ndv_of(report) == NDV
    (found,) = java_statistics(table.name).values()
    assert [blob.sketch.estimate for blob in found.blobs] == [300, 30, 7]
    after = table.open().state.document
    assert {k for k in after if after[k] != before.document.get(k)} == {"statistics", "metadata-log", "last-updated-ms"}
    assert analyze(table).current
    append(catalogs, table.name, 300, 400)
    again = analyze(table, Options(keep_entries=1))
    assert (again.rows_read, again.committed, ndv_of(again)) == (100, True, {**NDV, "id": 400})
    assert set(table.open().state.statistics) == {again.snapshot.snapshot_id}


def test_partition_statistics_are_committed_too(catalogs, make) -> None:
    table = make("jdbc.through_spark.by_partition", partitioned_by="PARTITIONED BY (s)")
    report = analyze(table, Options(partitions=True))
    assert report.committed
    assert report.partitions.count == 30
    state = table.open().state
    assert set(state.partition_statistics) == {state.current_snapshot_id}


@pytest.mark.parametrize("catalog", ["hadoop", "jdbc"])
def test_commit_retries_after_another_writer_commits_first(catalogs, make, draft_of, catalog: str) -> None:
    table = make(f"{catalog}.through_spark.raced")
    draft = draft_of(table, {"id": range(300)})
    base = table.open()
    append(catalogs, table.name, 300, 310)
    with pytest.raises(ConflictError, match="raced: another writer committed first"):
        base.commit(draft.write(base, []))
    assert table.open().state.statistics == {}
    draft.discard()

    racing = Racing(table, lambda: append(catalogs, table.name, 310, 320))
    committed = commit_statistics(racing, draft_of(table, {"id": range(300)}))
    assert committed.attempts == 2
    state = table.open().state
    assert state.statistics[committed.entry.snapshot_id] == committed.entry
    assert len(state.snapshots) == 3


class Racing:
    """A table to which another writer commits first, once."""

    def __init__(self, table: SparkTable, race) -> None:
        self._table, self._races = table, [race]

    def __getattr__(self, name: str):
        return getattr(self._table, name)

    def open(self, selector):
        return dataclasses.replace(self._table.open(selector), table=self)

    def commit(self, base, entry):
        while self._races:
            self._races.pop()()
        return self._table.commit(base, entry)


def test_commit_needs_the_state_that_was_loaded_last(catalogs, make, draft_of) -> None:
    """Java compares with what it loaded itself, so the entry must be made for that state."""
    table = make("hadoop.through_spark.stale")
    base = table.open()
    append(catalogs, table.name, 300, 310)
    table.open()
    with pytest.raises(ConflictError, match="expected the metadata loaded last"):
        base.commit(draft_of(table, {"id": range(3)}).write(base, []))


def test_rest_catalog_that_replaced_an_entry_returns_it(make, draft_of, starter) -> None:
    """There is no compare-and-set: the loop learns which state the commit met, and merges what it replaced."""
    table = make("rest.through_spark.raced")
    other = SparkTable(table.name, starter)
    draft = draft_of(table, {"id": range(3)})
    base = table.open()
    theirs = commit_statistics(other, draft_of(other, {"k": range(5)})).entry
    applied_to = base.commit(draft.write(base, []))
    assert applied_to.statistics == {theirs.snapshot_id: theirs}

    racing = Racing(table, lambda: commit_statistics(other, draft_of(other, {"k": range(6)})))
    committed = commit_statistics(racing, draft_of(table, {"id": range(3)}))
    assert [blob.fields for blob in committed.entry.blobs] == [(1,), (3,)]
    assert [blob.properties["ndv"] for blob in committed.entry.blobs] == ["3", "6"]


def test_catalog_cache_is_bypassed(catalogs, make) -> None:
    """The session sees another process's commit although it caches the table."""
    table = make("jdbc.through_spark.cached")
    catalogs.table(table.name).count()
    base = table.open()
    assert base.refreshed().state is base.state
    other = catalogs._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(catalogs._jsparkSession, table.name)
    assert other.operations().current().metadataFileLocation() == base.state.metadata_location
    properties = {key: str(catalogs.conf.get(f"spark.sql.catalog.jdbc.{key}")) for key in ("uri", "warehouse")}
    jvm = catalogs._jvm
    elsewhere = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(
        "jdbc",
        {**properties, "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog"},
        jvm.org.apache.hadoop.conf.Configuration(),
    )
    names = jvm.org.apache.iceberg.catalog.TableIdentifier.parse("through_spark.cached")
    elsewhere.loadTable(names).updateProperties().set("seen", "yes").commit()
    assert base.refreshed().state.properties["seen"] == "yes"
    assert analyze(table).committed


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("jdbc.through_spark.absent", TableNotFound, "no such table in Spark's catalog 'jdbc'"),
        ("unheard_of.db.t", TableNotFound, "Spark's catalog 'spark_catalog'.*spark.sql.catalog.NAME"),
        ("two words", UsageError, "expected catalog.namespace.table"),
        (
            "hadoop.through_spark.read_only.snapshots",
            UnsupportedTableError,
            "expected a table with metadata of its own",
        ),
        ("not_iceberg", UnsupportedTableError, "expected an Iceberg table"),
        ("broken.db.t", SetupError, "catalog 'broken' cannot be used: .*no.such.Plugin"),
    ],
)
def test_non_table_is_refused_by_name(catalogs, starter, make, name: str, error, says: str) -> None:
    if "read_only" in name:
        make("hadoop.through_spark.read_only")
    if name == "not_iceberg":
        catalogs.sql("CREATE TABLE not_iceberg (a bigint) USING parquet")
    catalogs.conf.set("spark.sql.catalog.broken", "no.such.Plugin")
    with pytest.raises(error, match=says):
        SparkTable(name, starter).open()


def test_missing_iceberg_jar_says_what_to_add(catalogs, starter) -> None:
    thread = catalogs._jvm.java.lang.Thread.currentThread()
    with_jars = thread.getContextClassLoader()
    thread.setContextClassLoader(with_jars.getParent())
    try:
        with pytest.raises(SetupError) as raised:
            SparkTable("hadoop.db.t", starter).open()
    finally:
        thread.setContextClassLoader(with_jars)
    spark = ".".join(catalogs.version.split(".")[:2])
    assert f"--conf spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-{spark}_2.1" in str(raised.value)


@pytest.mark.parametrize("step", ["catalogAndIdentifier", "loadIcebergTable"])
def test_iceberg_for_another_spark_is_not_blamed_on_the_name(catalogs, step: str) -> None:
    java = JavaIceberg(catalogs)
    catalog = SimpleNamespace(name=lambda: "hadoop", invalidateTable=lambda _: None)
    found = SimpleNamespace(catalog=lambda: catalog, identifier=lambda: None)
    util = SimpleNamespace(catalogAndIdentifier=lambda *_: found)
    setattr(util, step, lambda *_: raise_from_java(catalogs._jvm, "java.lang.IncompatibleClassChangeError"))
    java.iceberg = SimpleNamespace(spark=SimpleNamespace(Spark3Util=util))
    with pytest.raises(SetupError, match=f"this is Spark {catalogs.version}, expected org.apache.iceberg:.*: because"):
        java.load_table("hadoop.db.t")


def test_files_that_only_spark_can_open_are_refused_by_name(make) -> None:
    table = make("hadoop.through_spark.elsewhere")
    with pytest.raises(UnsupportedTableError, match=r"elsewhere: expected files that pyarrow .* nowhere://a/b"):
        table.open().store_for("nowhere://a/b")


@pytest.mark.parametrize(
    ("thrown", "error"),
    [
        ("org.apache.iceberg.exceptions.CommitStateUnknownException", CommitUnknownError),
        ("org.apache.iceberg.exceptions.CommitFailedException", ConflictError),
        ("org.apache.iceberg.exceptions.ForbiddenException", StorageError),
        ("org.apache.iceberg.exceptions.NoSuchTableException", TableNotFound),
        ("java.lang.UnsupportedOperationException", UnsupportedTableError),
        ("java.lang.IllegalStateException", CommitUnknownError),
        (None, CommitUnknownError),
    ],
)
def test_commit_fails_for_certain_only_if_iceberg_says_so(catalogs, make, draft_of, thrown: str | None, error) -> None:
    """If Iceberg would keep its files, or the JVM is gone, the outcome is unknown to us too."""
    table = make(f"hadoop.through_spark.fails_{error.__name__}_{'' if thrown is None else thrown.rpartition('.')[2]}")
    base = table.open()
    entry = draft_of(table, {"id": range(3)}).write(base, [])
    failing = SimpleNamespace(commit=lambda *_: raise_from_java(catalogs._jvm, thrown))
    table._loaded = dataclasses.replace(table._loaded, operations=failing)
    with pytest.raises(error, match=r"because" if thrown else r"gone"):
        base.commit(entry)


class JavaError(Py4JError):
    """An error of py4j for a Java exception, with what our code reads of it."""

    def __init__(self, java_exception) -> None:
        super().__init__("thrown by Java")
        self.java_exception = java_exception


def raise_from_java(jvm, class_name: str | None) -> None:
    if class_name is None:
        raise Py4JNetworkError("gone")
    if class_name.endswith("StateUnknownException"):
        cause = jvm.java.lang.RuntimeException("because")
        raise JavaError(jvm.org.apache.iceberg.exceptions.CommitStateUnknownException(cause))
    of = jvm
    for part in class_name.split("."):
        of = getattr(of, part)
    none = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.Object"), 0)
    raise JavaError(of("because", none) if "iceberg" in class_name else of("because"))


def test_missing_table_waits_for_no_python_workers(catalogs, monkeypatch) -> None:
    with SparkStarter(catalogs) as starter:
        monkeypatch.setattr(starter.cluster, "start", lambda: pytest.fail("workers were started"))
        with pytest.raises(TableNotFound):
            analyze(SparkTable("jdbc.through_spark.none", starter))


def test_several_tables_share_the_session(make, starter) -> None:
    """Each has its own thread; a missing one stops no other."""
    tables = [make(f"jdbc.through_spark.one_of_{i}") for i in range(2)]
    absent = SparkTable("jdbc.through_spark.none", starter)
    outcomes = dict(analyze_many([*tables, absent], spark=starter))
    assert [outcomes[table.name].committed for table in tables] == [True, True]
    assert isinstance(outcomes[absent.name], TableNotFound)


def test_credentials_come_from_hadoop_and_the_catalog(catalogs, make) -> None:
    """Hadoop's configuration gives the S3 keys; catalog properties with the scheme's prefix win."""
    table = make("hadoop.through_spark.credentials")
    table.open()
    java = table._loaded.java
    hadoop = catalogs._jsparkSession.sparkContext().hadoopConfiguration()
    hadoop.set("fs.s3a.access.key", "hadoop's")
    hadoop.set("fs.s3a.endpoint", "http://127.0.0.1:1")
    properties = {"s3.access-key-id": "the catalog's", "client.region": "nowhere", "uri": "with a password"}
    of_catalog = SimpleNamespace(io=lambda: SimpleNamespace(properties=lambda: properties))
    try:
        assert java.file_properties(of_catalog, "s3a://bucket/table") == {
            "s3.access-key-id": "the catalog's",
            "s3.endpoint": "http://127.0.0.1:1",
            "client.region": "nowhere",
        }
        assert java.file_properties(of_catalog, "hdfs://host/table") == {}
        assert java.file_properties(of_catalog, "/table") == {}
    finally:
        hadoop.unset("fs.s3a.access.key")
        hadoop.unset("fs.s3a.endpoint")
