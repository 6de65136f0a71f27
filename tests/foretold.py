"""Compares what `puffin status` says that a run would read with what the run then reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from puffin.files.task_reader import TaskReader
from puffin.lookup.status import table_status
from puffin.tables.scan_task import FileScanTask
from puffin.tables.snapshot import Table
from stats_jobs import Options, analyze
from stats_jobs.report import Report


def analyze_as_foretold(table: Table, **options: Any) -> Report:
    """
    Run `auto`, and check that it opens the bytes that the status of the table has beforehand, as a dry run does.

    A second run may read again, if the first carried another engine's sketch before it knew that we kept statistics.
    """
    foretold = check_foretold(table, **options)
    opened, report = _opened_bytes(table, Options(index=False, **options))
    assert opened == foretold
    check_foretold(table, **options)
    return report


def check_foretold(table: Table, **options: Any) -> int:
    """Check that a dry run opens the bytes that the status of the table has, and return these."""
    found = table_status(table.name, table.open())
    opened, report = _opened_bytes(table, Options(dry_run=True, **options))
    assert report.bytes_read <= found.bytes_to_read
    bases = {each.column.name: each.basis for each in report.columns}
    assert opened == found.bytes_to_read, f"{opened} bytes opened, {found.bytes_to_read} foretold, on {bases}"
    assert (report.files_read == 0) == (opened == 0)
    return opened


def _opened_bytes(table: Table, options: Options) -> tuple[int, Report]:
    """The bytes of the pieces of files that a run opens, each once, but twice if all rows are added and removed."""
    sizes: dict[tuple[str, int, object], int] = {}
    read = TaskReader.read

    def noted(reader: TaskReader, task: FileScanTask) -> Iterator[Any]:
        if task.deleted_by != ():
            all_rows = task.deleted_by is None and repr(task.delete_files)
            sizes[task.data_file.file_path, task.start, all_rows] = task.length
        return read(reader, task)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskReader, "read", noted)
        report = analyze(table, options)
    return sum(sizes.values()), report
