"""
Calls Iceberg's Java library on Spark's classpath over py4j, and translates its errors.

Metadata and its changes travel as JSON (the updates of the REST protocol), so that no value is built in Java field by
field.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    PuffinError,
    SetupError,
    StorageError,
    TableNotFound,
    UnsupportedTableError,
    UsageError,
)
from puffin.iceberg.commit.updates import Updates
from puffin.iceberg.metadata.document import decode_document
from puffin.storage.uri import split
from stats_jobs.jvm_errors import spark_errors, thrown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The catalog properties that open files of a scheme; Iceberg's library and pyiceberg use the same names.
_S3, _ADLS = ("s3.", "client."), ("adls.",)
_PROPERTIES = {"s3": _S3, "s3a": _S3, "s3n": _S3, "gs": ("gcs.",), "abfs": _ADLS, "abfss": _ADLS}
# Hadoop's settings for S3, under those names.
_HADOOP_PROPERTIES = {
    "fs.s3a.access.key": "s3.access-key-id",
    "fs.s3a.secret.key": "s3.secret-access-key",
    "fs.s3a.session.token": "s3.session-token",
    "fs.s3a.endpoint": "s3.endpoint",
    "fs.s3a.endpoint.region": "s3.region",
}
_ICEBERG = "org.apache.iceberg"
_ERRORS = f"{_ICEBERG}.exceptions"


@dataclasses.dataclass(frozen=True, slots=True)
class JavaMetadata:
    """
    Metadata as Iceberg's table operations loaded it.

    Attributes:
        operations: The Java object that commits it.
        location: Of its metadata file; of the table, if the catalog keeps none.
        is_of_rest: Whether it is from a REST catalog, which commits statistics without comparing them to anything.
    """

    java: JavaIceberg
    operations: Any
    metadata: Any
    location: str
    is_of_rest: bool

    @classmethod
    def of(cls, java: JavaIceberg, operations: Any) -> JavaMetadata:
        """The current metadata of table operations; StorageError if they fail."""
        try:
            metadata = operations.current()
            location = metadata.metadataFileLocation() or metadata.location()
            is_of_rest = java.is_a(operations, f"{_ICEBERG}.rest.RESTTableOperations")
            return cls(java, operations, metadata, location, is_of_rest)
        except spark_errors() as exc:
            raise StorageError(f"Spark's catalog failed: {java_text(exc)}") from exc

    def document(self) -> dict[str, Any]:
        """The metadata as Iceberg's JSON; StorageError if it cannot be written."""
        try:
            text: str = self.java.iceberg.TableMetadataParser.toJson(self.metadata)
        except spark_errors() as exc:
            raise StorageError(f"{self.location}: Spark's Iceberg cannot write it as JSON: {java_text(exc)}") from exc
        return decode_document(text.encode(errors="surrogatepass"), self.location)

    def updated(self, updates: Updates, table: str) -> Any:
        """The metadata with these updates, ready to commit; StorageError about the table if Iceberg rejects them."""
        iceberg = self.java.iceberg
        try:
            builder = iceberg.TableMetadata.buildFrom(self.metadata)
            for update in updates:
                iceberg.MetadataUpdateParser.fromJson(json.dumps(update)).applyTo(builder)
            return builder.build()
        except spark_errors() as exc:
            raise StorageError(f"{table}: Spark's Iceberg refused the entry: {java_text(exc)}") from exc


class JavaIceberg:
    """Iceberg's Java library on the classpath of a session; SetupError if it is missing."""

    def __init__(self, session: SparkSession) -> None:
        jvm: Any = session._jvm
        self._session: Any = session._jsparkSession
        self._classes = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self.iceberg = jvm.org.apache.iceberg
        spark = ".".join(session.version.split(".")[:2])
        scala = ".".join(jvm.scala.util.Properties.versionNumberString().split(".")[:2])
        self._runtime = f"{_ICEBERG}:iceberg-spark-runtime-{spark}_{scala}:VERSION"
        try:
            self._classes.loadClass(f"{_ICEBERG}.spark.Spark3Util")
        except spark_errors() as exc:
            self._check_runtime(exc)
            raise SetupError(
                f"Spark has no Iceberg on its classpath: add --conf spark.jars.packages={self._runtime} "
                f"(for spark-submit --packages {self._runtime})"
            ) from exc

    def is_a(self, thing: Any, class_name: str) -> bool:
        return bool(self._classes.loadClass(class_name).isInstance(thing))

    def _is_of(self, exc: Exception, class_name: str) -> bool:
        cause = thrown(exc)
        return cause is not None and self.is_a(cause, class_name)

    def load_table(self, name: str) -> Any:
        """Load the table, bypassing the catalog's cache; errors as `SparkTable.open`."""
        util = self.iceberg.spark.Spark3Util
        try:
            named = util.catalogAndIdentifier(self._session, name)
        except spark_errors() as exc:
            self._check_runtime(exc)
            raise UsageError(f"{name}: expected catalog.namespace.table: {java_text(exc)}") from exc
        catalog = named.catalog()
        if catalog.name() != (first := name.partition(".")[0].strip("`")):
            self._check_catalog(first)
        try:
            catalog.invalidateTable(named.identifier())
            table = util.loadIcebergTable(self._session, name)
        except spark_errors() as exc:
            self._check_runtime(exc)
            # There is no such table or namespace, or none of that form.
            if self._is_of(exc, "org.apache.spark.sql.AnalysisException"):
                raise TableNotFound(
                    f"{name}: no such table in Spark's catalog {catalog.name()!r} "
                    "(another is configured with --conf spark.sql.catalog.NAME=…)"
                ) from exc
            if self._is_of(exc, "java.lang.IllegalArgumentException"):
                raise UnsupportedTableError(f"{name}: expected an Iceberg table: {java_text(exc)}") from exc
            raise StorageError(f"{name}: Spark's catalog {catalog.name()!r} failed: {java_text(exc)}") from exc
        if not self.is_a(table, f"{_ICEBERG}.BaseTable"):
            raise UnsupportedTableError(f"{name}: expected a table with metadata of its own, found {table.toString()}")
        return table

    def _check_runtime(self, exc: Exception) -> None:
        """Raise SetupError if Iceberg was compiled against other classes than those of this Spark."""
        if self._is_of(exc, "java.lang.LinkageError"):
            raise SetupError(
                f"the Iceberg runtime on Spark's classpath is for another version of Spark: this is Spark "
                f"{self._session.version()}, expected {self._runtime}, or a pyspark of the version that the runtime "
                f"names: {java_text(exc)}"
            ) from exc

    def _check_catalog(self, name: str) -> None:
        """Report a broken catalog, whose name Spark takes for a namespace of another one."""
        if self._session.conf().getOption(f"spark.sql.catalog.{name}").isDefined():
            try:
                self._session.sessionState().catalogManager().catalog(name)
            except spark_errors() as exc:
                raise SetupError(f"Spark's catalog {name!r} cannot be used: {java_text(exc)}") from exc

    def file_properties(self, table: Any, location: str) -> dict[str, str]:
        """The properties that open a table's files at ``location``, besides the environment's."""
        uri = split(location)
        prefixes = () if uri is None else _PROPERTIES.get(uri.scheme, ())
        if not prefixes:
            return {}
        hadoop = self._session.sparkContext().hadoopConfiguration()
        found = {ours: hadoop.get(theirs) for theirs, ours in _HADOOP_PROPERTIES.items()}
        with contextlib.suppress(*spark_errors()):  # a FileIO may have none
            found |= dict(table.io().properties())
        return {key: value for key, value in found.items() if value and key.startswith(prefixes)}

    def refusal(self, exc: Exception) -> tuple[type[PuffinError], str]:
        """The meaning of a failed commit: certain only where Iceberg itself would delete the commit's files."""
        cause = thrown(exc)
        if cause is None:
            return CommitUnknownError, "Spark did not answer the commit"
        clear: Mapping[str, tuple[type[PuffinError], str]] = {
            f"{_ERRORS}.CommitStateUnknownException": (CommitUnknownError, "no clear answer to the commit"),
            f"{_ERRORS}.CommitFailedException": (ConflictError, "another writer committed first"),
            f"{_ERRORS}.NoSuchTableException": (TableNotFound, "the catalog has no such table any more"),
            f"{_ERRORS}.CleanableFailure": (StorageError, "the catalog refused the commit"),
            "java.lang.UnsupportedOperationException": (UnsupportedTableError, "the catalog takes no commits"),
        }
        for class_name, meaning in clear.items():
            if self.is_a(cause, class_name):
                return meaning
        return CommitUnknownError, "no clear answer to the commit"


def java_text(exc: Exception) -> str:
    """Java's message, in one line."""
    cause = thrown(exc)
    text = str(exc) if cause is None else cause.getMessage() or cause.getClass().getName()
    return next((line.strip() for line in text.splitlines() if line.strip()), type(exc).__name__)
