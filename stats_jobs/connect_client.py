"""Differences between versions of PySpark's Spark Connect client: imports, errors, retries, frames."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from puffin.errors import MissingDependencyError, SetupError
from puffin.no_pandas import allow_pandas
from stats_jobs.cluster import CAUSE, last_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FIRST_ATTEMPTS = 3  # of a call to a server that may not be there; PySpark's client tries for ten minutes
# What an error of PySpark's client has in it: the worker's traceback, or what Java says.
_TRACEBACK, _JAVA_TRACE = "Traceback (most recent call last)", "JVM stacktrace:"
# What PySpark's client imports, and the packages that have it.
_CLIENT = {
    "pyspark": "pyspark",
    "pandas": "pandas",
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
}


def client_class() -> Any:
    """PySpark's session of Spark Connect; MissingDependencyError without what it needs, SetupError if that is old."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it would print what the error says
    allow_pandas()
    for module, package in _CLIENT.items():
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise MissingDependencyError(package, "connect")
    try:
        from pyspark.sql.connect.session import SparkSession
    except ImportError as exc:
        raise SetupError(f"Spark Connect: {exc}") from exc
    return SparkSession


def client_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """What PySpark's client raises, and ``others``, for an except clause."""
    from grpc import RpcError
    from pyspark.errors import PySparkException

    return RpcError, PySparkException, *others


def telling_line(exc: BaseException) -> str:
    """The line of an error that says most."""
    of_grpc: BaseException | None = exc
    while of_grpc is not None and not callable(getattr(of_grpc, "details", None)):
        of_grpc = of_grpc.__cause__ or of_grpc.__context__
    report = str(exc)
    if of_grpc is not None and type(of_grpc).__name__ in report:  # PySpark's client knows no more than gRPC does
        report = str(getattr(of_grpc, "details")())  # noqa: B009 - its type has no stubs
    message = report.partition(_JAVA_TRACE)[0].strip()
    return last_error(report) if _TRACEBACK in message or CAUSE in report else message.partition("\n")[0]


@contextlib.contextmanager
def few_attempts(session: Any) -> Iterator[None]:
    """Have the client give up soon in the block if the server does not answer."""
    client = session.client
    usual: Any
    few: Any
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy
    except ModuleNotFoundError:  # PySpark 3.5
        usual, few, assign = dict(client._retry_policy), {"max_retries": _FIRST_ATTEMPTS}, client._retry_policy.update
    else:
        usual, few = client.get_retry_policies(), [DefaultPolicy(max_retries=_FIRST_ATTEMPTS)]
        assign = client.set_retry_policies
    assign(few)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has given up, which the error says
            yield
    finally:
        assign(usual)


def frame_in_one_message(session: Any, rows: Sequence[tuple[int, int, bytes]]) -> DataFrame:
    """A data frame that asks nothing of the server: PySpark 4.1 first asks for settings that servers before it lack."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import LocalRelation

    types = {"place": pa.int32(), "scan": pa.int32(), "document": pa.binary()}
    columns = zip(zip(*rows, strict=True), types.values(), strict=True)
    table = pa.table([pa.array(values, of) for values, of in columns], names=list(types))
    make = getattr(DataFrame, "withPlan", DataFrame)  # that of PySpark 3.5
    return make(LocalRelation(table), session)
