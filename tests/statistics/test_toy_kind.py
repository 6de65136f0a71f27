"""A new kind of statistic is one module and one line of the table of kinds: the job and private state do the rest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin.load import load_table
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics import kinds
from puffin.statistics.ancestry import known_sketches
from puffin.statistics.kinds import ROW_COUNTS, SUMMARY, THETA
from puffin.statistics.kinds.kind import Kind, Need
from puffin.statistics.stored_blobs import StoredBlobs
from stats_jobs import Options, analyze
from stats_jobs.step_file import can_keep


class _Bytes:
    @staticmethod
    def to_bytes(value):
        return value.to_bytes(8, "big")

    @staticmethod
    def from_bytes(payload):
        return int.from_bytes(payload, "big")


class LongestValue(Kind[int]):
    """The bytes of a column's longest string: what a module for a new kind has to say."""

    name = "toy-longest-value-v1"
    title = "the length of the longest value"
    needs = frozenset((Need.VALUES,))
    codec = _Bytes

    def start(self):
        return _Builder()

    def merge(self, left, right):
        return max(left, right)


class _Builder:
    def __init__(self):
        self._longest = 0

    def update_values(self, values, rows):
        if rows is not None:
            values = values.filter(pa.array(np.asarray(rows) > 0))
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        self._longest = max(self._longest, pc.max(pc.binary_length(values)).as_py() or 0)

    def compact(self):
        return self._longest


LONGEST_VALUE = LongestValue()


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(kinds, "KINDS", (*kinds.KINDS, LONGEST_VALUE))


@pytest.fixture
def merges(monkeypatch):
    """The values of the toy kind that were merged, two at a time."""
    found = []
    merge = type(LONGEST_VALUE).merge

    def recorded(self, left, right):
        found.append((left, right))
        return merge(self, left, right)

    monkeypatch.setattr(type(LONGEST_VALUE), "merge", recorded)
    return found


class Words:
    """An Iceberg table of a SQL catalog with one column of strings."""

    def __init__(self, directory) -> None:
        self._catalog = {
            "type": "sql", "uri": f"sqlite:///{directory}/c.db", "warehouse": f"file://{directory}/w",
        }  # fmt: skip
        catalog = SqlCatalog("toy", **self._catalog)
        catalog.create_namespace("db")
        schema = pa.schema([("word", pa.string())])
        self.iceberg = catalog.create_table("db.words", schema, properties={"write.delete.mode": "copy-on-write"})

    @property
    def table(self):
        return load_table("db.words", catalog="toy", catalog_properties=self._catalog)

    def append(self, *words):
        self.iceberg.append(pa.table({"word": list(words)}))

    def analyze(self, **options):
        report = analyze(self.table, Options(**options))
        (column,) = report.columns
        return report, column

    def stored(self):
        """What is stored of the column at the current snapshot, by kind."""
        opened = self.table.open()
        (column,) = opened.state.columns
        known = known_sketches(opened, (column.field_id,))[column.field_id][0]
        blobs = StoredBlobs(opened, (column.field_id,))
        wanted = (ROW_COUNTS, THETA, SUMMARY, LONGEST_VALUE)
        return {kind: blobs.read(known, kind) for kind in wanted}


@pytest.fixture
def words(tmp_path):
    return Words(tmp_path)


def sketch(*words):
    return ThetaSketch.from_arrow(pa.array(words), "string")


def test_step_of_a_large_run_keeps_a_new_kind():
    assert can_keep(LONGEST_VALUE)


def test_toy_kind_is_computed_across_batches_and_stored_beside_the_others(words, merges):
    words.append("a", "bb")
    words.append("bb", "dddd")
    report, column = words.analyze()
    assert (report.files_read, column.basis) == (2, "full")
    assert (2, 4) in merges or (4, 2) in merges
    stored = words.stored()
    assert stored[LONGEST_VALUE] == 4
    assert stored[THETA] == stored[ROW_COUNTS].sketch(12) == sketch("a", "bb", "dddd")
    assert stored[SUMMARY].rows == 4
    assert words.analyze()[0].current


def test_toy_kind_is_combined_with_its_base_when_files_are_added(words, merges):
    words.append("a", "dddd")
    words.analyze()
    for word, longest in (("bb", 4), ("eeeee", 5)):
        words.append(word)
        report, column = words.analyze()
        assert (column.basis, report.files_read, report.rows_read) == ("added-files", 1, 1)
        assert words.stored()[LONGEST_VALUE] == longest
    assert words.stored()[THETA] == sketch("a", "bb", "dddd", "eeeee")
    assert merges[-1] == (4, 5)


def test_toy_kind_refuses_deleted_rows_and_is_read_in_full(words):
    words.append("a", "dddd")
    words.analyze()
    words.append("bb")
    words.iceberg.delete("word = 'dddd'")
    report, column = words.analyze()
    reason = "rows were deleted, which cannot be taken out of the length of the longest value"
    assert (column.basis, column.reason, report.rows_read) == ("full", reason, 2)
    assert (words.stored()[LONGEST_VALUE], words.stored()[THETA]) == (2, sketch("a", "bb"))


def test_statistics_without_a_new_kind_get_it_from_a_full_run(words, monkeypatch):
    """An upgrade does not make every table be read again."""
    with monkeypatch.context() as before:
        before.setattr(kinds, "KINDS", kinds.KINDS[:-1])
        words.append("a", "dddd")
        words.analyze()
    assert words.analyze()[0].current
    words.append("bb")
    _, column = words.analyze()
    assert (column.basis, words.stored()[LONGEST_VALUE]) == ("added-files", None)
    assert words.analyze()[0].current
    words.analyze(mode="full")
    assert words.stored()[LONGEST_VALUE] == 4
    assert words.analyze()[0].current
