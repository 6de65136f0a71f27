"""
Where the private state of a table is: its home, and the names in it.

::

    <table location>/_puffin_sidecar/                   the home, unless the owner says another one
        12-5f0c….stats                                  the manifest of the statistics file of this name
        parts/9b1d…/version-hint.text                   a part, which any number of manifests refer to

A statistics file leads to its manifest by its name, so nothing is listed to find it. The names are chosen for those who
remove orphan files: Spark's and Flink's procedures and VACUUM pass by folders that begin with an underscore; Trino and
StarRocks look into them and compare names alone, so that a manifest stays as long as the statistics file that it is
called after, and a part is called what they spare in any folder.

A home that the owner says may be shared by many tables; each has a folder of its own in it.
"""

from __future__ import annotations

import hashlib

from puffin.storage import join
from puffin.tables.base import StatisticsEntry, TableState

HOME = "puffin-sidecar.home"
"""The table property that says a home; of a sketch, the home of its file's private state if that is not the default."""

FOLDER = "_puffin_sidecar"
PARTS = "parts"
PART_NAME = "version-hint.text"


def chosen_home(state: TableState, asked: str | None) -> str | None:
    """The home that the caller or the table's owner says, without a slash at its end; None for the default."""
    said = asked or state.properties.get(HOME)
    return said.rstrip("/") if said else None


def home_of(entry: StatisticsEntry) -> str | None:
    """The home of the private state of an entry's statistics file, as its sketches say it; None for the default."""
    return next((home for blob in entry.blobs if (home := blob.properties.get(HOME))), None)


def directory(state: TableState, home: str | None) -> str:
    """The folder of a table's private state in a home."""
    if home is None:
        return join(state.location, FOLDER)
    return join(home, state.uuid or hashlib.sha256(state.location.encode()).hexdigest()[:32])


def manifest_uri(home_directory: str, statistics_path: str) -> str:
    """The manifest that belongs to a statistics file."""
    return join(home_directory, statistics_path.rpartition("/")[2])


def part_uri(home_directory: str, part_id: str) -> str:
    """The file of a part."""
    return join(part_directory(home_directory, part_id), PART_NAME)


def part_directory(home_directory: str, part_id: str) -> str:
    """The folder that a part has to itself."""
    return join(join(home_directory, PARTS), part_id)
