"""The tables that a lookup serves, as a read-only REST catalog that plans scans; every call may block."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from puffin.errors import ColumnNotFound, CorruptMetadataError, TableNotFound, UnsupportedError
from puffin.iceberg.metadata.document import decode_document, document_text
from puffin.iceberg.scan.column_metrics import stored_metrics
from puffin.lookup import FilePlan, Lookup
from puffin.planning.plan import warm_up
from puffin.rest_catalog.errors import NamespaceNotFound
from puffin.rest_catalog.names import Levels, Names, TableName
from puffin.rest_catalog.paging import WHOLE, Listed, Page
from puffin.rest_catalog.planned_scan import PlannedScan
from puffin.rest_catalog.planning_mode import KEY, SERVER, check_names, planning_mode
from puffin.rest_catalog.residual import residual_of
from puffin.rest_catalog.scan_request import ScanRequest
from puffin.rest_catalog.scan_tasks import Metrics, TaskEncoder
from puffin.tables.base import SnapshotSelector
from puffin.tables.document import all_schemas
from puffin.tables.schema import fields_of
from puffin.tables.snapshot import CURRENT, TableSnapshot

ALL = "all"  # which snapshots a client asks for; the others are those of "refs"
_DIGEST_BYTES = 16

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedTable:
    """
    A table as a client loads it.

    Attributes:
        etag: With its quotes; changes with the metadata and with who plans.
    """

    etag: str
    opened: TableSnapshot
    config: dict[str, str]
    snapshots: str

    def body(self) -> bytes:
        """The LoadTableResult, with the metadata file's own JSON; raises what reading that file raises."""
        location = self.opened.state.metadata_location
        data = self.opened.store_for(location).read(location)
        return b'{"metadata-location":%b,"metadata":%b,"config":%b}' % (
            _dump(location),
            _metadata(data, location, self.snapshots),
            _dump(self.config),
        )


class ServedCatalog:
    """
    The tables of a lookup.

    Args:
        check: Raises an error for a name in the lookup that is not served.
    """

    def __init__(self, lookup: Lookup, names: Names, check: Callable[[str], None]) -> None:
        self._lookup = lookup
        self._names = names
        self._check = check
        warm_up()

    def config(self) -> dict[str, Any]:
        """What clients are to use, as the protocol has it; scans are planned here."""
        return {"defaults": {}, "overrides": {KEY: SERVER}}

    def namespaces(self, parent: Levels, page: Page = WHOLE) -> Listed[Levels]:
        """The namespaces right below one, or at the top; NamespaceNotFound if there is no such parent."""
        self._check_namespace(parent)
        return page.of(self._names.namespaces(parent))

    def namespace(self, levels: Levels) -> dict[str, str]:
        """The properties of a namespace; NamespaceNotFound if it does not exist."""
        self._check_namespace(levels)
        return self._names.properties(levels)

    def tables(self, namespace: Levels, page: Page = WHOLE) -> Listed[TableName]:
        """The tables of a namespace; NamespaceNotFound if it does not exist."""
        self._check_namespace(namespace)
        return page.of(self._names.tables(namespace))

    def credentials(self, table: TableName) -> bytes:
        """Raise UnsupportedError: a table below a root or of a catalog like these comes without credentials."""
        raise UnsupportedError(f"{table}: clients read its files with credentials of their own")

    def load(self, table: TableName, snapshots: str = ALL) -> LoadedTable:
        """A table as it is now, with all snapshots or only those of branches and tags; TableNotFound."""
        opened = self._known_as(table, lambda name: self._opened(name, CURRENT, checked=True))
        state, config = opened.state, planning_mode(opened.state).config
        known = (state.uuid, state.metadata_location, state.metadata_file, snapshots, config)
        digest = hashlib.blake2b(repr(known).encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES)
        return LoadedTable(f'"{digest.hexdigest()}"', opened, config, snapshots)

    def plan(self, table: TableName, request: ScanRequest) -> PlannedScan:
        """
        The files that a scan has to read.

        Raises TableNotFound, SnapshotNotFound, UsageError for a filter that cannot be read or does not fit the columns,
        and what `Lookup.plan` raises.
        """
        return self._known_as(table, lambda name: self._plan(name, request))

    def _plan(self, name: str, request: ScanRequest) -> PlannedScan:
        try:
            return self._planned(name, request)
        except ColumnNotFound:
            # The client may know the table by a newer schema, which another server has told it, or by an older one.
            self._opened(name, CURRENT, checked=True)
            return self._planned(name, request.of_any_schema)

    def _planned(self, name: str, request: ScanRequest) -> PlannedScan:
        snapshot_id = request.snapshot_id
        if snapshot_id is None:
            # The current snapshot has to be at least as new as the metadata that the client loaded.
            snapshot_id = self._opened(name, CURRENT, checked=True).snapshot_id
        # By its id, so that the plans of clients that pin a snapshot and of those that do not share what was read.
        opened = self._opened(name, SnapshotSelector(snapshot_id=snapshot_id))
        plan = self._lookup.plan(name, request.filter, snapshot_id=snapshot_id)
        return scan_of(opened, plan, request)

    def _opened(self, name: str, selector: SnapshotSelector, *, checked: bool = False) -> TableSnapshot:
        opened = self._lookup.opened(name, selector, checked=checked)
        if opened.state.format != "iceberg":
            raise TableNotFound(f"{name}: expected an Iceberg table, found one of format {opened.state.format}")
        return opened

    def _check_namespace(self, namespace: Levels) -> None:
        if namespace and not self._names.has(namespace):
            raise NamespaceNotFound(f"Namespace does not exist: {'.'.join(namespace)}")

    def _known_as(self, table: TableName, use: Callable[[str], _T]) -> _T:
        """Use a table by its name in the lookup."""
        # In their order each time: a table that counts before the one found last may be there by now.
        for name in self._names.candidates(table):
            try:
                self._check(name)
                return use(name)
            except TableNotFound:
                continue
        raise TableNotFound(f"Table does not exist: {table}")  # as Iceberg's own catalogs say it, and its tests expect


def scan_of(opened: TableSnapshot, plan: FilePlan, request: ScanRequest) -> PlannedScan:
    """The answers to a request that has this plan; reads the statistics that the client asks for."""
    if not request.of_pyiceberg:
        check_names(request.filter, opened.state)
    state, residual = opened.state, residual_of(request, opened.state)
    types = state.tuple_types_at(None if opened.is_empty else opened.snapshot)
    encoder = TaskEncoder(state.partition_specs, types, residual, request.of_pyiceberg)
    metrics = _statistics(opened, request.stats_fields) if len(plan.all_files) else ()
    return PlannedScan.of(plan, encoder, metrics)


def _statistics(opened: TableSnapshot, names: tuple[str, ...]) -> list[Metrics] | tuple[()]:
    if not names:
        return ()
    fields = {
        field.name: field.field_id for schema in all_schemas(opened.state.document) for field in fields_of(schema)
    }
    unknown = [name for name in names if name not in fields]
    if unknown:
        raise ColumnNotFound(f"stats-fields: the table has no column {unknown[0]!r}")
    return list(stored_metrics(opened, [fields[name] for name in dict.fromkeys(names)]))


def _metadata(data: bytes, location: str, snapshots: str) -> bytes:
    if snapshots == ALL:
        try:
            return document_text(data)
        except (ValueError, EOFError, OSError, zlib.error) as exc:
            raise CorruptMetadataError(f"{location}: expected Iceberg table metadata in JSON: {exc}") from exc
    document = decode_document(data, location)
    refs = (document.get("refs") or {}).values()
    kept = {document.get("current-snapshot-id"), *(ref["snapshot-id"] for ref in refs)}
    listed = [each for each in document.get("snapshots") or () if each["snapshot-id"] in kept]
    return _dump({**document, "snapshots": listed})


def _dump(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
