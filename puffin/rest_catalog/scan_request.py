"""The body of a request for a plan (PlanTableScanRequest), checked and typed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from puffin.errors import UnsupportedError, UsageError
from puffin.iceberg.expression_json import FilterJson

_INCREMENTAL = ("start-snapshot-id", "end-snapshot-id")
_SEQUENCE_NUMBER = "_last_updated_sequence_number"
_LONG = 1 << 63


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """
    What a client wants planned.

    Attributes:
        snapshot_id: None for the current snapshot.
        filter: None for all rows.
        stats_fields: The columns whose statistics the answer has to hold.
        of_pyiceberg: Whether pyiceberg asks, which reads some of an answer in another way than other clients do.
    """

    snapshot_id: int | None = None
    filter: FilterJson | None = None
    stats_fields: tuple[str, ...] = ()
    of_pyiceberg: bool = False

    @property
    def of_any_schema(self) -> ScanRequest:
        """The same from a client that may have loaded the table at any time; see `FilterJson.any_schema`."""
        of_any = None if self.filter is None else dataclasses.replace(self.filter, any_schema=True)
        return dataclasses.replace(self, filter=of_any)

    @classmethod
    def of(cls, body: Any, *, of_pyiceberg: bool = False) -> ScanRequest:
        """
        From the JSON of a request; keys that are not known are ignored, as the protocol has it.

        Raises UsageError if the body is not of the protocol's form, and UnsupportedError for an incremental scan and
        for a column that the protocol cannot carry.
        """
        if not isinstance(body, Mapping):
            raise UsageError(f"expected a JSON object, found {type(body).__name__}")
        for key in _INCREMENTAL:
            if body.get(key) is not None:
                raise UnsupportedError(f"{key}: incremental scans are not planned here; set scan-planning-mode=client")
        if any(name.lower() == _SEQUENCE_NUMBER for name in _names(body, "select")):
            raise UnsupportedError(
                f"select: answers of scan planning cannot carry {_SEQUENCE_NUMBER}, and the client would read null: "
                "read it through the table's own catalog"
            )
        case_sensitive = _typed(body, "case-sensitive", bool)
        filter_ = body.get("filter", True)
        return cls(
            snapshot_id=_snapshot_id(body),
            filter=None if filter_ is True else FilterJson.of(filter_, case_sensitive=case_sensitive is not False),
            stats_fields=_names(body, "stats-fields"),
            of_pyiceberg=of_pyiceberg,
        )


def _snapshot_id(body: Mapping[str, Any]) -> int | None:
    found = _typed(body, "snapshot-id", int)
    if found is not None and not -_LONG <= found < _LONG:
        raise UsageError("snapshot-id: expected a number of 64 bits")
    return None if found is None else int(found)


def _names(body: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = _typed(body, key, list) or ()
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"{key}: expected a list of names")
    return tuple(names)


def _typed(body: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    value = body.get(key)
    if value is not None and type(value) is not kind:
        raise UsageError(f"{key}: expected {kind.__name__}, found {type(value).__name__}")
    return value
