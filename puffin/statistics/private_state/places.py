"""
The home of a table's private state, and the names in it.

::

    <table location>/_puffin_sidecar/                   the home, unless the owner chooses another one
        12-5f0c….stats                                  the manifest of the statistics file of this name
        parts/9b1d…/version-hint.text                   a part, which any number of manifests refer to
        progress/3c07…/version-hint.text                a step of a large run that has not ended, see `stats_jobs.steps`
        index/                                          the index of files, see `puffin.index.manifest`

A manifest has the name of its statistics file, so nothing is listed to find it. The names survive the removal of orphan
files: Spark's and Flink's procedures and VACUUM skip folders that begin with an underscore; Trino and StarRocks look
into them but compare names only. So a manifest stays as long as the statistics file of its name, and parts have a name
that they never remove.

Many tables may share a home that the owner chooses; each has a folder of its own in it.
"""

from __future__ import annotations

import os
import re

from puffin.storage import join
from puffin.storage.uri import local_name
from puffin.tables.arguments import NameOrPath
from puffin.tables.base import StatisticsEntry
from puffin.tables.state import TableState

HOME = "puffin-sidecar.home"
"""The table property that names a home; on a sketch, the home of its file's private state if not the default."""

FOLDER = "_puffin_sidecar"
PARTS, PROGRESS, INDEX, SEGMENTS = "parts", "progress", "index", "segments"
PART_NAME = "version-hint.text"

_OWN_FOLDER = re.compile(rf".*/(({PARTS}|{PROGRESS}|{SEGMENTS})/[0-9a-f-]{{36}}|{INDEX}/[0-9]{{20}})/[^/]+", re.DOTALL)


def chosen_home(state: TableState, asked: NameOrPath | None) -> str | None:
    """The home that the caller or the table's owner chose, without a slash at its end; None for the default."""
    home = _from_anywhere(os.fspath(asked)) if asked else state.properties.get(HOME)
    return home.rstrip("/") if home else None


def home_of(entry: StatisticsEntry) -> str | None:
    """The home of an entry's private state, as its sketches note it; None for the default."""
    return next((home for blob in entry.blobs if (home := blob.properties.get(HOME))), None)


def known_homes(state: TableState, asked: NameOrPath | None = None) -> list[str | None]:
    """Where private state may be: the caller's home, the owner's, the default, and those of entries."""
    chosen = (chosen_home(state, asked), chosen_home(state, None))
    return list(dict.fromkeys((*chosen, None, *map(home_of, state.statistics.values()))))


def directory(state: TableState, home: str | None) -> str:
    """The folder of a table's private state in a home."""
    if home is None:
        return join(state.location, FOLDER)
    import hashlib  # slow to import, and few tables have no uuid

    return join(home, state.uuid or hashlib.sha256(state.location.encode()).hexdigest()[:32])


def has_own_folder(uri: str) -> bool:
    """Whether the folder of a file is there for it alone."""
    return _OWN_FOLDER.fullmatch(uri) is not None


def manifest_uri(home_directory: str, statistics_file: str) -> str:
    return join(home_directory, statistics_file)


def part_uri(home_directory: str, part_id: str) -> str:
    return join(home_directory, PARTS, part_id, PART_NAME)


def step_uri(home_directory: str, step_id: str) -> str:
    return join(home_directory, PROGRESS, step_id, PART_NAME)


def _from_anywhere(home: str) -> str:
    """A home as it can be named in metadata, which is read in other directories than this one."""
    return os.path.abspath(home) if local_name(home) == home else home  # noqa: PTH100 - pathlib is slow to import
