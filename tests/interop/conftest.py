"""
Witnesses of the interoperation tests: Iceberg's Java library, and Spark's planner.

Both are reached over py4j. A table is named as Spark names it, ``hadoop.NAMESPACE.TABLE`` or
``rest.NAMESPACE.TABLE``, whoever opens it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from puffin.tables.base import StatisticsEntry
    from puffin.tables.snapshot import Table
    from stats_jobs.analyze import Report


@dataclasses.dataclass(frozen=True, kw_only=True)
class JavaSketch:
    """A payload as DataSketches for Java reads it; ``image`` is its own serialization."""

    estimate: float
    retained: int
    ordered: bool
    image: bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class JavaBlob:
    """A blob as Iceberg's ``PuffinReader`` describes and decompresses it."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    codec: str | None
    properties: Mapping[str, str]
    payload: bytes
    sketch: JavaSketch | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class JavaStatistics:
    """A statistics entry of Iceberg's ``Table``, and its file opened with the entry's sizes."""

    path: str
    listed: Mapping[tuple[int, ...], Mapping[str, str]]
    file_properties: Mapping[str, str]
    every_blob: tuple[JavaBlob, ...]

    @property
    def blobs(self) -> tuple[JavaBlob, ...]:
        """The sketches."""
        return tuple(blob for blob in self.every_blob if blob.sketch is not None)

    @property
    def payloads(self) -> dict[int, bytes]:
        """The uncompressed sketches by field id."""
        return {blob.fields[0]: blob.payload for blob in self.blobs}


@pytest.fixture(scope="session", autouse=True)
def one_reader_of_models() -> Iterator[None]:
    """Clients of AWS share the models that botocore reads; a client takes half a second to read its own."""
    from botocore.loaders import create_loader

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.session.create_loader", functools.cache(create_loader))
        yield


@pytest.fixture(scope="session")
def open_table(warehouse: Path, request: pytest.FixtureRequest) -> Callable[[str], Table]:
    """Opens a table by name as our commands do: by its directory, or through pyiceberg's REST catalog."""
    from puffin.load import load_table

    def open_it(name: str) -> Table:
        catalog, identifier = name.split(".", 1)
        if catalog == "hadoop":
            return load_table(str(warehouse.joinpath(*identifier.split("."))))
        return load_table(identifier, catalog="rest", catalog_properties=request.getfixturevalue("rest_catalog"))

    return open_it


@pytest.fixture(scope="session")
def analyze_table(spark: SparkSession, open_table: Callable[[str], Table]) -> Iterator[Callable[..., Report]]:
    """Analyzes a table, given itself or by name, in the tests' Spark session; keywords are those of ``Options``."""
    from stats_jobs.analyze import Options, analyze
    from stats_jobs.session import SparkStarter

    with SparkStarter(session=spark) as starter:
        yield lambda table, **options: analyze(
            open_table(table) if isinstance(table, str) else table, Options(**options), starter
        )


@pytest.fixture(scope="session")
def stored_payloads() -> Callable[..., dict[int, bytes]]:
    """Reads the uncompressed sketches by field id with our reader, of this entry or of the table's only one."""
    from puffin.format import THETA_V1, PuffinReader

    def read(table: Table, entry: StatisticsEntry | None = None) -> dict[int, bytes]:
        if entry is None:
            (entry,) = table.open().state.statistics.values()
        sizes = {"file_size": entry.file_size_in_bytes, "footer_size": entry.file_footer_size_in_bytes}
        with table.open().store_for(entry.statistics_path).open_source(entry.statistics_path) as source:
            reader = PuffinReader(source, **sizes)
            sketches = [blob for blob in reader.file_metadata.blobs if blob.type == THETA_V1]
            return {b.fields[0]: payload for b, payload in zip(sketches, reader.read_all(sketches), strict=True)}

    return read


@pytest.fixture(scope="session")
def java_statistics(spark: SparkSession) -> Callable[[str], dict[int, JavaStatistics]]:
    """Reads every statistics file of a table with Iceberg's own reader; the keys are snapshot ids."""

    def read(name: str) -> dict[int, JavaStatistics]:
        table = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
        return {entry.snapshotId(): _read_in_java(spark._jvm, table.io(), entry) for entry in table.statisticsFiles()}

    return read


@pytest.fixture(scope="session")
def planner_ndv() -> Callable[[DataFrame], dict[str, int]]:
    """Asks Spark's optimizer for the distinct values that it knows of each column of a relation."""

    def ask(frame: DataFrame) -> dict[str, int]:
        known = _elements(frame._jdf.queryExecution().optimizedPlan().stats().attributeStats())
        counts = {column._1().name(): column._2().distinctCount() for column in known}
        return {name: int(count.get()) for name, count in counts.items() if count.isDefined()}

    return ask


@pytest.fixture(scope="session")
def count_distinct() -> Callable[[DataFrame, Sequence[str]], dict[str, int]]:
    """Counts the distinct values of columns exactly, with Spark, by dotted name."""

    def count(frame: DataFrame, columns: Sequence[str]) -> dict[str, int]:
        return dict(zip(columns, frame.selectExpr(*(f"count(DISTINCT {c})" for c in columns)).first(), strict=True))

    return count


@pytest.fixture(scope="session")
def spark_rest(spark: SparkSession, rest_catalog: dict[str, str]) -> SparkSession:
    """The Spark session, with the REST catalog under the name ``rest``."""
    spark.conf.set("spark.sql.catalog.rest", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.rest.cache-enabled", "false")
    for key, value in rest_catalog.items():
        spark.conf.set(f"spark.sql.catalog.rest.{key}", value)
    return spark


def _read_in_java(jvm: Any, io: Any, entry: Any) -> JavaStatistics:
    reader = (
        jvm.org.apache.iceberg.puffin.Puffin.read(io.newInputFile(entry.path()))
        .withFileSize(entry.fileSizeInBytes())
        .withFooterSize(entry.fileFooterSizeInBytes())
        .build()
    )
    try:
        metadata = reader.fileMetadata()
        return JavaStatistics(
            path=entry.path(),
            listed={tuple(blob.fields()): dict(blob.properties()) for blob in entry.blobMetadata()},
            file_properties=dict(metadata.properties()),
            every_blob=tuple(
                _java_blob(jvm, pair.first(), pair.second()) for pair in _elements(reader.readAll(metadata.blobs()))
            ),
        )
    finally:
        reader.close()


def _java_blob(jvm: Any, metadata: Any, buffer: Any) -> JavaBlob:
    start = buffer.arrayOffset() + buffer.position()
    payload = bytes(buffer.array()[start : start + buffer.remaining()])
    is_sketch = metadata.type() == "apache-datasketches-theta-v1"
    return JavaBlob(
        type=metadata.type(),
        fields=tuple(metadata.inputFields()),
        snapshot_id=metadata.snapshotId(),
        sequence_number=metadata.sequenceNumber(),
        offset=metadata.offset(),
        length=metadata.length(),
        codec=metadata.compressionCodec(),
        properties=dict(metadata.properties()),
        payload=payload,
        sketch=_java_sketch(jvm, payload) if is_sketch else None,
    )


def _java_sketch(jvm: Any, payload: bytes) -> JavaSketch:
    datasketches = jvm.org.apache.iceberg.shaded.org.apache.datasketches
    memory = datasketches.memory.Memory.wrap(payload)
    sketch = datasketches.theta.CompactSketch.wrap(memory)
    return JavaSketch(
        estimate=sketch.getEstimate(),
        retained=sketch.getRetainedEntries(True),
        ordered=sketch.isOrdered(),
        # From the heap: a wrapped sketch would hand back the bytes it was given.
        image=bytes(datasketches.theta.CompactSketch.heapify(memory).toByteArray()),
    )


def _elements(iterable: Any) -> Iterator[Any]:
    """The elements of a Java ``Iterable`` or a Scala collection, neither of which py4j iterates itself."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()
