"""
Credentials that a REST catalog lends for a table, and that expire.

The properties that open a table's files say when they are to be renewed, and carry what it takes: they travel to
executors, and a file is opened there long after the plan was made. So each process asks the catalog itself, when
half of their time is over, and all that it opens from then on is opened with the new ones.
"""

from __future__ import annotations

import functools
import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from puffin.errors import PuffinError, StorageError
from puffin.iceberg.sdk import filesystem_for, io_properties, open_catalog, said_by_library
from puffin.storage import Store, store_for

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyiceberg.catalog.rest import RestCatalog

TABLE_PATH = "namespaces/{namespace}/tables/{table}"
RENEWAL = "credentials.renewal"
"""Our own property among those that open files, a JSON object: how to renew the others, and when."""
_BY_PREFIX = "credentials.by-prefix"
"""Another one: of several credentials, what opens the files below each prefix, if not what opens the metadata."""

_CREDENTIALS_PATH = f"{TABLE_PATH}/credentials"
CREDENTIALS_ENDPOINT = f"GET /v1/{{prefix}}/{_CREDENTIALS_PATH}"
"""How a catalog's configuration names the endpoint for fresh credentials."""

_LENT = ("s3.session-token", "gcs.oauth2.token", "adls.sas-token")
_WITH_TOKEN = ("s3.access-key-id", "s3.secret-access-key", *_LENT, _BY_PREFIX)  # all that ends when a token does
_EXPIRES = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms")
_SHORTEST = 15 * 60.0  # seconds; what AWS lends at least, for catalogs that do not say when it ends
_PAUSE = 60.0  # seconds; until a catalog that did not renew is asked again, if the credentials last so long
# 419 is the protocol's own status for an expired token. A refused token is renewed once.
_TOKEN_REFUSED = (HTTPStatus.UNAUTHORIZED, 419)


def request(catalog: RestCatalog, method: str, path: str, identifier: str, **body: Any) -> Any:
    """The server's answer about a table, over pyiceberg's session; every way to authorize has its own errors."""
    url = catalog.url(path, **catalog._split_identifier_for_path(identifier))
    response = catalog._session.request(method, url, **body)
    if response.status_code in _TOKEN_REFUSED:
        catalog._refresh_token()
        response = catalog._session.request(method, url, **body)
    return response


def opening_properties(
    catalog: RestCatalog, identifier: str, location: str, answer: Mapping[str, Any], of_table: Mapping[str, Any]
) -> dict[str, str]:
    """
    What opens the files of a table, from the server's answer; how to renew it too, if it is lent for a time.

    Args:
        catalog: The table's.
        identifier: The table's name in it.
        location: Of the table's metadata, for `lent_properties`.
        answer: Has ``storage-credentials``, ``config`` or none of them.
        of_table: Properties of the table, which the answer overrides.
    """
    lent = lent_properties(answer, location)
    found = {**io_properties({**catalog.properties, **of_table}), **lent}
    all_lent = [item for each in (lent, *_by_prefix(lent).values()) for item in each.items()]
    if any(name.startswith(_LENT) for name, _ in all_lent):
        now = time.time()
        # A time in the past comes from another clock.
        expiries = [end for name, value in all_lent if name.startswith(_EXPIRES) and (end := int(value) / 1000) > now]
        ends = min(expiries, default=now + _SHORTEST)
        found[RENEWAL] = json.dumps(
            {
                "catalog": catalog.name,
                "properties": dict(catalog.properties),
                "table": identifier,
                "location": location,
                "from": now + (ends - now) / 2,
                "ends": ends,
                "is-guess": not expiries,
            },
            default=str,
        )
    return found


def lent_properties(answer: Mapping[str, Any], location: str) -> dict[str, str]:
    """
    What a server's answer says of opening the files of a table, for `filesystems_for`.

    Of several credentials, those with the longest prefix of a file's location count; those of the metadata's location
    also open files for which there are none.
    """
    credentials: Sequence[Mapping[str, Any]] = answer.get("storage-credentials") or ()
    of_table = io_properties(answer.get("config") or {})
    by_prefix = {each["prefix"]: {**of_table, **io_properties(each["config"])} for each in credentials}
    fitting = [prefix for prefix in by_prefix if location.startswith(prefix)]
    nearest = max(fitting, key=len, default="")
    found = by_prefix.get(nearest, of_table)
    return {**found, _BY_PREFIX: json.dumps(by_prefix, default=str)} if by_prefix.keys() - {nearest} else found


def filesystems_for(properties: Mapping[str, str]) -> Callable[[str], FileSystem]:
    """As `filesystem_for`, also where files below some prefixes have credentials of their own."""
    others = {name: value for name, value in properties.items() if name != _BY_PREFIX}
    without = {name: value for name, value in others.items() if not name.startswith(_WITH_TOKEN)}
    resolvers = {
        prefix: filesystem_for({**without, **config})
        for prefix, config in sorted(_by_prefix(properties).items(), key=lambda each: -len(each[0]))
    }
    usual = filesystem_for(others)
    return lambda uri: next((of for prefix, of in resolvers.items() if uri.startswith(prefix)), usual)(uri)


def _by_prefix(properties: Mapping[str, str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(properties.get(_BY_PREFIX, "{}"))
    return found


class LentStores:
    """
    Opens a table's files with lent credentials; for any thread, and as long as it likes.

    A file that is open stays with the credentials that opened it, so it is to be read in half of their time.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._take(properties)

    def __call__(self, uri: str) -> Store:
        """The store of a file; StorageError if the credentials have ended and the catalog gives no others."""
        return store_for(uri, filesystem_for=self._filesystem)

    def _take(self, properties: Mapping[str, str]) -> None:
        self._opening = {name: value for name, value in properties.items() if name != RENEWAL}
        # Instead of others that end, a catalog may lend some for good.
        self._renewal = json.loads(properties[RENEWAL]) if RENEWAL in properties else {"from": math.inf}
        self._due: float = self._renewal["from"]
        self._resolve = filesystems_for(self._opening)

    def _filesystem(self, uri: str) -> FileSystem:
        with self._lock:
            if time.time() >= self._due:
                try:
                    self._take(_renewed(self._opening, self._renewal))
                except PuffinError:
                    now = time.time()  # minutes later, if the catalog was silent
                    left = max(self._renewal["ends"] - now, _SHORTEST if self._renewal["is-guess"] else 0)
                    if not left:
                        raise
                    self._due = now + max(left / 2, min(left, _PAUSE))
            return self._resolve(uri)


@functools.lru_cache(maxsize=64)  # the batches of a job have the same properties, however long it takes
def lent_stores(properties: frozenset[tuple[str, str]]) -> LentStores:
    """The stores of lent credentials; the same ones for all who ask in this process."""
    return LentStores(dict(properties))


def _renewed(opening: Mapping[str, str], renewal: Mapping[str, Any]) -> dict[str, str]:
    table, name = renewal["table"], renewal["catalog"]
    try:
        catalog = cast("RestCatalog", open_catalog(name, renewal["properties"]))
        path = _CREDENTIALS_PATH if CREDENTIALS_ENDPOINT in map(str, catalog._supported_endpoints) else TABLE_PATH
        response = request(catalog, "GET", path, table)
        response.raise_for_status()
        kept = {name: value for name, value in opening.items() if not name.startswith(_WITH_TOKEN)}
        return opening_properties(catalog, table, renewal["location"], response.json(), kept)
    except Exception as exc:  # every way to authorize has its own errors
        raise StorageError(f"{table}: catalog {name!r} did not renew the credentials: {said_by_library(exc)}") from exc
