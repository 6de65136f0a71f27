"""The index of a Delta table whose directory was moved or copied: its log names most files relative to the table."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import puffin
from puffin.index.checksums import row_checksums
from puffin.index.home import IndexHome
from puffin.index.segment import segment_uri
from puffin.load import load_table
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


def test_index_of_a_copy_never_answers_for_its_table(table: Path, tmp_path: Path) -> None:
    """Somebody else may have written the copy, and its segments have the ids of the original."""
    index(str(table), IndexOptions(columns=("k",)))
    copied = shutil.copytree(table, tmp_path / "copied")
    home = IndexHome.of(load_table(str(copied)).open())
    stored = home.read()
    for segment in stored.segments:
        path = Path(segment_uri(home.directory, segment.id).removeprefix("file://"))
        content = bytearray(path.read_bytes())
        for layout in (each.layout for each in stored.classes[segment.id]):
            for block in range(1 << layout.lg_blocks):
                at = layout.offset_of(block)
                row = np.zeros((1, layout.row_bytes // 4), "<u4")
                row[:, -1] = row_checksums(row, block)
                content[at : at + layout.row_bytes] = row.tobytes()
        path.write_bytes(content)
    lookup = puffin.Lookup()
    assert lookup.plan(str(copied), "k = 100").pruned.index == 3
    assert len(lookup.plan(str(table), "k = 100").files) == 1


def test_copies_that_share_a_home_keep_their_files_apart(table: Path, tmp_path: Path) -> None:
    """A file of one copy may have other rows than the file of the same name in the other."""
    home = str(tmp_path / "home")
    DeltaTable(table).alter.set_table_properties({"puffin-sidecar.home": home}, raise_if_not_exists=False)
    index(str(table), IndexOptions(columns=("k",)))
    copied = shutil.copytree(table, tmp_path / "copied")
    assert puffin.plan(table, where="k = 100").pruned.index == 2
    assert puffin.plan(copied, where="k = 100").pruned.index == 0
