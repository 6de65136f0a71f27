"""
Statistics and indexes that are kept current step by step are right, whatever happened to the table.

Spark makes tables of different kinds and does to each what a random generator says. After every step the
statistics are brought up to date and held against a run over all rows: the sketches have to be the same bytes, and
those by partition, which every other table has, and what is counted besides the same numbers. Sketches are small (32
nominal entries), so that a few hundred rows are many. The index is brought up to date now and then, and plans are held
against all rows of all files at every step. ``PUFFIN_INDEX_HISTORIES=100`` plays more histories.
"""

from __future__ import annotations

import dataclasses
import operator
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from puffin.format import PARTITION_SKETCHES_V1, THETA_V1, PuffinReader
from puffin.load import load_table
from puffin.statistics.blob_properties import SketchProperties
from puffin.storage import LocalStore
from puffin.tables.base import SnapshotSelector
from puffin.values.column_bounds import Bounds, Missing
from puffin.values.column_summary import ColumnSummary
from stats_jobs import Options, Report, analyze
from tests.index.probes import IndexedTable, Played
from tests.index.whole_files import IcebergFiles
from tests.interop.spark_history import History

HISTORIES, STEPS = int(os.environ.get("PUFFIN_INDEX_HISTORIES", "3")), 5
LG_K = 5


def stored_summaries(report: Report) -> dict[int, ColumnSummary | None]:
    assert report.entry is not None
    fresh = [blob for blob in report.entry.blobs if blob.snapshot_id == report.entry.snapshot_id]
    return {blob.fields[0]: SketchProperties(blob.properties).summary for blob in fresh}


def check_summaries(kept: Report, full: Report) -> None:
    """Check that counts equal those of a full run; bounds may be wider, because they stay when rows go."""
    stored, computed = stored_summaries(kept), stored_summaries(full)
    assert stored.keys() == computed.keys()
    for column in kept.columns:
        one, other = stored[column.column.field_id], computed[column.column.field_id]
        assert one is not None
        assert other is not None
        assert dataclasses.replace(one, min=None, max=None) == dataclasses.replace(other, min=None, max=None)
        assert None not in (other.row_count, other.null_count, other.total_bytes)
        bounds = [Bounds.from_json(column.column.type, summary.min, summary.max) for summary in (one, other)]
        if other.row_count != other.null_count:
            assert bounds[0].union(bounds[1]) == bounds[0]
            assert not {Missing.UNKNOWN, Missing.NO_VALUE} & {bounds[1].lower, bounds[1].upper}


def sketches(report: Report) -> dict[int, bytes]:
    """Return the sketches of the snapshot itself, by field id."""
    assert report.entry is not None
    with LocalStore().open_source(report.entry.statistics_path) as source:
        reader = PuffinReader(source)
        assert {b.type for b in reader.file_metadata.blobs} <= {THETA_V1}
        fresh = [b for b in reader.file_metadata.blobs if b.snapshot_id == report.entry.snapshot_id]
        return {blob.fields[0]: payload for blob, payload in zip(fresh, reader.read_all(fresh), strict=True)}


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    """What came of all histories, which must not be full reads for the most part."""
    played = Played()
    yield played
    if len(played.probes) == HISTORIES:  # else only some were asked for
        played.check()
        assert played.bases["full"] < played.bases.total() / 2


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_statistics_and_plans_are_right_after_every_step(
    spark: Any, warehouse: Path, played: Played, private_payloads: Any, seed: int
) -> None:
    history = History(spark, f"hadoop.histories.t{seed}", seed)
    root = warehouse / "histories" / f"t{seed}"
    table = load_table(str(root))
    indexed = IndexedTable(str(root), IcebergFiles(root), seed)
    played.probes.append(indexed.probes)
    by_partition = seed % 2 == 0
    done = ["create"]
    while True:
        selector = SnapshotSelector(ref=history.branch)
        options = Options(selector=selector, lg_k=LG_K, partitions=by_partition, index=indexed.runs())
        kept = analyze(table, options)
        full = analyze(table, dataclasses.replace(options, mode="full", commit=False))
        assert sketches(kept) == sketches(full), done
        if by_partition:
            of_partitions = (private_payloads(table, each.entry, PARTITION_SKETCHES_V1) for each in (kept, full))
            fresh = sketches(kept)
            assert operator.eq(*({i: p for i, p in each.items() if i in fresh} for each in of_partitions)), done
        assert [(c.column, c.distinct) for c in kept.columns] == [(c.column, c.distinct) for c in full.columns], done
        check_summaries(kept, full)
        played.bases.update(str(column.basis) for column in kept.columns)
        # Later compactions may remove deletes of rows that are gone already, so that their counts are in doubt.
        if done[-1] in ("compact", "rewrite_manifests") and done.count("compact") < 2 and not by_partition:
            assert kept.files_read == 0, done
        indexed.step(history.branch)
        if len(done) == STEPS:
            break
        done.append(history.step())
