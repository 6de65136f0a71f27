"""Opens statistics files and the parts of their private state; the errors of their readers name the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from puffin.errors import CorruptError, UnsupportedError
from puffin.statistics.private_state.places import part_uri

if TYPE_CHECKING:
    from puffin.format import PuffinReader
    from puffin.statistics.private_state.manifest import Part
    from puffin.tables.base import StatisticsEntry
    from puffin.tables.snapshot import TableSnapshot


class PuffinFile(NamedTuple):
    """A Puffin file with the sizes in bytes that its table's metadata or a manifest gives."""

    path: str
    size: int
    footer_size: int

    @classmethod
    def of(cls, entry: StatisticsEntry) -> PuffinFile:
        return cls(entry.statistics_path, entry.file_size_in_bytes, entry.file_footer_size_in_bytes)

    @classmethod
    def of_part(cls, directory: str, part: Part) -> PuffinFile:
        """A part in this folder of private state."""
        return cls(part_uri(directory, part.id), part.file_size, part.footer_size)

    @contextlib.contextmanager
    def open(self, opened: TableSnapshot, *, small: int = -1) -> Iterator[PuffinReader]:
        """
        A reader of the file; one of at most ``small`` bytes is read whole.

        If the file breaks a rule, also while the reader is used, CorruptError says where.
        """
        from puffin.format import PuffinReader  # most lookups open no file

        with opened.store_for(self.path).open_source(self.path) as source:
            readable = source.read_at(0, self.size) if 0 <= self.size <= small else source
            try:
                yield PuffinReader(readable, file_size=self.size, footer_size=self.footer_size)
            except (CorruptError, UnsupportedError) as exc:
                raise CorruptError(f"{self.path}: {exc}") from exc
