"""
Iceberg's own tests, unchanged, at our REST catalog.

They create and fill the tables that they then read, which ours refuses. So each test talks to a router: what only reads
goes to ``puffin serve --iceberg``, the rest to Iceberg's own REST catalog, from which ours takes the tables.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.engines.iceberg_java.junit import JUnit
from tests.engines.iceberg_java.router import Router
from tests.http_server import answering
from tools.catalogs import jars_of_pyspark
from tools.java_gateway import QUICK_JAVA
from tools.serving import Server

HERE = Path(__file__).resolve().parent
EXTENSION = "META-INF/services/org.junit.jupiter.api.extension.Extension"
SPARK_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# What Spark's own launcher opens, of that which it uses here.
OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action"),
    "sun.util.calendar",
)


@pytest.fixture
def routed(rest_catalog: dict[str, str]) -> Iterator[Callable[..., tuple[Router, str]]]:
    """
    Starts our REST catalog and a router to it, and returns the router and its URI.

    Ours has the tables of the router's other catalog, through its REST protocol or, by ``kind``, from its database;
    ``program`` is what is run as ``puffin``.
    """
    warehouse = Path(urlsplit(rest_catalog["warehouse"]).path)
    of_kind = {
        "rest": ("rest", {"type": "rest", "uri": rest_catalog["uri"]}),
        "sql": ("backend", {"type": "sql", "uri": f"sqlite:///{warehouse.parent / 'catalog.db'}"}),
    }
    with ExitStack() as stack:

        def start(kind: str, program: Sequence[str] = ("-m", "puffin")) -> tuple[Router, str]:
            name, properties = of_kind[kind]
            settings = (f"--catalog-property={key}={value}" for key, value in properties.items())
            server = Server("--iceberg", "--ttl", "0", "--catalog", name, *settings, program=program)
            stack.enter_context(server)
            router = Router(f"{server.url}/iceberg", rest_catalog["uri"])
            return router, stack.enter_context(answering(router.answer))

        yield start
    shutil.rmtree(warehouse / "newdb", ignore_errors=True)  # files that the kit leaves, and does not expect


@pytest.fixture
def junit(jars: Callable[[str], list[Path]], java_home: Path, tmp_path: Path) -> Callable[..., JUnit]:
    """Makes a JVM for tests of REST catalogs, the URI of one being given; with Spark if told so."""

    def make(uri: str, *, with_spark: bool = False) -> JUnit:
        found = [*jars("rest-server"), *jars("iceberg-tests"), *jars("sqlite")]
        options = ["-Xmx1g", *QUICK_JAVA, f"-Duri={uri}", f"-Djava.io.tmpdir={tmp_path}"]
        if with_spark:
            found = [*jars("iceberg-spark-tests"), *found, *jars_of_pyspark("*")]
            options += ["-Xmx2g", f"-Dderby.system.home={tmp_path}"]
            options += [f"-D{key}={value}" for key, value in SPARK_SETTINGS.items()]
            options += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        else:
            found = [*found, *jars_of_pyspark("hadoop-client-*", "log4j-*")]
        return JUnit(java=java_home / "bin" / "java", options=options, classpath=found, directory=tmp_path)

    return make


@pytest.fixture
def catalog_under_test(jars: Callable[[str], list[Path]], java_home: Path, tmp_path: Path) -> Path:
    """The directory with JUnit's extension `CatalogUnderTest`, compiled with no need of a whole JDK."""
    classes = tmp_path / "classes"
    classpath = ":".join(map(str, [*jars("rest-server"), *jars("iceberg-tests")]))
    compiler = ["org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-cp", classpath, "-d", classes]
    command = [java_home / "bin" / "java", *QUICK_JAVA, "-cp", classpath, *compiler, HERE / "CatalogUnderTest.java"]
    subprocess.run(command, check=True)
    (classes / EXTENSION).parent.mkdir(parents=True)
    (classes / EXTENSION).write_text("org.apache.iceberg.rest.CatalogUnderTest\n")
    return classes
