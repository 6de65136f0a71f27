"""A table as the REST catalog behind this one gives it to one caller: passed on, and opened with what was vended."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from puffin.errors import StorageError, said_by
from puffin.iceberg.catalogs.file import IcebergMetadataFile
from puffin.iceberg.metadata.document import parse_state
from puffin.iceberg.stores import stores
from puffin.iceberg.table import IcebergSnapshot
from puffin.iceberg.vended import lent_properties
from puffin.rest_catalog.names import TableName
from puffin.rest_catalog.planning_mode import CLIENT, KEY
from puffin.rest_catalog.upstream import UpstreamConfig
from puffin.storage import join
from puffin.tables.base import SnapshotSelector
from puffin.tables.state import TableState
from puffin.tables.statistics_json import typed

_MOST_STATES = 1_000
_DIGEST_BYTES = 16
_CREDENTIALS, _RESTRICTIONS = "storage-credentials", "read-restrictions"
_GRANT = re.compile("key|token|secret|sas|credential|password|role|profile|connection-string")


class States:
    """Tables at their newest versions, each parsed once however many callers load it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[TableName, str], tuple[bytes, TableState]] = OrderedDict()

    def of(self, table: TableName, snapshots: str, location: str, document: Mapping[str, Any]) -> TableState:
        """
        The state that a document describes: the same object for the same document, whoever loads it.

        A catalog may tell callers different things of one version, so it is the document that counts. Raises
        CorruptMetadataError and UnsupportedTableError.
        """
        # Not only the location: what one caller does not see of a version must not come from another's.
        text = json.dumps([location, document]).encode()
        digest = hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()
        with self._lock:
            known = self._known.get((table, snapshots))
        if known is not None and known[0] == digest:
            return known[1]
        state = parse_state(document, location).without_history().called(str(table))
        with self._lock:
            self._known[table, snapshots] = digest, state
            self._known.move_to_end((table, snapshots))
            while len(self._known) > _MOST_STATES:
                self._known.popitem(last=False)
        return state


@dataclasses.dataclass(frozen=True, slots=True)
class UpstreamTable:
    """
    The answer to one caller who loads a table; it holds secrets.

    Attributes:
        location: The file of its metadata, or their folder: the protocol lets a catalog keep the file to itself.
    """

    name: TableName
    location: str
    document: Mapping[str, Any] = dataclasses.field(repr=False)
    answer: Mapping[str, Any] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, name: TableName, answer: Mapping[str, Any]) -> UpstreamTable:
        """From the answer's document; StorageError if it is of another form."""
        try:
            document = typed(answer, "metadata", dict)
            if answer.get("metadata-location") is None:
                location = join(typed(document, "location", str), "metadata")
            else:
                location = typed(answer, "metadata-location", str)
            if answer.get("config") is not None:
                typed(answer, "config", dict)
            for each in answer.get(_CREDENTIALS) or ():
                typed(each, "prefix", str)
                typed(each, "config", dict)
            return cls(name, location, document, answer)
        except (TypeError, AttributeError) as exc:
            raise StorageError(f"{name}: expected a table from the catalog, found {said_by(exc)}") from exc

    def is_planned_by(self, config: UpstreamConfig) -> bool:
        """Whether the catalog plans the table's scans itself, or lets callers read a part of it only."""
        mode = self._config.get(KEY)
        plans = config.plans if mode is None else str(mode).lower() != CLIENT
        return plans or bool(self.answer.get(_RESTRICTIONS))

    def opened(
        self, state: TableState, selector: SnapshotSelector, config: UpstreamConfig, own: Mapping[str, str]
    ) -> IcebergSnapshot:
        """
        The table, whose files are opened with what was vended to the caller.

        Only if nothing was vended are credentials of ``own``, our configuration, used.
        """
        vended = lent_properties(self.answer, self.location)
        if any(_GRANT.search(name) for name in vended):
            own = {name: value for name, value in own.items() if not _GRANT.search(name)}
        properties = {**config.io_properties, **own, **vended}
        store_for = stores(properties)
        return IcebergSnapshot(
            name=str(self.name),
            state=state,
            selector=selector,
            store_for=store_for,
            io_properties=properties,
            table=IcebergMetadataFile(self.location, store_for),
        )

    def body(self, mode: Mapping[str, str], config: UpstreamConfig) -> bytes:
        """The answer for our client: as it was but for who plans, and for addresses that were relative to another."""
        of_table = {**config.signers(self._config), **config.with_addresses(self._config)}
        changed: dict[str, Any] = {"config": {**of_table, **mode}}
        if vended := self.answer.get(_CREDENTIALS):
            changed[_CREDENTIALS] = [{**each, "config": config.with_addresses(each["config"])} for each in vended]
        return json.dumps({**self.answer, **changed}, separators=(",", ":")).encode()

    @property
    def _config(self) -> Mapping[str, Any]:
        return self.answer.get("config") or {}
