"""
Tables with an index: one of files with a random key, and some of very many files that do not exist.

The manifests of the latter and the filters of their index are written directly. They are made once and found again.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.handmade import HandmadeTable, schema_of
from benchmarks.run import HOME, say

_KEYED_ROWS = 20_000
_SAID_AFTER = 10_000  # files
_VALUES, _FEW_VALUES = 20_000, 500  # of each file that does not exist; few of a million files
_ASKED = 200  # keys


def keyed_table(files: int) -> tuple[Path, Any]:
    """An indexed table whose key is random, and some keys that it has; all keys are even."""
    from stats_jobs.index import index
    from stats_jobs.options import IndexOptions

    directory = HOME / "data" / f"index-keyed-{files}"
    keys = np.random.default_rng(3).permutation(files * _KEYED_ROWS).astype(np.int64) * 2
    if not (directory / "metadata" / "version-hint.text").exists():
        shutil.rmtree(directory, ignore_errors=True)
        table = HandmadeTable(directory, schema_of({"uid": "long", "amount": "long"}))
        made = []
        for number in range(files):
            uid = keys[number * _KEYED_ROWS : (number + 1) * _KEYED_ROWS]
            bounds = {"lower_bounds": {1: _bytes(uid.min())}, "upper_bounds": {1: _bytes(uid.max())}}
            made.append(table.write(f"{number:05}.parquet", [uid, uid // 3], **bounds))
        table.snapshot(1, [table.manifest(1, made)])
        table.finish()
    say(f"indexing {files} files")
    index(str(directory), IndexOptions(columns=("uid",), driver_bytes=1 << 62))
    return directory, np.random.default_rng(4).choice(keys, _ASKED)


def made_table(entries: int, manifests: int = 1) -> Path:
    """An indexed table whose files' bounds all span every key."""
    directory = HOME / "data" / f"index-made-{entries}-{manifests}"
    done = directory / "done"
    if not done.exists():
        shutil.rmtree(directory, ignore_errors=True)
        table = HandmadeTable(directory, schema_of({"id": "long"}))
        written, paths = [], []
        for number in range(manifests):
            say(f"making manifest {number + 1} of {manifests}, of {entries} files")
            made = [f"file://{table.data}/{number:05}-{entry:05}-0f2c9a4be17d.parquet" for entry in range(entries)]
            bounds: dict[str, Any] = {"lower_bounds": {1: _bytes(0)}, "upper_bounds": {1: _bytes(2**62)}}
            rows, size = 1_000_000, 1 << 26
            counts: dict[str, Any] = {"value_counts": {1: rows}, "null_value_counts": {1: 0}}
            files = [
                table.content_file(path, record_count=rows, file_size_in_bytes=size, **counts, **bounds)
                for path in made
            ]
            written.append(table.manifest(1, files))
            paths += made
        table.snapshot(1, written)
        table.finish()
        _index_of(directory, paths, _VALUES if manifests == 1 else _FEW_VALUES)
        done.write_text(json.dumps({"files": len(paths)}))
    return directory


def _index_of(directory: Path, paths: list[str], values: int) -> None:
    """Publish an index with a filter of so many random values for each path."""
    from puffin.index.bloom import BloomFilterBuilder
    from puffin.index.home import IndexHome
    from puffin.index.manifest import IndexManifest, commit
    from puffin.index.segment import NewFilters, SegmentColumn, write_segment
    from puffin.load import load_table

    opened = load_table(str(directory)).open()
    home = IndexHome.of(opened)
    (column,) = opened.state.columns
    key = opened.state.key_of(column)
    of_segment = SegmentColumn(column.field_id, key, column.type, None, 0.01)
    random = np.random.default_rng(5)
    filters = {}
    for number, path in enumerate(paths):
        if number % _SAID_AFTER == 0:
            say(f"making filters of {number:,} of {len(paths):,} files")
        builder = BloomFilterBuilder(values, 0.01)
        builder.update([random.integers(0, 2**64, values, np.uint64)])
        filters[path] = builder.compact().folded(0.01)
    segment = write_segment(of_segment, NewFilters.by_size(filters), home.directory, home.store)
    commit(IndexManifest(0, opened.state.uuid, {key: 0.01}, (segment.entry,)), home.directory, home.store)


def _bytes(value: Any) -> bytes:
    return int(value).to_bytes(8, "little", signed=True)
