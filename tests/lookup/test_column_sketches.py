"""Questions about two or more columns, checked against sets whose overlap is known."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.errors import ColumnNotFound, CorruptError, NotFoundError, UnsupportedTypeError
from puffin.format import THETA_V1, Blob, PuffinWriter
from puffin.load import load_table
from puffin.lookup import Lookup, Question
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.kinds import to_properties
from puffin.statistics.kinds.theta import ThetaKind
from puffin.tables.commit import commit_statistics
from tests.table_directory import publish


@pytest.fixture
def analyzed(tmp_path, table_document):
    """
    Makes a table with one analyzed column ``a`` of these values, and returns its directory.

    Its statistics are of the snapshot ``of``, and the column was ``once`` of another type.
    """

    def make(
        name,
        values,
        type_="long",
        *,
        lg_k=12,
        ours=True,
        rows=None,
        nulls=0,
        hashed_as=None,
        total=None,
        of=10,
        once=None,
        maker="Trino version 476",
    ):
        root = tmp_path / name
        (root / "metadata").mkdir(parents=True)
        integers = pa.int32() if "int" in (type_, hashed_as) else pa.int64()
        array = values if isinstance(values, pa.Array) else pa.array(values, integers)
        sketch = ThetaSketch.from_arrow(array, hashed_as or type_, lg_k)
        properties = to_properties({ThetaKind(lg_k): sketch}, hashed_as or type_) if ours else {"ndv": str(sketch.ndv)}
        if rows is not None:
            properties["puffin-sidecar.summary"] = json.dumps([rows, nulls, None, None, None, None])
        path = root / "metadata" / "10.stats"
        with path.open("wb") as file:
            writer = PuffinWriter(file, properties={"created-by": maker})
            place = {"type": THETA_V1, "fields": (1,), "snapshot_id": of, "sequence_number": 1}
            writer.add(Blob(payload=sketch.to_bytes(), properties=properties, **place))
            written = writer.finish()
        entry = {
            "snapshot-id": 10,
            "statistics-path": str(path),
            "file-size-in-bytes": written.file_size,
            "file-footer-size-in-bytes": written.footer_size,
            "blob-metadata": [
                {"type": THETA_V1, "snapshot-id": of, "sequence-number": 1, "fields": [1], "properties": properties}
            ],
        }
        document = table_document(root, columns=("a",), statistics=[entry])
        (schema,) = document["schemas"]
        schema["fields"][0]["type"] = type_
        if once is not None:
            fields = [{**schema["fields"][0], "type": once}]
            document["schemas"].append({**schema, "schema-id": 1, "fields": fields})
        if total is not None:
            no_deletes = {"total-position-deletes": "0", "total-equality-deletes": "0"}
            document["snapshots"][0]["summary"] |= {"total-records": str(total), **no_deletes}
        publish(root, document)
        return str(root)

    return make


@pytest.fixture
def lookup():
    return Lookup()


def joined(lookup, left, right):
    return lookup.estimate_join(left, "a", right, "a")


# --- overlap ------------------------------------------------------------------------------------------------------

SIZES = [(50, 40), (3_000, 3_000), (20_000, 30_000), (200_000, 6_000)]
SHARES = [0, 0.1, 0.5, 0.9, 1]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("share", SHARES)
def test_overlap_of_known_sets_is_within_three_sigma(sizes, share):
    """Twenty pairs; sigma is a sixth of the width of the interval of three standard deviations on either side."""
    left_size, right_size = sizes
    common = int(share * min(sizes))
    left = ThetaSketch.from_arrow(pa.array(range(left_size), pa.int64()), "long")
    right = ThetaSketch.from_arrow(pa.array(range(left_size - common, left_size - common + right_size)), "long")
    both = left.intersect(right)
    assert both.lower_bound(3) <= common <= both.upper_bound(3)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("share", SHARES)
def test_answers_hold_for_known_sets(lookup, analyzed, sizes, share):
    """Bounds are of two standard deviations, widened here by half to three."""
    left_size, right_size = sizes
    common = int(share * min(sizes))
    start = left_size - common
    left = analyzed("left", range(left_size), rows=2 * left_size)
    right = analyzed("right", range(start, start + right_size), rows=3 * right_size)
    found = joined(lookup, left, right)
    slack = (found.overlap.upper - found.overlap.lower) / 2
    assert found.overlap.lower - slack <= common <= found.overlap.upper + slack
    assert found.left.containment == pytest.approx(common / left_size, abs=0.12)
    assert found.right.containment == pytest.approx(common / right_size, abs=0.12)
    assert found.jaccard == pytest.approx(common / (left_size + right_size - common), abs=0.12)
    assert found.join_rows == pytest.approx(6 * common, rel=0.15, abs=9 * slack)
    assert found.overlap.exact is (max(sizes) < 4096)


def side(which: str, *found: tuple[int, int, int]) -> dict[str, int]:
    kinds = zip(("", "-semi", "-anti", "-outer"), found, strict=True)
    ends = ("rows", "lower", "upper")
    return {f"{which}{kind}-{end}": rows for kind, of in kinds for end, rows in zip(ends, of, strict=True)}


def test_json_document_has_the_contracted_keys(lookup, analyzed):
    left, right = analyzed("left", range(10), rows=100), analyzed("right", range(5, 25), rows=40)
    assert joined(lookup, left, right).to_json() == {
        "left": {"table": left, "column": "a", "ndv": 10, "row-count": 100},
        "right": {"table": right, "column": "a", "ndv": 20, "row-count": 40},
        "overlap-ndv": 5,
        "overlap-lower": 5,
        "overlap-upper": 5,
        "containment-left": 0.5,
        "containment-right": 0.25,
        "jaccard": 0.2,
        "join-rows": 100,
        "join-lower": 0,
        "join-upper": 4000,
        "selectivity": 0.025,
        "method": "theta",
        **side("left", (100, 100, 100), (50, 0, 100), (50, 0, 100), (150, 100, 4100)),
        **side("right", (40, 40, 40), (10, 0, 40), (30, 0, 40), (130, 40, 4040)),
        "left-methods": [],
        "right-methods": [],
        **{
            f"{of}-{key}": 0
            for of in ("left", "right")
            for key in ("snapshots-behind", "records-added", "records-deleted")
        },
    }


def test_nulls_do_not_join(lookup, analyzed):
    left, right = analyzed("left", range(10), rows=100, nulls=50), analyzed("right", range(10), rows=10)
    assert joined(lookup, left, right).join_rows == 50


def test_row_count_comes_from_the_snapshot_for_other_engines_statistics(lookup, analyzed):
    left = analyzed("left", range(10), ours=False, total=100)
    right = analyzed("right", range(10), ours=False, total=20)
    found = joined(lookup, left, right)
    assert (found.left.row_count, found.right.row_count, found.join_rows) == (100, 20, 200)


def test_join_rows_are_unknown_without_row_counts(lookup, analyzed):
    found = joined(lookup, analyzed("left", range(10)), analyzed("right", range(10), rows=10))
    assert (found.left.row_count, found.join_rows) == (None, None)
    assert found.overlap.ndv == 10


def test_no_side_overlap_or_union_has_more_values_than_rows(lookup, analyzed):
    """The sketch of these values estimates more than there are."""
    table = analyzed("table", range(50_000), rows=50_000)
    assert ThetaSketch.from_arrow(pa.array(range(50_000), pa.int64()), "long").ndv > 50_000
    (known,) = lookup.ndv(table, ["a"]).columns
    found = joined(lookup, table, table)
    assert known.distinct.ndv == found.left.ndv == found.right.ndv == 50_000
    assert known.distinct == found.overlap == lookup.union_ndv([(table, "a")]).distinct


def test_empty_column_joins_nothing(lookup, analyzed):
    found = joined(lookup, analyzed("left", [], rows=5, nulls=5), analyzed("right", range(10), rows=10))
    assert (found.overlap.ndv, found.join_rows, found.jaccard) == (0, 0, 0)
    assert (found.left.containment, found.right.containment) == (None, 0)


def test_unknown_overlap_assumes_that_the_smaller_side_is_contained(lookup, analyzed):
    """Of three values none may be among the sampled ones of a million."""
    left, right = analyzed("left", [-1, -2, -3], rows=3), analyzed("right", range(10**6), rows=10**6)
    found = joined(lookup, left, right)
    assert found.left.containment is None
    assert (found.overlap.lower, found.overlap.ndv, found.overlap.upper) == (0, 0, 3)
    assert found.join_rows == 3


def test_sketches_of_different_sizes_can_be_compared(lookup, analyzed):
    found = joined(lookup, analyzed("left", range(50_000), lg_k=14), analyzed("right", range(25_000, 75_000), lg_k=10))
    assert found.overlap.lower <= 25_000 <= found.overlap.upper


# --- types --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"), [("int", "long"), ("float", "double"), ("date", "timestamp"), ("decimal(9, 2)", "decimal(9, 3)")]
)
def test_columns_with_different_hashes_are_refused_by_name(lookup, analyzed, left, right):
    empty = pa.array([], pa.null())
    tables = analyzed("left", empty, left), analyzed("right", empty, right)
    with pytest.raises(UnsupportedTypeError) as refused:
        joined(lookup, *tables)
    assert f"hashed as {left} and" in str(refused.value)
    assert f" as {right}:" in str(refused.value)
    assert "analyze them again" in str(refused.value)


def test_decimals_of_different_precision_can_be_compared(lookup, analyzed):
    values = pa.array([1, 2], pa.decimal128(9, 2))
    assert joined(lookup, analyzed("l", values, "decimal(9, 2)"), analyzed("r", values, "decimal(12, 2)")).jaccard == 1


def test_type_at_the_time_of_hashing_counts(lookup, analyzed):
    """The column was promoted after it had been analyzed."""
    tables = analyzed("left", [1, 2], "long", hashed_as="int"), analyzed("right", [1, 2], "long")
    with pytest.raises(UnsupportedTypeError, match="hashed as int"):
        joined(lookup, *tables)


@pytest.mark.parametrize("both", [True, False])
def test_uuids_hashed_by_icebergs_spark_action_are_refused(lookup, analyzed, both):
    values, spark = pa.array([bytes(16)], pa.binary(16)), "Iceberg Apache Iceberg 1.12.0 (commit 0a1b2c) Spark 4.1.0"
    left = analyzed("left", values, "uuid", ours=False, maker=spark)
    right = analyzed("right", values, "uuid", ours=not both, maker=spark)
    with pytest.raises(UnsupportedTypeError, match="text of a uuid"):
        joined(lookup, left, right)


@pytest.mark.parametrize("maker", ["presto-0.287-b8952fa", "Trino-like version 1"])
def test_sketches_of_engines_with_other_or_unknown_hashes_are_refused(lookup, analyzed, maker):
    """No number is better than a wrong one."""
    left = analyzed("left", range(10), ours=False, maker=maker)
    with pytest.raises(UnsupportedTypeError, match="column a: its sketch was written by"):
        joined(lookup, left, analyzed("right", range(10)))


def test_foreign_statistics_of_an_expired_snapshot_may_be_of_another_type(lookup, analyzed):
    """Nobody knows which of the column's types was hashed."""
    table = analyzed("t", [1, 2], ours=False, of=5, once="int")
    with pytest.raises(UnsupportedTypeError, match="the statistics do not say of which type it was"):
        joined(lookup, table, table)
    table = analyzed("u", [1, 2], ours=False, of=5)
    assert joined(lookup, table, table).jaccard == 1


def test_tables_of_different_formats_can_be_compared(lookup, analyzed, draft_of, tmp_path):
    write_deltalake(tmp_path / "delta", pa.table({"a": pa.array(range(30), pa.int64())}))
    delta = load_table(str(tmp_path / "delta"))
    commit_statistics(delta, draft_of(delta, {"a": range(30)}))
    found = joined(lookup, analyzed("iceberg", range(20, 40)), str(tmp_path / "delta"))
    assert (found.overlap.ndv, found.left.containment, found.jaccard) == (10, 0.5, 0.25)


# --- what is missing ----------------------------------------------------------------------------------------------


def test_missing_column_statistics_or_snapshot_is_reported(lookup, analyzed, directory):
    table = analyzed("t", range(3))
    with pytest.raises(ColumnNotFound, match="'absent'"):
        lookup.estimate_join(table, "a", table, "absent")
    with pytest.raises(NotFoundError, match="column a: no statistics: run puffin analyze"):
        lookup.estimate_join(table, "a", str(directory("bare")), "a")
    with pytest.raises(NotFoundError, match="no snapshot yet"):
        lookup.estimate_join(table, "a", str(directory("empty", snapshots=())), "a")


def test_broken_sketch_is_reported(lookup, analyzed):
    table = analyzed("t", range(3000))
    path = Path(table, "metadata", "10.stats")
    data = path.read_bytes()
    path.write_bytes(data[:8] + bytes(1000) + data[1008:])
    with pytest.raises(CorruptError, match=r"t: column a: "):
        joined(lookup, table, table)


# --- kept ---------------------------------------------------------------------------------------------------------


def test_cached_estimate_lasts_until_one_of_its_tables_changes(analyzed):
    now = [0.0]
    lookup = Lookup(ttl_seconds=10, clock=lambda: now[0])
    left, right = analyzed("left", range(10), rows=10), analyzed("right", range(10), rows=10)
    first = joined(lookup, left, right)
    now[0] += 10
    assert joined(lookup, left, right) is first
    version = Path(right, "metadata", "v1.metadata.json")
    Path(right, "metadata", "v2.metadata.json").write_text(version.read_text().replace("[10, 0,", "[70, 0,"))
    assert joined(lookup, left, right) is first
    now[0] += 10
    assert joined(lookup, left, right).join_rows == 70


# --- unions -------------------------------------------------------------------------------------------------------


def test_union_of_columns_counts_shared_values_once(lookup, analyzed):
    one, two = analyzed("one", range(100)), analyzed("two", range(50, 200))
    assert lookup.union_ndv([(one, "a"), (two, "a")]).to_json() == {
        "columns": [{"table": one, "column": "a"}, {"table": two, "column": "a"}],
        "ndv": 200,
        "lower": 200,
        "upper": 200,
        "exact": True,
    }


def test_union_keeps_the_size_of_the_largest_sketch(lookup, analyzed):
    tables = analyzed("one", range(10_000), lg_k=14), analyzed("two", range(100))
    assert lookup.union_ndv([(table, "a") for table in tables]).distinct.ndv == 10_000


def test_union_of_types_with_different_hashes_is_refused(lookup, analyzed):
    tables = analyzed("one", [1]), analyzed("two", [1], "int")
    with pytest.raises(UnsupportedTypeError):
        lookup.union_ndv([(table, "a") for table in tables])


def test_partitions_of_several_tables_have_a_union(lookup, directory, by_partition):
    spec = {"spec-id": 0, "fields": [{"source-id": 2, "field-id": 1000, "name": "b", "transform": "identity"}]}
    values = {(0, '{"1000":1}'): range(10), (0, '{"1000":2}'): range(5, 30)}
    table = str(directory("t", by_partition(10, {1: values}), **{"partition-specs": [spec]}))
    parts = [Question(table, ("a",), partitions=(f"b={value}",)) for value in (1, 2)]
    assert lookup.union_ndv(parts[1:]).distinct.ndv == 25
    assert lookup.union_ndv(parts).distinct.ndv == 30
