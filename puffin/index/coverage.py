"""Which files of a snapshot have filters in the index of their table, and which lack them."""

from __future__ import annotations

import dataclasses

from puffin.index.home import Index
from puffin.index.manifest import IndexManifest
from puffin.index.value_hashes import is_indexable
from puffin.tables.base import Column
from puffin.tables.scan_task import FileScanTask
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.state import TableState


def indexed_columns(state: TableState, manifest: IndexManifest) -> dict[Column, float]:
    """
    The columns of the table that an index has, with their rates of false positives.

    A column that has become a boolean since is none of them.
    """
    keys = ((column, state.key_of(column)) for column in state.columns if is_indexable(column.type))
    return {column: manifest.columns[key] for column, key in keys if key in manifest.columns}


def lacking_files(opened: TableSnapshot, index: Index, column: Column, fpp: float) -> dict[str, FileScanTask]:
    """
    The files without a filter of a column at this rate, by path; each task is a whole file without deletes.

    A file in which the column is constant needs none, nor does one that has it in another type. Raises as
    `TableSnapshot.tasks`.
    """
    if column.field_id in opened.unreadable:
        return {}
    state = opened.state
    key = state.key_of(column)
    has = index.paths_of(key, state.mapping_digest(column)) if index.manifest.columns.get(key) == fpp else set()
    constant = state.specs_with(column, "identity")
    found: dict[str, FileScanTask] = {}
    for task in () if opened.is_empty else opened.tasks:
        file = task.data_file
        if file.file_path not in has and file.spec_id not in constant:
            found[file.file_path] = dataclasses.replace(task, delete_files=())
    return found
