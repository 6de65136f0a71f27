"""Says in our words what pyiceberg found wrong with a filter, or that it is not installed."""

from __future__ import annotations

import decimal
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from puffin.errors import (
    ColumnNotFound,
    MissingDependencyError,
    PuffinError,
    UnsupportedTypeError,
    UsageError,
    did_you_mean,
)
from puffin.iceberg.simple_filter import Simple, SimpleTest, read_filter
from puffin.tables.schema import fields_of

_UNKNOWN_FIELD = re.compile(r"Could not find field with name (.*), case_sensitive=.*")
_OTHER_KIND = re.compile(r"Cannot convert (\w+)Literal into (.*)")
_OTHER_TEXT = re.compile(r"Could not convert (.*) into an? (\w+)")
_WITHOUT_LITERALS = re.compile(r"binary|fixed\[.*|timestamp(tz)?_ns")  # pyiceberg reads no value of these from a filter
_NESTED_KIND = re.compile(r"(struct|list|map)<.*")
_MOST_SHOWN = 200
_SIMPLE = "comparisons, in, like, between and tests of null or NaN, joined by and, or and parentheses"
_IN_A_LIST = re.compile(r"Could not find accessor for field with id: \d+")


def error_about(where: str, exc: Exception, schema: Mapping[str, Any]) -> PuffinError:
    """
    The error to raise for one that parsing this filter, or binding it to this schema, has raised.

    Raises SetupError if it comes from pyiceberg's configuration.
    """
    if isinstance(exc, ModuleNotFoundError) and exc.name is not None and exc.name.partition(".")[0] == "pyiceberg":
        known = {field.name for field in fields_of(schema)}
        simple = read_filter(where)
        if simple is None:  # perhaps a mistake, for which there is nothing to install
            what = f"filter {_shown(where)}: expected {_SIMPLE}; any other filter"
            return MissingDependencyError("pyiceberg", "iceberg", what)
        names = _names(simple)
        missing = next((name for name in names if not any(f"{name}.".startswith(f"{each}.") for each in known)), None)
        return (
            MissingDependencyError("pyiceberg", "iceberg") if missing is None else _about_column(where, missing, schema)
        )
    from puffin.iceberg.sdk import check_configuration, said_by_library

    check_configuration()
    message = said_by_library(exc)
    if (unknown := _UNKNOWN_FIELD.fullmatch(message)) is not None:
        return _about_column(where, unknown[1], schema)
    if (kinds := _OTHER_KIND.fullmatch(message)) is not None:
        message = f"expected a literal of type {kinds[2]}, found a {kinds[1].lower()}"
        if (nested := _NESTED_KIND.fullmatch(kinds[2])) is not None:
            message = f"expected a primitive column to compare, found a {nested[1]}"
        elif _WITHOUT_LITERALS.fullmatch(kinds[2]) is not None:
            message = f"filters cannot compare columns of type {kinds[2]}, only test them for null"
    elif _IN_A_LIST.fullmatch(message) is not None:
        message = "expected a column outside lists and maps, found one inside"
    elif (text := _OTHER_TEXT.fullmatch(message)) is not None:
        message = f"expected a literal of type {text[2]}, found {text[1]!r}"
    elif isinstance(exc, decimal.InvalidOperation):
        message = "expected a decimal number"
    return UsageError(f"filter {_shown(where)}: {message}")


def _shown(where: str) -> str:
    """A filter for a message, cut if it is long, so that what is wrong with it can be seen."""
    return repr(where if len(where) <= _MOST_SHOWN else f"{where[:_MOST_SHOWN]}…")


def _names(filter_: Simple | None) -> Iterator[str]:
    """Of the columns that a filter tests, as far as they are known without pyiceberg."""
    if isinstance(filter_, SimpleTest):
        yield filter_.name
    elif filter_ is not None:
        yield from itertools.chain.from_iterable(map(_names, filter_.parts))


def _about_column(where: str, name: str, schema: Mapping[str, Any]) -> PuffinError:
    """The error for a column that the schema given to pyiceberg lacks."""
    types = {field.name: field.type for field in fields_of(schema)}
    if name in types:  # pyiceberg does not know its type
        type_ = types[name]
        kind = type_.get("type", "unknown") if isinstance(type_, Mapping) else type_
        return UnsupportedTypeError(f"filter {_shown(where)}: column {name!r} of type {kind} cannot be filtered")
    parts = name.split(".")  # the name of the table may stand before that of the column
    hint = next(filter(None, (did_you_mean(".".join(parts[start:]), types) for start in range(len(parts)))), "")
    if not hint and f'"{name}"' in where:
        hint = "; texts are in single quotes, names of columns in double quotes"
    return ColumnNotFound(f"filter {_shown(where)}: no column {name!r}{hint}")
