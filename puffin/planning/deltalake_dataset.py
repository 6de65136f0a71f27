"""Hands a plan to deltalake: the dataset that it makes of a table, with the planned files alone."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING, Any

from pyarrow.dataset import FileSystemDataset

from puffin.errors import UsageError

if TYPE_CHECKING:
    from deltalake import DeltaTable


def planned_dataset(
    table: DeltaTable, location: str, every_path: Set[str], planned_paths: Iterable[str]
) -> FileSystemDataset:
    """The dataset of the planned files; UsageError unless the table at this location has every file of the plan."""
    whole: Any = table.to_pyarrow_dataset()
    below = f"{location.rstrip('/')}/"
    by_path = {below + fragment.path: fragment for fragment in whole.get_fragments()}
    # Versions do not tell: one that only notes statistics has the files of the one before.
    if by_path.keys() != every_path:
        raise UsageError(f"{location}: expected the files of the plan, found those of version {table.version()}")
    fragments = [by_path[path] for path in planned_paths]
    return FileSystemDataset(fragments, whole.schema, whole.format, whole.filesystem)
