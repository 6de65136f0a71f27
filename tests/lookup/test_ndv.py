"""What a lookup says of a column: from the metadata if possible, else from the sketch, with few reads."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import puffin
from puffin.errors import PuffinError
from puffin.format import PuffinReader
from puffin.load import load_table
from puffin.lookup import Question, lookup
from puffin.statistics import stored_blobs
from puffin.statistics.blob_properties import SketchProperties
from puffin.tables.base import SnapshotSelector
from puffin.tables.commit import commit_statistics
from tests.lookup.conftest import LookedUpTable
from tests.table_directory import publish

GOLDEN = Path(__file__).parents[2] / "fixtures" / "table-metadata-java"


def one(table, column="a"):
    (answer,) = lookup(table, Question(table.name, [column])).columns
    return answer


def ndvs(table, *columns):
    return [answer.ndv for answer in lookup(table, Question(table.name, columns or None)).columns]


# --- from metadata ------------------------------------------------------------------------------------------------


def test_ndv_in_the_metadata_opens_no_file(table_of, entry_of):
    table = table_of(entry_of(10, {1: 3, 2: 4}))
    assert ndvs(table, "a", "b") == [3, 4]
    assert table.files.opened == []


def test_other_engines_statistics_have_nominal_bounds_and_are_never_exact(table_of, entry_of):
    """They have only the estimate: two standard deviations of a sketch of 4096 entries."""
    distinct = one(table_of(entry_of(10, {1: 1000}))).distinct
    error = 2 * 1000 / math.sqrt(4096)
    assert (distinct.lower, distinct.upper) == (math.floor(1000 - error), math.ceil(1000 + error))
    assert distinct.exact is False


@pytest.mark.parametrize("ndv", [0, 1])
def test_other_engines_small_count_is_not_exact_either(table_of, entry_of, ndv):
    distinct = one(table_of(entry_of(10, {1: ndv}))).distinct
    assert (distinct.ndv, distinct.exact) == (ndv, False)
    assert distinct.lower <= ndv <= distinct.upper


@pytest.mark.parametrize("size", [0, 7, 20_000])
def test_our_own_statistics_have_the_sketchs_bounds(tmp_path, table_document, draft_of, size):
    publish(tmp_path, table_document(tmp_path))
    table = load_table(str(tmp_path))
    commit_statistics(table, draft_of(table, {"a": range(size)}))
    answer = puffin.ndv(str(tmp_path), ["a"])
    (column,) = answer.to_json()["columns"]
    assert column["exact"] is (size < 4096)
    assert (column["lower"] == column["upper"]) is (size < 4096)
    assert column["lower"] <= size <= column["upper"]
    assert column == {
        "column": "a",
        "field-id": 1,
        "type": "long",
        "ndv": column["ndv"],
        "lower": column["lower"],
        "upper": column["upper"],
        "exact": column["exact"],
        "stats-snapshot-id": 10,
        "source": "snapshot",
        **dict.fromkeys(("row-count", "null-count", "nan-count", "min", "max", "avg-bytes")),
        "snapshots-behind": 0,
        "records-added": 0,
        "records-deleted": 0,
    }


@pytest.mark.parametrize(
    "said",
    ["", "4.0", " 4", "4 ", "+4", "-4", "1e3", "0x4", "four", "４", "٤", "9" * 20, "9" * 5000],  # noqa: RUF001
)
def test_ndv_that_is_not_digits_is_ignored(table_of, entry_of, sketched, said):
    """The sketch answers, or an older entry if there is no sketch."""
    assert SketchProperties({"ndv": said}).distinct is None
    assert one(table_of(entry_of(10, {1: said}))).ndv is None
    assert one(table_of(entry_of(10, {1: 3}), entry_of(20, {1: said}), snapshots=(10, 20))).ndv == 3
    entry = sketched(10, {1: 5})
    entry["blob-metadata"][0]["properties"]["ndv"] = said
    assert one(table_of(entry)).ndv == 5


@pytest.mark.parametrize("bounds", ["", "1", "1,", ",9", "a,b", "5,9", "1,3", "9,1", "1,9,9", "-1,9"])
def test_contradictory_bounds_are_ignored(bounds):
    distinct = SketchProperties({"ndv": "4", "puffin-sidecar.bounds": bounds}).distinct
    assert distinct == SketchProperties({"ndv": "4"}).distinct


def test_blob_of_another_type_in_javas_golden_metadata_is_ignored():
    """Its type is "ndv" and it has no properties."""
    answer = puffin.ndv(str(GOLDEN / "TableMetadataStatisticsFiles.json"))
    assert [(c.column.name, c.ndv, c.source) for c in answer.columns] == [("x", None, "missing")]
    assert answer.snapshot_id == 3055729675574597004


def test_tables_analyzed_by_spark_are_looked_up(golden_tables):
    """Every ndv is the one that Spark put into the metadata."""
    directory = golden_tables / "t_types"
    state = load_table(str(directory)).open().state
    (entry,) = state.statistics.values()
    said = {blob.fields[0]: int(blob.properties["ndv"]) for blob in entry.blobs}
    answer = puffin.ndv(str(directory), snapshot_id=entry.snapshot_id)
    found = {c.column.field_id: c.ndv for c in answer.columns if c.ndv is not None}
    assert found == {field_id: ndv for field_id, ndv in said.items() if field_id in {c.field_id for c in state.columns}}
    assert len(found) > 5


# --- from the file ------------------------------------------------------------------------------------------------


def test_sketch_in_a_small_file_costs_one_read(table_of, sketched):
    table = table_of(sketched(10, {1: 3000, 2: 3000, 3: 3000}))
    assert ndvs(table, "a", "b") == [3000, 3000]
    assert len(table.files.reads) == len(table.files.opened) == 1


@pytest.mark.parametrize("size", [-1, 0, 20, 2**20, 2**62])
def test_statistics_file_of_another_size_is_missing_with_a_reason(table_of, sketched, size):
    entry = {**sketched(10, {1: 5}), "file-size-in-bytes": size}
    answer = one(table_of(entry))
    assert answer.source == "missing"
    assert entry["statistics-path"] in answer.to_json()["reason"]


@pytest.fixture
def no_small_files(monkeypatch):
    """Makes every statistics file too large to be read whole."""
    monkeypatch.setattr(stored_blobs, "SMALL_FILE", -1)


@pytest.mark.usefixtures("no_small_files")
def test_sketch_in_a_large_file_costs_two_reads(table_of, sketched):
    table = table_of(sketched(10, {1: 3000, 2: 3000, 3: 3000}))
    assert one(table, "b").ndv == 3000
    footer, blob = table.files.reads
    assert footer[0] > blob[0] + blob[1]
    entry = table.document["statistics"][0]
    assert footer[1] == entry["file-footer-size-in-bytes"]
    assert len(table.files.opened) == 1


@pytest.mark.usefixtures("no_small_files")
def test_adjacent_sketches_are_read_together(table_of, sketched):
    table = table_of(sketched(10, {1: 3000, 2: 2000, 3: 1000}))
    assert ndvs(table) == [3000, 2000, 1000]
    assert len(table.files.reads) == 2
    assert len(table.files.opened) == 1


@pytest.mark.usefixtures("no_small_files")
def test_sketches_of_other_columns_are_not_read(table_of, sketched):
    table = table_of(sketched(10, {1: 3000, 2: 3000, 3: 3000}))
    assert ndvs(table, "a") == [3000]
    (_, (offset, length)) = table.files.reads
    blob = PuffinReader(Path(table.document["statistics"][0]["statistics-path"]).read_bytes()).file_metadata.blobs[0]
    assert (offset, length) == (blob.offset, blob.length)


def test_other_engines_sketch_that_was_read_has_nominal_bounds(table_of, sketched):
    distinct = one(table_of(sketched(10, {1: 3}))).distinct
    assert (distinct.ndv, distinct.exact) == (3, False)


@pytest.mark.parametrize("damage", ["missing", "empty", "footer", "sizes"])
def test_unreadable_statistics_file_falls_back_to_an_ancestor(table_of, entry_of, sketched, damage):
    broken = sketched(20, {1: 5})
    path = Path(broken["statistics-path"])
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "footer":
        path.write_bytes(path.read_bytes()[:-4] + b"PFA2")
    else:
        broken["file-footer-size-in-bytes"] = 2**62
    table = table_of(entry_of(10, {1: 3}), broken, snapshots=(10, 20))
    answer = one(table)
    assert (answer.ndv, answer.stats_snapshot_id, answer.source) == (3, 10, "ancestor")


def test_broken_file_is_opened_once_for_all_columns(table_of, sketched):
    broken = sketched(10, {1: 5, 2: 5, 3: 5})
    path = Path(broken["statistics-path"])
    path.write_bytes(path.read_bytes()[:-4] + b"PFA2")
    table = table_of(broken)
    assert ndvs(table) == [None, None, None]
    assert len(table.files.opened) == 1


def test_broken_sketch_does_not_affect_its_neighbours(table_of, sketched):
    entry = sketched(10, {1: 3000, 2: 2000, 3: 1000})
    path = Path(entry["statistics-path"])
    data = bytearray(path.read_bytes())
    blob = PuffinReader(bytes(data)).file_metadata.blobs[1]
    data[blob.offset + 8 : blob.end] = bytes(blob.length - 8)
    path.write_bytes(data)
    assert ndvs(table_of(entry)) == [3000, None, 1000]


def test_sketch_that_the_file_lacks_is_missing(table_of, sketched):
    assert ndvs(table_of(sketched(10, {1: 5}, listed=[1, 2]))) == [5, None, None]


# --- hostile metadata ---------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def places(value, path=()):
    """Every place in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def replaced(value, path, new):
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@settings(max_examples=300)
@given(data=st.data())
def test_any_metadata_gives_an_answer_or_one_of_our_errors(data, table_document):
    entry = {
        "snapshot-id": 10,
        "statistics-path": "/nowhere/10.stats",
        "file-size-in-bytes": 100,
        "file-footer-size-in-bytes": 50,
        "blob-metadata": [
            {"type": "t", "snapshot-id": 10, "sequence-number": 1, "fields": [1], "properties": {"ndv": "3"}},
            {
                "type": "apache-datasketches-theta-v1",
                "snapshot-id": 10,
                "sequence-number": 1,
                "fields": [1],
                "properties": {"ndv": "3", "puffin-sidecar.bounds": "1,4"},
            },
        ],
    }
    refs = {"main": {"snapshot-id": 20, "type": "branch"}}
    document = table_document("/nowhere", snapshots=(10, 20), statistics=[entry], refs=refs)
    place = data.draw(st.sampled_from([path for path in places(document) if path]))
    document = replaced(document, place, data.draw(JSON))

    for columns, as_of_ms in ((None, None), (["a"], 1500)):
        with contextlib.suppress(PuffinError):
            lookup(LookedUpTable(document), Question("t", columns, SnapshotSelector(as_of_ms=as_of_ms)))
