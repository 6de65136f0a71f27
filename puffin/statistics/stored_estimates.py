"""The answers for the columns of a snapshot, from metadata and, where that lacks an ``ndv``, from the sketches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from puffin.errors import CorruptError, PuffinError, UnsupportedError
from puffin.format import THETA_V1
from puffin.sketches import ThetaSketch
from puffin.statistics.answer import ColumnAnswer
from puffin.statistics.blob_properties import Distinct, from_properties, is_ours
from puffin.statistics.resolve import resolve
from puffin.statistics.stored_blobs import read_blobs
from puffin.tables.base import BlobEntry, Column, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot


def answer_columns(opened: TableSnapshot, columns: Sequence[Column]) -> tuple[ColumnAnswer, ...]:
    """The answer for each column, in the order asked."""
    return resolve(opened, columns, _StoredSketches(opened, columns))


class _StoredSketches:
    """
    What sketches say whose metadata does not: of a statistics file, all that the columns need are read at once.

    Our own blobs always have an ``ndv``, so these are other engines'. A file that is gone or broken leaves the
    question open for an older entry.
    """

    def __init__(self, opened: TableSnapshot, columns: Sequence[Column]) -> None:
        self._store_for = opened.store_for
        self._fields = {(column.field_id,) for column in columns}
        self._known: dict[str, Mapping[tuple[int, ...], Distinct | PuffinError]] = {}

    def __call__(self, entry: StatisticsEntry, blob: BlobEntry) -> Distinct | PuffinError:
        path = entry.statistics_path
        if path not in self._known:
            self._known[path] = self._read(entry)
        found = self._known[path].get(blob.fields, CorruptError("expected a sketch of the column, found none"))
        is_of_bytes = isinstance(found, CorruptError | UnsupportedError)  # which do not know what they are called
        return CorruptError(f"{path}: {found}") if is_of_bytes else found

    def _read(self, entry: StatisticsEntry) -> dict[tuple[int, ...], Distinct | PuffinError]:
        asked = {blob.fields for blob in entry.blobs if blob.fields in self._fields and _has_to_be_read(blob)}
        try:
            blobs = read_blobs(self._store_for, entry, lambda b: b.type == THETA_V1 and b.fields in asked)
        except PuffinError as exc:
            return dict.fromkeys(asked, exc)
        return {blob.fields: _read(payload) for blob, payload in blobs}


def _has_to_be_read(blob: BlobEntry) -> bool:
    return not is_ours(blob.properties) or from_properties(blob.properties) is None


def _read(payload: bytes | PuffinError) -> Distinct | PuffinError:
    try:
        return payload if isinstance(payload, PuffinError) else Distinct.foreign(ThetaSketch.from_bytes(payload))
    except PuffinError as exc:
        return exc
