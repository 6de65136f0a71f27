"""
Catalogs for tests and benchmarks, each a real server of this machine that only this machine can reach.

Hive metastore
    Hive's own, 2.3.10, which pyspark brings along for Spark, over Derby in memory. Its ``main`` listens on every
    network interface, so what it puts together is put together here.
Glue and S3
    moto's. Glue refuses an update that was made from an old version of the table; moto does not check this, so
    the check is added here, with AWS's error.
REST
    Iceberg's own: the servlet and handlers of its test suite over a JDBC catalog in SQLite. Iceberg's
    ``RESTCatalogServer`` puts the same parts together but listens on every network interface, so they are put together
    here, and the port is free because the server itself asks for any. Its commits go through SQLite's
    compare-and-set, so conflicts are real ones.

Each is open as long as a block, which gets the properties that open it in pyiceberg and, with their prefix, in Spark.
``python -m tools.catalogs`` is Glue as a process of its own: it prints the properties, and ends with its standard
input.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tools.java_gateway import running_java


@contextmanager
def running_rest_catalog(java_home: Path, jars: Sequence[Path], directory: Path, log: Path) -> Iterator[dict[str, str]]:
    """Iceberg's REST catalog, in a directory; ``jars`` are the sets rest-server and sqlite of `tools.jars`."""
    warehouse = directory / "warehouse"
    warehouse.mkdir()
    classpath = ":".join(map(str, [*jars, *jars_of_pyspark("hadoop-client-*", "log4j-*")]))
    with running_java(java_home, classpath, ["-Dlog4j2.level=INFO"], log) as jvm:
        yield {"type": "rest", "uri": _serve_rest(jvm, directory, warehouse), "warehouse": warehouse.as_uri()}


@contextmanager
def running_hive_metastore(java_home: Path, directory: Path, log: Path) -> Iterator[dict[str, str]]:
    """A Hive metastore whose tables are in a directory."""
    import pyspark

    classpath = str(Path(pyspark.__file__).parent / "jars" / "*")
    with running_java(java_home, classpath, [f"-Dderby.system.home={directory}"], log) as jvm:
        uri = f"thrift://127.0.0.1:{_serve_metastore(jvm, directory)}"
        yield {"type": "hive", "uri": uri, "warehouse": directory.as_uri()}


@contextmanager
def running_glue() -> Iterator[dict[str, str]]:
    """A Glue catalog in this process, with its tables in S3."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    keys = {"access-key-id": "testing", "secret-access-key": "testing", "region": "us-east-1"}
    with _refusing_old_versions():
        server.start()
        try:
            endpoint = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
            boto3.client(
                "s3", endpoint_url=endpoint, **{f"aws_{k}".replace("-", "_"): v for k, v in keys.items() if "key" in k}
            ).create_bucket(Bucket="warehouse")
            yield {
                "type": "glue",
                "warehouse": "s3://warehouse",
                "glue.endpoint": endpoint,
                "s3.endpoint": endpoint,
                **{f"client.{key}": value for key, value in keys.items()},
            }
        finally:
            server.stop()


@contextmanager
def running_glue_process() -> Iterator[dict[str, str]]:
    """As `running_glue`, in a process of its own, which does not take turns with this one."""
    command = [sys.executable, "-m", "tools.catalogs"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            properties: dict[str, str] = json.loads(process.stdout.readline())
            yield properties
        finally:
            process.stdin.close()


def jars_of_pyspark(*patterns: str) -> list[Path]:
    """The jars of pyspark whose names match one of the patterns, which leave ``.jar`` out."""
    import pyspark

    return [jar for pattern in patterns for jar in (Path(pyspark.__file__).parent / "jars").glob(f"{pattern}.jar")]


def _serve_rest(jvm: Any, directory: Path, warehouse: Path) -> str:
    """Start the server in the JVM and return its URI."""
    properties = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{directory / 'catalog.db'}",
        "warehouse": warehouse.as_uri(),
        "jdbc.schema-version": "V1",
        "clients": "1",  # SQLite has one writer: a second connection would meet a locked database, not a conflict
    }
    catalog = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(
        "backend", properties, jvm.org.apache.hadoop.conf.Configuration()
    )
    rest = jvm.org.apache.iceberg.rest
    jetty = jvm.org.eclipse.jetty
    handler = jetty.ee10.servlet.ServletContextHandler()
    handler.addServlet(
        jetty.ee10.servlet.ServletHolder(rest.RESTCatalogServlet(rest.RESTCatalogAdapter(catalog))), "/*"
    )
    server = jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
    server.setHandler(handler)
    server.start()
    return f"http://127.0.0.1:{server.getURI().getPort()}"


def _serve_metastore(jvm: Any, directory: Path) -> int:
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
    threading.Thread(target=_serve_until_killed, args=(server,), daemon=True).start()
    return int(socket.getServerSocket().getLocalPort())


def _serve_until_killed(server: Any) -> None:
    """Serve until killed; stopping would wait for clients that keep their connections, as Spark does."""
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):
        server.serve()


@contextmanager
def _refusing_old_versions() -> Iterator[None]:
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

    with patch.object(GlueResponse, "update_table", compare_and_update):
        yield


if __name__ == "__main__":
    with running_glue() as glue:
        print(json.dumps(glue), flush=True)
        sys.stdin.read()
