"""Every plan gives the sketch of the whole column, and uses the fast way where it is safe."""

import collections
import dataclasses
import io
import shutil
import subprocess
import sysconfig
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from puffin import kernels
from puffin.files.parquet import chunk_plan as parquet_plan
from puffin.files.parquet import writers as parquet_writers
from puffin.files.parquet.chunk_plan import ChunkPlanner, Route
from puffin.sketches.row_counts import RowCountsBuilder, row_counts_limit
from puffin.sketches.theta_sketch import ThetaSketch, ThetaSketchBuilder
from puffin.values.column_chunk import Values
from tests.counting import count_rows

pytestmark = pytest.mark.usefixtures("compiled")

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parquet-writers"
ROWS = 900
USED = pa.array([0, 2] * (ROWS // 2), pa.int32())
WITH_UNUSED = pa.DictionaryArray.from_arrays(USED, ["used", "unused", "also used"])
PAGE, PAGES, ROW_BY_ROW = Route.DICTIONARY_PAGE, Route.PAGES, Route.ROWS
LIMIT = row_counts_limit(12)
TYPES = {
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.int8(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    **{pa.decimal128(precision, 2): f"decimal({precision}, 2)" for precision in (9, 18, 30)},
}


def written(table, **options):
    sink = io.BytesIO()
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), sink, **options)
    return sink.getvalue()


def opened(file, **options):
    return pq.ParquetFile(pa.BufferReader(file), **options)


def routes(file, *paths, all_live=True, each_row=False):
    """The routes of each row group, without a tuple for a single path."""
    parquet = opened(file)
    planner = ChunkPlanner(parquet.metadata, parquet.schema_arrow)
    split = [tuple(path.split(".")) for path in paths]
    groups = range(parquet.metadata.num_row_groups)
    plans = [planner.plan(i, split, all_live=all_live, each_row=each_row) for i in groups]
    return [tuple(plan[path].route for path in split) if len(split) > 1 else plan[split[0]].route for plan in plans]


def check(file, **expected):
    """Check that every column's routes give the sketch of the whole column; for some, check the routes too."""
    parquet = opened(file)
    planner = ChunkPlanner(parquet.metadata, parquet.schema_arrow)
    leaves = {tuple(c.path.split(".")) for c in (parquet.schema.column(i) for i in range(len(parquet.schema.names)))}
    for path in leaves:
        column = leaf(parquet.read(), path)
        type_string = TYPES[column.type.value_type if pa.types.is_dictionary(column.type) else column.type]
        sketch, counts = ThetaSketchBuilder(), RowCountsBuilder(LIMIT)
        for group in range(parquet.metadata.num_row_groups):
            plan = planner.plan(group, [path], all_live=True, each_row=False)[path]
            assert plan.route is expected.get(path[0], plan.route), path
            for values in found_by(plan, file, group, path):
                sketch.update(values.array, type_string)
            plan = planner.plan(group, [path], all_live=True, each_row=True)[path]
            for values in found_by(plan, file, group, path):
                count_rows(counts, values.array, type_string, values.rows)
        assert sketch.compact() == ThetaSketch.from_arrow(column, type_string), path
        counted = RowCountsBuilder(LIMIT)
        count_rows(counted, column, type_string)
        assert counts.compact() == counted.compact(), path


def found_by(plan, file, group, path):
    """What a plan leads to: each value of the chunk once, or the column as pyarrow reads it."""
    found = plan.read(pa.BufferReader(file))
    assert (found is None) == (plan.route is ROW_BY_ROW)
    if found is not None:
        return list(found)
    is_encoded = plan.reads_as_dictionary(pa.BufferReader(file))
    encoded = [".".join(path)] if is_encoded else None
    column = leaf(opened(file, read_dictionary=encoded).read_row_group(group), path)
    assert pa.types.is_dictionary(column.type) or not is_encoded
    return [Values(column)]


def leaf(table, path):
    column = table.column(path[0])
    for name in path[1:]:
        column = pa.chunked_array([chunk.flatten()[chunk.type.get_field_index(name)] for chunk in column.chunks])
    return column


# --- chunks -------------------------------------------------------------------------------------------------------


def test_dictionary_encoded_columns_are_read_from_their_dictionary_page():
    check(written({"s": ["a", None, "b"] * 300, "i": [1, 2, None] * 300}), s=PAGE, i=PAGE)


def test_chunk_that_fell_back_is_read_from_its_pages():
    """The first ones hold indices, the others values."""
    texts = [f"text {i}" for i in range(ROWS)]
    file = written({"s": texts}, dictionary_pagesize_limit=1000, data_page_size=500, write_batch_size=50)
    assert len({stats.encoding for stats in plan_of(file).chunk.encoding_stats if stats.page_type == 0}) == 2
    check(file, s=PAGES)


def plan_of(file, path=("s",)):
    parquet = opened(file)
    return ChunkPlanner(parquet.metadata, parquet.schema_arrow).plan(0, [path], all_live=True, each_row=False)[path]


def test_each_row_group_is_planned_separately():
    texts = ["a", "b"] * (ROWS // 2) + [f"text {i}" for i in range(ROWS)]
    file = written({"s": texts}, row_group_size=ROWS, dictionary_pagesize_limit=1000, write_batch_size=50)
    assert routes(file, "s") == [PAGE, PAGES]
    check(file)


def test_columns_without_dictionaries_are_read_from_their_pages():
    check(written({"s": ["a"] * ROWS}, use_dictionary=False), s=PAGES)


def test_columns_of_other_encodings_are_read_from_their_pages():
    columns = {"i": range(ROWS), "s": [f"{i}" for i in range(ROWS)], "x": [i / 2 for i in range(ROWS)]}
    encodings = {"i": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY", "x": "BYTE_STREAM_SPLIT"}
    check(written(columns, use_dictionary=False, column_encoding=encodings), i=PAGES, s=PAGES, x=PAGES)


def test_columns_of_other_types_are_read_row_by_row():
    file = written({"i": pa.array(range(ROWS), pa.uint64())})
    assert routes(file, "i", each_row=True) == [ROW_BY_ROW]


def test_nulls_and_empty_row_groups_change_no_sketch():
    check(written({"s": pa.nulls(ROWS, pa.string()), "i": pa.nulls(ROWS, pa.int32())}))
    check(written({"s": pa.array([], pa.string())}))
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, pa.schema([("s", pa.string())])) as writer:
        for texts in (["a", "b"], [], [None], ["b", "c"]):
            writer.write_table(pa.table({"s": pa.array(texts, pa.string())}))
    check(sink.getvalue())


def test_every_row_is_read_if_some_rows_are_deleted():
    """A value may occur only in the deleted rows; text is still read as a dictionary."""
    file = written({"s": ["a", "b"] * 300, "i": [1, 2] * 300})
    assert routes(file, "s", "i", all_live=False) == [(ROW_BY_ROW, ROW_BY_ROW)]
    parquet = opened(file)
    plans = ChunkPlanner(parquet.metadata, parquet.schema_arrow).plan(
        0, [("s",), ("i",)], all_live=False, each_row=True
    )
    assert [plan.reads_as_dictionary(pa.BufferReader(file)) for plan in plans.values()] == [True, False]


def test_row_counts_need_the_indices():
    file = written({"s": ["a", "b"] * 300, "i": [1, 2] * 300})
    assert routes(file, "s", "i", each_row=True) == [(PAGES, PAGES)]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("rows", "version", "are_counted"),
    [
        ([5, 3, 4, 1], "1.0", False),
        ([5, 3, 4, 1], "2.0", False),
        ([5, None, 4, 1], "1.0", True),  # only the levels tell that there is one null
        ([5, None, 4, 1], "2.0", False),
        ([5, 3, 4, 4], "1.0", True),
        ([5, None, 4, 4], "2.0", True),
        ([None, None, None, None], "2.0", False),
    ],
)
@pytest.mark.parametrize("group", [4, 2])
def test_indices_are_not_counted_if_each_entry_has_one_row(rows, version, are_counted, group, monkeypatch):
    file = written({"n": pa.array(rows, pa.int64())}, data_page_version=version, row_group_size=group)
    parquet = opened(file)
    planner = ChunkPlanner(parquet.metadata, parquet.schema_arrow)
    first, *others = (
        planner.plan(i, [("n",)], all_live=True, each_row=True)[("n",)] for i in range(len(rows) // group)
    )
    found = list(first.read(pa.BufferReader(file), others))
    counted = collections.Counter()
    for values in found:
        counts = [1] * len(values.array) if values.rows is None else values.rows.tolist()
        for value, count in zip(values.array.to_pylist(), counts, strict=True):
            counted[value] += count
    assert counted == collections.Counter(row for row in rows if row is not None)
    assert any(values.rows is not None for values in found) == are_counted


def test_only_trusted_dictionaries_are_used_without_compiled_kernels(monkeypatch):
    monkeypatch.setattr(kernels, "_is_ready", False)
    file = written({"s": ["a", "b"] * 300, "i": [1, 2] * 300})
    assert routes(file, "s", "i") == [(PAGE, PAGE)]
    assert routes(file, "s", "i", each_row=True) == [(ROW_BY_ROW, ROW_BY_ROW)]
    check(file)


def test_leaves_in_structs_are_planned_by_their_path():
    children = [pa.array(["a", "hidden"] * 300), pa.array([1, 99] * 300)]
    inner = pa.StructArray.from_arrays(children, ["s", "i"], mask=pa.array([False, True] * 300))
    file = written({"c": pa.StructArray.from_arrays([inner], ["d"])})
    assert routes(file, "c.d.s", "c.d.i") == [(PAGE, PAGE)]
    check(file)


@pytest.mark.parametrize("path", ["st", "list", "list.list.element", "absent", "s.absent"])
def test_path_without_a_leaf_is_read_row_by_row(path):
    file = written({"s": ["a"] * 9, "st": [{"x": 1}] * 9, "list": [[1]] * 9})
    assert routes(file, path) == [ROW_BY_ROW]


def test_two_columns_with_one_name_have_no_plan():
    twice = pa.Table.from_arrays([pa.array(["a"] * 9), pa.array(["b"] * 9)], names=["s", "s"])
    assert routes(written(twice), "s") == [ROW_BY_ROW]


def test_name_with_a_dot_is_not_a_path():
    file = written(pa.table({"a.b": ["x"] * 9, "a": [{"b": "y"}] * 9}))
    parquet = opened(file)
    plans = ChunkPlanner(parquet.metadata, parquet.schema_arrow).plan(
        0, [("a.b",), ("a", "b")], all_live=True, each_row=False
    )
    found = [next(plan.read(pa.BufferReader(file))).array.to_pylist() for plan in plans.values()]
    assert found == [["x"], ["y"]]


def test_unexpected_page_gives_no_values():
    file = written({"s": ["a", "b"] * 300})
    plan = plan_of(file)
    assert plan.read(pa.BufferReader(bytes(len(file)))) is None


def test_unreadable_footer_makes_every_chunk_plain(monkeypatch):
    file = written({"s": ["a", "b"] * 300})
    monkeypatch.setattr("puffin.files.parquet.parquet_footer._FILE_META_DATA", {2: None, 4: None})
    assert routes(file, "s") == [ROW_BY_ROW]


@settings(max_examples=40)
@given(
    texts=st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=60),
    numbers=st.lists(st.none() | st.integers(-3, 300), min_size=1, max_size=60),
    group=st.sampled_from([7, 40, 1000]),
    limit=st.sampled_from([20, 2**20]),
    schema=st.booleans(),
    page_version=st.sampled_from(["1.0", "2.0"]),
)
def test_any_column_gives_the_sketch_of_the_plain_path(texts, numbers, group, limit, schema, page_version):
    options = {"row_group_size": group, "dictionary_pagesize_limit": limit, "store_schema": schema}
    options |= {"data_page_version": page_version, "write_batch_size": 4, "data_page_size": 16}
    check(written({"s": pa.array(texts * 9, pa.string())}, **options))
    check(written({"i": pa.array(numbers * 9, pa.int64())}, **options))
    values = pa.array(sorted(set(texts) - {None}) or [""])
    indices = pa.array([None if i is None else i % len(values) for i in numbers * 9], pa.int32())
    check(written({"d": pa.DictionaryArray.from_arrays(indices, values)}, **options))


# --- writers: Arrow -----------------------------------------------------------------------------------------------


def test_arrows_dictionary_arrays_are_not_trusted():
    """Arrow writes unused values too, and only ARROW:schema would show it, so the indices are always checked."""
    untraced = written({"s": WITH_UNUSED}, store_schema=False)
    assert opened(untraced, read_dictionary=["s"]).read()["s"].chunk(0).dictionary.to_pylist() == [
        "used",
        "unused",
        "also used",
    ]
    check(untraced, s=PAGES)
    check(written({"s": WITH_UNUSED}), s=PAGES)
    nested = {"c": pa.StructArray.from_arrays([WITH_UNUSED], ["s"])}
    check(written(nested), c=PAGES)
    check(written(nested, store_schema=False), c=PAGES)


def test_arrow_file_without_its_schema_is_not_trusted():
    file = written({"s": ["a", "b"] * 300, "i": [1, 2] * 300}, store_schema=False)
    assert routes(file, "s", "i") == [(PAGES, PAGES)]


@pytest.mark.parametrize(
    "writer", [b"parquet-CPP-arrow version", b"parquet-cpp-arrow-version", b"fantasy-cpp-arrow version"]
)
def test_unknown_writer_is_not_trusted(writer):
    file = written({"s": ["a", "b"] * 300, "i": [1, 2] * 300})
    assert file.count(b"parquet-cpp-arrow version") == 1
    file = file.replace(b"parquet-cpp-arrow version", writer)
    assert routes(file, "s", "i") == [(PAGES, PAGES)]


def test_broken_arrow_schema_is_ignored(monkeypatch):
    monkeypatch.setattr(parquet_writers, "_ARROW_SCHEMA", b"broken")
    schema = pa.schema([("s", pa.string())], metadata={"broken": "bm90IGEgc2NoZW1h"})
    assert routes(written(pa.table({"s": ["a"] * 9}, schema=schema)), "s") == [PAGES]


def test_large_dictionary_is_not_repeated_in_every_batch(monkeypatch):
    file = written({"s": ["a", "b"] * 300}, store_schema=False)
    size = plan_of(file).chunk.dictionary_page_size
    for limit, pays in ((size, True), (size - 1, False)):
        monkeypatch.setattr(parquet_plan, "MAX_BYTES_AS_DICTIONARY", limit)
        assert plan_of(file).reads_as_dictionary(pa.BufferReader(file)) is pays


# --- writers: parquet-rs ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tpch_file(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tpch")
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts"))
    command = [program, "parquet", "-s", "0.001", "--tables=lineitem", f"--output-dir={directory}"]
    subprocess.run(command, check=True, capture_output=True)
    return (directory / "lineitem.parquet").read_bytes()


def test_parquet_rs_stores_only_used_values(tpch_file):
    assert opened(tpch_file).metadata.created_by.startswith("parquet-rs version")
    parquet = opened(tpch_file)
    names = [name for name in parquet.schema.names if name != "l_comment"]
    assert set(routes(tpch_file, *names)[0]) == {PAGE}
    for name in names:
        column = parquet.read([name]).column(0)
        found = next(plan_of(tpch_file, (name,)).read(pa.BufferReader(tpch_file))).array
        assert found.type in (column.type, pa.string())
        assert set(found.to_pylist()) == set(column.to_pylist())


@pytest.mark.parametrize("name", ["datafusion.parquet", "delta-rs.parquet"])
def test_parquet_rs_is_trusted_by_application_name_without_arrow_dictionaries(name):
    """The page of ``dict`` has no unused values, but the plan does not rely on it."""
    file = (FIXTURES / name).read_bytes()
    assert plan_of(file, ("dict",)).chunk is not None
    check(file, text=PAGE, long=PAGE, st=PAGE, dict=PAGES, dict_long=PAGES)


def test_polars_files_have_no_encoding_stats_and_are_tried():
    file = (FIXTURES / "polars.parquet").read_bytes()
    assert plan_of(file, ("text",)).chunk.encoding_stats == ()
    check(file, text=PAGES, long=PAGES)


def test_chunk_without_encoding_stats_that_fell_back_is_read_from_its_pages(monkeypatch):
    texts = [f"text {i}" for i in range(ROWS)]
    file = written({"s": texts}, dictionary_pagesize_limit=1000, data_page_size=500, write_batch_size=50)
    chunk = dataclasses.replace(plan_of(file).chunk, encoding_stats=())
    monkeypatch.setattr(ChunkPlanner, "chunk", lambda *_: chunk)
    plan = plan_of(file)
    assert plan.route is PAGES
    assert sum(len(values.array) for values in plan.read(pa.BufferReader(file))) == ROWS
    assert not plan.reads_as_dictionary(pa.BufferReader(file))


# --- writers: DuckDB ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_duckdb_is_trusted_except_for_strings(tmp_path, version):
    """They may be ENUMs."""
    import duckdb

    path = str(tmp_path / "duck.parquet")
    with duckdb.connect() as connection:
        connection.sql("create type letters as enum ('a', 'unused', 'b')")
        connection.sql(f"""
            copy (
                select (if(i % 2 = 0, 'a', 'b'))::letters as enum, 'text ' || (i % 5) as text,
                    (i % 7)::int as int, i % 7 as long, (i % 3)::double as double, (i % 3)::decimal(9, 2) as decimal,
                    date '2024-01-01' + (i % 9)::int as date, if(i % 3 = 0, null, i % 5) as holes
                from range(5000) as r(i)
            ) to '{path}' (format parquet, parquet_version {version})
        """)
    file = Path(path).read_bytes()
    enum = opened(file, read_dictionary=["enum"]).read(["enum"]).column(0).chunk(0)
    assert (len(enum.dictionary), len(enum.unique())) == (3, 2)
    numbers = dict.fromkeys(("int", "long", "double", "decimal", "date", "holes"), PAGE)
    check(file, enum=PAGES, text=PAGES, **numbers)


def test_duplicate_dictionary_entries_do_not_shift_indices(tmp_path, monkeypatch):
    """DuckDB leaves unused ENUM members empty; pyarrow's dictionary has only one empty entry."""
    import duckdb

    path = str(tmp_path / "duck.parquet")
    with duckdb.connect() as connection:
        connection.sql("create type letters as enum ('unused', 'unused too', 'a', 'b', 'c')")
        connection.sql(f"copy (select (['a', 'b'])[1 + i % 2]::letters as enum from range(9) as r(i)) to '{path}'")
    file = Path(path).read_bytes()
    encoded = opened(file, read_dictionary=["enum"]).read().column(0).chunk(0)
    assert (encoded.dictionary.to_pylist(), encoded.indices[0].as_py()) == (["", "a", "b"], 2)
    check(file, enum=PAGES)
    monkeypatch.setattr(kernels, "_is_ready", False)
    check(file, enum=ROW_BY_ROW)


# --- writers: parquet-mr ------------------------------------------------------------------------------------------


def test_row_group_copied_by_parquet_mr_is_not_trusted():
    """Arrow wrote it with unused values, but the file names only ``parquet-mr``."""
    file = (FIXTURES / "parquet-mr-append.parquet").read_bytes()
    assert opened(file).metadata.created_by.startswith("parquet-mr version")
    assert opened(file).metadata.metadata is None
    check(file, dict=PAGES, text=PAGES, st=PAGES, long=PAGES, dict_long=PAGES)


@pytest.mark.parametrize(
    ("version", "codec"),
    [
        *(("PARQUET_1_0", codec) for codec in ("snappy", "gzip", "lz4")),
        *(("PARQUET_2_0", codec) for codec in ("zstd", "lz4_raw", "uncompressed")),
    ],
)
def test_parquet_mr_by_spark_stores_only_used_values(spark, tmp_path, codec, version):
    """Every type, both page versions and every codec that Spark has (``lz4`` being the one with Hadoop's frames)."""
    rows = spark.sql("""
        select cast(id % 7 as int) as int, id % 5 as long, concat('s', id % 11) as text,
            cast(id % 3 as double) as double, cast(id % 3 as float) as float, cast(id % 6 as tinyint) as byte,
            cast(id % 3 as decimal(9, 2)) as decimal_9, cast(id % 3 as decimal(18, 2)) as decimal_18,
            cast(id % 3 as decimal(30, 2)) as decimal_30,
            date_from_unix_date(cast(id % 9 as int)) as date, encode(concat('b', id % 3), 'utf-8') as binary,
            cast(null as string) as nothing, named_struct('x', if(id % 2 = 0, concat('x', id % 3), null)) as st,
            if(id < 5000, concat('x', id % 4), concat('a longer text that does not fit a dictionary ', id)) as mixed
        from range(0, 12000, 1, 1)
    """)
    options = {"compression": codec, "parquet.writer.version": version}
    options |= {"parquet.dictionary.page.size": "20000", "parquet.page.row.count.limit": "1000"}
    rows.write.options(**options).parquet(str(tmp_path / "spark"))
    (path,) = (tmp_path / "spark").glob("*.parquet")
    file = path.read_bytes()
    few = ("int", "long", "text", "double", "float", "byte", "decimal_9", "decimal_18", "date", "binary", "st")
    check(file, **dict.fromkeys(few, PAGE), mixed=ROW_BY_ROW if codec == "lz4" else PAGES)


def test_pages_rewritten_by_parquet_mr_are_not_trusted(spark, tmp_path):
    """Recompressed Arrow pages of version 2 list the same encodings as parquet-mr's; a key names who wrote them."""
    source, target = tmp_path / "arrow.parquet", tmp_path / "rewritten.parquet"
    pq.write_table(pa.table({"s": WITH_UNUSED}), source, data_page_version="2.0", store_schema=False)
    jvm, conf = spark._jvm, spark._jsc.hadoopConfiguration()
    paths = [jvm.org.apache.hadoop.fs.Path(path.as_uri()) for path in (source, target)]
    rewrite = jvm.org.apache.parquet.hadoop.rewrite
    options = rewrite.RewriteOptions.Builder(conf, *paths)
    options.transform(jvm.org.apache.parquet.hadoop.metadata.CompressionCodecName.GZIP)
    rewriter = rewrite.ParquetRewriter(options.build())
    rewriter.processBlocks()
    rewriter.close()
    file = target.read_bytes()
    assert opened(file).metadata.created_by.startswith("parquet-mr version")
    assert plan_of(file).chunk.encodings == {0, 8}
    check(file, s=PAGES)
