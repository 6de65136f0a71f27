"""
The files of the statistics directory of a Delta table: their names, and what a listing of them tells.

::

    12-5f0c….stats        a Puffin file with statistics of version 12
    12-0.json             the entry that names it, until ...
    12-1.json             ... the next generation came: of a version the newest one counts
    field-ids-0.json      the ids of columns that the table itself gives none; the newest generation counts

Log cleanup deletes, in directories below the log too, what ends like a log entry: in twenty digits and ``.json``. So no
number is padded, and none is as long.
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
        """What the files of the directory are; others are passed over."""
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
        """The generation to put an entry of this version as."""
        return _next(self.entries.get(version, {}))

    def next_field_ids_generation(self) -> int:
        """The generation to put field ids as."""
        return _next(self.field_ids)

    def superseded_before(self, moment: datetime.datetime) -> dict[int, list[int]]:
        """The generations, by version, whose next one had come by then; none where the store tells no times."""
        superseded = {version: superseded_before(files, moment) for version, files in self.entries.items()}
        return {version: generations for version, generations in superseded.items() if generations}


def superseded_before(by_generation: Mapping[int, FileInfo], moment: datetime.datetime) -> list[int]:
    """The generations, of files by generation with the newest first, whose next one had come by then."""
    superseded = []
    for following, generation in itertools.pairwise(by_generation):
        came = by_generation[following].mtime
        if came is not None and came < moment:
            superseded.append(generation)
    return superseded


def entry_name(version: int, generation: int) -> str:
    """The name of an entry file."""
    return f"{version}-{generation}.json"


def field_ids_name(generation: int) -> str:
    """The name of a file of field ids."""
    return f"field-ids-{generation}.json"


def new_statistics_name(version: int) -> str:
    """A name for a statistics file that nobody else uses."""
    return f"{version}-{uuid.uuid4()}.stats"


def is_statistics_name(name: str, version: int) -> bool:
    """Whether this is the name of a statistics file of a version, and not a path that leads elsewhere."""
    match = _STATISTICS.fullmatch(name)
    return match is not None and int(match[1]) == version


def _newest_first(by_generation: Mapping[int, FileInfo]) -> dict[int, FileInfo]:
    return dict(sorted(by_generation.items(), reverse=True))


def _next(by_generation: Mapping[int, FileInfo]) -> int:
    return max(by_generation, default=-1) + 1
