"""
Reads Iceberg table metadata (appendix C), versions 1 to 3, as a `TableState`, while writers may replace its file.

The state keeps the whole document, which commits patch, so unknown fields survive. Only what statistics need is parsed,
so errors elsewhere go unnoticed.
"""

from __future__ import annotations

import io
import json
import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from puffin.errors import CorruptMetadataError, FileNotFound, UnsupportedTableError, line_about, said_by
from puffin.iceberg.metadata.snapshot_records import (
    added_records,
    deleted_records,
    most_deleted_records,
    most_records,
    summary_of,
    total_records,
)
from puffin.storage import Store
from puffin.tables import json_limits
from puffin.tables.base import PartitionStatisticsEntry, Snapshot, StatisticsEntry, natural_number
from puffin.tables.document import current_schema
from puffin.tables.schema import field_ids, primitive_columns
from puffin.tables.state import TableState
from puffin.tables.statistics_json import entry_from_json, strings, typed

NEWEST_FORMAT_VERSION = 3
MAX_GZIP_RATIO = 200
"""The highest compression ratio of documents past 16 MiB. Tables reach 3 to 20; gzip can reach 1000."""

_FREE_OF_RATIO = 16 * 1024 * 1024
_STEP = 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"

_Place = TypeVar("_Place")


def decode_document(data: bytes, location: str) -> dict[str, Any]:
    """
    The JSON object in a metadata file, plain or gzip.

    Raises CorruptMetadataError if it is not a JSON object, has a number too large for a double, exceeds the limits on
    bytes or values, or if the gzip stream is broken.
    """
    try:
        text = document_text(data)
        document = json_limits.read_json(text, parse_float=_finite, parse_constant=_no_number)
    except (ValueError, RecursionError, EOFError, OSError, zlib.error) as exc:
        is_other = isinstance(exc, UnicodeDecodeError) or not data
        found = f", found {'bytes that are no text' if data else 'an empty file'}" if is_other else f": {exc}"
        raise CorruptMetadataError(f"{location}: expected Iceberg table metadata in JSON{found}") from exc
    if not isinstance(document, dict):
        raise CorruptMetadataError(f"{location}: expected a JSON object, found {type(document).__name__}")
    return document


def document_text(data: bytes) -> bytes:
    """The JSON in a metadata file, plain or gzip; ValueError, EOFError, OSError or zlib.error if it is broken."""
    return _inflated(data) if data.startswith(_GZIP_MAGIC) else data  # names are less reliable


def encode_document(document: Mapping[str, Any], *, compress: bool) -> bytes:
    # ASCII, since a JSON string may contain half of a surrogate pair, which UTF-8 cannot encode.
    data = json.dumps(document, separators=(",", ":")).encode()
    if not compress:
        return data
    import gzip

    return gzip.compress(data, mtime=0)


def parse_state(document: Mapping[str, Any], metadata_location: str) -> TableState:
    """What statistics need from a metadata document."""
    if "view-uuid" in document:
        raise UnsupportedTableError(f"{metadata_location}: expected a table, found a view")
    version = document.get("format-version")
    known = f"{metadata_location}: expected format-version 1 to {NEWEST_FORMAT_VERSION}, found {version!r}"
    if type(version) is not int or version < 1:
        raise CorruptMetadataError(known)
    if version > NEWEST_FORMAT_VERSION:
        raise UnsupportedTableError(known)
    try:
        current = _optional(document, "current-snapshot-id", int)
        schema = current_schema(document)
        return TableState(
            format="iceberg",
            uuid=_optional(document, "table-uuid", str),
            metadata_location=metadata_location,
            document=document,
            location=typed(document, "location", str).rstrip("/"),
            properties=strings(document, "properties"),
            columns=primitive_columns(schema),
            field_ids=field_ids(schema),
            snapshots={s.snapshot_id: s for s in map(_snapshot, document.get("snapshots") or ())},
            current_snapshot_id=None if current == -1 else current,
            refs=_refs(document, current),
            history=tuple(
                (typed(e, "timestamp-ms", int), typed(e, "snapshot-id", int))
                for e in document.get("snapshot-log") or ()
            ),
            statistics=_statistics(document),
            partition_statistics={
                typed(entry, "snapshot-id", int): _optional(entry, "statistics-path", str)
                for entry in reversed(document.get("partition-statistics") or ())  # the first of a snapshot counts
            },
        )
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        raise CorruptMetadataError(f"{metadata_location}: not Iceberg table metadata: {said_by(exc)}") from exc
    except CorruptMetadataError as exc:
        raise CorruptMetadataError(line_about(metadata_location, exc)) from exc


def read_state(location: str, store: Store) -> TableState:
    """The table as a metadata file describes it."""
    return parse_state(decode_document(store.read(location), location), location)


def read_current_state(locate: Callable[[], _Place], read: Callable[[_Place], TableState]) -> TableState:
    """Read the current metadata file; locate it again if a writer has deleted it meanwhile."""
    location = locate()
    while True:
        try:
            return read(location)
        except FileNotFound:
            missing, location = location, locate()
            if location == missing:
                raise


def partition_entry_to_json(entry: PartitionStatisticsEntry) -> dict[str, Any]:
    """A partition statistics entry in the form of table metadata (spec, "Partition Statistics")."""
    return {
        "snapshot-id": entry.snapshot_id,
        "statistics-path": entry.statistics_path,
        "file-size-in-bytes": entry.file_size_in_bytes,
    }


def _finite(text: str) -> float:
    # Infinity is not JSON: readers of the next version would fail on it.
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"expected numbers that a double holds, found {text[:40]}")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"expected JSON, which has no {text}")


def _inflated(data: bytes) -> bytes:
    import gzip

    content = bytearray()
    limit = min(json_limits.MAX_DOCUMENT_BYTES, max(_FREE_OF_RATIO, MAX_GZIP_RATIO * len(data)))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        while more := file.read(_STEP):  # in steps, since read() allocates the size it is given
            content += more
            if len(content) > limit:
                raise ValueError(f"more than {limit} bytes in {len(data)} of gzip")
    return bytes(content)


def _snapshot(snapshot: Mapping[str, Any]) -> Snapshot:
    summary = summary_of(snapshot)
    return Snapshot(
        snapshot_id=typed(snapshot, "snapshot-id", int),
        parent_id=_optional(snapshot, "parent-snapshot-id", int),
        sequence_number=_optional(snapshot, "sequence-number", int) or 0,
        timestamp_ms=typed(snapshot, "timestamp-ms", int),
        operation=_optional(summary, "operation", str),
        manifest_list=_optional(snapshot, "manifest-list", str),
        manifests=_manifests(snapshot),
        schema_id=_optional(snapshot, "schema-id", int),
        added_records=added_records(summary),
        deleted_records=deleted_records(summary),
        most_deleted_records=most_deleted_records(summary),
        total_records=total_records(summary),
        most_records=most_records(summary),
        total_files=natural_number(summary.get("total-data-files")),
        total_bytes=natural_number(summary.get("total-files-size")),
        is_trino_insert=summary.get("operation") == "append" and "trino_query_id" in summary,
    )


def _manifests(snapshot: Mapping[str, Any]) -> tuple[str, ...] | None:
    paths = _optional(snapshot, "manifests", list)
    if paths is not None and not all(isinstance(path, str) for path in paths):
        raise TypeError(f"manifests: expected paths, found {paths!r}")
    return None if paths is None else tuple(paths)


def _refs(document: Mapping[str, Any], current: int | None) -> dict[str, int]:
    refs = {name: typed(ref, "snapshot-id", int) for name, ref in (document.get("refs") or {}).items()}
    if current is not None and current != -1:
        refs.setdefault("main", current)
    return refs


def _statistics(document: Mapping[str, Any]) -> dict[int, StatisticsEntry]:
    # The first of several entries for one snapshot counts, as in Iceberg's Spark reader.
    entries: dict[int, StatisticsEntry] = {}
    for entry in document.get("statistics") or ():
        parsed = entry_from_json(entry)
        entries.setdefault(parsed.snapshot_id, parsed)
    return entries


def _optional(document: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    return None if document.get(key) is None else typed(document, key, kind)
