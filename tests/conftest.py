"""
Fixtures that several test folders share: a Spark session, tables of other engines, and makers of tables and statistics.

Interoperation is never skipped: without Java or the jars a test that needs them fails, and the message is the command
to run. What Spark, Derby and Iceberg leave behind goes into the session's temporary directory.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import hypothesis
import pytest

from tests.local_files import set_permissions_without_processes
from tools.jars import JarsError
from tools.jars import jars as fetched_jars
from tools.java_gateway import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from puffin.statistics.draft import StatisticsDraft

# A busy machine takes long to make an example and to run it; what an input may cost is asked by tests of their own.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

pytest_plugins = [
    "tests.compiled_kernels",
    "tests.hand_made_table",
    "tests.iceberg_rest_server",
    "tests.reading_processes",
    "tests.without_disk",
]

ROOT = Path(__file__).resolve().parent.parent
GOLDEN_TABLES = ROOT / "fixtures" / "tables-spark-3.5-iceberg-1.10" / "iceberg-spark.tar.gz"
GOLDEN_WAREHOUSE = Path("/tmp/golden-wh")  # written into the tables' metadata and manifests
ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
DELTA_SETTINGS = {
    "spark.sql.extensions": f"{ICEBERG_EXTENSIONS},io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # of the log's replay, which has 50 tasks otherwise
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
}
# Tables of tests are small: most of what Spark did otherwise would be to compile code, to plan anew between stages, to
# start tasks that have no rows, and to describe plans.
SMALL_DATA_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.ui.explainMode": "simple",  # of plans, which are made into text for each statement
}
LONGEST_NAME = 400
DELTA_AND_GOLDEN = "Spark, Delta and golden tables"
TOGETHER = ("catalogs", "engines", "face")
"""Folders of tests that share servers and tables, which a second process would start and make again."""
ALONE = ("iceberg_java",)
"""Folders of tests each of which takes long and shares little, so that any process may run any of them."""
LONG_FIRST = ("iceberg_java", "interop", "docs", "server")
"""Folders of tests that start processes; what is left after them is short, so that neither process waits in the end."""


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """
    Order the tests, and say what has to run in one process, where there are two.

    Each process has a Spark of its own. One gets Delta, which is slow until its code is compiled, and the golden
    tables, whose directory only one process can have. All other tests go file by file, by folder of `TOGETHER`, or one
    by one from those of `ALONE`, to whichever is free: those with Spark first, then those of `LONG_FIRST`.
    """
    with_spark = {item.path for item in items if "spark" in _fixtures_of(item)}
    for item in (item for item in items if item.get_closest_marker("xdist_group") is None):
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=lambda item: _turn(item, with_spark))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """
    Have Python look for garbage only among what tests make.

    Modules and collected tests are more than half a million objects, which stay. To look through them again and again
    took a twentieth of the time of tests in Python.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Do not name cases by long values: names of megabytes went from process to process."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_NAME:
        return f"{argname} of {len(val)}"
    return None


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A skipped test proves nothing: a run with one has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 0 and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def java_home() -> Iterator[Path]:
    """The Java that Spark runs on; the session's JAVA_HOME points to it."""
    ran = subprocess.run(["sh", ROOT / "tools" / "java.sh"], check=False, capture_output=True, text=True)
    if ran.returncode != 0:
        pytest.fail(ran.stderr.strip().rpartition("\n")[2], pytrace=False)  # which says what to do
    home = Path(ran.stdout.splitlines()[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(home))
        yield home


@pytest.fixture(scope="session")
def jars(java_home: Path) -> Callable[[str], list[Path]]:
    """Returns the jars of a set in ``tools/ivy.xml``, and fetches them if need be."""

    def of_set(set_name: str) -> list[Path]:
        try:
            return fetched_jars(set_name)
        except JarsError as error:
            pytest.fail(str(error), pytrace=False)

    return of_set


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse directory of the Spark catalog ``hadoop``."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def jdbc_drivers(jars: Callable[[str], list[Path]]) -> list[Path]:
    """The JDBC drivers of Spark's JDBC catalogs."""
    return jars("sqlite")


@pytest.fixture(scope="session")
def spark(
    jars: Callable[[str], list[Path]],
    jdbc_drivers: list[Path],
    warehouse: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SparkSession]:
    """
    A local Spark with Iceberg, a file-system catalog named ``hadoop``, and Delta tables by path (not on Spark 3.5).

    Its planner uses column statistics.
    """
    import pyspark
    from pyspark.sql import SparkSession

    if pyspark.__version__.startswith("3.5."):
        formats, delta_settings = jars("iceberg-runtime-3.5"), {}
    else:
        formats, delta_settings = [*jars("iceberg-runtime"), *jars("delta")], DELTA_SETTINGS
    scratch = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"{' '.join(QUICK_JAVA)} -Xms1g -Duser.timezone=UTC "
        f"-Dderby.system.home={scratch}",
        "spark.local.dir": str(scratch),
        "spark.python.daemon.module": "tests.python_workers",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.jars": ",".join(map(str, [*formats, *jdbc_drivers])),
        "spark.jars.ivy": str(scratch / "ivy"),
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.cbo.enabled": "true",
        "spark.sql.extensions": ICEBERG_EXTENSIONS,
        "spark.sql.catalog.hadoop": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.hadoop.type": "hadoop",
        "spark.sql.catalog.hadoop.warehouse": str(warehouse),
        "spark.sql.catalog.hadoop.cache-enabled": "false",  # commits of others are seen at once
        **SMALL_DATA_SETTINGS,
        **delta_settings,
    }
    builder = SparkSession.builder.master("local[2]").appName("puffin-sidecar tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        set_permissions_without_processes(session, scratch / "classes")
        yield session
        session.stop()


@pytest.fixture(scope="session")
def golden_tables() -> Iterator[Path]:
    """
    The directory of the five tables Spark wrote, fresh for this run and alone in it.

    The tables name their files absolutely, so every run needs the same directory: the lock makes runs take turns.
    """
    with GOLDEN_WAREHOUSE.with_suffix(".lock").open("w") as lock, tarfile.open(GOLDEN_TABLES) as archive:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(GOLDEN_WAREHOUSE, ignore_errors=True)
        archive.extractall("/", filter="data")
        yield GOLDEN_WAREHOUSE / "db"
        shutil.rmtree(GOLDEN_WAREHOUSE)


@pytest.fixture(scope="session")
def table_document() -> Callable[..., dict[str, Any]]:
    """Makes the metadata of a table without files; its columns are all of type long, with field ids from 1."""

    def make(
        location: str | Path,
        *,
        columns: Sequence[str] = ("a", "b", "c"),
        snapshots: Sequence[int] = (10,),
        version: int = 2,
        properties: Mapping[str, str] | None = None,
        statistics: Sequence[Mapping[str, Any]] = (),
        **others: Any,
    ) -> dict[str, Any]:
        fields = [{"id": i, "name": name, "required": False, "type": "long"} for i, name in enumerate(columns, 1)]
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        return {
            "format-version": version,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": str(location),
            **({"last-sequence-number": len(snapshots)} if version > 1 else {"schema": schema, "partition-spec": []}),
            **({"next-row-id": 0} if version > 2 else {}),
            "last-updated-ms": 1000 * len(snapshots),
            "last-column-id": len(columns),
            "current-schema-id": 0,
            "schemas": [schema],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": dict(properties or {}),
            "current-snapshot-id": snapshots[-1] if snapshots else None,
            "snapshots": [
                {
                    "snapshot-id": snapshot_id,
                    **({"parent-snapshot-id": snapshots[i - 1]} if i else {}),
                    **({"sequence-number": i + 1} if version > 1 else {}),
                    **({"first-row-id": 0, "added-rows": 0} if version > 2 else {}),
                    "timestamp-ms": 1000 * (i + 1),
                    "manifest-list": f"{location}/metadata/snap-{snapshot_id}.avro",
                    "summary": {"operation": "append"},
                    "schema-id": 0,
                }
                for i, snapshot_id in enumerate(snapshots)
            ],
            "snapshot-log": [{"snapshot-id": s, "timestamp-ms": 1000 * (i + 1)} for i, s in enumerate(snapshots)],
            "metadata-log": [],
            "statistics": list(statistics),
            **others,
        }

    return make


@pytest.fixture(scope="session")
def draft_of() -> Callable[..., StatisticsDraft]:
    """Makes the draft of a table's statistics from the values of its columns, as the job does after computing them."""
    import pyarrow as pa

    from puffin.sketches.sizes import DEFAULT_LG_K
    from puffin.sketches.theta_sketch import ThetaSketch
    from puffin.statistics.assemble import ColumnStatistics
    from puffin.statistics.draft import FileOptions, StatisticsDraft
    from puffin.statistics.kinds.theta import ThetaKind
    from puffin.tables.base import SnapshotSelector

    def make(
        table: Any,
        values: Mapping[str, Iterable[int]],
        snapshot_id: int | None = None,
        *,
        lg_k: int = DEFAULT_LG_K,
        codec: str | None = None,
        home: str | None = None,
    ) -> StatisticsDraft:
        opened = table.open(SnapshotSelector(snapshot_id=snapshot_id))
        columns = opened.state.select_columns(tuple(values))
        statistics = [
            ColumnStatistics(
                c, {ThetaKind(lg_k): ThetaSketch.from_arrow(pa.array(values[c.name], pa.int64()), c.type, lg_k)}
            )
            for c in columns
        ]
        return StatisticsDraft(opened, statistics, FileOptions(codec, home))

    return make


@pytest.fixture(scope="session")
def private_payloads() -> Callable[..., dict[int, bytes]]:
    """Reads the uncompressed private blobs of a type beside an entry's sketches, by field id."""
    from puffin.statistics.stored_blobs import StoredBlobs

    def read(table: Any, entry: Any, type_: str) -> dict[int, bytes]:
        blobs = StoredBlobs(table.open(), [blob.fields[0] for blob in entry.blobs])
        found = {blob.fields[0]: blobs.find(entry, blob, type_) for blob in entry.blobs}
        assert all(payload is None or isinstance(payload, bytes) for payload in found.values()), found
        return {field_id: payload for field_id, payload in found.items() if isinstance(payload, bytes)}

    return read


class DeltaTableWriter:
    """A small Delta table, written action by action."""

    def __init__(self, path: Path, types: Mapping[str, str], *, partitioned_by: Sequence[str] = ()) -> None:
        self.path = path
        self.log = path / "_delta_log"
        self.log.mkdir(parents=True)
        self._types = types
        self._partitioned_by = list(partitioned_by)
        self._files = 0

    @property
    def version(self) -> int:
        """The newest version, whoever wrote it; -1 before the first."""
        return max((int(path.stem) for path in self.log.glob(f"{'[0-9]' * 20}.json")), default=-1)

    def protocol(self, reader: int = 1, writer: int = 2, **features: Sequence[str]) -> dict[str, Any]:
        """A ``protocol`` action; lists of features by ``readerFeatures`` and ``writerFeatures``."""
        return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **features}}

    def metadata(self, types: Mapping[str, str] | None = None, **others: Any) -> dict[str, Any]:
        """A ``metaData`` action."""
        fields = [
            {"name": name, "type": type_, "nullable": True, "metadata": {}}
            for name, type_ in (self._types if types is None else types).items()
        ]
        return {
            "metaData": {
                "id": "6e3dd8b0-0000-4000-8000-000000000001",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": self._partitioned_by,
                "configuration": {},
                **others,
            }
        }

    def commit(self, *actions: Mapping[str, Any]) -> int:
        """Write the next log entry; the first one gets a protocol and metadata unless it has metadata."""
        version = self.version + 1
        if version == 0 and not any("metaData" in action for action in actions):
            actions = (self.protocol(), self.metadata(), *actions)
        self.entry(version).write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        return version

    def note(self) -> int:
        """Write a log entry that changes nothing."""
        return self.commit({"commitInfo": {"operation": "NOTE"}})

    def entry(self, version: int) -> Path:
        """Return the path of a version's log entry."""
        return self.log / f"{version:020d}.json"

    def add(self, values: Mapping[str, Sequence[Any]], path: str | None = None, **others: Any) -> dict[str, Any]:
        """Write a data file, and return its ``add`` action, whose path is percent-encoded."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._files += 1
        path = path or f"part-{self._files}.parquet"
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table(dict(values))
        pq.write_table(table, file)
        return {
            "add": {
                "path": quote(path),
                "partitionValues": {},
                "size": file.stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
                "stats": json.dumps({"numRecords": table.num_rows}),
                **others,
            }
        }

    @staticmethod
    def remove(added: Mapping[str, Any], **others: Any) -> dict[str, Any]:
        """Return the ``remove`` action of an ``add`` action."""
        add = added["add"]
        fields = {name: add[name] for name in ("path", "partitionValues", "size", "deletionVector") if name in add}
        return {"remove": {**fields, "dataChange": True, "deletionTimestamp": 0, **others}}

    def delete_rows(self, added: Mapping[str, Any], rows: Iterable[int]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the actions that delete rows of a file by a deletion vector."""
        from puffin.format.deletion_vector import DeletionVector

        self._files += 1
        vector = DeletionVector.from_positions(rows)
        record = vector.to_bytes()
        # A UUID whose Z85 is easy to tell: all zeros but for its last bytes.
        (self.path / f"deletion_vector_00000000-0000-0000-0000-{self._files:012x}.bin").write_bytes(b"\1" + record)
        descriptor = {
            "storageType": "u",
            "pathOrInlineDv": f"{'0' * 19}{'0123456789abcdefghijklmnopqrstuvwxyz'[self._files]}",
            "offset": 1,
            "sizeInBytes": len(record) - 8,
            "cardinality": vector.cardinality,
        }
        return self.remove(added), {"add": {**added["add"], "deletionVector": descriptor}}


@pytest.fixture
def delta_table(tmp_path: Path) -> Callable[..., DeltaTableWriter]:
    """Makes a Delta table without versions, by default with columns ``a`` and ``b`` of type long."""

    def make(name: str = "t", types: Mapping[str, str] | None = None, **others: Any) -> DeltaTableWriter:
        return DeltaTableWriter(tmp_path / name, types or {"a": "long", "b": "long"}, **others)

    return make


class Opened(list[str]):
    """URIs of files."""

    @property
    def names(self) -> list[str]:
        """The last parts of them."""
        return [uri.rpartition("/")[2] for uri in self]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Records the local files that are opened for reading."""
    from puffin.storage.local import LocalStore

    files = Opened()
    open_source = LocalStore.open_source

    def noted(self: LocalStore, path: str) -> Any:
        files.append(path)
        return open_source(self, path)

    monkeypatch.setattr(LocalStore, "open_source", noted)
    return files


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Path]:
    """Makes a directory that cannot be listed, also by root, whom no mode of a directory stops."""
    scandir, names = os.scandir, set[str]()

    def refusing(path: Any = ".") -> Any:
        if str(path) in names:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    def make(directory: Path) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        names.add(str(directory))
        monkeypatch.setattr(os, "scandir", refusing)
        return directory

    return make


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Path]:
    """Makes a directory that says that it cannot be written, also to root."""
    access, names = os.access, set[str]()
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) not in names and access(path, mode))

    def make(directory: Path) -> Path:
        names.add(str(directory))
        return directory

    return make


def _fixtures_of(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


def _group(item: pytest.Item) -> str:
    file = item.nodeid.partition("::")[0]
    if "golden_tables" in _fixtures_of(item) or ("spark" in _fixtures_of(item) and "delta" in item.nodeid):
        return DELTA_AND_GOLDEN
    if item.path.parent.name in ALONE:
        return f"{file} {item.name.partition('[')[0]}"  # xdist takes no brackets in names of groups
    return str(item.path.parent.relative_to(ROOT)) if item.path.parent.name in TOGETHER else file


def _turn(item: pytest.Item, with_spark: Collection[Path]) -> int:
    if item.get_closest_marker("xdist_group").args[0] == DELTA_AND_GOLDEN:
        return 0
    if item.path in with_spark:
        return 1
    folders = [path.name for path in item.path.parents]
    return 2 + next((turn for turn, folder in enumerate(LONG_FIRST) if folder in folders), len(LONG_FIRST))
