"""What py4j and PySpark raise when Java fails or is gone."""

from __future__ import annotations

from typing import Any


def spark_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """What py4j and PySpark raise, and ``others``, for an except clause."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return Py4JError, PySparkException, ConnectionError, *others


def thrown(exc: Exception) -> Any | None:
    """The Java exception behind an error of py4j or PySpark; None if Java did not answer."""
    return getattr(exc, "java_exception", None) or getattr(exc, "_origin", None)
