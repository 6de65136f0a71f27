"""
The manifest of a statistics file: its private blobs, and the parts that hold them.

::

    {"format-version": 1, "table-uuid": "f8e1…", "statistics-file": "12-5f0c….stats", "file-size-in-bytes": 8123,
     "parts": [{"id": "9b1d…", "file-size-in-bytes": 4096, "file-footer-size-in-bytes": 300,
                "blobs": [{"type": "puffin-sidecar-row-counts-v1", "snapshot-id": 12, "stored-snapshot-id": 9,
                           "fields": [1, 2]}]}],
     "omitted": [{"type": "puffin-sidecar-row-counts-v1", "snapshot-id": 12, "fields": [3]}]}

A part is a Puffin file with one of our blobs for each type, field and snapshot; it may also hold blobs that were
replaced since. ``snapshot-id`` is that of the sketches in the statistics file, ``stored-snapshot-id`` that in the part:
an older one if the rows are the same. ``omitted`` lists blobs that nobody wanted. Row counts in neither list are lost.
The manifest names its statistics file and that file's size, so that a copied or renamed one is not used for another.
In a home that the owner chose it also has ``"statistics-directory"``, where that file is: a copy of a table has the
same uuid, and so the same folder there.

A private blob may have deltas: blobs of the same type and field in other parts, of rows that came later (see
`puffin.statistics.deltas`). They are listed as it is, with ``"delta": 1`` and so on. Such a manifest has format version
2, since who does not know deltas must not take the first blob for all rows.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from puffin.errors import CorruptMetadataError, said_by
from puffin.tables.base import StatisticsEntry
from puffin.tables.json_limits import read_json
from puffin.tables.state import TableState
from puffin.tables.statistics_json import check_format_version, integer, own_id, text_or_null, typed

FORMAT_VERSION = 2
_WITHOUT_DELTAS = 1


class BlobKey(NamedTuple):
    """Identifies a private blob in its table, by the snapshot of its sketch or by the one it is stored under."""

    type: str
    field_id: int
    snapshot_id: int


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """An immutable file of private blobs; ``id`` is a uuid, sizes are in bytes and include the whole footer."""

    id: str
    file_size: int
    footer_size: int


@dataclasses.dataclass(frozen=True, slots=True)
class StoredKey:
    """The part that has a private blob, and the snapshot id it is stored under; and where its deltas are, in order."""

    part: Part
    snapshot_id: int
    deltas: tuple[StoredKey, ...] = ()

    @property
    def layers(self) -> tuple[StoredKey, ...]:
        """Itself and its deltas, each for itself."""
        return (StoredKey(self.part, self.snapshot_id), *self.deltas) if self.deltas else (self,)


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """
    The private state of one statistics file; ``omitted`` blobs are those that nobody wanted.

    ``statistics_file`` is its name without a directory, ``file_size`` is in bytes. Tables of version 1 may have no
    uuid. ``statistics_directory`` is None in the table's own folder, and was not noted by version 0.1.0.
    """

    table_uuid: str | None
    statistics_file: str
    file_size: int
    blobs: Mapping[BlobKey, StoredKey]
    omitted: frozenset[BlobKey] = frozenset()
    statistics_directory: str | None = None

    @property
    def parts(self) -> frozenset[Part]:
        return frozenset(layer.part for stored in self.blobs.values() for layer in stored.layers)

    def objection(self, state: TableState, entry: StatisticsEntry) -> str | None:
        """Why this is not the manifest of an entry's statistics file, or None."""
        if self.table_uuid not in (None, state.uuid):  # a table of version 1 gets its uuid with an upgrade
            return f"expected the manifest of table {state.uuid}, found that of {self.table_uuid}"
        expected = entry.file_name, entry.file_size_in_bytes
        found = self.statistics_file, self.file_size
        return None if found == expected else f"expected the manifest of file and size {expected}, found {found}"


def encode(manifest: Manifest) -> bytes:
    groups: dict[Part, dict[_Group, list[int]]] = {}
    for key, stored in manifest.blobs.items():
        for delta, layer in enumerate(stored.layers):
            group = _Group(key.type, key.snapshot_id, layer.snapshot_id, delta)
            groups.setdefault(layer.part, {}).setdefault(group, []).append(key.field_id)
    omitted: dict[tuple[str, int], list[int]] = {}
    for key in sorted(manifest.omitted):
        omitted.setdefault((key.type, key.snapshot_id), []).append(key.field_id)
    document = {
        "format-version": FORMAT_VERSION if any(b.deltas for b in manifest.blobs.values()) else _WITHOUT_DELTAS,
        "table-uuid": manifest.table_uuid,
        "statistics-file": manifest.statistics_file,
        "file-size-in-bytes": manifest.file_size,
        "parts": [_part_to_json(part, of_part) for part, of_part in groups.items()],
        "omitted": [{"type": type_, "snapshot-id": of, "fields": fields} for (type_, of), fields in omitted.items()],
    }
    if manifest.statistics_directory is not None:
        document["statistics-directory"] = manifest.statistics_directory
    return json.dumps(document, separators=(",", ":")).encode()


def decode(data: bytes, where: str) -> Manifest:
    """
    Parse a manifest; ``where`` names its file in messages.

    Raises UnsupportedTableError if its format version is newer than 2, and CorruptMetadataError if it is not a
    manifest.
    """
    try:
        document = read_json(data)
        check_format_version(document, FORMAT_VERSION, where)
        return Manifest(
            text_or_null(document, "table-uuid"),
            typed(document, "statistics-file", str),
            typed(document, "file-size-in-bytes", int),
            _with_deltas(found for part in typed(document, "parts", list) for found in _blobs(part)),
            frozenset(key for group in typed(document, "omitted", list) for key in _keys(group)),
            text_or_null({"statistics-directory": None, **document}, "statistics-directory"),
        )
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as exc:
        raise CorruptMetadataError(f"{where}: not a manifest of private state: {said_by(exc)}") from exc


class _Group(NamedTuple):
    """What blobs of one part have in common; ``delta`` is 0 for those that are none."""

    type: str
    snapshot_id: int
    stored: int
    delta: int


def _part_to_json(part: Part, groups: Mapping[_Group, list[int]]) -> dict[str, Any]:
    return {
        "id": part.id,
        "file-size-in-bytes": part.file_size,
        "file-footer-size-in-bytes": part.footer_size,
        "blobs": [
            {
                "type": group.type,
                "snapshot-id": group.snapshot_id,
                "stored-snapshot-id": group.stored,
                **({"delta": group.delta} if group.delta else {}),
                "fields": fields,
            }
            for group, fields in groups.items()
        ],
    }


def _with_deltas(found: Iterable[tuple[BlobKey, int, StoredKey]]) -> dict[BlobKey, StoredKey]:
    blobs: dict[BlobKey, StoredKey] = {}
    deltas: dict[BlobKey, dict[int, StoredKey]] = {}
    for key, delta, stored in found:
        if delta == 0:
            blobs[key] = stored
        else:
            deltas.setdefault(key, {})[delta] = stored
    for key, of_key in deltas.items():
        if sorted(of_key) != list(range(1, len(of_key) + 1)):
            raise ValueError(f"delta: expected 1 to {len(of_key)}, found {sorted(of_key)}")
        base = blobs[key]
        blobs[key] = StoredKey(base.part, base.snapshot_id, tuple(of_key[place] for place in sorted(of_key)))
    return blobs


def _blobs(document: Mapping[str, Any]) -> Iterator[tuple[BlobKey, int, StoredKey]]:
    sizes = typed(document, "file-size-in-bytes", int), typed(document, "file-footer-size-in-bytes", int)
    part = Part(own_id(document), *sizes)
    for group in typed(document, "blobs", list):
        stored_key = StoredKey(part, typed(group, "stored-snapshot-id", int))
        delta = integer("delta", group.get("delta", 0))
        yield from ((key, delta, stored_key) for key in _keys(group))


def _keys(group: Mapping[str, Any]) -> Iterator[BlobKey]:
    type_, of = typed(group, "type", str), typed(group, "snapshot-id", int)
    return (BlobKey(type_, integer("fields", field_id), of) for field_id in typed(group, "fields", list))
