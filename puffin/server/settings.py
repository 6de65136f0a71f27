"""A server's settings: its tables, its callers and its limits."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from puffin.errors import UsageError

_LONGEST_TOKEN = 4096
_IN_URLS, _ENDPOINTS = re.compile(r"[\w.-]+", re.ASCII), ("config", "namespaces")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    Limits of one request and of all together; sizes are in bytes, times in seconds.

    Attributes:
        body: Largest body of a request, counted as it arrives, whatever its Content-Length.
        running: Requests at once, without idle connections and answers from memory.
        waiting: Of those, requests for one table.
        threads: Threads that read storage.
        threads_per_table: Of those, threads for one table, so that a table that hangs does not block the others.
        request_seconds: From the last byte of a request to its answer.
        arrival_seconds: From the first byte of a request's body to its last.
        idle_seconds: Between two requests of a connection.
        shutdown_seconds: For running requests when the server stops.
    """

    body: int = 1024**2
    running: int = 256
    waiting: int = 64
    threads: int = 64
    threads_per_table: int = 2
    request_seconds: float = 10
    arrival_seconds: float = 10
    idle_seconds: int = 30
    shutdown_seconds: int = 8

    @property
    def table_seconds(self) -> float:
        """For one of several tables in a request: less, so that the other answers can still be sent."""
        return 0.8 * self.request_seconds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    A server's settings.

    Attributes:
        roots: Paths and URIs below which tables are served by path.
        catalog: The catalog whose tables are served by name, or None.
        warehouses: More catalogs, with their properties. Their tables are named ``CATALOG:namespace.table``; the REST
            face serves each catalog to clients that ask for a warehouse of its name.
        token: What callers must present; None for no check.
        ttl_seconds: How long an answer is valid without a check for commits.
        iceberg: Whether the tables are also served as an Iceberg REST catalog.
        hosts: Names that the server answers to, besides those of a loopback interface; at another interface, none means
            all.
        more_metrics: What else ``/metrics`` tells, as text, of what runs in the same process.
        asked: Told of each table that a question was answered about, on the event loop; does nothing by default.
        verdicts: What an autopilot in the same process said last of tables, by ``CATALOG:namespace.table`` or
            `puffin.lookup.places.table_key`: the state, and why.
    """

    roots: Sequence[str] = ()
    catalog: str | None = None
    catalog_properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    warehouses: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    token: bytes | None = dataclasses.field(default=None, repr=False)
    ttl_seconds: float = 5
    hosts: Sequence[str] = ()
    iceberg: bool = False
    more_metrics: Callable[[], str] | None = None
    asked: Callable[[str], None] = lambda _: None
    verdicts: Callable[[], Mapping[str, tuple[str, str]]] = dict
    limits: Limits = dataclasses.field(default_factory=Limits)

    def of_warehouse(self, name: str) -> Settings:
        """The settings for one more catalog alone."""
        return dataclasses.replace(
            self, roots=(), catalog=name, catalog_properties=self.warehouses[name], warehouses={}
        )


def check_warehouses(names: Sequence[str]) -> None:
    """Raise UsageError unless each of several catalogs has a name of its own that can stand in URLs."""
    for place, name in enumerate(names):
        if not _IN_URLS.fullmatch(name) or name in _ENDPOINTS:
            raise UsageError(
                f"catalog {name!r}: expected a name of letters, digits, '_', '-' and '.', since it stands in URLs if "
                f"there are several catalogs, and not {' or '.join(_ENDPOINTS)}"
            )
        if name in names[:place]:
            raise UsageError(f"catalog {name!r}: expected each catalog once")


def read_token(path: str) -> bytes:
    """The token in a file, without surrounding white space; UsageError if there is none that fits a header."""
    try:
        with Path(path).open("rb") as file:
            token = file.read(_LONGEST_TOKEN + 2).strip()
    except OSError as exc:
        raise UsageError(f"{path}: the token file cannot be read: {exc.strerror}") from exc
    if not 0 < len(token) <= _LONGEST_TOKEN or not all(0x21 <= byte <= 0x7E for byte in token):
        raise UsageError(f"{path}: expected a token of 1 to {_LONGEST_TOKEN} visible ASCII characters")
    return token
