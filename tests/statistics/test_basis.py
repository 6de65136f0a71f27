"""What each column's statistics are built on, and why a column is computed in full."""

from __future__ import annotations

import dataclasses
import logging
from types import SimpleNamespace

import pyarrow as pa
import pytest

from puffin.errors import CorruptSketchError, FileNotFound
from puffin.iceberg.metadata.document import parse_state
from puffin.sketches.row_counts import RowCountsBuilder, row_counts_limit
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.bases import Base
from puffin.statistics.basis import plan_columns
from puffin.statistics.kinds import ROW_COUNTS, THETA, to_properties
from puffin.statistics.kinds.theta import ThetaKind
from puffin.tables.changes import Changes
from puffin.tables.scan_task import FileScanTask
from stats_jobs import Options
from stats_jobs.target import Target
from tests.scan_files import data_file, whole

NOTHING = Changes((), ())
AUTO, INCREMENTAL = Options(), Options(mode="incremental")
SKETCH = ThetaSketch.from_arrow(pa.array([1, 2, 3]), "long")
COUNTS = RowCountsBuilder(row_counts_limit(12)).compact()
OURS, COUNTED = Base({THETA: SKETCH}), Base({THETA: SKETCH, ROW_COUNTS: COUNTS})


def file(path: str) -> FileScanTask:
    return whole(data_file(path, 10))


ADDED, REMOVED = Changes((file("new"),), ()), Changes((), (file("old"),))


class Stored:
    """Returns what is stored for each snapshot's entry, or fails; some of it may be lost."""

    def __init__(self, found, lost=(), had_ours=False) -> None:
        self._found = found
        self._lost = lost
        self._had_ours = had_ours

    def objection(self, known, _sketch, _lg_k):
        return "whoever hashed it" if known.blob.properties.get("puffin-sidecar.writer") == "unknown" else None

    def missing_beside(self, known):
        if not known.properties.is_ours:
            return "another engine made it"
        return "its state is gone" if known.entry.snapshot_id in self._lost else None

    def had_ours(self, _column):
        return self._had_ours

    def read(self, known, _rows_added=None):
        found = self._found[known.entry.snapshot_id] if isinstance(self._found, dict) else self._found
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def plan(table_document):
    """Plans column a (field 1, long) of snapshot 30; ``blobs`` are (entry's snapshot, blob's snapshot, properties)."""

    def run(*blobs, changes=ADDED, stored=OURS, snapshots=(10, 20, 30), options=AUTO, edit=lambda _: None, **kept):
        entries = [
            {
                "snapshot-id": entry,
                "statistics-path": f"{entry}.stats",
                "file-size-in-bytes": 100,
                "file-footer-size-in-bytes": 50,
                "blob-metadata": [
                    {
                        "type": "apache-datasketches-theta-v1",
                        "snapshot-id": snapshot,
                        "sequence-number": 1,
                        "fields": [1],
                        "properties": properties,
                    }
                ],
            }
            for entry, snapshot, properties in blobs
        ]
        document = table_document("t", snapshots=snapshots, statistics=entries)
        edit(document)
        state = parse_state(document, "m.json")
        asked = []

        def changes_since(base):
            asked.append(base.snapshot_id)
            if isinstance(changes, Exception):
                raise changes
            return NOTHING if base.snapshot_id == 30 else changes

        column = state.select_columns(("a",))
        opened = SimpleNamespace(
            state=state,
            snapshot=state.snapshot(30),
            columns_by_id=state.columns_by_id,
            changes_since=changes_since,
        )
        target = dataclasses.replace(Target.of(opened, column, options), bases=Stored(stored, **kept))
        (planned,) = plan_columns(target.planning_input, column)
        return planned.basis, planned.base_id, planned.reason

    return run


def ours(type_="long", lg_k=12):
    return to_properties({ThetaKind(lg_k): SKETCH}, type_)


JAVAS = {"ndv": "3"}


def test_table_without_statistics_is_read_in_full(plan):
    assert plan() == ("full", None, "no earlier statistics of the column")


@pytest.mark.parametrize("properties", [ours(), JAVAS], ids=["ours", "another engine's"])
def test_added_files_extend_the_nearest_ancestors_sketch(plan, properties):
    assert plan((10, 10, properties), (20, 20, properties)) == ("added-files", 20, None)
    assert plan((10, 10, properties), (20, 10, properties)) == ("added-files", 10, None)


def test_sketch_is_carried_if_no_rows_changed(plan):
    assert plan((20, 20, ours()), changes=NOTHING) == ("carried", 20, None)
    assert plan((30, 30, ours())) == ("carried", 30, None)


def test_removed_rows_need_row_counts(plan):
    assert plan((20, 20, ours()), changes=REMOVED, stored=COUNTED) == ("changed-files", 20, None)
    basis, _, reason = plan((20, 20, ours()), changes=REMOVED)
    assert (basis, "no row counts" in reason) == ("full", True)


def test_older_row_counts_are_better_than_none(plan):
    """Statistics of 20 are another engine's; ours of 10 can subtract rows."""

    blobs = (20, 20, JAVAS), (10, 10, ours())
    stored = {20: OURS, 10: COUNTED}
    assert plan(*blobs, changes=REMOVED, stored=stored) == ("changed-files", 10, None)


def test_complete_statistics_win_over_nearer_incomplete_ones(plan):
    """Nearer are another engine's sketch, and one of ours without its private state."""
    assert plan((20, 20, JAVAS), (10, 10, ours())) == ("added-files", 10, None)
    assert plan((20, 20, ours()), (10, 10, ours()), lost=(20,)) == ("added-files", 10, None)
    assert plan((20, 20, ours()), lost=(20,)) == ("full", None, "its state is gone")
    assert plan((20, 20, ours()), (10, 10, ours()), lost=(20,), options=INCREMENTAL) == ("added-files", 20, None)


def test_other_engines_sketch_is_built_on_if_there_are_none_of_ours(plan):
    assert plan((20, 20, JAVAS)) == ("added-files", 20, None)
    assert plan((20, 20, JAVAS), had_ours=True) == ("full", None, "another engine made it")
    assert plan((20, 20, JAVAS), had_ours=True, options=INCREMENTAL) == ("added-files", 20, None)


def test_other_engines_sample_is_built_on_only_to_avoid_a_full_read(plan):
    """Above its nominal entries an engine keeps other hashes than our full run."""
    sample = Base({THETA: ThetaSketch.from_arrow(pa.array(range(9000)), "long")})
    assert plan((20, 20, JAVAS), stored=sample)[0] == "full"
    assert plan((20, 20, JAVAS), stored=sample, options=INCREMENTAL)[0] == "added-files"


def test_untrusted_sketch_is_not_built_on(plan):
    unknown = {**JAVAS, "puffin-sidecar.writer": "unknown"}
    assert plan((20, 20, unknown)) == ("full", None, "whoever hashed it")
    assert plan((20, 20, unknown), (10, 10, ours())) == ("added-files", 10, None)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (ours(lg_k=10), "lg-k 10, expected 12"),
        (ours("int"), "of type int, the column of type long"),
        (ours("int96"), "int96"),
    ],
)
def test_sketch_of_another_type_or_size_is_not_built_on(plan, properties, said):
    basis, base, reason = plan((20, 20, properties))
    assert (basis, base) == ("full", None)
    assert said in reason


def test_other_engines_sketch_has_the_type_of_its_time(plan):
    """Promoting int to long changes every hash."""

    def promoted(document):
        now = document["schemas"][0]
        fields = [{**field, "type": "int"} for field in now["fields"]]
        document["schemas"].append({**now, "schema-id": 7, "fields": fields})
        document["snapshots"][1]["schema-id"] = 7

    basis, _, reason = plan((20, 20, JAVAS), edit=promoted)
    assert (basis, "of type int" in reason) == ("full", True)
    assert plan((10, 10, JAVAS), edit=promoted)[:2] == ("added-files", 10)


def test_decimal_precision_does_not_change_hashes(plan):
    def decimals(document):
        document["schemas"][0]["fields"][0]["type"] = "decimal(18, 2)"

    assert plan((20, 20, ours("decimal(9, 2)")), edit=decimals)[0] == "added-files"
    assert plan((20, 20, ours("decimal(9, 3)")), edit=decimals)[0] == "full"


def test_ancestry_matters_and_not_time(plan):
    """Snapshot 20 was rolled back: 30 descends from 10."""

    def rolled_back(document):
        document["snapshots"][2]["parent-snapshot-id"] = 10

    assert plan((20, 20, ours()), edit=rolled_back)[0] == "full"
    assert plan((20, 20, ours()), (10, 10, ours()), edit=rolled_back)[:2] == ("added-files", 10)


def test_statistics_of_an_expired_snapshot_are_not_built_on(plan):
    basis, _, reason = plan((30, 5, ours()))
    assert (basis, "expired" in reason) == ("full", True)


@pytest.mark.parametrize("error", [CorruptSketchError("x.stats: broken"), FileNotFound("x.stats: gone")])
def test_unreadable_statistics_file_is_a_warning(plan, caplog, error):
    with caplog.at_level(logging.WARNING):
        assert plan((20, 20, ours()), stored=error) == ("full", None, str(error))
    assert str(error) in caplog.text


def test_unknown_changes_are_a_reason_for_a_full_read(plan):
    assert plan((20, 20, ours()), changes=FileNotFound("m.avro: gone")) == ("full", None, "m.avro: gone")
