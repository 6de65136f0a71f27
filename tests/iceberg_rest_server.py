"""Iceberg's own REST catalog of `tools.catalogs`, in a JVM that ends with this process, and its log."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tools.catalogs import running_rest_catalog

SERVER_LOG = pytest.StashKey[Path]()
LOG_LINES_SHOWN = 100


@pytest.fixture(scope="session")
def rest_catalog(
    jars: Callable[[str], list[Path]],
    java_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[dict[str, str]]:
    """The properties that open the REST catalog in pyiceberg and, with their prefix, in Spark."""
    directory = tmp_path_factory.mktemp("rest-catalog")
    log = pytestconfig.stash[SERVER_LOG] = directory / "server.log"
    with running_rest_catalog(java_home, [*jars("rest-server"), *jars("sqlite")], directory, log) as properties:
        yield properties


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the server's log beside the failure of a test that used it."""
    report = yield
    log = item.config.stash.get(SERVER_LOG, None)
    if report.failed and log is not None and "rest_catalog" in getattr(item, "fixturenames", ()):
        report.sections.append(("REST catalog server", "\n".join(log.read_text().splitlines()[-LOG_LINES_SHOWN:])))
    return report
