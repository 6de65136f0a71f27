"""A JVM that a test reaches over py4j, which comes with pyspark; it ends with this process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def running_java(java_home: Path, classpath: str, options: Sequence[str], log: Path) -> Iterator[Any]:
    """The ``jvm`` of py4j, with at most 512 MB of heap; what the JVM prints is appended to the log."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    with log.open("a", buffering=1) as output:
        port, token, process = launch_gateway(
            classpath=classpath,
            java_path=str(java_home / "bin" / "java"),
            javaopts=["-Xmx512m", *options],
            redirect_stdout=output,
            redirect_stderr=output,
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
        try:
            yield gateway.jvm
        finally:
            gateway.close()
            process.kill()
            process.wait()
