"""The index of a Delta table whose directory was moved or copied: its log names most files relative to the table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import puffin
from stats_jobs.index import index
from stats_jobs.options import IndexOptions


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of three files that have each third number, so that bounds tell nothing."""
    for first in range(3):
        rows = pa.table({"k": range(first, 300, 3), "p": ["a b"] * 100})
        write_deltalake(tmp_path / "t", rows, mode="append", partition_by=["p"])
    return tmp_path / "t"


def test_index_moves_with_its_table(table: Path, tmp_path: Path) -> None:
    index(str(table), IndexOptions(columns=("k",)))
    moved = shutil.move(table, tmp_path / "moved")
    assert puffin.plan(moved, where="k = 100").pruned.index == 2
    assert index(str(moved)).files_read == 0


def test_copy_has_an_index_of_its_own(table: Path, tmp_path: Path) -> None:
    index(str(table), IndexOptions(columns=("k",)))
    copied = shutil.copytree(table, tmp_path / "copied")
    DeltaTable(copied).delete("k = 100")
    write_deltalake(copied, pa.table({"k": [100], "p": ["a b"]}), mode="append")
    assert index(str(copied)).files_read == 2
    for path in (table, copied):
        (task,) = puffin.plan(path, where="k = 100").files
        assert task.data_file.file_path.startswith(f"{path}/")
    assert puffin.plan(table, where="k = 101").pruned.index == 2


def test_copies_that_share_a_home_keep_their_files_apart(table: Path, tmp_path: Path) -> None:
    """A file of one copy may have other rows than the file of the same name in the other."""
    home = str(tmp_path / "home")
    DeltaTable(table).alter.set_table_properties({"puffin-sidecar.home": home}, raise_if_not_exists=False)
    index(str(table), IndexOptions(columns=("k",)))
    copied = shutil.copytree(table, tmp_path / "copied")
    assert puffin.plan(table, where="k = 100").pruned.index == 2
    assert puffin.plan(copied, where="k = 100").pruned.index == 0
