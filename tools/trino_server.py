"""
Trino as a process of this machine, for tests: one node with the Iceberg connector, gone with the ``with`` block.

It is started from its jars and not with its launcher, so that the process which we end is the server's. It runs on
another Java than Spark, and listens on 127.0.0.1 only.
"""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.java_gateway import QUICK_JAVA

START_SECONDS = 180
STOP_SECONDS = 30
LOG_LINES_SHOWN = 60

# Of a server that is there for some minutes on two cores. The rest of Trino's own jvm.config is for large heaps.
JAVA_OPTIONS = (
    *(*QUICK_JAVA, "-Xms512m", "-Xmx3G"),
    *("-XX:+ExitOnOutOfMemoryError", "-Djdk.attach.allowAttachSelf=true", "-Djdk.nio.maxCachedBufferSize=2000000"),
)


class TrinoError(Exception):
    """The server does not come up; the message ends with the end of its log."""


@contextmanager
def running_trino(
    jars: list[Path], java: Path, directory: Path, catalogs: Mapping[str, Mapping[str, str]]
) -> Iterator[int]:
    """
    Run a server.

    Args:
        jars: The unpacked archives of server and connector, as ``jars.py`` gives them.
        java: The program ``java``, of a version that this Trino runs on.
        directory: Where its settings, data and log go; ``server.log`` is the log.
        catalogs: Properties of the catalogs, by name.

    Yields:
        The port on which it takes queries.

    Raises:
        TrinoError: It ends, or is not there in time.
    """
    port = free_port()
    _configure(directory, jars, port, catalogs)
    (server,) = (path for path in jars if path.name.startswith("trino-server"))
    properties = {
        "node.environment": "tests",
        "node.id": "tests",
        "node.data-dir": directory / "data",
        "config": directory / "config.properties",
        "catalog.config-dir": directory / "catalog",
        "plugin.dir": directory / "plugin",
    }
    command = ["setpriv", "--pdeathsig=KILL", str(java), "-cp", f"{server}/lib/*", *JAVA_OPTIONS]
    command += [f"-D{key}={value}" for key, value in properties.items()]
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "io.trino.server.TrinoServer"], stdout=output, stderr=output, cwd=directory
        )
    try:
        _wait_for(process, port, log)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on, which another process may take before the caller does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def end_of(log: Path) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])


def _configure(directory: Path, jars: list[Path], port: int, catalogs: Mapping[str, Mapping[str, str]]) -> None:
    for name in ("catalog", "plugin"):
        (directory / name).mkdir(parents=True)
    for connector in (path for path in jars if not path.name.startswith("trino-server")):
        (directory / "plugin" / connector.name).symlink_to(connector)
    _write(
        directory / "config.properties",
        {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(port),
            "discovery.uri": f"http://127.0.0.1:{port}",
            "node.internal-address": "127.0.0.1",
            "node.bind-ip": "127.0.0.1",
            "query.max-memory-per-node": "1GB",
        },
    )
    for name, properties in catalogs.items():
        _write(directory / "catalog" / f"{name}.properties", properties)


def _write(file: Path, properties: Mapping[str, str]) -> None:
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _is_started(port):
        if process.poll() is not None:
            raise TrinoError(f"Trino ended with {process.returncode}:\n{end_of(log)}")
        if time.monotonic() > deadline:
            raise TrinoError(f"Trino is not there after {START_SECONDS} s:\n{end_of(log)}")
        time.sleep(0.2)


def _is_started(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/info", timeout=5) as answer:
            return b'"starting":false' in answer.read().replace(b" ", b"")
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
