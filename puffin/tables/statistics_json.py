"""
A statistics entry as JSON, in the form of Iceberg's table metadata (spec, "Table Statistics").

Iceberg's metadata, a REST catalog's updates, and the entry files of Delta tables all use this form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from puffin.errors import UnsupportedTableError
from puffin.tables.base import BlobEntry, StatisticsEntry

_BEYOND = 2**63
_UUID = re.compile(r"[0-9a-f-]{36}")
_SHOWN = 40  # characters of what is wrong


def entry_to_json(entry: StatisticsEntry) -> dict[str, Any]:
    return {
        "snapshot-id": entry.snapshot_id,
        "statistics-path": entry.statistics_path,
        "file-size-in-bytes": entry.file_size_in_bytes,
        "file-footer-size-in-bytes": entry.file_footer_size_in_bytes,
        "blob-metadata": [
            {
                "type": blob.type,
                "snapshot-id": blob.snapshot_id,
                "sequence-number": blob.sequence_number,
                "fields": list(blob.fields),
                "properties": dict(blob.properties),
            }
            for blob in entry.blobs
        ],
    }


def entry_from_json(document: Mapping[str, Any]) -> StatisticsEntry:
    """
    Parse a statistics entry and ignore unknown fields.

    Raises KeyError, TypeError, AttributeError or ValueError; the caller knows which file to name.
    """
    return StatisticsEntry(
        snapshot_id=typed(document, "snapshot-id", int),
        statistics_path=typed(document, "statistics-path", str),
        file_size_in_bytes=typed(document, "file-size-in-bytes", int),
        file_footer_size_in_bytes=typed(document, "file-footer-size-in-bytes", int),
        blobs=tuple(
            BlobEntry(
                type=typed(blob, "type", str),
                snapshot_id=typed(blob, "snapshot-id", int),
                sequence_number=typed(blob, "sequence-number", int),
                fields=tuple(integer("fields", field_id) for field_id in typed(blob, "fields", list)),
                properties=strings(blob, "properties"),
            )
            for blob in document["blob-metadata"]
        ),
    )


def strings(document: Mapping[str, Any], key: str) -> Mapping[str, str]:
    """A field that holds an object of strings, empty if it is absent or null; TypeError if it is anything else."""
    values: dict[str, Any] = document.get(key) or {}
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"{key}: expected a string for {name}, found {type(value).__name__}")
    return values


def typed(document: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    """A required field of this type; TypeError if it is missing or of another type."""
    value = document.get(key)
    if kind is int:
        return integer(key, value)
    if not isinstance(value, kind):
        raise TypeError(f"{key}: expected {kind.__name__}, found {type(value).__name__}")
    return value


def check_format_version(document: Mapping[str, Any], newest: int, where: str) -> None:
    """UnsupportedTableError if the document is of a later version; ``where`` names its file in the message."""
    found = typed(document, "format-version", int)
    if found > newest:
        raise UnsupportedTableError(f"{where}: expected format-version {newest}, found {found}")


def text_or_null(document: Mapping[str, Any], key: str) -> str | None:
    """A required field that holds a text or null; KeyError if it is missing, TypeError if it is anything else."""
    return None if document[key] is None else typed(document, key, str)


def own_id(document: Mapping[str, Any]) -> str:
    """The ``id`` of a document, which names a file; TypeError or ValueError if it is no uuid."""
    found: str = typed(document, "id", str)
    if not _UUID.fullmatch(found):
        raise ValueError(f"id: expected a uuid, found {found!r}")
    return found


def integer(key: str, value: Any) -> int:
    """A field's value, which must be a whole number of 64 bits as in the specs; TypeError if it is not."""
    if type(value) is not int or not -_BEYOND <= value < _BEYOND:
        raise TypeError(f"{key}: expected a whole number of 64 bits, found {repr(value)[:_SHOWN]}")
    return value
