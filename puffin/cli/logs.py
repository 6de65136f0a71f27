"""
JSON lines on stderr for programs: log records, and the failure of a command.

All lines have the same keys, so that programs can tell them apart by content. A context variable holds the table of the
line, since several threads work on tables side by side.
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
from typing import TYPE_CHECKING

from puffin.cli.render import printable

if TYPE_CHECKING:
    from puffin.cli.diagnostics import Diagnostics

_table: ContextVar[str | None] = ContextVar("table", default=None)


@contextlib.contextmanager
def about(table: str) -> Iterator[None]:
    """Mark what this thread logs in the block as about a table."""
    token = _table.set(table)
    try:
        yield
    finally:
        _table.reset(token)


def log_to_stderr(*, as_json: bool) -> None:
    """Send all log records to stderr, in text or JSON."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if as_json else text)
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)


@contextlib.contextmanager
def errors_shown(logger: str, diagnostics: Diagnostics) -> Iterator[None]:
    """
    Show errors that one of our loggers logs in the block on stderr, in the format of ``--log-format``.

    For commands that go on after an error. ``--verbose`` shows them anyway; as text, errors that stdout already shows
    are left out.
    """
    if diagnostics.verbose:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.ERROR)
    if diagnostics.is_json:
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(_LineFormatter())
        handler.addFilter(lambda record: not getattr(record, "is_told", False))
    logging.getLogger(logger).addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger(logger).removeHandler(handler)


class _LineFormatter(logging.Formatter):
    """Formats log records as failures of a command, without tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        raised = record.exc_info[1] if record.exc_info else None
        text = record.getMessage() if raised is None else f"{record.getMessage()}: {raised!r}"
        return f"puffin: {printable(' '.join(text.split()))}"


class JsonFormatter(logging.Formatter):
    """Formats log records with `json_line`; adds table, class of error and traceback if there are any."""

    def format(self, record: logging.LogRecord) -> str:
        raised = record.exc_info[1] if record.exc_info else None
        error = getattr(record, "error", None) or (None if raised is None else type(raised).__name__)
        return json_line(
            record.getMessage(),
            level=record.levelname,
            logger=record.name,
            seconds=record.created,
            table=getattr(record, "table", None) or _table.get(),
            error=error,
            traceback=None if raised is None else "".join(traceback.format_exception(raised)),
        )


def failure(message: str, exc: BaseException | None, *, table: str | None, debug: bool) -> str:
    """The line for a failed command, about a table if there is one; with the traceback for ``debug``."""
    return json_line(
        message,
        level="ERROR",
        table=table,
        error=None if exc is None else type(exc).__name__,
        traceback="".join(traceback.format_exception(exc)) if debug and exc is not None else None,
    )


def json_line(
    message: str, *, level: str = "INFO", logger: str = "puffin", seconds: float | None = None, **others: str | None
) -> str:
    """A message and other fields as one JSON object; ``seconds`` after the epoch, by default now."""
    at = datetime.datetime.fromtimestamp(time.time() if seconds is None else seconds, datetime.timezone.utc)
    fields = {"time": at.isoformat(timespec="milliseconds"), "level": level, "logger": logger, "message": message}
    # Only ASCII: locales and readers agree on it, and on where a line ends.
    return json.dumps({**fields, **{key: value for key, value in others.items() if value is not None}})
