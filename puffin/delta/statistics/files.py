"""
The file names of a Delta table's statistics directory, and what a listing of it says.

::

    12-5f0c….stats        a Puffin file with statistics of version 12
    12-0.json             the entry that names it, until ...
    12-1.json             ... the next generation replaces it: a version's newest entry counts
    field-ids-0.json      assigned ids of columns; the newest generation counts

Log cleanup also deletes files in directories below the log, if their names end in twenty digits and ``.json``. So these
numbers are not padded and never that long.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import re
import uuid
from collections.abc import Iterable, Mapping

from puffin.storage import FileInfo

_VERSION, _GENERATION = "(0|[1-9][0-9]{0,18})", "(0|[1-9][0-9]{0,8})"
_STATISTICS = re.compile(rf"{_VERSION}-[^/]+\.stats")
_ENTRY = re.compile(rf"{_VERSION}-{_GENERATION}\.json")
_FIELD_IDS = re.compile(rf"field-ids-{_GENERATION}\.json")


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """The files at one moment: entries by version and generation, field ids by generation, newest first; statistics."""

    entries: Mapping[int, Mapping[int, FileInfo]]
    field_ids: Mapping[int, FileInfo]
    statistics: Mapping[str, FileInfo]

    @classmethod
    def of(cls, files: Iterable[FileInfo]) -> Listing:
        """Sort the directory's files into a listing; ignores others."""
        entries: dict[int, dict[int, FileInfo]] = {}
        field_ids: dict[int, FileInfo] = {}
        statistics: dict[str, FileInfo] = {}
        for file in files:
            if entry := _ENTRY.fullmatch(file.name):
                entries.setdefault(int(entry[1]), {})[int(entry[2])] = file
            elif ids := _FIELD_IDS.fullmatch(file.name):
                field_ids[int(ids[1])] = file
            elif _STATISTICS.fullmatch(file.name):
                statistics[file.name] = file
        return cls(
            {version: _newest_first(entries[version]) for version in sorted(entries, reverse=True)},
            _newest_first(field_ids),
            statistics,
        )

    def next_generation(self, version: int) -> int:
        """The generation of this version's next entry."""
        return _next(self.entries.get(version, {}))

    def next_field_ids_generation(self) -> int:
        return _next(self.field_ids)


def superseded_before(by_generation: Mapping[int, FileInfo], moment: datetime.datetime) -> list[int]:
    """The generations (newest first) whose successor came before a moment; none where the store gives no times."""
    superseded = []
    for following, generation in itertools.pairwise(by_generation):
        came = by_generation[following].mtime
        if came is not None and came < moment:
            superseded.append(generation)
    return superseded


def entry_name(version: int, generation: int) -> str:
    return f"{version}-{generation}.json"


def field_ids_name(generation: int) -> str:
    return f"field-ids-{generation}.json"


def new_statistics_name(version: int) -> str:
    """A unique name for a statistics file."""
    return f"{version}-{uuid.uuid4()}.stats"


def is_statistics_name(name: str, version: int) -> bool:
    """Whether this names a statistics file of the version, rather than a path that leads elsewhere."""
    match = _STATISTICS.fullmatch(name)
    return match is not None and int(match[1]) == version


def _newest_first(by_generation: Mapping[int, FileInfo]) -> dict[int, FileInfo]:
    return dict(sorted(by_generation.items(), reverse=True))


def _next(by_generation: Mapping[int, FileInfo]) -> int:
    return max(by_generation, default=-1) + 1
