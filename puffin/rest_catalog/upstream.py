"""
The REST catalog behind this one, asked with the headers of whoever asks us.

It decides what a caller may see. Nothing of this server's own configuration that grants anything goes there: neither a
token nor headers nor a client certificate.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote, urljoin

from puffin.errors import PuffinError, StorageError
from puffin.iceberg.sdk import io_properties, rest_properties
from puffin.iceberg.vended import CREDENTIALS_ENDPOINT
from puffin.rest_catalog.caller import Caller
from puffin.rest_catalog.errors import Refused
from puffin.rest_catalog.http import Answer, Http
from puffin.rest_catalog.names import Levels, TableName
from puffin.rest_catalog.planning_mode import CLIENT, KEY

_OK, _NOT_MODIFIED, _LEAST_ERROR, _LEAST_FAILURE = 200, 304, 400, 500
_BEYOND_HTTP = 600  # no server could send it on
_HEADER = "header."
_GRANTS = ("authorization", "x-iceberg-access-delegation")
_HEEDED = ("retry-after", "www-authenticate")
_SEPARATOR = "%1F"
_OUR_BUSINESS = ("uri", "prefix", "namespace-separator", KEY)
_ADDRESSES = ("refresh-credentials-endpoint", "oauth2-server-uri")
_REMOTE_SIGNING = "remote-signing-enabled"
_SIGNERS = ("signer.uri", "s3.signer.uri")
_CONFIG_SECONDS = 300.0
_MOST_CONFIGS = 1_000
_LONGEST_MESSAGE = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """
    What a catalog tells a caller of itself.

    Attributes:
        defaults: For our own clients; without what they get from us.
        overrides: The same.
        uri: Where the catalog is to be asked from now on.
        base: What the paths of requests begin with.
        separator: Between the levels of a namespace, as it is in a path.
        plans: Whether the catalog plans scans itself.
        vends: Whether it gives fresh credentials for a table.
    """

    defaults: Mapping[str, str]
    overrides: Mapping[str, str]
    uri: str
    base: str
    separator: str
    plans: bool
    vends: bool

    @classmethod
    def of(cls, document: Mapping[str, Any], own: Mapping[str, Any]) -> UpstreamConfig:
        """From the answer of a catalog, and from our configuration of it."""
        defaults, overrides = document.get("defaults") or {}, document.get("overrides") or {}
        known = {**defaults, **own, **overrides}
        uri = str(known["uri"]).rstrip("/")
        prefix = str(known.get("prefix") or "").strip("/")
        separator = str(known.get("namespace-separator") or _SEPARATOR)
        mode = str({**defaults, **overrides}.get(KEY, CLIENT))
        return cls(
            defaults={key: value for key, value in defaults.items() if key not in _OUR_BUSINESS},
            overrides={key: value for key, value in overrides.items() if key not in _OUR_BUSINESS},
            uri=uri,
            base=f"{uri}/v1/{prefix}/" if prefix else f"{uri}/v1/",
            separator=separator if "%" in separator else quote(separator, safe=""),
            plans=mode.lower() != CLIENT,
            vends=CREDENTIALS_ENDPOINT in (document.get("endpoints") or ()),
        )

    @property
    def io_properties(self) -> dict[str, str]:
        """Those that open files, without what our own configuration has of them."""
        return io_properties({**self.defaults, **self.overrides})

    def path(self, levels: Levels, *more: str) -> str:
        """The address of a namespace or of what is below it."""
        namespace = self.separator.join(quote(level, safe="") for level in levels)
        return "/".join((f"{self.base}namespaces/{namespace}", *(quote(each, safe="") for each in more)))

    def path_of(self, table: TableName, *more: str) -> str:
        """The address of a table or of what is below it."""
        return self.path(table.namespace, "tables", table.name, *more)

    def with_addresses(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        """Properties as our clients need them: a client takes relative addresses for ours."""
        return {
            name: self._absolute(value) if name.endswith(_ADDRESSES) and isinstance(value, str) else value
            for name, value in properties.items()
        }

    def signers(self, properties: Mapping[str, Any]) -> dict[str, str]:
        """Who signs requests for files, if clients are to ask for that: by default the catalog itself."""
        return dict.fromkeys(_SIGNERS, self.uri) if any(name.endswith(_REMOTE_SIGNING) for name in properties) else {}

    def _absolute(self, place: str) -> str:
        return place if "://" in place else urljoin(f"{self.uri}/", place.lstrip("/"))


class Upstream:
    """
    A REST catalog, for any number of callers and threads.

    Args:
        properties: As pyiceberg's configuration has them, ``uri`` at least.

    Attributes:
        forwarded: The headers beside Authorization that say who asks: those that the configuration names.
        io_properties: Those of our own that open files.
    """

    def __init__(
        self, properties: Mapping[str, Any], http: Http | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        ssl = properties.get("ssl") or {}
        self._own = properties
        self._http = http or Http(ssl.get("cabundle") if isinstance(ssl, Mapping) else None)
        self._clock = clock
        self._lock = threading.Lock()
        self._configs: OrderedDict[bytes, tuple[float, UpstreamConfig]] = OrderedDict()
        names = (name[len(_HEADER) :].lower() for name in properties if name.startswith(_HEADER))
        self.forwarded = frozenset(name for name in names if name not in _GRANTS)
        self.io_properties = io_properties({name: str(value) for name, value in properties.items()})

    @classmethod
    def of(cls, catalog: str, properties: Mapping[str, str]) -> Upstream | None:
        """The catalog with this name, if it is one that authorizes its callers; raises what `rest_properties` does."""
        found = rest_properties(catalog, properties)
        return None if found is None else cls(found)

    def check_answers(self) -> None:
        """Raise StorageError if the catalog does not answer, or fails; one that refuses us answers."""
        answer = self._http.get(self._config_address, (), {})
        if answer.status >= _LEAST_FAILURE:
            raise StorageError(f"the catalog answers {answer.status}")

    def config(self, caller: Caller) -> UpstreamConfig:
        """What the catalog tells this caller of itself, at most some minutes old."""
        now = self._clock()
        with self._lock:
            until, known = self._configs.get(caller.digest, (now, None))
        return known if known is not None and now < until else self.newest_config(caller)

    def newest_config(self, caller: Caller) -> UpstreamConfig:
        """What the catalog tells this caller of itself; raises what `get` raises."""
        warehouse = self._own.get("warehouse")
        query = () if warehouse is None else (("warehouse", str(warehouse)),)
        answer = _checked(self._http.get(self._config_address, query, dict(caller.identity)))
        try:
            found = UpstreamConfig.of(answer.document(), self._own)
        except (ValueError, TypeError, AttributeError) as exc:
            raise StorageError(f"expected the configuration of a REST catalog, found {type(exc).__name__}") from exc
        with self._lock:
            self._configs[caller.digest] = self._clock() + _CONFIG_SECONDS, found
            self._configs.move_to_end(caller.digest)
            while len(self._configs) > _MOST_CONFIGS:
                self._configs.popitem(last=False)
        return found

    def get(self, address: str, caller: Caller, query: Iterable[tuple[str, str]] = (), **headers: str | None) -> Answer:
        """
        What the catalog answers a caller: 200, or 304 if ``if_none_match`` is among the headers.

        Raises Refused for an error of the catalog's, StorageError without a clear answer.
        """
        more = {name.replace("_", "-"): value for name, value in headers.items() if value}
        answer = self._http.get(address, query, {**dict(caller.identity), **more})
        return _checked(answer, is_conditional="if-none-match" in more)

    @property
    def _config_address(self) -> str:
        return f"{str(self._own['uri']).rstrip('/')}/v1/config"


def _checked(answer: Answer, *, is_conditional: bool = False) -> Answer:
    if answer.status == _OK or (answer.status == _NOT_MODIFIED and is_conditional):
        return answer
    if not _LEAST_ERROR <= answer.status < _BEYOND_HTTP:
        raise StorageError(f"expected an answer of the catalog, found status {answer.status}")
    raise _refusal(answer)


def _refusal(answer: Answer) -> PuffinError:
    headers = tuple((name, answer.headers[name]) for name in _HEEDED if name in answer.headers)
    message, type_ = f"the catalog answers {answer.status}", "RESTException"
    try:
        error = answer.document()["error"]
        message, type_ = str(error["message"])[:_LONGEST_MESSAGE], str(error["type"])
    except (ValueError, KeyError, TypeError):
        pass  # a proxy's page, or nothing
    return Refused(answer.status, message, type_, headers)
