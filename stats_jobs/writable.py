"""Finds out, before a run reads anything, whether it may write what it will find."""

from __future__ import annotations

from puffin.errors import NotWritable
from puffin.statistics.private_state import places
from puffin.storage import join
from puffin.tables.arguments import NameOrPath
from puffin.tables.snapshot import TableSnapshot


def check_statistics_place(opened: TableSnapshot) -> None:
    """Raise NotWritable if the statistics file of the snapshot could not be written."""
    uri = opened.new_statistics_file(opened.snapshot.snapshot_id).path
    try:
        opened.store_for(uri).check_writable(uri)
    except NotWritable as exc:
        raise NotWritable(
            f"{exc}; statistics files go there, also with --no-commit (in Python commit=False): allow it, "
            "or use --dry-run (in Python dry_run=True)"
        ) from exc


def check_home(opened: TableSnapshot, home: NameOrPath | None) -> None:
    """Raise NotWritable if private state and the index could not be written to their home."""
    directory = places.directory(opened.state, places.chosen_home(opened.state, home))
    try:
        opened.store_for(directory).check_writable(join(directory, places.PARTS))
    except NotWritable as exc:
        raise NotWritable(
            f"{exc}; private state goes there: allow it, or choose another place with --home URI (in Python home)"
        ) from exc
