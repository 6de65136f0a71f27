"""The filter that a client is to apply to the rows of a task."""

from __future__ import annotations

from puffin.iceberg.expression_json import FilterJson, Unbound, columns_of, literals_of, parse_expression
from puffin.rest_catalog.scan_request import ScanRequest
from puffin.tables.document import all_schemas, current_schema
from puffin.tables.schema import fields_of
from puffin.tables.state import TableState

_ALL_ROWS = b"true"
_INFINITE = ("Infinity", "-Infinity")  # as Java's client writes them


def residual_of(request: ScanRequest, state: TableState) -> bytes:
    """
    The filter of the request, encoded: all files that come back may have rows that do not pass.

    Java's client looks up the names of a residual in the current schema if the table has partitions, so it fails for a
    column that had another name at the snapshot. It gets true instead if it is Spark, which tests the rows itself.
    Java's generic reader does not, but takes names literally unless told otherwise, and Spark does not. The same holds
    for an infinite number, which Java's client sends as a text, but does not read as a number.

    pyiceberg sends null for an infinite number, but cannot read it. It tests the rows itself, but counts those of files
    whose residual is true, so it gets a test that all rows pass.
    """
    filter_ = request.filter
    if filter_ is None:
        return _ALL_ROWS
    tree = parse_expression(filter_)
    if None in literals_of(tree):
        return _any_value(next(columns_of(tree)))
    may_be_spark = not request.of_pyiceberg and not filter_.case_sensitive
    if may_be_spark and (_has_infinity(tree) or _has_old_name(tree, state)):
        return _ALL_ROWS
    return filter_.text.encode()


def _any_value(column: str | int) -> bytes:
    term = column if isinstance(column, str) else {"type": "reference", "id": column}
    null, value = ({"type": type_, "term": term} for type_ in ("is-null", "not-null"))
    return FilterJson.of({"type": "or", "left": null, "right": value}).text.encode()


def _has_infinity(tree: Unbound) -> bool:
    """Whether a literal is the text of an infinite number, of whatever type its column is."""
    return any(each in _INFINITE for each in literals_of(tree))


def _has_old_name(tree: Unbound, state: TableState) -> bool:
    if not any(state.partition_specs.values()) or len(all_schemas(state.document)) < 2:
        return False
    known = {field.name.lower() for field in fields_of(current_schema(state.document))}
    names = (name for name in columns_of(tree) if isinstance(name, str))
    return any(name.lower() not in known for name in names)
