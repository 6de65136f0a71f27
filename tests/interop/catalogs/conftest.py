"""
The catalogs, each a real server of this machine that only this machine can reach, started once for a run of the tests:

PostgreSQL
    Debian's, run as a user without rights, over a socket in a directory of its own: it listens on no network.
Hive metastore
    Hive's own, 2.3.10, which pyspark brings along for Spark, over Derby in memory. Its ``main`` listens on every
    network interface, so what it puts together is put together here.
Glue and S3
    moto's. Glue refuses an update that was made from an old version of the table, and moto's has no eye for that: it is
    given one here, in AWS's words, since what is tested is who wins.

Iceberg's REST catalog and Spark are those of the other tests of this kind.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.java_gateway import running_java
from tools.postgres import PostgresError, running_postgres

ROOT = Path(__file__).resolve().parents[3]


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
def hive(java_home: Path, quick_java: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Hive metastore."""
    import pyspark

    directory = tmp_path_factory.mktemp("hive")
    classpath = str(Path(pyspark.__file__).parent / "jars" / "*")
    options = [*quick_java, f"-Dderby.system.home={directory}"]
    with running_java(java_home, classpath, options, directory / "server.log") as jvm:
        uri = f"thrift://127.0.0.1:{serve_metastore(jvm, directory)}"
        yield Server(name="hive", properties={"type": "hive", "uri": uri, "warehouse": directory.as_uri()})


@pytest.fixture(scope="session")
def glue() -> Iterator[Server]:
    """A Glue catalog, with its tables in S3."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    keys = {"access-key-id": "testing", "secret-access-key": "testing", "region": "us-east-1"}
    with pytest.MonkeyPatch.context() as patch:
        refuse_old_versions(patch)
        server.start()
        try:
            endpoint = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
            boto3.client(
                "s3", endpoint_url=endpoint, **{f"aws_{k}".replace("-", "_"): v for k, v in keys.items() if "key" in k}
            ).create_bucket(Bucket="warehouse")
            yield Server(
                name="glue",
                properties={
                    "type": "glue",
                    "warehouse": "s3://warehouse",
                    "glue.endpoint": endpoint,
                    "s3.endpoint": endpoint,
                    **{f"client.{key}": value for key, value in keys.items()},
                },
            )
        finally:
            server.stop()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """The catalog that the test's parameter names."""
    return request.getfixturevalue(request.param)


def serve_metastore(jvm: Any, directory: Path) -> int:
    """Start a metastore in the JVM and return its port."""
    metastore = jvm.org.apache.hadoop.hive.metastore
    thrift = jvm.org.apache.thrift
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    for key, value in {
        "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": directory.as_uri(),
    }.items():
        conf.set(key, value)
    handler = metastore.HiveMetaStore.HMSHandler("metastore", conf, False)
    handler = metastore.RetryingHMSHandler.getProxy(conf, handler, False)
    metastore.txn.TxnDbUtil.prepDb(conf)  # of the locks
    socket = thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
    arguments = thrift.server.TThreadPoolServer.Args(socket).processor(metastore.TSetIpAddressProcessor(handler))
    server = thrift.server.TThreadPoolServer(arguments)
    threading.Thread(target=serve_until_killed, args=(server,), daemon=True).start()
    return socket.getServerSocket().getLocalPort()


def serve_until_killed(server: Any) -> None:
    """Serve until killed; stopping would wait for clients that keep their connections, as Spark does."""
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):
        server.serve()


def refuse_old_versions(patch: pytest.MonkeyPatch) -> None:
    """Make moto compare the version that an update was made from with the table's, as AWS says Glue does."""
    from moto.core.exceptions import JsonRESTError
    from moto.glue.responses import GlueResponse

    update, one_at_a_time = GlueResponse.update_table, threading.Lock()

    def compare_and_update(self: Any) -> Any:
        asked = self.parameters.get("VersionId")
        with one_at_a_time:
            table = self.glue_backend.get_table(self.parameters["DatabaseName"], self.parameters["TableInput"]["Name"])
            if asked not in (None, table.as_dict()["VersionId"]):
                raise JsonRESTError(
                    "ConcurrentModificationException", "Update table failed due to concurrent modifications."
                )
            return update(self)

    patch.setattr(GlueResponse, "update_table", compare_and_update)
