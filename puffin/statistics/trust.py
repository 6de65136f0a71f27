"""
Decides which sketches can be combined with ours: those whose values we know to be hashed alike.

Our own note it. For other engines' the file's ``created-by`` tells, and a sketch that is carried to another file notes
its writer. But engines copy each other's blobs: another engine's sketch must contain values that the table certainly
has. That check reads the manifest list and at most two manifests.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import pyarrow as pa

from puffin.errors import GONE_OR_BROKEN
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.ancestry import KnownSketch
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.statistics.whose_hashes import contradiction, writer_objection
from puffin.tables.base import Column, Snapshot
from puffin.tables.snapshot import TableSnapshot
from puffin.values.value_type import hashes_alike

_log = logging.getLogger(__name__)


class Trust:
    """Judges the stored sketches of these columns."""

    def __init__(self, opened: TableSnapshot, stored: StoredBlobs, columns: Sequence[Column]) -> None:
        self._opened = opened
        self._stored = stored
        self._columns = columns
        self._values: dict[int, Mapping[int, pa.Array]] = {}

    def objection(self, known: KnownSketch, sketch: ThetaSketch) -> str | None:
        """
        Why a sketch cannot be built on, combined or compared, or None.

        Raises PuffinError if the footer of the entry's file cannot be read, and StorageError if the storage failed.
        """
        properties, hashed = known.properties, known.type
        if hashed is None:
            return "the statistics do not say of which type it was when they were made"
        if properties.is_ours:
            return noted_objection(known)
        if objection := writer_objection(properties.writer(self._stored.created_by(known.entry)), hashed):
            return _about_sketch(objection)
        if known.may_lack_changes:
            return "Trino extended its sketch, in which changes of rows before that may be missing"
        if known.snapshot is None or not hashes_alike(hashed, known.column.type):
            return None
        values = self._certain_values(known.snapshot).get(known.column.field_id)
        return None if values is None else _about_sketch(contradiction(sketch, hashed, values))

    def _certain_values(self, snapshot: Snapshot) -> Mapping[int, pa.Array]:
        if snapshot.snapshot_id not in self._values:
            try:
                found = self._opened.certain_values(snapshot, self._columns)
            except GONE_OR_BROKEN as exc:  # after another error the check may succeed next time
                _log.warning("sketches are not checked against the table's values: %s", exc)
                found = {}
            self._values[snapshot.snapshot_id] = found
        return self._values[snapshot.snapshot_id]


def noted_objection(known: KnownSketch) -> str | None:
    """Why a sketch of ours cannot be built on, or None, from metadata alone."""
    writer, hashed = known.properties.provenance.writer, known.type
    return None if writer is None or hashed is None else _about_sketch(writer_objection(writer, hashed))


def _about_sketch(objection: str | None) -> str | None:
    return None if objection is None else f"its sketch {objection}"
