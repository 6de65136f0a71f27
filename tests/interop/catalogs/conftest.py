"""
The catalogs, each a real server of this machine that only this machine can reach, started once for a run of the tests:

PostgreSQL
    Debian's, run as a user without rights, over a socket in a directory of its own: it listens on no network.
Hive metastore, Glue and S3
    Those of `tools.catalogs`.

Iceberg's REST catalog and Spark are those of the other tests of this kind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tools.catalogs import running_glue, running_hive_metastore
from tools.postgres import PostgresError, running_postgres


@dataclasses.dataclass(frozen=True, kw_only=True)
class Server:
    """
    A catalog.

    Attributes:
        name: Its name in these tests.
        properties: Those with which pyiceberg's ``load_catalog`` opens it.
    """

    name: str
    properties: Mapping[str, str]

    def open(self, name: str | None = None) -> Any:
        """The catalog as pyiceberg opens it, under its own name or another."""
        from pyiceberg.catalog import load_catalog

        return load_catalog(name or self.name, **self.properties)


@pytest.fixture(scope="session")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A SQL catalog in a file."""
    directory = tmp_path_factory.mktemp("sqlite")
    uri = f"sqlite:///{directory}/catalog.db"
    return Server(name="sqlite", properties={"type": "sql", "uri": uri, "warehouse": directory.as_uri()})


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A SQL catalog in PostgreSQL."""
    try:
        with running_postgres() as socket:
            uri = f"postgresql+psycopg2://puffin@/postgres?host={socket}"
            warehouse = tmp_path_factory.mktemp("postgres").as_uri()
            yield Server(name="postgres", properties={"type": "sql", "uri": uri, "warehouse": warehouse})
    except PostgresError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def rest(rest_catalog: dict[str, str]) -> Server:
    """Iceberg's REST catalog."""
    return Server(name="rest", properties=rest_catalog)


@pytest.fixture(scope="session")
def hive(java_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Hive metastore."""
    directory = tmp_path_factory.mktemp("hive")
    with running_hive_metastore(java_home, directory, directory / "server.log") as properties:
        yield Server(name="hive", properties=properties)


@pytest.fixture(scope="session")
def glue() -> Iterator[Server]:
    """A Glue catalog, with its tables in S3."""
    with running_glue() as properties:
        yield Server(name="glue", properties=properties)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """The catalog that the test's parameter names."""
    return request.getfixturevalue(request.param)
