"""Columns may have any name: none is a path, an escape or a reserved word, and each is found by its own."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from puffin.format import THETA_V1, PuffinReader
from puffin.load import load_table
from puffin.lookup import Question, lookup
from puffin.sketches.theta_sketch import ThetaSketch
from stats_jobs import Options, analyze

ROWS = 60
NAMES = [
    *("a.b", "a b", "q`x", 'dq"', "sq'", "名前", "é", "e\u0301", "😀", "a/b", "%41", "a=b", "0x", "-", "#", "$x"),
    "a,b",
    *("(p)", "{c}", "[d]", "a\\b", "tab\t", "line\n", ":", "*", "?", "_x002E", "_", "list", "element", "key_value"),
    *("pos", "file_path", "null", "true"),
]
INSIDE = pa.struct([("x.y", pa.int32()), ("p q", pa.string()), ("in", pa.struct([("a.b.c", pa.int64())]))])
NESTED = {
    "st": pa.array(
        [{"x.y": i % 3, "p q": f"s{i}", "in": {"a.b.c": i} if i % 5 else None} if i % 7 else None for i in range(ROWS)],
        INSIDE,
    ),
    "s.t": pa.array([{"u.v": i % 6} for i in range(ROWS)], pa.struct([("u.v", pa.int32())])),
}


@pytest.fixture
def made(tmp_path):
    """Makes a table of a SQL catalog, as pyiceberg writes it."""

    def make(rows):
        properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}
        catalog = load_catalog("odd", **properties)
        catalog.create_namespace("names")
        catalog.create_table("names.t", rows.schema).append(rows)
        return load_table("names.t", catalog="odd", catalog_properties=properties)

    return make


def stored(table, entry):
    with table.open().store_for(entry.statistics_path).open_source(entry.statistics_path) as source:
        reader = PuffinReader(source)
        sketches = [blob for blob in reader.file_metadata.blobs if blob.type == THETA_V1]
        return {b.fields[0]: payload for b, payload in zip(sketches, reader.read_all(sketches), strict=True)}


def test_columns_with_any_name_have_their_own_statistics(made):
    """The i-th column has i + 2 values, so that mix-ups show."""
    rows = pa.table({name: pa.array([row % (i + 2) for row in range(ROWS)]) for i, name in enumerate(NAMES)})
    table = made(rows)
    report = analyze(table)
    assert [answer.column.name for answer in report.columns] == NAMES
    payloads = stored(table, report.entry)
    for answer in report.columns:
        assert payloads[answer.column.field_id] == ThetaSketch.from_arrow(rows[answer.column.name], "long").to_bytes()
    for i, name in enumerate(NAMES):
        assert [column.ndv for column in lookup(table, Question(table.name, [name])).columns] == [i + 2]


def test_column_with_any_name_is_analyzed_by_name(made):
    table = made(pa.table({name: pa.array(range(i + 1)).slice(0, 1) for i, name in enumerate(NAMES)}))
    report = analyze(table, Options(columns=tuple(NAMES), commit=False))
    assert [answer.column.name for answer in report.columns] == NAMES


def test_dots_in_names_inside_structs_are_part_of_the_names(made):
    table = made(pa.table(NESTED))
    report = analyze(table)
    found = {answer.column.name: answer.ndv for answer in report.columns}
    texts = len([row for row in range(ROWS) if row % 7])
    longs = len([row for row in range(ROWS) if row % 7 and row % 5])
    assert found == {"st.x.y": 3, "st.p q": texts, "st.in.a.b.c": longs, "s.t.u.v": 6}
    for name, ndv in found.items():
        assert [column.ndv for column in lookup(table, Question(table.name, [name])).columns] == [ndv]
