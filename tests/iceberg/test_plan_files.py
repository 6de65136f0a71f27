"""The files in a snapshot's manifests become scan tasks, or are refused by name before anything is read."""

import threading
import time
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptMetadataError, FileNotFound, PuffinError, UnsupportedTableError
from puffin.iceberg.scan import plan
from puffin.iceberg.scan.manifest_lists import ManifestFile, manifest_files
from puffin.iceberg.scan.manifests import live_files_of
from puffin.storage import store_for
from stats_jobs.plan import split_task
from tests.scan_files import data_file, whole


@pytest.fixture(params=[1, 2, 3], ids="v{}".format)
def table(request, make_table):
    return make_table([(1, "id", "long"), (2, "p", "string")], version=request.param, spec=[(2, "identity")])


def data(table, name, **fields):
    return table.data(
        table.root / name, **{"record_count": 10, "file_size_in_bytes": 100, "partition": ("x",)} | fields
    )


def refusal(table, *entries):
    table.snapshot(data(table, "fine.parquet"), *entries)
    with pytest.raises(UnsupportedTableError) as caught:
        table.plan()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- what is planned ----------------------------------------------------------------------------------------------


def test_every_live_data_file_is_a_task_in_manifest_order(table):
    table.snapshot(*(data(table, f"{i}.parquet", split_offsets=[4, 50]) for i in range(3)))
    tasks = table.plan()
    assert [task.data_file.file_path for task in tasks] == [f"{table.root}/{i}.parquet" for i in range(3)]
    first = tasks[0].data_file
    assert (first.content, first.file_format, first.spec_id, first.record_count) == ("DATA", "PARQUET", 0, 10)
    assert (first.split_offsets, first.partition, tasks[0].start, tasks[0].length) == ((4, 50), {"1000": "x"}, 0, 100)


@pytest.mark.parametrize(("alone", "threads"), [(60, range(1, 2)), (0, range(2, 9))])
def test_several_threads_read_manifests_that_take_long(make_table, many_manifests, monkeypatch, alone, threads):
    table, readers = make_table([(1, "id", "long")]), set()
    table.snapshot()
    monkeypatch.setattr(plan, "_ALONE", alone)
    many_manifests(lambda _: readers.add(threading.get_ident()))
    assert table.plan() == tuple(map(str, range(60)))
    assert len(readers) in threads


def test_no_more_manifests_are_read_after_an_error(make_table, many_manifests):
    table, read = make_table([(1, "id", "long")]), []
    table.snapshot()

    def fail_at_3(manifest):
        read.append(manifest)
        if manifest.manifest_path == "3":
            raise CorruptMetadataError("3: broken")

    many_manifests(fail_at_3)
    with pytest.raises(CorruptMetadataError, match="3: broken"):
        table.plan()
    assert len(read) < 60


@pytest.fixture
def many_manifests(monkeypatch):
    """Has a snapshot have 60 manifests, each of one data file, which take some time to read."""

    manifests = [ManifestFile(manifest_path=str(number), partition_spec_id=0) for number in range(60)]

    def make(see):
        def files_of(_self, manifest, _store_for):
            see(manifest)
            time.sleep(0.005)
            return [manifest.manifest_path]

        monkeypatch.setattr(plan, "manifests_of", lambda *_: manifests)
        monkeypatch.setattr(plan.SnapshotPlanner, "files_of", files_of)
        monkeypatch.setattr(plan.SnapshotPlanner, "task_of", lambda _self, file: file)

    return make


def test_deleted_entries_are_not_read(table):
    table.snapshot(data(table, "0.parquet"), data(table, "1.parquet", status=2), data(table, "2.parquet", status=0))
    assert [task.data_file.file_path[-9:] for task in table.plan()] == ["0.parquet", "2.parquet"]


def test_lower_case_format_name_is_accepted(table):
    table.snapshot(data(table, "0.parquet", file_format="parquet"))
    assert table.plan()[0].data_file.file_format == "PARQUET"


def test_paths_are_used_unchanged(make_table):
    table = make_table([(1, "id", "long")])
    for name in ("a b.parquet", "a%20b.parquet", "p=a#b?c/ü+&.parquet"):
        path = table.write(name, pa.table({"id": [len(name)]}), {"id": 1})
        for form in (str(path), f"file:{path}", f"file://{path}"):
            table.snapshot(table.data(path) | {"file_path": form})
            assert table.read().rows == 1


def test_manifests_below_a_directory_with_unusual_characters_are_found(make_table, tmp_path):
    table = make_table([(1, "id", "long")])
    table.root = tmp_path / "wh a%20#b?c"
    table.root.mkdir()
    table.snapshot(table.data(table.root / "x.parquet"))
    assert len(table.plan()) == 1


def test_version_1_manifests_may_lack_counts_sequence_numbers_and_contents(make_table):
    """The oldest writers left out what was optional then."""
    table = make_table([(1, "id", "long")], version=1)
    table.snapshot(data(table, "0.parquet", partition=()))
    (manifest,) = manifest_files(table.document["snapshots"][0]["manifest-list"], store_for)
    (file,) = live_files_of(manifest, store_for)
    assert (file.content, file.sequence_number, file.encrypted) == ("DATA", 0, False)
    table.omit_counts = True
    table.snapshot(data(table, "0.parquet", partition=()))
    assert len(table.plan()) == 1


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_format", ["LANCE", "lance", "VORTEX"])
def test_data_files_of_other_formats_are_refused_by_name(table, file_format):
    message = refusal(table, data(table, "other.file", file_format=file_format))
    assert message == f"{table.root}/other.file: data files of format {file_format.upper()} are not supported"


def test_delete_files_of_other_formats_are_refused_by_name(make_table):
    table = make_table([(1, "id", "long"), (2, "p", "string")], spec=[(2, "identity")])
    assert "d.lance: delete files of format LANCE" in refusal(
        table, data(table, "d.lance", file_format="LANCE", content=1)
    )


def test_encrypted_files_are_refused_by_name(table):
    message = refusal(table, data(table, "secret.parquet", key_metadata=b"k"))
    assert message == f"{table.root}/secret.parquet: expected an unencrypted file, found key metadata"


def test_encrypted_manifests_are_refused_by_name(table):
    table.manifest_key_metadata = b"k"
    assert "manifest-1-0-False.avro: expected an unencrypted manifest" in refusal(table)


def test_encrypted_tables_are_refused_by_name(make_table):
    """Their manifest lists are encrypted too, without saying so."""
    table = make_table([(1, "id", "long")], version=3, properties={"encryption.key-id": "master"})
    assert refusal(table) == f"{table.root}: expected an unencrypted table, found encryption.key-id 'master'"


# --- what is corrupt ----------------------------------------------------------------------------------------------


def metadata_files(table):
    files = sorted(table.root.glob("*.avro"))
    assert files
    return files


def test_missing_manifest_or_list_is_named(table):
    table.snapshot(data(table, "0.parquet"))
    for path in metadata_files(table):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(FileNotFound, match=path.name):
            table.plan()
        path.write_bytes(content)


def test_truncated_manifest_or_list_is_corrupt_and_named(make_table):
    table = make_table([(1, "id", "long")])
    table.snapshot(*(data(table, f"{i}.parquet", partition=()) for i in range(4)))
    for path in metadata_files(table):
        whole = path.read_bytes()
        header = whole.index(whole[-16:]) + 16
        for length in sorted({*range(0, len(whole), 41), header - 1, header + 1, len(whole) - 17, len(whole) - 1}):
            path.write_bytes(whole[:length])
            with pytest.raises(CorruptMetadataError, match=path.name) as caught:
                table.plan()
            assert "\n" not in str(caught.value)
        path.write_bytes(whole)


def test_manifest_with_fewer_entries_than_its_list_counts_is_corrupt(table):
    table.snapshot(data(table, "0.parquet"))
    (manifest,) = table.root.glob("manifest-*.avro")
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[: whole.index(whole[-16:]) + 16])  # the header alone: a sound Avro file
    with pytest.raises(CorruptMetadataError, match=r"manifest-1-0-False\.avro: expected 1 entries, found 0"):
        table.plan()


@pytest.mark.parametrize("listed_as", [False, True])
def test_manifest_with_the_other_kind_of_files_is_corrupt(make_table, listed_as):
    """A delete file among data files would come too late for those before it."""
    table = make_table([(1, "id", "long")])
    file = data(table, "0.parquet", partition=())
    table.snapshot(file, {**file, "content": 1})
    manifest, other = (table.root / f"manifest-1-0-{of_deletes}.avro" for of_deletes in (listed_as, not listed_as))
    manifest.write_bytes(other.read_bytes())
    with pytest.raises(CorruptMetadataError, match=rf"{manifest.name}: .* in a manifest of"):
        table.plan()


def test_avro_file_of_something_else_is_corrupt(table):
    table.snapshot(data(table, "0.parquet"))
    (manifest,), (manifest_list,) = table.root.glob("manifest-*.avro"), table.root.glob("snap-*.avro")
    manifest.write_bytes(manifest_list.read_bytes())
    with pytest.raises(CorruptMetadataError, match=r"manifest-1-0-False\.avro: not an Iceberg manifest"):
        table.plan()
    table.document["snapshots"][0]["manifest-list"] = str(manifest_list)
    manifest_list.write_bytes(b"Obj\x01\0")
    with pytest.raises(CorruptMetadataError, match=r"snap-1\.avro"):
        table.plan()


@pytest.mark.parametrize(
    "specs", [[{"spec-id": 0}], [{"fields": []}], [7], "x", [{"spec-id": 0, "fields": [7]}]], ids=str
)
def test_broken_partition_spec_is_corrupt(table, specs):
    table.snapshot(data(table, "0.parquet"))
    table.document["partition-specs"] = specs
    with pytest.raises(CorruptMetadataError, match="not a partition spec"):
        table.plan()


def test_partition_value_of_another_type_is_corrupt(make_table):
    table = make_table([(1, "p", "string")], spec=[(1, "identity")])
    table.snapshot(data(table, "0.parquet"))
    table.document["schemas"][0]["fields"][0]["type"] = "date"
    with pytest.raises(CorruptMetadataError, match=r"0\.parquet: expected a date in a partition tuple, found 'x'"):
        table.plan()


def test_damaged_metadata_raises_only_our_errors(make_table):
    table = make_table([(1, "id", "long"), (2, "p", "decimal(9, 2)")], spec=[(2, "identity")])
    said = []
    table.snapshot(*(data(table, f"{i}.parquet") | {"partition": (Decimal("1.25"),)} for i in range(4)))
    for path in metadata_files(table):
        whole = path.read_bytes()
        for at in range(0, len(whole), 7):
            damaged = bytearray(whole)
            damaged[at] ^= 0x55
            path.write_bytes(damaged)
            try:
                table.plan()
            except PuffinError as exc:
                said.append(str(exc))
        path.write_bytes(whole)
    assert said
    assert not [message for message in said if "\n" in message]


# --- splitting ----------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(
    size=st.integers(0, 2000),
    target=st.integers(1, 2500),
    offsets=st.lists(st.integers(-10, 3000), max_size=8),
)
def test_pieces_cover_a_file_once_and_are_cut_only_at_split_offsets(size, target, offsets):
    pieces = split_task(whole(data_file("x", size, split_offsets=tuple(offsets))), target)
    at = 0
    for piece in pieces:
        assert piece.start == at
        at += piece.length
    assert at == size
    assert all(piece.length >= target for piece in pieces[:-1])
    if any(4 <= offset < size for offset in offsets):
        assert {piece.start for piece in pieces[1:]} <= set(offsets)
    elif pieces:
        assert all(piece.length < 2 * target for piece in pieces)
