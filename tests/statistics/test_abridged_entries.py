"""Entries of very many columns leave most properties to the footer of their file, and lookups find them there."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

from puffin.errors import StorageError
from puffin.format import PuffinReader
from puffin.lookup import Lookup
from puffin.lookup.planner import lookup
from puffin.lookup.question import Question
from puffin.statistics import assemble
from puffin.statistics.draft import surplus_entries
from puffin.storage import LocalStore
from puffin.tables.statistics_json import entry_to_json
from tests.statistics.made_rows import mixed

OF_METADATA = {"ndv", "sidecar"}


@pytest.fixture
def always(monkeypatch):
    """So that entries of a single column are abridged too."""
    monkeypatch.setattr(assemble, "MOST_WHOLE", 0)


def answers(table, columns: list[str] | None = None) -> list[dict]:
    """Return what a lookup and a history say of each column, without the ids of snapshots."""
    found = lookup(table.table, Question(table.name, columns)).columns
    documents = [{**c.to_json(), "stats-snapshot-id": None} for c in found]
    asked = Lookup(catalog="beside", catalog_properties=table.properties)
    points = [asked.history(table.name, c.column.name).points for c in found]
    return [
        {**document, "history": [(p.distinct, p.summary) for p in of_column]}
        for document, of_column in zip(documents, points, strict=True)
    ]


def footers(table) -> list[list[dict]]:
    """Return the properties of all blobs in the files of all entries, without our mark."""
    found = []
    for entry in table.state.statistics.values():
        blobs = PuffinReader(Path(entry.statistics_path.removeprefix("file://")).read_bytes()).file_metadata.blobs
        found.append([{key: text for key, text in blob.properties.items() if key != "sidecar"} for blob in blobs])
    return found


def test_abridged_entries_answer_as_whole_ones_do(shared, monkeypatch):
    """Tables live the same life; one has short entries, one whole ones, and one now these, now those."""
    seed = random.Random().randrange(1 << 30)
    tables = [shared(name, mixed(random.Random(seed), 5000)) for name in ("short", "whole", "both")]
    steps = random.Random(seed)
    for step in range(4):
        kind, columns = steps.choice(("append", "delete")), steps.choice((None, ("many",), ("few", "text")))
        said = []
        for table, most in zip(tables, (0, 1000, steps.choice((0, 1, 1000))), strict=True):
            monkeypatch.setattr(assemble, "MOST_WHOLE", most)
            if step and kind == "append":
                table.append(mixed(random.Random(seed + step), 300))
            elif step:
                table.delete(f"many < {step * 900}")
            report = table.analyze(columns=columns if step else None, no_values=bool(step == 2 and columns))
            said.append((answers(table), footers(table), report.rows_read, [c.basis for c in report.columns]))
        assert said[0] == said[1] == said[2], f"seed {seed}, step {step}"
    properties = [dict(blob.properties) for entry in tables[0].state.statistics.values() for blob in entry.blobs]
    assert all(each.keys() <= {*OF_METADATA, "puffin-sidecar.values"} for each in properties), properties


def test_entries_of_more_than_256_columns_are_abridged(shared, draft_of):
    """At most 160 bytes a column stay; once a column goes, the entry of the others is whole again."""
    names = [f"c{number}" for number in range(257)]
    table = shared("wide", pa.table({name: pa.array([1, 2, 3], pa.int64()) for name in names}))
    opened = table.table.open()
    entry = draft_of(table.table, dict.fromkeys(names, (1, 2, 3))).write(opened, [])
    assert all(dict(blob.properties) == {"ndv": "3", "sidecar": "1"} for blob in entry.blobs)
    assert len(json.dumps(entry_to_json(entry), separators=(",", ":"))) < 257 * 160
    opened.commit(entry)
    wide, (stored,) = answers(table, names[:1]), footers(table)
    assert wide[0]["exact"]
    with table.load().update_schema() as update:
        update.delete_column(names[1])
    entry = draft_of(table.table, {names[2]: (1, 2, 3)}).write(table.table.open(), [table.entry])
    assert [dict(blob.properties) for blob in entry.blobs] == stored[1:]
    table.table.open().commit(entry)
    assert answers(table, names[:1]) == wide


def test_footer_of_an_abridged_entry_is_read_once_for_a_version_of_the_metadata(shared, always, opened):
    table = shared("t", mixed(random.Random(1), 100))
    table.analyze()
    opened.clear()
    asked = Lookup(catalog="beside", catalog_properties=table.properties)
    for column in ("few", "many", "text", "few"):
        assert asked.ndv(table.name, [column]).columns[0].summary.row_count == 100
    assert [uri.endswith(".stats") for uri in opened].count(True) == 1


@pytest.mark.parametrize("lg_k", [12, 8])
def test_entry_whose_file_is_lost_answers_with_nominal_bounds_until_the_next_run(shared, always, lg_k):
    table = shared("t", mixed(random.Random(2), 9000))
    before = {c.column.name: c for c in table.analyze(lg_k=lg_k).columns}
    path = Path(table.entry.statistics_path.removeprefix("file://"))
    path.unlink()
    for answer in lookup(table.table, Question(table.name)).columns:
        distinct, known = answer.distinct, before[answer.column.name].distinct
        assert (distinct.ndv, distinct.exact, answer.summary, answer.is_provisional) == (known.ndv, False, None, False)
        assert distinct.upper - distinct.lower >= 0.98 * (known.upper - known.lower)
    report = table.analyze(lg_k=lg_k)
    assert report.rows_read == 9000
    assert [c.distinct for c in report.columns] == [c.distinct for c in before.values()]
    assert all(answer.summary.row_count == 9000 for answer in lookup(table.table, Question(table.name)).columns)


def test_rows_without_a_hash_are_not_taken_for_nulls_if_the_file_is_lost(shared, always):
    """Private state is still there, but only the lost file had the null count."""
    table = shared("t", pa.table({"s": [""] * 300 + ["a"] * 700}))
    table.analyze()
    Path(table.entry.statistics_path.removeprefix("file://")).unlink()
    for added in (0, 500):
        asked = Lookup(catalog="beside", catalog_properties=table.properties)
        for where, true in (("s is null", 0), ("s = ''", 300), ("s != 'b'", 1000 + added), ("s > ''", 700 + added)):
            _, lower, upper = asked.estimate(table.name, where).rows.rounded()
            assert lower <= true <= upper, where
        assert "cannot be read" in asked.distribution(table.name, "s").reason
        table.append(pa.table({"s": ["c"] * 500}))


def test_answer_is_provisional_and_a_run_fails_if_storage_fails_for_the_footer(shared, always, monkeypatch, caplog):
    table = shared("t", mixed(random.Random(3), 100))
    table.analyze()

    open_source = LocalStore.open_source

    def fail(store, uri):
        if uri.endswith(".stats"):
            raise StorageError(f"{uri}: timed out")
        return open_source(store, uri)

    monkeypatch.setattr(LocalStore, "open_source", fail)
    found = lookup(table.table, Question(table.name))
    assert found.is_provisional
    assert [column.distinct.exact for column in found.columns] == [False] * 3
    assert len(caplog.messages) == 1, "one file, one warning"
    with pytest.raises(StorageError, match="timed out"):
        table.analyze()
    monkeypatch.undo()
    assert not lookup(table.table, Question(table.name)).is_provisional


def test_engine_that_copies_the_footer_takes_all_properties_with_it(shared, always, trino_analyzes):
    """So what Trino kept is whole, what it computed anew is its own, and the next run abridges the entry again."""
    table = shared("t", mixed(random.Random(4), 5000))
    table.analyze()
    whole = answers(table)
    trino_analyzes(table, {"few": [1, 2, 3]})
    few, many, text = answers(table)
    assert [many, text] == whole[1:]
    assert (few["ndv"], few["exact"], few["row-count"]) == (3, False, None)
    assert len(surplus_entries(table.table.open(), table.entry.snapshot_id, 1)) == 0
    table.analyze()
    assert answers(table) == whole
    assert {frozenset(blob.properties) for blob in table.entry.blobs} == {frozenset(OF_METADATA)}
