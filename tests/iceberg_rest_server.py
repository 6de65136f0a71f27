"""
Iceberg's own REST catalog: the servlet and handlers of its test suite over a JDBC catalog in SQLite.

Iceberg's ``RESTCatalogServer`` puts the same parts together but listens on every network interface, so they are put
together here, in a JVM that ends with this process, and the port is free because the server itself asks for any. Its
commits go through SQLite's compare-and-set, so conflicts are real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.java_gateway import running_java

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
    directory = tmp_path_factory.mktemp("rest-catalog")
    warehouse = directory / "warehouse"
    warehouse.mkdir()
    log = pytestconfig.stash[SERVER_LOG] = directory / "server.log"
    classpath = [*jars("rest-server"), *jars("sqlite"), *jars_of_pyspark("hadoop-client-*", "log4j-*")]
    options = [*quick_java, "-Dlog4j2.level=INFO"]
    with running_java(java_home, ":".join(map(str, classpath)), options, log) as jvm:
        yield {"type": "rest", "uri": _serve(jvm, directory, warehouse), "warehouse": warehouse.as_uri()}


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
