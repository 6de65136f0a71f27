"""
Iceberg's own REST catalog: the servlet and handlers of its test suite over a JDBC catalog in SQLite.

Iceberg's ``RESTCatalogServer`` puts the same parts together but listens on every network interface, so they are put
together here: py4j, which comes with pyspark, starts a JVM that ends with this process, and the port is free because
the server itself asks for any. Its commits go through SQLite's compare-and-set, so conflicts are real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

SERVER_LOG = pytest.StashKey[Path]()
LOG_LINES_SHOWN = 100


@pytest.fixture(scope="session")
def rest_catalog(
    jars: Callable[[str], list[Path]],
    java_home: Path,
    quick_java: list[str],
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[dict[str, str]]:
    """The properties that open the REST catalog in pyiceberg and, with their prefix, in Spark."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    directory = tmp_path_factory.mktemp("rest-catalog")
    warehouse = directory / "warehouse"
    warehouse.mkdir()
    log = pytestconfig.stash[SERVER_LOG] = directory / "server.log"
    with log.open("a", buffering=1) as output:
        classpath = [*jars("rest-server"), *jars("sqlite"), *jars_of_pyspark("hadoop-client-*", "log4j-*")]
        port, token, process = launch_gateway(
            classpath=":".join(map(str, classpath)),
            java_path=str(java_home / "bin" / "java"),
            javaopts=["-Xmx512m", *quick_java, "-Dlog4j2.level=INFO"],
            redirect_stdout=output,
            redirect_stderr=output,
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
        try:
            yield {"type": "rest", "uri": _serve(gateway.jvm, directory, warehouse), "warehouse": warehouse.as_uri()}
        finally:
            gateway.close()
            process.kill()
            process.wait()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the server's log beside the failure of a test that used it."""
    report = yield
    log = item.config.stash.get(SERVER_LOG, None)
    if report.failed and log is not None and "rest_catalog" in getattr(item, "fixturenames", ()):
        report.sections.append(("REST catalog server", "\n".join(log.read_text().splitlines()[-LOG_LINES_SHOWN:])))
    return report


def _serve(jvm, directory: Path, warehouse: Path) -> str:
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


def jars_of_pyspark(*patterns: str) -> list[Path]:
    """The jars of pyspark whose names match one of the patterns, which leave ``.jar`` out."""
    import pyspark

    return [jar for pattern in patterns for jar in (Path(pyspark.__file__).parent / "jars").glob(f"{pattern}.jar")]
