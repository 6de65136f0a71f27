"""
How often planners ask for each table: the answer of ``GET /v1/plans`` of a server, from a file or a URL, and what a
server in this process is asked.
"""

from __future__ import annotations

import json
import logging
import urllib.request
from collections import Counter
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from pathlib import Path

from puffin.errors import in_one_line
from puffin.lookup.places import table_key

_SECONDS = 5
_MOST_BYTES = 16 * 1024 * 1024

_MOST_TABLES = 10_000
_NOT_A_LOG = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)

_log = logging.getLogger(__name__)


class Asked:
    """The questions that a server in this process has answered. It adds in one thread; others may read."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, table: str) -> None:
        """Count a question about a table; of very many tables, those asked for longest ago make room."""
        self._counts[table] = self._counts.pop(table, 0) + 1
        if len(self._counts) > _MOST_TABLES:
            del self._counts[next(iter(self._counts))]

    def counts(self) -> Mapping[str, int]:
        return self._counts.copy()


def questions(source: str | None, asked: Asked) -> Mapping[str, int]:
    """
    The number of questions about each table, by `puffin.lookup.places.table_key`: plans that a source tells of, and
    what this process was asked. A source that cannot be read is logged.
    """
    return _plans(source) + _by_key(asked.counts().items())


def _plans(source: str | None) -> Counter[str]:
    if source is None:
        return Counter()
    try:
        if "://" in source:
            with urllib.request.urlopen(source, timeout=_SECONDS) as answer:  # noqa: S310 - the schema takes http alone
                data = answer.read(_MOST_BYTES)
        else:
            data = Path(source).read_bytes()
        return _by_key((each["table"], int(each["plans"])) for each in json.loads(data)["tables"])
    except (OSError, HTTPException, *_NOT_A_LOG) as exc:
        _log.warning("%s: what planners ask for is not known: %s", source, in_one_line(exc))
        return Counter()


def _by_key(counted: Iterable[tuple[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for table, count in counted:
        found[table_key(table)] += count
    return found
