"""
Reads the properties of blobs that only the footers of their files have.

A footer is read when somebody first asks for a property of one of its blobs, and is kept with the entry as long as that
version of the table's metadata. A failure is kept only for those who share `Footers`, so that others try again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from puffin.errors import CorruptError, PuffinError
from puffin.format import THETA_V1
from puffin.statistics.private_state.puffin_file import PuffinFile
from puffin.tables.base import BlobEntry, StatisticsEntry

if TYPE_CHECKING:
    from puffin.tables.snapshot import TableSnapshot

_log = logging.getLogger(__name__)


class Footers:
    """The footers of a table's statistics files, of which each is read once, also if that fails."""

    def __init__(self, opened: TableSnapshot) -> None:
        self._opened = opened
        self._failures: dict[str, PuffinError | None] = {}

    def find(self, entry: StatisticsEntry, blob: BlobEntry) -> Mapping[str, str] | PuffinError:
        """
        The properties of a sketch in the footer of its entry's file.

        If the footer cannot be read or lacks the blob, the error for it; FileNotFound if the file is gone.
        """
        path, key = entry.statistics_path, (blob.field_id, blob.snapshot_id)
        if key not in entry.in_footer and path not in self._failures:
            self._failures[path] = self._read(entry)
        if key in entry.in_footer:
            return entry.in_footer[key]
        missing = CorruptError(f"{path}: expected a sketch of field {key[0]} and snapshot {key[1]}, found none")
        return self._failures[path] or missing

    def _read(self, entry: StatisticsEntry) -> PuffinError | None:
        """Read the footer of an entry's file into the entry; return why that failed."""
        try:
            with PuffinFile.of(entry).open(self._opened) as reader:
                blobs = reader.file_metadata.blobs
        except PuffinError as exc:
            _log.warning("columns are known without bounds and counts: %s", exc)
            return exc
        sketches = (blob for blob in blobs if blob.type == THETA_V1 and len(blob.fields) == 1)
        entry.in_footer.update({(blob.fields[0], blob.snapshot_id): blob.properties for blob in sketches})
        return None
