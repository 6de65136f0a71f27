"""
The summary of a run for monitoring: a JSON line for each table, appended to a file as soon as the table is done.

Concurrent runs may share the file.
"""

from __future__ import annotations

import datetime
import json
from typing import Any, Protocol

from puffin.errors import CommitUnknownError, PuffinError, StorageError, UsageError, in_one_line
from puffin.storage.appending import append_whole


class JobReport(Protocol):
    """The report of a job on one table."""

    @property
    def rows_read(self) -> int: ...
    def to_json(self) -> dict[str, Any]: ...


_OF_REPORT = (
    *("format", "snapshot-id", "mode", "committed"),
    *("files-read", "rows-read", "bytes-read", "elapsed-seconds", "attempts"),
)


class RunSummary:
    """The lines of a run in a local file, made if missing; no file for None. StorageError if it cannot be opened."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._failure: StorageError | None = None
        if path is not None:
            _append(path, b"")

    def add(self, table: str, outcome: JobReport | BaseException) -> None:
        """Append the outcome of a table; keep a failure for `check`, so that the other tables go on."""
        if self._path is None or self._failure is not None:
            return
        try:
            _append(self._path, f"{json.dumps(summary_line(table, outcome))}\n".encode())
        except StorageError as exc:
            self._failure = exc

    def check(self) -> None:
        """Raise StorageError if a line is missing."""
        if self._failure is not None:
            raise self._failure


def summary_line(table: str, outcome: JobReport | BaseException) -> dict[str, Any]:
    """
    The outcome of a table as a JSON object that always has the same keys.

    Unknown values are null. A table that failed has only ``committed``, null if that is unknown too. ``exit`` is the
    exit code of a command for this table alone.
    """
    line: dict[str, Any] = {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
        "table": table,
        **dict.fromkeys(_OF_REPORT),
        "columns": None,
        "error": None,
        "error-class": None,
        "exit": 0,
    }
    if isinstance(outcome, BaseException):
        is_ours = isinstance(outcome, PuffinError)
        return line | {
            "committed": None if isinstance(outcome, CommitUnknownError) or not is_ours else False,
            "error": in_one_line(outcome),
            "error-class": type(outcome).__name__,
            "exit": 2 if isinstance(outcome, UsageError) else 1,
        }
    document = outcome.to_json()
    columns = [column["column"] for column in document["columns"]]
    return line | {key: document.get(key) for key in _OF_REPORT} | {"columns": columns}


def _append(path: str, data: bytes) -> None:
    try:
        append_whole(path, data)
    except OSError as exc:
        raise StorageError(f"{path}: the summary cannot be appended to: {exc.strerror}") from exc
