"""
Spark with two catalogs over the same tables: ``hadoop``, and ``fast``, the REST face in a process of its own.

Whatever ``hadoop`` answers, ``fast`` has to answer too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.interop.face.kinds_of_tables import Step
from tests.server.conftest import Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN, FAST = "hadoop", "fast"
PLANNED_BY_SERVER, PLANNED_BY_CLIENT = "RESTTableScan", "DataTableScan"


@dataclasses.dataclass(frozen=True)
class Face:
    """A Spark session with both catalogs; in a statement ``{t}`` stands for a table and ``{c}`` for its catalog."""

    spark: SparkSession
    process: Process
    warehouse: Path

    def sql(self, statement: str, table: str, catalog: str = OWN) -> Any:
        return self.spark.sql(statement.replace("{t}", f"{catalog}.{table}").replace("{c}", catalog))

    def rows(self, statement: str, table: str) -> list[Any]:
        """The rows of a query, in some order, which are the same from both catalogs."""
        own, fast = (self.sql(statement, table, catalog).collect() for catalog in (OWN, FAST))
        assert sorted(map(repr, own)) == sorted(map(repr, fast)), statement
        return fast

    def table(self, name: str, catalog: str = FAST) -> Any:
        """A table as Iceberg's Java library has it."""
        jvm = self.spark._jvm
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, f"{catalog}.{name}")

    def planner(self, name: str, catalog: str = FAST) -> str:
        """The class that plans the scans of a table: by the server, or by the client."""
        return str(self.table(name, catalog).newScan().getClass().getSimpleName())

    def directory(self, name: str) -> Path:
        return self.warehouse.joinpath(*name.split("."))

    def metadata_files(self, name: str) -> dict[str, bytes]:
        """What is in the folder of a table's metadata."""
        return {path.name: path.read_bytes() for path in (self.directory(name) / "metadata").iterdir()}


def add_catalog(spark: SparkSession, name: str, url: str) -> None:
    """Let a session know the face of a server as a catalog."""
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".cache-enabled": "false"}
    for key, value in (settings | {".uri": f"{url}/iceberg"}).items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)


@pytest.fixture(scope="session")
def face_process(warehouse: Path) -> Iterator[Process]:
    """The server, over the warehouse of ``hadoop``."""
    process = Process(warehouse, "--iceberg", "--ttl", "0.1")
    yield process
    process.end()


@pytest.fixture(scope="session")
def face(spark: SparkSession, face_process: Process, warehouse: Path) -> Face:
    """Both catalogs."""
    add_catalog(spark, FAST, face_process.url)
    return Face(spark, face_process, warehouse)


@pytest.fixture(scope="session")
def make_table(face: Face) -> Callable[..., str]:
    """Makes a table by steps in ``hadoop``, once in a session; returns its name without the catalog's."""
    made: set[str] = set()

    def make(name: str, *steps: Step) -> str:
        for step in steps if name not in made else ():
            if isinstance(step, str):
                face.sql(step, name)
            else:
                step(face.spark, f"{OWN}.{name}")
        made.add(name)
        return name

    return make
