"""``puffin ndv`` of some partitions: what it prints, and how it reports usage errors."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import puffin as library
from puffin.load import load_table
from puffin.sketches.partition_sketches import PartitionSketchesBuilder
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.assemble import ColumnStatistics
from puffin.statistics.draft import FileOptions, StatisticsDraft
from puffin.statistics.kinds import PARTITION_SKETCHES, THETA
from puffin.tables.base import SnapshotSelector
from puffin.tables.commit import commit_statistics
from puffin.values.partition_tuples import partition_key
from tests.table_directory import publish

FIELD = {"source-id": 2, "field-id": 1000, "name": "b", "transform": "identity"}


@pytest.fixture
def table(tmp_path, table_document):
    """The path of a table with partitions b = 0 to 3, a hundred values of a in each, and their sketches."""
    document = table_document(tmp_path, **{"partition-specs": [{"spec-id": 0, "fields": [FIELD]}]})
    publish(tmp_path, document)
    loaded = load_table(str(tmp_path))
    opened = loaded.open(SnapshotSelector(snapshot_id=10))
    builder = PartitionSketchesBuilder(9)
    for value in range(4):
        part = ThetaSketch.from_arrow(pa.array(range(value * 100, value * 100 + 100)), "long")
        builder.add(partition_key(0, {"1000": value}), part.theta, part.hashes)
    (column,) = opened.state.select_columns(("a",))
    sketch = ThetaSketch.from_arrow(pa.array(range(400)), "long")
    statistics = ColumnStatistics(column, {THETA: sketch, PARTITION_SKETCHES: builder.compact()})
    draft = StatisticsDraft(opened, [statistics], FileOptions())
    commit_statistics(loaded, draft)
    return tmp_path


def test_json_output_equals_the_python_call(puffin, table):
    run = puffin("ndv", table, "a", "--partition", "b=1", "--partition", "b=3", "--where", "b > 1", "--json")
    assert run.document == library.ndv(str(table), ["a"], partitions=["b=1", "b=3"], where="b > 1").to_json()
    assert run.document["partitions"] == {"matched": 1, "of": 4, "granularity": "partition"}
    assert run.document["columns"][0]["ndv"] == 100
    assert run.stderr == ""


def test_text_shows_the_partitions(puffin, table):
    lines = puffin("ndv", table, "--where", "b >= 2").text.splitlines()
    assert lines[2].split() == ["a", "long", "200", "exact"]
    assert lines[3].split()[:5] == ["b", "long", "-", "no", "statistics"]
    assert lines[-1] == "2 of 4 partitions, counted whole, so rows that do not match may be included"


def test_column_without_partition_sketches_is_missing(puffin, table):
    run = puffin("ndv", table, "c", "--partition", "b=1")
    assert run.code == 0
    assert "no statistics by partition: run puffin analyze --partitions" in run.text
    assert "of 4 partitions" not in run.text


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("--partition", "x=1"), 1, "no partition spec has x; the partition fields are b"),
        (("--partition", "b=one"), 2, "expected a value of identity of type long, found 'one'"),
        (("--where", "x = 1"), 1, "no column 'x'"),
        (("--where", "b = 'one'"), 2, "filter \"b = 'one'\""),
    ],
)
def test_invalid_name_or_value_is_one_line(puffin, table, args, code, says):
    run = puffin("ndv", table, *args)
    assert (run.code, run.stdout, len(run.stderr.splitlines())) == (code, b"", 1)
    assert says in run.stderr


def test_table_metadata_lists_only_the_theta_sketch(table):
    """Other readers know no other types; a property says that the file holds more."""
    (entry,) = json.loads((table / "metadata" / "v2.metadata.json").read_text())["statistics"]
    (blob,) = entry["blob-metadata"]
    assert blob["type"] == "apache-datasketches-theta-v1"
    assert blob["properties"]["puffin-sidecar.partitions"] == "4"
