"""
The JSON documents of a Delta table's statistics directory: entries of versions, and field ids.

::

    {"format-version": 1, "table-id": "f8e1…", "version": 12, "generation": 0, "log-entry": "1482-9ae0daaf",
     "statistics": {"snapshot-id": 12, "statistics-path": "12-….stats", …},    as Iceberg's table metadata has it
     "columns": [{"id": 1, "path": ["address", "city"]}, …]}                   of the ids that its blobs are about

    {"format-version": 1, "columns": [{"id": 1, "path": ["address", "city"]}, …]}

``log-entry`` has the size and the CRC-32 of the version's log entry, if that was left: a table that is restored from a
backup may get other versions of the same numbers.

An entry of more than 256 columns has format version 2 and ``"columns": [[1, "address", "city"], …]``, which is shorter.

Paths have physical names. The name of a statistics file has no directory, so a table can be moved. Readers ignore
unknown fields; a field that they must not ignore needs a new format version.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from puffin.delta.statistics.files import is_statistics_name
from puffin.errors import CorruptMetadataError, UnsupportedTableError, said_by
from puffin.tables.base import StatisticsEntry
from puffin.tables.json_limits import read_json
from puffin.tables.statistics_json import entry_from_json, entry_to_json, typed

FORMAT_VERSION, SHORT_COLUMNS = 1, 2
_MANY = 256  # columns, above which an entry is short


@dataclasses.dataclass(frozen=True, slots=True)
class StatisticsDocument:
    """
    An entry file: the table's id, the entry, and the physical path of each field id that its blobs use.

    ``log_entry`` is the checksum of the version's log entry, None if it is not known.
    """

    table_id: str
    entry: StatisticsEntry
    columns: Mapping[int, tuple[str, ...]]
    log_entry: str | None = None


def encode_entry(document: StatisticsDocument, generation: int) -> bytes:
    is_short = len(document.columns) > _MANY
    return _encode(
        {
            "table-id": document.table_id,
            "version": document.entry.snapshot_id,
            "generation": generation,
            **({} if document.log_entry is None else {"log-entry": document.log_entry}),
            "statistics": entry_to_json(document.entry),
            "columns": (_short_columns if is_short else _columns_to_json)(document.columns),
        },
        SHORT_COLUMNS if is_short else FORMAT_VERSION,
    )


def decode_entry(data: bytes, where: str, version: int, generation: int) -> StatisticsDocument:
    """Parse the entry file of a version; UnsupportedTableError if its format is newer. Errors name ``where``."""
    document = _decode(data, where, SHORT_COLUMNS)
    try:
        entry = entry_from_json(typed(document, "statistics", dict))
        found = document.get("version"), document.get("generation"), entry.snapshot_id
        if found != (version, generation, version):
            raise ValueError(f"expected version, generation and snapshot id {(version, generation, version)}: {found}")
        if not is_statistics_name(entry.statistics_path, version):
            raise ValueError(f"expected the name of a statistics file of version {version}: {entry.statistics_path}")
        log_entry = typed(document, "log-entry", str) if "log-entry" in document else None
        return StatisticsDocument(typed(document, "table-id", str), entry, _columns_from_json(document), log_entry)
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        raise CorruptMetadataError(f"{where}: not a statistics entry: {said_by(exc)}") from exc


def encode_field_ids(ids: Mapping[tuple[str, ...], int]) -> bytes:
    return _encode({"columns": _columns_to_json({field_id: path for path, field_id in ids.items()})})


def decode_field_ids(data: bytes, where: str) -> dict[tuple[str, ...], int]:
    """Parse a file of field ids; raises what `decode_entry` raises."""
    document = _decode(data, where, FORMAT_VERSION)
    try:
        return {path: field_id for field_id, path in _columns_from_json(document).items()}
    except (TypeError, AttributeError, ValueError) as exc:
        raise CorruptMetadataError(f"{where}: not a list of field ids: {said_by(exc)}") from exc


def _encode(document: Mapping[str, Any], format_version: int = FORMAT_VERSION) -> bytes:
    # ASCII, since a column's name may contain half of a surrogate pair, which UTF-8 cannot encode.
    return json.dumps({"format-version": format_version, **document}, separators=(",", ":")).encode()


def _decode(data: bytes, where: str, newest: int) -> Mapping[str, Any]:
    try:
        document = read_json(data)
    except (ValueError, RecursionError) as exc:
        raise CorruptMetadataError(f"{where}: expected a JSON object: {exc}") from exc
    if not isinstance(document, dict):
        raise CorruptMetadataError(f"{where}: expected a JSON object, found {type(document).__name__}")
    found = document.get("format-version")
    if type(found) is not int or found < FORMAT_VERSION:
        raise CorruptMetadataError(f"{where}: expected format-version {FORMAT_VERSION} or later, found {found!r}")
    if found > newest:
        raise UnsupportedTableError(f"{where}: expected format-version {newest} at most, found {found}")
    return document


def _columns_to_json(columns: Mapping[int, tuple[str, ...]]) -> list[dict[str, Any]]:
    return [{"id": field_id, "path": list(path)} for field_id, path in sorted(columns.items())]


def _short_columns(columns: Mapping[int, tuple[str, ...]]) -> list[tuple[int | str, ...]]:
    return [(field_id, *path) for field_id, path in sorted(columns.items())]


def _columns_from_json(document: Mapping[str, Any]) -> dict[int, tuple[str, ...]]:
    both = (
        {"id": column[0], "path": column[1:]} if isinstance(column, list) and len(column) > 1 else column
        for column in typed(document, "columns", list)
    )
    listed = [(typed(column, "id", int), _path(column)) for column in both]
    columns = dict(listed)
    if not len(columns) == len(set(columns.values())) == len(listed):
        raise ValueError("columns: expected each id and each path once")
    return columns


def _path(column: Mapping[str, Any]) -> tuple[str, ...]:
    names = typed(column, "path", list)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"path: expected names, found {names}")
    return tuple(names)
