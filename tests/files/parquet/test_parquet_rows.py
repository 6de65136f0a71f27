"""However the values of a chunk are found, the sketch equals that of the live rows byte for byte."""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin import kernels
from puffin.errors import CorruptDataFileError, UnsupportedTableError
from puffin.sketches.theta_sketch import ThetaSketch
from tests.hand_made_pages import file_of_pages
from tests.hand_made_table import sketches_of

WORDS = pa.array([f"word {i % 50}" for i in range(5000)])
NUMBERS = pa.array(range(5000), pa.int64())


@pytest.fixture
def table(make_table):
    return make_table([(1, "low", "string"), (2, "id", "long")])


def of(values, type_="string"):
    return ThetaSketch.from_arrow(values, type_)


def write(table, name, low, **options):
    ids = {"low": 1, "id": 2}
    return table.write(name, pa.table({"low": low, "id": NUMBERS}), ids, use_dictionary=["low"], **options)


def chunk_bytes(path, column):
    metadata = pq.read_metadata(path)
    return sum(metadata.row_group(i).column(column).total_compressed_size for i in range(metadata.num_row_groups))


def dictionary_bytes(path, column):
    metadata = pq.read_metadata(path)
    chunks = [metadata.row_group(i).column(column) for i in range(metadata.num_row_groups)]
    return sum(chunk.data_page_offset - chunk.dictionary_page_offset for chunk in chunks)


@pytest.mark.parametrize("row_group_size", [5000, 700])
def test_chunk_of_dictionary_pages_reads_only_its_dictionary(table, row_group_size):
    path = write(table, "1.parquet", WORDS, row_group_size=row_group_size)
    table.snapshot(table.data(path))
    alone = table.read("low")
    assert alone.sketches["low"].to_bytes() == of(WORDS).to_bytes()
    assert (alone.rows, alone.bytes_read) == (5000, dictionary_bytes(path, 0))
    both = table.read()
    assert both.sketches["low"] == of(WORDS)
    assert both.sketches["id"] == of(NUMBERS, "long")
    assert (both.rows, both.bytes_read) == (5000, dictionary_bytes(path, 0) + chunk_bytes(path, 1))


def test_dictionary_page_is_not_enough_with_deleted_rows(table):
    """The only rows of one word are deleted; its entry in the dictionary stays."""
    path = write(table, "1.parquet", WORDS)
    gone = [i for i in range(5000) if i % 50 == 7]
    table.snapshot(table.data(path), table.position_deletes("d.parquet", [(path, i) for i in gone]))
    answer = table.read()
    assert answer.sketches["low"].ndv == 49
    assert answer.sketches["low"] == of(pa.array([w for w in WORDS.to_pylist() if w != "word 7"]))
    assert answer.rows == 4900


@pytest.mark.parametrize("store_schema", [True, False])
def test_unused_dictionary_entry_is_not_counted(table, store_schema):
    """Arrow stores a DictionaryArray's dictionary whole."""
    indices = pa.array([i % 3 for i in range(5000)], pa.int32())
    low = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b", "c", "never"]))
    path = write(table, "1.parquet", low, store_schema=store_schema)
    table.snapshot(table.data(path))
    assert table.read().sketches["low"] == of(pa.array(["a", "b", "c"]))


def test_chunk_that_fell_back_is_read_in_full(table):
    """The dictionary holds only the first of many long values."""
    low = pa.array([f"{i:0200}" for i in range(5000)])
    path = write(table, "1.parquet", low, dictionary_pagesize_limit=50_000)
    table.snapshot(table.data(path))
    answer = table.read()
    assert answer.sketches["low"] == of(low)
    assert answer.bytes_read == chunk_bytes(path, 0) + chunk_bytes(path, 1)


def test_row_groups_of_one_file_may_be_read_differently(table):
    """One is all dictionary, one falls back, one has only nulls."""
    many = [f"{i:0200}" for i in range(5000)]
    low = pa.array([*["x", "y"] * 1000, *many[:2000], *[None] * 1000], pa.string())
    path = write(table, "1.parquet", low, row_group_size=1000, dictionary_pagesize_limit=50_000)
    table.snapshot(table.data(path))
    answer = table.read()
    assert answer.sketches["low"] == of(low)
    assert answer.rows == 5000


@pytest.mark.parametrize("pieces", [1, 3])
def test_piece_of_a_file_reads_the_dictionaries_of_its_row_groups(table, pieces):
    path = write(table, "1.parquet", WORDS, row_group_size=500)
    table.snapshot(table.data(path))
    answer = table.read("low", target_bytes=path.stat().st_size // pieces)
    assert answer.sketches["low"] == of(WORDS)
    assert answer.rows == 5000


@pytest.mark.parametrize(
    ("stored", "damaged", "message"),
    [
        (b"\x15\x04\x25\x02\x18\x01a", b"\x15\x0a\x25\x02\x18\x01a", "column a: expected a chunk of physical type 5, "),
        (b"\x15\x04\x25\x02\x18\x01a", b"\x15\x04\x25\x00\x18\x01a", "column a: expected a histogram of levels of "),
        (b"\x15\x0e\x15\x08\x15\x02\x18\x01f", b"\x15\x0e\x15\x18\x15\x02\x18\x01f", "Unexpected end of stream"),
    ],
    ids=["type", "repetition", "length"],
)
def test_schema_that_contradicts_its_chunks_is_corrupt_and_ends_no_process(make_table, stored, damaged, message):
    table = make_table([(1, "a", "long"), (2, "f", "fixed[4]")])
    rows = pa.table({"a": pa.array([1, None]), "f": pa.array([b"abcd", None], pa.binary(4))})
    path = table.write("1.parquet", rows, {"a": 1, "f": 2}, store_schema=False, use_dictionary=False)
    content = path.read_bytes()
    assert content.count(stored) == 1
    path.write_bytes(content.replace(stored, damaged))
    table.snapshot(table.data(path))
    with pytest.raises(CorruptDataFileError, match=rf"1\.parquet: .*{message}"):
        sketches_of(table.batch(), is_sound=False)


def pages_in(table, name, pages, num_rows=None):
    path = table.root / name
    path.write_bytes(file_of_pages(pages, num_rows))
    return path


EMPTY_FIRST = [[], [1, 2, 3], [4, 5]]


NO_VALUES = pytest.mark.parametrize("pages", [EMPTY_FIRST, [[1], [], [], [2, 3, 4, 5]]], ids=["first", "two in a row"])


@NO_VALUES
@pytest.mark.parametrize("deleted", [(), (0,), (3,)])
def test_kernels_read_the_rows_that_pyarrow_omits_behind_pages_without_values(make_table, pages, deleted):
    kernels.load_kernels()
    table = make_table([(1, "id", "long")])
    path = pages_in(table, "1.parquet", pages)
    deletes = [table.position_deletes("d.parquet", [(path, at) for at in deleted])] if deleted else []
    table.snapshot(table.data(path), *deletes)
    answer = table.read()
    live = [row for place, row in enumerate([1, 2, 3, 4, 5]) if place not in deleted]
    assert (answer.rows, answer.sketches["id"]) == (len(live), of(pa.array(live, pa.int64()), "long"))


@NO_VALUES
def test_rows_that_pyarrow_omits_are_missed_without_kernels(make_table, pages, monkeypatch):
    monkeypatch.setattr(kernels, "_is_ready", False)
    table = make_table([(1, "id", "long")])
    table.snapshot(table.data(pages_in(table, "1.parquet", pages)))
    with pytest.raises(CorruptDataFileError, match=r"1\.parquet: .*expected 5 rows, as the footer says, found [01]"):
        table.read()


def test_deletes_that_pyarrow_omits_behind_a_page_without_values_are_missed(make_table):
    table = make_table([(1, "id", "long")])
    path = pages_in(table, "1.parquet", [[1, 2, 3, 4, 5]])
    deletes = table.data(pages_in(table, "2.parquet", EMPTY_FIRST))
    deletes |= {"content": 2, "sequence_number": 2, "equality_ids": [1]}
    table.snapshot(table.data(path), deletes)
    with pytest.raises(CorruptDataFileError, match=r"2\.parquet: .*expected 5 rows, as the footer says, found 0"):
        table.read()


@pytest.mark.parametrize("with_kernels", [False, True])
def test_chunk_with_another_number_of_values_than_rows_is_corrupt(make_table, with_kernels, monkeypatch):
    kernels.load_kernels()
    monkeypatch.setattr(kernels, "_is_ready", with_kernels)
    table = make_table([(1, "id", "long")])
    table.snapshot(table.data(pages_in(table, "1.parquet", [[1, 2, 3]], num_rows=5)))
    with pytest.raises(CorruptDataFileError, match="column id: expected 5 values in row group 0, found 3"):
        sketches_of(table.batch(), is_sound=False)


# --- pages that pyarrow refuses -----------------------------------------------------------------------------------

FAR_APART = [(2**31 - 1 - i) * (-1) ** i for i in range(5000)]  # their differences take DuckDB up to 33 bits


def by_duckdb(path):
    with duckdb.connect() as connection:
        connection.sql(f"""
            copy (select unnest({FAR_APART})::int as far, unnest({WORDS.to_pylist()}) as low, far % 2 = 0 as is_even)
            to '{path}'
            (format parquet, parquet_version v2, row_group_size 3000, field_ids {{far: 1, low: 2, is_even: 3}})
        """)
    return path


def test_kernels_read_live_rows_of_pages_that_pyarrow_refuses(make_table):
    """Only of the column that it refuses: they cannot read booleans row by row."""
    kernels.load_kernels()
    table = make_table([(1, "far", "int"), (2, "low", "string"), (3, "is_even", "boolean")])
    path = by_duckdb(table.root / "1.parquet")
    deleted = {0, *range(2990, 3010), *(i for i in range(5000) if i % 50 == 7)}
    table.snapshot(table.data(path), table.position_deletes("d.parquet", [(path, at) for at in sorted(deleted)]))
    answer = table.read()
    live = pa.array([at for at in range(5000) if at not in deleted])
    assert answer.rows == len(live)
    assert answer.sketches["far"] == of(pa.array(FAR_APART, pa.int32()).take(live), "int")
    assert answer.sketches["low"] == of(WORDS.take(live))


def test_kernels_read_live_rows_of_strings_that_pyarrow_cannot_make_a_dictionary_of(make_table):
    """A writer whose dictionary becomes too large may go on with DELTA_BYTE_ARRAY."""
    kernels.load_kernels()
    table = make_table([(1, "low", "string")])
    words = pa.array([None if i % 7 == 0 else f"word {i % 50}" for i in range(5000)])
    options = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY", "row_group_size": 3000}
    path = table.write("1.parquet", pa.table({"low": words.dictionary_encode()}), **options)
    table.document["properties"]["schema.name-mapping.default"] = '[{"field-id": 1, "names": ["low"]}]'
    table.snapshot(table.data(path), table.position_deletes("d.parquet", [(path, 1), (path, 4000)]))
    answer = table.read()
    assert (answer.rows, answer.summaries["low"][1].null_count) == (4998, 715)
    assert answer.sketches["low"] == of(words)


def test_pages_that_nobody_here_can_read_are_unsupported(make_table):
    """Inside structs pyarrow alone reads row by row."""
    table = make_table([(1, "s", [(2, "low", "string")])])
    struct = pa.StructArray.from_arrays([WORDS.dictionary_encode()], ["low"])
    options = {"use_dictionary": False, "column_encoding": {"s.low": "DELTA_BYTE_ARRAY"}}
    path = table.write("1.parquet", pa.table({"s": struct}), **options)
    names = '{"field-id": 2, "names": ["low"]}'
    table.document["properties"]["schema.name-mapping.default"] = (
        f'[{{"field-id": 1, "names": ["s"], "fields": [{names}]}}]'
    )
    table.snapshot(table.data(path), table.position_deletes("d.parquet", [(path, 1)]))
    with pytest.raises(
        UnsupportedTableError, match=r"1\.parquet: Parquet file not supported: Not yet implemented: Decode"
    ):
        table.read()


def test_error_is_that_of_pyarrow_if_kernels_cannot_read_the_rows_either(make_table):
    kernels.load_kernels()
    table = make_table([(1, "low", "string")])
    path = write(table, "1.parquet", WORDS, compression="none")
    content = bytearray(path.read_bytes())
    start = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)
    table.snapshot(table.data(path), table.position_deletes("d.parquet", [(path, 1)]))
    with pytest.raises(
        CorruptDataFileError, match=r"1\.parquet: expected a readable Parquet file: .*Deserializing page header"
    ):
        table.read()
