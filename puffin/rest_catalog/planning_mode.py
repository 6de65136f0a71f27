"""Which side plans the scans of a table: this service, or the client where the protocol cannot say what it has to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from puffin.errors import UnsupportedError, UnsupportedTableError
from puffin.iceberg.expression_json import FilterJson, columns_of, parse_expression
from puffin.tables.document import all_schemas
from puffin.tables.schema import primitive_columns
from puffin.tables.state import TableState
from puffin.values.transforms import result_type

KEY, SERVER, CLIENT = "scan-planning-mode", "server", "client"
REASON = "puffin-sidecar.scan-planning-reason"
PROPERTY = "puffin-sidecar.scan-planning-mode"
"""A table property with which an owner takes a table back."""


@dataclasses.dataclass(frozen=True, slots=True)
class PlanningMode:
    """The mode, and why the client plans."""

    mode: str = SERVER
    reason: str | None = None

    @property
    def config(self) -> dict[str, str]:
        """For the answer to a client that loads the table."""
        return {KEY: self.mode, **({} if self.reason is None else {REASON: self.reason})}


def planning_mode(state: TableState, *, has_all_snapshots: bool = True) -> PlanningMode:
    """Which side plans the scans of a table, whose state may have only the snapshots of branches and tags."""
    reason = _reason(state, has_all_snapshots=has_all_snapshots)
    return PlanningMode() if reason is None else PlanningMode(CLIENT, reason)


def check_names(filter_: FilterJson | None, state: TableState) -> None:
    """
    Raise UnsupportedError for a filter of a client that loaded the table before a name in it got another meaning.

    Since then the client is told to plan by itself. Spark does not test rows where its filter selects whole partitions,
    and which ones these are depends on the meaning.
    """
    sources = {field["source-id"] for spec in state.partition_specs.values() for field in spec}
    if filter_ is None or not sources:
        return
    reused = state.reused_names[False]
    for column in columns_of(parse_expression(filter_)) if reused else ():
        if not reused.get(str(column).lower(), set()).isdisjoint(sources):
            raise UnsupportedError(
                f"filter: column {column}: the name meant another column or type before: "
                "load the table again (REFRESH TABLE)"
            )


def _reason(state: TableState, *, has_all_snapshots: bool) -> str | None:
    if state.properties.get(PROPERTY, "").lower() == CLIENT:
        return f"the table's property {PROPERTY}"
    if "encryption.key-id" in state.properties:
        return "the table is encrypted"
    for spec in state.partition_specs.values():
        for field in spec:
            reason = _reason_of_field(field, state.source_types)
            was_int = field["transform"] == "identity" and _was_int_before(
                state, field["source-id"], has_all_snapshots=has_all_snapshots
            )
            if reason is None and was_int:
                reason = "its column is an int in older snapshots, which the client would read as a long"
            if reason is not None:
                return f"partition field {field['name']}: {reason}"
    return _reused_name(state)


def _reason_of_field(field: Mapping[str, Any], types: Mapping[int, str]) -> str | None:
    if len(field.get("source-ids", ())) > 1:
        return "a transform of several columns"
    source_type = None if field["transform"] == "void" else types.get(field["source-id"])
    try:
        type_ = None if source_type is None else result_type(field["transform"], source_type)
    except UnsupportedTableError as exc:
        return str(exc)
    if type_ in ("float", "double"):
        # NaN and -0.0: JSON has no word for the one, and engines disagree on the order of the other.
        return "partitions by floating-point numbers"
    return "partitions by uuids, on whose order engines disagree" if type_ == "uuid" else None


def _was_int_before(state: TableState, source_id: int, *, has_all_snapshots: bool) -> bool:
    """Whether a column of longs is, or may be, one of ints in the schema of a snapshot that is not the current one."""
    if state.source_types.get(source_id) != "long":
        return False
    older = {
        schema.get("schema-id")
        for schema in all_schemas(state.document)
        if any(column.field_id == source_id and column.type == "int" for column in primitive_columns(schema))
    }
    if not has_all_snapshots:
        return bool(older)
    current = state.current_snapshot_id
    return any(each.schema_id in older for each in state.snapshots.values() if each.snapshot_id != current)


def _reused_name(state: TableState) -> str | None:
    """A client that pins a snapshot does not say whether its names are those of now or of then."""
    reused = next(iter(state.reused_names[False]), None)
    return None if reused is None else f"column {reused}: the name meant another column or type before"
