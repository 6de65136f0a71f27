"""
The tables of a REST catalog as it shows them to one caller, and plans of their scans.

Each call asks that catalog with the caller's own headers first, so what is planned for one caller may serve another:
both may read the table. Directories below the server's roots come after the catalog's tables.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

from puffin.errors import NotFoundError, StorageError, UnsupportedError, UnsupportedTableError
from puffin.iceberg.vended import CREDENTIALS_ENDPOINT
from puffin.lookup import Lookup
from puffin.rest_catalog.caller import Caller
from puffin.rest_catalog.catalog import ALL, LoadedTable, ServedCatalog, scan_of
from puffin.rest_catalog.errors import Refused
from puffin.rest_catalog.http import Answer
from puffin.rest_catalog.names import Levels, TableName, is_name
from puffin.rest_catalog.paging import WHOLE, Listed, Page
from puffin.rest_catalog.planned_scan import PlannedScan
from puffin.rest_catalog.planning_mode import CLIENT, KEY, SERVER, PlanningMode, planning_mode
from puffin.rest_catalog.scan_request import ScanRequest
from puffin.rest_catalog.upstream import Upstream, UpstreamConfig
from puffin.rest_catalog.upstream_table import States, UpstreamTable
from puffin.tables.base import SnapshotSelector
from puffin.tables.statistics_json import typed
from puffin.version import version

_NOT_FOUND, _NOT_MODIFIED = 404, 304
_VENDED = "vended-credentials"
_DIGEST_BYTES = 8
_TAG = re.compile('"([0-9a-f]+)[.]([A-Za-z0-9_=-]+)"')

_T = TypeVar("_T")
_Item = TypeVar("_Item")


@dataclasses.dataclass(frozen=True, slots=True)
class ForwardedTable:
    """A table as the client gets it; ``data`` is None if the client has it already, with this ``etag``."""

    etag: str | None
    data: bytes | None = dataclasses.field(repr=False)

    @property
    def is_unchanged(self) -> bool:
        """Whether the client has it, as the catalog says."""
        return self.data is None

    def body(self) -> bytes:
        """The LoadTableResult; empty if the client has it."""
        return self.data or b""


Loaded: TypeAlias = ForwardedTable | LoadedTable


@dataclasses.dataclass(frozen=True, slots=True)
class CallersCatalog:
    """
    What one caller gets; the methods are those of `ServedCatalog`, and raise Refused too.

    Attributes:
        states: Shared by all callers.
        local: Tables that the caller finds beside those of the catalog, None for none.
    """

    lookup: Lookup
    upstream: Upstream
    states: States
    caller: Caller
    local: ServedCatalog | None = None

    def config(self) -> dict[str, Any]:
        """What the catalog has its clients use, apart from its address; scans are planned here."""
        config = self.upstream.newest_config(self.caller)
        signers = config.signers({**config.defaults, **config.overrides})
        more = {"endpoints": [CREDENTIALS_ENDPOINT]} if config.vends else {}
        return {
            "defaults": {**signers, **config.with_addresses(config.defaults)},
            "overrides": {**config.with_addresses(config.overrides), KEY: SERVER},
            **more,
        }

    def namespaces(self, parent: Levels, page: Page = WHOLE) -> Listed[Levels]:
        """The namespaces right below one, or at the top."""

        def ask() -> Listed[Levels]:
            config = self._config
            below = [("parent", unquote(config.separator).join(parent))] if parent else []
            answer = self._get(f"{config.base}namespaces", [*below, *_asks_for(page)])
            return _listed(answer, lambda found: [*filter(_is_named, map(_levels, found["namespaces"]))])

        return self._listed(page, ask, lambda local: local.namespaces(parent).items)

    def namespace(self, levels: Levels) -> dict[str, str]:
        """The properties of a namespace."""

        def ask() -> dict[str, str]:
            answer = self._get(self._config.path(levels))
            found: dict[str, str] = _read(answer, lambda found: dict(found.get("properties") or {}))
            return found

        return self._or_local(ask, lambda local: local.namespace(levels))

    def tables(self, namespace: Levels, page: Page = WHOLE) -> Listed[TableName]:
        """The tables of a namespace."""

        def ask() -> Listed[TableName]:
            answer = self._get(self._config.path(namespace, "tables"), _asks_for(page))
            return _listed(
                answer,
                lambda found: [
                    TableName(_levels(each["namespace"]), name)
                    for each in found["identifiers"]
                    if is_name(name := typed(each, "name", str))
                ],
            )

        return self._listed(page, ask, lambda local: local.tables(namespace).items)

    def load(self, table: TableName, snapshots: str = ALL) -> Loaded:
        """The table as the catalog gives it to the caller; UnsupportedTableError if that plans its scans."""

        def ask() -> Loaded:
            return self._load(table, snapshots)

        return self._or_local(ask, lambda local: local.load(table, snapshots))

    def plan(self, table: TableName, request: ScanRequest) -> PlannedScan:
        """The files that a scan has to read, once the catalog has let the caller load the table."""
        return self._or_local(
            lambda: self._plan(table, request.of_any_schema),
            lambda local: local.plan(table, request),
        )

    def credentials(self, table: TableName) -> bytes:
        """Fresh credentials for the files of a table, as the catalog answers."""

        def ask() -> bytes:
            answer = self._get(self._config.path_of(table, "credentials"))
            _read(answer, dict)
            return answer.body

        return self._or_local(ask, lambda local: local.credentials(table))

    def _load(self, table: TableName, snapshots: str) -> ForwardedTable:
        config = self._config
        rules = _rules(config)
        known = _known_tags(self.caller.known_tags, rules)
        answer = self._load_answer(table, snapshots, self.caller.delegation, ", ".join(known.values()))
        tag = answer.headers.get("etag")
        if answer.status == _NOT_MODIFIED:
            same = [ours for ours, theirs in known.items() if tag == theirs] or list(known)
            return ForwardedTable(same[0], None)
        loaded = self._checked(table, answer, config)
        try:
            state = self.states.of(table, snapshots, loaded.location, loaded.document)
            mode = planning_mode(state, has_all_snapshots=snapshots == ALL)
        except UnsupportedError as exc:
            mode = PlanningMode(CLIENT, str(exc))
        return ForwardedTable(None if tag is None else _tag(rules, tag), loaded.body(mode.config, config))

    def _plan(self, table: TableName, request: ScanRequest) -> PlannedScan:
        config = self._config
        # Asked for credentials, a catalog also finds out whether the caller may read the table's files.
        loaded = self._checked(table, self._load_answer(table, ALL, _VENDED), config)
        state = self.states.of(table, ALL, loaded.location, loaded.document)
        selector = SnapshotSelector(snapshot_id=request.snapshot_id)
        opened = loaded.opened(state, selector, config, self.upstream.io_properties)
        return scan_of(opened, self.lookup.plan_opened(opened, request.filter), request)

    def _load_answer(self, table: TableName, snapshots: str, delegation: str | None, known: str = "") -> Answer:
        query = [("snapshots", snapshots)] if snapshots != ALL else []
        if self.caller.referenced_by is not None:
            query.append(("referenced-by", self.caller.referenced_by))
        return self.upstream.get(
            self._config.path_of(table),
            self.caller,
            query,
            x_iceberg_access_delegation=delegation,
            if_none_match=known,
        )

    def _checked(self, table: TableName, answer: Answer, config: UpstreamConfig) -> UpstreamTable:
        loaded = UpstreamTable.of(table, _read(answer, dict))
        if loaded.is_planned_by(config):
            raise UnsupportedTableError(
                f"{table}: its catalog plans the scans of this table itself, by rules of its own: read it through that"
            )
        return loaded

    @property
    def _config(self) -> UpstreamConfig:
        return self.upstream.config(self.caller)

    def _get(self, address: str, query: Sequence[tuple[str, str]] = ()) -> Answer:
        return self.upstream.get(address, self.caller, query)

    def _or_local(self, ask: Callable[[], _T], ask_local: Callable[[ServedCatalog], _T]) -> _T:
        try:
            return ask()
        except Refused as refusal:
            if refusal.status != _NOT_FOUND or self.local is None:
                raise
            try:
                return ask_local(self.local)
            except NotFoundError:
                raise refusal from None

    def _listed(
        self, page: Page, ask: Callable[[], Listed[_Item]], ask_local: Callable[[ServedCatalog], Sequence[_Item]]
    ) -> Listed[_Item]:
        """What the catalog lists, with local names on its first page, and without them on later ones."""
        if self.local is None:
            return ask()
        try:
            local = ask_local(self.local)
        except NotFoundError:
            return ask()
        nothing: Listed[_Item] = Listed(())
        listed = self._or_local(ask, lambda _: nothing)
        if page.token:
            return Listed([each for each in listed.items if each not in local], listed.next_token)
        return Listed([*listed.items, *(each for each in local if each not in listed.items)], listed.next_token)


def _asks_for(page: Page) -> list[tuple[str, str]]:
    size = [] if page.size is None else [("pageSize", str(page.size))]
    return size if page.token is None else [("pageToken", page.token), *size]


def _listed(answer: Answer, read: Callable[[dict[str, Any]], Sequence[_Item]]) -> Listed[_Item]:
    return _read(answer, lambda found: Listed(read(found), found.get("next-page-token") or None))


def _is_named(levels: Levels) -> bool:
    """Whether clients can ask for a namespace here: they go through all that are listed."""
    return all(map(is_name, levels))


def _levels(document: Any) -> Levels:
    if not isinstance(document, list):
        raise TypeError(type(document).__name__)  # a text would be a level for each of its letters
    return tuple(map(str, document))


def _read(answer: Answer, read: Callable[[dict[str, Any]], _T]) -> _T:
    try:
        return read(answer.document())
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise StorageError(f"expected an answer of a REST catalog, found {type(exc).__name__}") from exc


def _rules(config: UpstreamConfig) -> str:
    """What an entity tag of ours depends on beside the catalog's: who plans, by which rules."""
    return hashlib.blake2b(repr((version(), config.plans)).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _tag(rules: str, theirs: str) -> str:
    return f'"{rules}.{base64.urlsafe_b64encode(theirs.encode("latin-1")).decode()}"'


def _known_tags(listed: str, rules: str) -> dict[str, str]:
    """The catalog's own entity tags by ours, of those that a client has."""
    found: dict[str, str] = {}
    for match in _TAG.finditer(listed):
        if match[1] == rules:
            try:
                theirs = base64.urlsafe_b64decode(match[2]).decode("latin-1")
            except (binascii.Error, ValueError):
                continue
            if theirs.isprintable():
                found[match[0]] = theirs
    return found
