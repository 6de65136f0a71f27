"""
Lines on stderr for programs: what is logged, and the one line of a failure, as one JSON object each.

A line is told apart by what stands in it, not by where it stands, so logs and failure have the same keys. Which table a
line is about is kept by thread, since several are worked on side by side.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import sys
import time
import traceback
from collections.abc import Iterator
from contextvars import ContextVar

JSON = "json"

_LOGGER = "puffin"
_table: ContextVar[str | None] = ContextVar("table", default=None)


@contextlib.contextmanager
def about(table: str) -> Iterator[None]:
    """What this thread logs in the block is about a table."""
    token = _table.set(table)
    try:
        yield
    finally:
        _table.reset(token)


def log_to_stderr(log_format: str) -> None:
    """Let everything that is logged go to stderr, in one of the two formats."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if log_format == JSON else text)
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)


class JsonFormatter(logging.Formatter):
    """
    Log records as JSON objects.

    ``time`` (ISO 8601 with a zone), ``level``, ``logger`` and ``message`` are always there, ``table`` where it is
    known, ``error`` (the class) and ``traceback`` where something was raised.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record in one line."""
        raised = record.exc_info[1] if record.exc_info else None
        error = getattr(record, "error", None) or (None if raised is None else type(raised).__name__)
        return _line(
            record.created,
            record.levelname,
            record.name,
            record.getMessage(),
            table=_table.get(),
            error=error,
            traceback=None if raised is None else "".join(traceback.format_exception(raised)),
        )


def announcement(message: str) -> str:
    """What a command has to say besides its results, in one line."""
    return _line(time.time(), "INFO", _LOGGER, message)


def failure(message: str, exc: BaseException | None, *, table: str | None, debug: bool) -> str:
    """
    The one line of a command that has failed.

    Args:
        table: The one that it was about, if it was about one.
        debug: Whether the line has the traceback too.
    """
    return _line(
        time.time(),
        "ERROR",
        _LOGGER,
        message,
        table=table,
        error=None if exc is None else type(exc).__name__,
        traceback="".join(traceback.format_exception(exc)) if debug and exc is not None else None,
    )


def _line(seconds: float, level: str, logger: str, message: str, **others: str | None) -> str:
    at = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    fields = {"time": at.isoformat(timespec="milliseconds"), "level": level, "logger": logger, "message": message}
    # ASCII, so that a line is a line whatever the locale, and whatever its reader takes for the end of one.
    return json.dumps({**fields, **{key: value for key, value in others.items() if value is not None}})
