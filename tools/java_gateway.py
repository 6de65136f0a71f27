"""A JVM that tests and benchmarks reach over py4j, which comes with pyspark; it ends with this process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# Options of a JVM that is there for some minutes at most, beside others. A second compiler, or a collector with threads
# of its own, does not pay by then. Spark is many classes: with the defaults, loading them sets off one full collection
# after the other, and the tables of their names and of compiled code are too small. Verifying the bytecode of jars
# whose checksums were checked takes an eighth of Spark's time.
_ONE_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m")
_MANY_CLASSES = ("-XX:MetaspaceSize=512m", "-XX:+UnlockExperimentalVMOptions", "-XX:SymbolTableSize=524288")
_NOT_VERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
QUICK_JAVA = (*_ONE_COMPILER, "-XX:+UseSerialGC", *_MANY_CLASSES, *_NOT_VERIFIED)


@contextlib.contextmanager
def running_java(java_home: Path, classpath: str, options: Sequence[str], log: Path) -> Iterator[Any]:
    """The ``jvm`` of py4j, with `QUICK_JAVA` and at most 512 MB of heap; what the JVM prints is appended to the log."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    with log.open("a", buffering=1) as output:
        port, token, process = launch_gateway(
            classpath=classpath,
            java_path=str(java_home / "bin" / "java"),
            javaopts=["-Xmx512m", *QUICK_JAVA, *options],
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
