"""The manifest of a statistics file's private state: its bytes, and the file it belongs to."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin.errors import CorruptMetadataError, UnsupportedTableError
from puffin.iceberg.metadata.document import parse_state
from puffin.statistics.private_state import places
from puffin.statistics.private_state.manifest import BlobKey, Manifest, Part, StoredKey, decode, encode
from puffin.tables.base import StatisticsEntry

LONGS = st.integers(-(2**63), 2**63 - 1)
PARTS = st.builds(Part, st.uuids().map(str), LONGS, LONGS)
KEYS = st.builds(BlobKey, st.sampled_from(["a", "b"]), st.integers(1, 3), LONGS)
STORED = st.builds(StoredKey, PARTS, LONGS)
MANIFESTS = st.builds(
    Manifest,
    st.none() | st.text(max_size=3),
    st.text(max_size=3),
    LONGS,
    st.dictionaries(KEYS, st.builds(StoredKey, PARTS, LONGS, st.lists(STORED, max_size=3).map(tuple)), max_size=4),
    st.frozensets(KEYS, max_size=3),
    st.none() | st.text(max_size=3),
)
PART = Part("9b1d0f3e-0000-4000-8000-00000000000a", 4096, 300)
MANIFEST = Manifest("u", "12-a.stats", 8123, {BlobKey("x", field, 12): StoredKey(PART, 9) for field in range(1, 4)})
ENTRY = StatisticsEntry(12, "s3://b/t/metadata/12-a.stats", 8123, 100, ())


@given(MANIFESTS)
def test_written_manifest_is_read_back(manifest):
    assert decode(encode(manifest), "m") == manifest


def test_columns_that_share_a_part_take_one_number_each():
    """Wide tables have thousands of them."""
    wide = {BlobKey("puffin-sidecar-row-counts-v1", field, 12): StoredKey(PART, 12) for field in range(2000)}
    assert len(encode(dataclasses.replace(MANIFEST, blobs=wide))) < 2000 * 5 + 400


def test_newer_format_version_is_refused_as_such():
    newer = {**json.loads(encode(MANIFEST)), "format-version": 3}
    with pytest.raises(UnsupportedTableError, match="m: expected format-version 2, found 3"):
        decode(json.dumps(newer).encode(), "m")


def test_truncated_manifest_is_corrupt():
    data = encode(MANIFEST)
    for end in range(len(data)):
        with pytest.raises(CorruptMetadataError):
            decode(data[:end], "m")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("table-uuid", 1),
        ("statistics-file", None),
        ("statistics-directory", 1),
        ("file-size-in-bytes", "8"),
        ("parts", {}),
        ("parts", [{"id": "../../etc"}]),
        ("parts", [{"id": PART.id, "file-size-in-bytes": 1, "file-footer-size-in-bytes": 2**64, "blobs": []}]),
    ],
)
def test_invalid_field_is_corrupt(key, value):
    with pytest.raises(CorruptMetadataError, match="not a manifest of private state"):
        decode(json.dumps({**json.loads(encode(MANIFEST)), key: value}).encode(), "m")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"table_uuid": None}, None),
        ({"table_uuid": "other"}, "that of other"),
        ({"statistics_file": "12-b.stats"}, "12-b.stats"),
        ({"file_size": 8124}, "8124"),
    ],
    ids=["its own", "from before the table had a uuid", "another table's", "another file's", "of another size"],
)
def test_manifest_knows_its_statistics_file(table_document, change, said):
    state = parse_state({**table_document("s3://b/t"), "table-uuid": "u"}, "v1")
    objection = dataclasses.replace(MANIFEST, **change).objection(state, ENTRY)
    assert objection is None if said is None else said in objection


def test_shared_home_has_a_folder_for_each_table(table_document):
    one, other = (parse_state({**table_document("s3://b/t"), "table-uuid": uuid}, "v1") for uuid in ("u", "v"))
    assert places.directory(one, None) == "s3://b/t/_puffin_sidecar"
    assert [places.directory(state, "s3://home") for state in (one, other)] == ["s3://home/u", "s3://home/v"]


@pytest.mark.parametrize("numbers", [(0, 2), (0, 1, 3), (1,), (0, -1), (0, True)])
def test_gap_between_deltas_is_corrupt(numbers):
    """A manifest that lost one would answer without the rows of it."""
    document = json.loads(encode(MANIFEST))
    (group,) = document["parts"][0]["blobs"]
    document["parts"][0]["blobs"] = [{**group, "delta": number} for number in numbers]
    with pytest.raises(CorruptMetadataError):
        decode(json.dumps(document).encode(), "m")


def test_manifest_with_deltas_has_a_newer_format_version():
    """An earlier version must not take the blobs without their deltas."""
    grown = {key: dataclasses.replace(at, deltas=(StoredKey(PART, 11),)) for key, at in MANIFEST.blobs.items()}
    both = MANIFEST, dataclasses.replace(MANIFEST, blobs=grown)
    assert [json.loads(encode(each))["format-version"] for each in both] == [1, 2]


def test_only_folders_that_we_made_for_one_file_go_with_it():
    """A table may have the name of one of our folders."""
    own = "9b1d0f3e-0000-4000-8000-00000000000a"
    ours = [places.part_uri("s3://b/h", own), places.step_uri("/h", own), f"/h/segments/{own}/.puffin-sidecar-1.tmp"]
    assert all(map(places.has_own_folder, [*ours, f"/h/index/{7:020}/version-hint.text"]))
    others = [f"/warehouse/{name}/metadata/12-a.stats" for name in ("parts", "progress", "index", "segments")]
    assert not any(map(places.has_own_folder, [*others, "/h/12-a.stats", f"/h/index/{own}/12-a.stats"]))
