"""
Jobs are killed at random moments of their runs: no table is harmed, and what they leave behind is cleaned up.

After each kill the table is opened in Java, by Iceberg or delta-spark, and has the statistics from before the run or
those of the run; every file that its metadata names is there, of the size it says. Then the next run succeeds, and
after it ``clean`` leaves no file of ours but those that metadata names.

A commit to a SQL catalog writes a metadata file and then moves the catalog's row to it. A kill in between leaves a
metadata file that looks like another catalog's: ``clean`` keeps it and what it names. The test takes it away, as
Iceberg's ``remove_orphan_files`` does, and then the statistics go.

Of all kinds of tables together there are 4 kills, or as many as ``PUFFIN_KILLS`` says where that is set. ``-s`` shows
where they hit, and what went.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from puffin.clean import Cleaning, clean
from puffin.inspection import verify
from puffin.load import load_table
from puffin.statistics.ancestry import known_sketches
from puffin.statistics.private_state.manifest import decode
from puffin.statistics.stored_blobs import StoredBlobs
from stats_jobs import Options, analyze
from tests.processes import talking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("directory", "sql", "rest", "delta")
KILLS = -(-int(os.environ.get("PUFFIN_KILLS", "4")) // len(KINDS))  # of each kind
LATEST = 1.3  # of the time that a run takes, since no two take the same; most kills are at its end, where it commits
SOONER, LATER = 0.9, 1.06  # what a run takes changes with the machine's load: one that committed took less
ROWS = 3000
NOW = datetime.timedelta()
OURS = re.compile(r".*\.stats|partition-stats-.*\.parquet|\.puffin-sidecar-.*|.*-[0-9]+\.json")
# So that files do not pile up over hundreds of runs.
SHORT_LOG = {"write.metadata.previous-versions-max": "3", "write.metadata.delete-after-commit.enabled": "true"}


class Victim:
    """A table whose jobs are killed; there is one of each kind."""

    def __init__(self, name: str, catalog: Mapping[str, str] | None) -> None:
        self.name = name
        self.catalog = catalog

    def open(self) -> Any:
        return load_table(self.name, catalog=self.catalog and "killed", catalog_properties=self.catalog)

    def entry(self) -> Any:
        """Find the entry of the current snapshot again."""
        state = self.open().open().state
        return state.statistics.get(state.current_snapshot_id)

    def clean(self) -> Cleaning:
        return clean(self.open(), older_than=NOW, remove=True)

    def analyze(self) -> None:
        assert analyze(self.open(), Options(mode="full", partitions=True)).committed

    def check_in_java(self) -> None:
        """Check that Java can read the table and that the files in its metadata exist."""
        raise NotImplementedError

    def ours(self) -> set[str]:
        """Return the names of all our files."""
        raise NotImplementedError

    def named(self) -> set[str]:
        """Return the names of our files that metadata refers to."""
        raise NotImplementedError

    def check_private_state(self, entry: Any) -> None:
        """Check that all private state of an entry exists: it is written before the entry is committed."""
        opened = self.open().open()
        blobs, sketches = StoredBlobs(opened, ()), known_sketches(opened, opened.state.field_ids)
        beside = [known for of in sketches.values() for known in of if known.entry == entry]
        assert beside
        assert not any(map(blobs.has_lost_state, beside))

    def check_private_files(self) -> None:
        """Check that each named statistics file has a manifest, and that every part is referenced."""
        home = local(self.open().open().state.location) / "_puffin_sidecar"
        manifests = [path for path in home.iterdir() if path.is_file()]
        assert {path.name for path in manifests} == {name for name in self.named() if name.endswith(".stats")}
        parts = {part.id for path in manifests for part in decode(path.read_bytes(), str(path)).parts}
        files = [path for path in (home / "parts").rglob("*") if path.is_file()]
        assert {path.parent.name for path in files} == parts
        assert {path.name for path in files} == {"version-hint.text"}

    def take_away_lost_metadata(self) -> int:
        """Delete metadata files that never became versions, and return how many there were."""
        return 0


class IcebergVictim(Victim):
    """An Iceberg table, opened in Java by ``load``."""

    def __init__(self, name: str, catalog: Mapping[str, str] | None, load: Callable[[str], Any]) -> None:
        super().__init__(name, catalog)
        self._load = load
        self._metadata = local(self.open().open().state.metadata_location).parent

    def check_in_java(self) -> None:
        table = self._load(self.open().open().state.metadata_location)
        files = [*table.statisticsFiles(), *table.partitionStatisticsFiles()]
        assert len(files) == 2
        for file in files:
            assert table.io().newInputFile(file.path()).getLength() == file.fileSizeInBytes()
        tasks = table.newScan().planFiles().iterator()
        assert sum(tasks.next().file().recordCount() for _ in iter(tasks.hasNext, False)) == ROWS

    def ours(self) -> set[str]:
        return {path.name for path in self._metadata.iterdir() if OURS.fullmatch(path.name)}

    def named(self) -> set[str]:
        documents = [json.loads(path.read_text()) for path in self._metadata.glob("*.metadata.json")]
        entries = [e for d in documents for key in ("statistics", "partition-statistics") for e in d.get(key) or ()]
        return {local(entry["statistics-path"]).name for entry in entries}

    def take_away_lost_metadata(self) -> int:
        state = self.open().open().state
        log = {local(entry["metadata-file"]) for entry in state.document["metadata-log"]}
        lost = set(self._metadata.glob("*.metadata.json")) - log - {local(state.metadata_location)}
        for path in lost:
            path.unlink()
        return len(lost)


class DeltaVictim(Victim):
    """A Delta table."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        super().__init__(str(path), None)
        self._spark = spark
        self._log = path / "_delta_log"
        self._files = self._log / "_puffin_sidecar"

    def check_in_java(self) -> None:
        assert self._spark.read.format("delta").load(self.name).count() == ROWS
        for path in self._entries():
            entry = json.loads(path.read_text())["statistics"]
            assert (self._files / entry["statistics-path"]).stat().st_size == entry["file-size-in-bytes"]

    def ours(self) -> set[str]:
        directories = (self._log, self._files)
        return {path.name for directory in directories for path in directory.iterdir() if OURS.fullmatch(path.name)}

    def named(self) -> set[str]:
        (entry,) = self._entries()
        return {entry.name, json.loads(entry.read_text())["statistics"]["statistics-path"], "field-ids-0.json"}

    def _entries(self) -> list[Path]:
        return [path for path in self._files.glob("*-*.json") if not path.name.startswith("field-ids")]


@pytest.fixture(params=KINDS)
def victim(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path, tmp_path: Path) -> Victim:
    """A table of two files, analyzed once."""
    jvm, conf = spark._jvm, spark._jsparkSession.sessionState().newHadoopConf()
    if request.param == "delta":
        made: Victim = DeltaVictim(spark, tmp_path / "t")
        rows = f"SELECT id, concat('s', id % 30) AS s, id % 3 AS p FROM range(0, {ROWS}, 1, 2)"
        spark.sql(f"CREATE TABLE delta.`{tmp_path / 't'}` USING delta PARTITIONED BY (p) AS {rows}")
    elif request.param == "directory":
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in SHORT_LOG.items())
        spark.sql(
            "CREATE TABLE hadoop.killed.t (id bigint, s string, p bigint) USING iceberg PARTITIONED BY (p) "
            f"TBLPROPERTIES ({properties})"
        )
        spark.sql(f"INSERT INTO hadoop.killed.t SELECT id, concat('s', id % 30), id % 3 FROM range({ROWS})")
        tables = jvm.org.apache.iceberg.hadoop.HadoopTables(conf)
        path = str(warehouse / "killed" / "t")
        made = IcebergVictim(path, None, lambda _: tables.load(path))
    else:
        catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/wh"}
        if request.param == "rest":
            catalog = request.getfixturevalue("rest_catalog")
        make_with_pyiceberg(catalog)
        io = jvm.org.apache.iceberg.hadoop.HadoopFileIO(conf)

        def load(location: str) -> Any:
            operations = jvm.org.apache.iceberg.StaticTableOperations(location, io)
            return jvm.org.apache.iceberg.BaseTable(operations, "killed.t")

        made = IcebergVictim("killed.t", catalog, load)
    made.analyze()
    return made


def make_with_pyiceberg(properties: Mapping[str, str]) -> None:
    catalog = load_catalog("killed", **properties)
    catalog.create_namespace("killed")
    fields = [NestedField(i, n, t, required=False) for i, n, t in ((1, "id", LongType()), (2, "s", StringType()))]
    schema = Schema(*fields, NestedField(3, "p", LongType(), required=False))
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "p"))
    table = catalog.create_table("killed.t", schema, partition_spec=spec, properties=SHORT_LOG)
    ids = range(ROWS)
    table.append(pa.table({"id": ids, "s": [f"s{i % 30}" for i in ids], "p": [i % 3 for i in ids]}))


def local(uri: str) -> Path:
    return Path(urlsplit(uri).path)


class Job:
    """A process that gets ready to analyze a table; a context manager that ends it."""

    def __init__(self, victim: Victim) -> None:
        self._process, self._pipe = talking(analyze_when_told, victim.name, victim.catalog)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        assert self._pipe.recv() == "ready"
        self._pipe.send("go")

    def is_done(self) -> bool:
        """Whether the job reported success before it ended."""
        try:
            return self._pipe.recv() == "done"
        except (EOFError, ConnectionResetError):
            return False

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def analyze_when_told(test: Connection, name: str, catalog: Mapping[str, str] | None) -> None:
    """Analyze a table in full when the test says anything, and say when it is done."""
    table = load_table(name, catalog=catalog and "killed", catalog_properties=catalog)
    analyze(table, Options(mode="full", dry_run=True))  # whatever takes its time only once is done before the start
    test.send("ready")
    test.recv()
    analyze(table, Options(mode="full", partitions=True))
    test.send("done")


def seconds_of_a_run(victim: Victim) -> float:
    with Job(victim) as job:
        job.start()
        started = time.monotonic()
        assert job.is_done()
        return time.monotonic() - started


def kills(victim: Victim) -> Iterator[tuple[str, Any]]:
    """Kill one job after the other; yields where each was hit, and the entry that the table had before."""
    whole = seconds_of_a_run(victim)
    victim.clean()
    with contextlib.ExitStack() as jobs:
        job = jobs.enter_context(Job(victim))
        for _ in range(KILLS):
            before, files = victim.entry(), victim.ours()
            job.start()
            time.sleep(random.triangular(0, LATEST * whole, whole))
            job.kill()
            done = job.is_done()
            job = jobs.enter_context(Job(victim))  # gets ready while this one's traces are looked at
            if victim.entry() != before:
                whole *= SOONER
                yield "when it was done" if done else "after its commit", before
            else:
                assert not done
                whole *= LATER
                yield "before its commit" if victim.ours() - files else "before its first file", before


def test_killed_job_harms_nothing_and_its_leftovers_are_cleaned_up(victim):
    hits: Counter[str] = Counter()
    removed: Counter[str] = Counter()
    for hit, before in kills(victim):
        hits[hit] += 1
        victim.check_in_java()
        entry = victim.entry()
        assert entry == before or {blob.fields for blob in entry.blobs} == {blob.fields for blob in before.blobs}
        path = local(entry.statistics_path)
        assert path.stat().st_size == entry.file_size_in_bytes
        assert verify(str(path)).errors == ()
        victim.check_private_state(entry)

        victim.analyze()
        victim.check_in_java()
        cleaned = [victim.clean()]
        if lost := victim.take_away_lost_metadata():
            hits["with its metadata written"] += lost
            cleaned.append(victim.clean())
        removed.update(kind_of(leftover.file.name) for cleaning in cleaned for leftover in cleaning.files)
        assert victim.ours() == victim.named()
        victim.check_private_files()
        assert victim.clean().files == ()
        victim.check_in_java()
    assert hits.total() >= KILLS
    sys.stdout.write(f"\n{victim.name}: {KILLS} killed: {dict(hits)}; cleaned up: {dict(removed)}\n")


def kind_of(name: str) -> str:
    return re.sub("[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|[0-9]+", "*", name)
