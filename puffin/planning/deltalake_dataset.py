"""Hands a plan to deltalake: the dataset that it makes of a table, with the planned files alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyarrow.dataset import FileSystemDataset

from puffin.errors import UsageError

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from puffin.planning.file_plan import FilePlan


def planned_dataset(table: DeltaTable, plan: FilePlan) -> FileSystemDataset:
    """Implements `puffin.planning.file_plan.FilePlan.for_deltalake`."""
    whole: Any = table.to_pyarrow_dataset()
    below = f"{plan.location.rstrip('/')}/"
    by_path = {below + fragment.path: fragment for fragment in whole.get_fragments()}
    # Versions do not tell: one that only notes statistics has the files of the one before.
    if by_path.keys() != {task.data_file.file_path for task in plan.all_files}:
        raise UsageError(
            f"{plan.table}: expected the files of version {plan.snapshot_id}, that of the plan, "
            f"found those of version {table.version()}"
        )
    fragments = [by_path[task.data_file.file_path] for task in plan.files]
    return FileSystemDataset(fragments, whole.schema, whole.format, whole.filesystem)
