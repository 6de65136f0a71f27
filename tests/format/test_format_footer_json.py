"""The footer payload field by field: what is refused, under which path, and what is let through."""

import json

import pytest

from puffin.errors import CorruptPuffinError
from puffin.format import BlobMetadata, FileMetadata
from puffin.format.footer_json import parse, render

BLOB = {"type": "x", "fields": [1, 2], "snapshot-id": 3, "sequence-number": 4, "offset": 5, "length": 6}
NOTHING = object()


def parsed(document: object) -> FileMetadata:
    """The metadata of a JSON document, given as a value or as its text."""
    text = document if isinstance(document, str) else json.dumps(document)
    return parse(text.encode(), offset=100, max_blobs=10)


def refused(document: object) -> CorruptPuffinError:
    """The error that a JSON document ends with."""
    with pytest.raises(CorruptPuffinError) as caught:
        parsed(document)
    assert caught.value.rule == "footer-field"
    return caught.value


def with_field(key: str, value: object) -> dict:
    """Two blobs, sound but for one field of the second."""
    blob = {**BLOB, key: value}
    return {"blobs": [BLOB, {name: kept for name, kept in blob.items() if kept is not NOTHING}]}


LONGS = ["snapshot-id", "sequence-number"]
SIZES = ["offset", "length"]


@pytest.mark.parametrize("value", [NOTHING, None, True, "3", 1.0, 1e3, [], {}, 2**63, -(2**63) - 1, 10**1000])
@pytest.mark.parametrize("key", LONGS + SIZES)
def test_longs(key, value):
    """A long is a JSON integer of 64 bits: no boolean, no 1.0, no text, not null."""
    kind = "a long" if key in LONGS else "a non-negative long"
    error = refused(with_field(key, value))
    assert (error.rule, error.offset) == ("footer-field", 100)
    assert error.expected == f"blobs[1].{key} to be {kind}"
    assert str(error).startswith(f"footer-field at offset 100: expected blobs[1].{key} to be {kind}, found ")


@pytest.mark.parametrize("key", SIZES)
def test_sizes_are_not_negative(key):
    """An offset or a length is 0 or more."""
    assert str(refused(with_field(key, -1))).endswith(f"expected blobs[1].{key} to be a non-negative long, found -1")


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_longs_reach_over_64_bits(value):
    """The smallest and the largest long are let through."""
    assert parsed(with_field("snapshot-id", value)).blobs[1].snapshot_id == value


@pytest.mark.parametrize("value", [None, True, "1", 1.0, [], 2**31, -(2**31) - 1])
def test_field_ids(value):
    """A field id is a JSON integer of 32 bits; the path has its place in the list."""
    assert refused(with_field("fields", [7, value])).expected == "blobs[1].fields[1] to be an int"


@pytest.mark.parametrize("value", [NOTHING, None, 1, "1", {"0": 1}])
def test_fields(value):
    """The field ids are an array."""
    assert refused(with_field("fields", value)).expected == "blobs[1].fields to be an array"


@pytest.mark.parametrize("value", [NOTHING, None, 1, ["x"]])
def test_type(value):
    """A blob type is a string."""
    assert refused(with_field("type", value)).expected == "blobs[1].type to be a string"


@pytest.mark.parametrize("value", [1, False, ["lz4"], {}])
def test_compression_codec(value):
    """A codec is a string, where there is one."""
    assert refused(with_field("compression-codec", value)).expected == "blobs[1].compression-codec to be a string"


@pytest.mark.parametrize("value", [NOTHING, None])
def test_no_compression_codec(value):
    """No codec and a null codec are the same."""
    assert parsed(with_field("compression-codec", value)).blobs[1].compression_codec is None


@pytest.mark.parametrize("value", [None, [], "ndv", 1])
def test_properties_are_an_object(value):
    """Properties are an object wherever they stand; null is not an absence."""
    assert refused(with_field("properties", value)).expected == "blobs[1].properties to be an object"
    assert refused({"blobs": [], "properties": value}).expected == "properties to be an object"


@pytest.mark.parametrize("value", [None, 1, True, ["1"], {}])
def test_property_values(value):
    """A property value is a string; the path has its key, quoted."""
    error = refused(with_field("properties", {"a": "b", "n d\nv": value}))
    assert error.expected == r'blobs[1].properties["n d\nv"] to be a string'
    assert refused({"blobs": [], "properties": {"k": value}}).expected == 'properties["k"] to be a string'


@pytest.mark.parametrize("value", [NOTHING, None, {}, "[]", 0])
def test_blobs_are_an_array(value):
    """The blobs have to be there, as an array."""
    document = {} if value is NOTHING else {"blobs": value}
    assert refused(document).expected == "blobs to be an array"


def test_what_is_missing_is_said_to_be_missing():
    """A field that is absent is found to be nothing, which null is not."""
    assert refused(with_field("offset", NOTHING)).found == "nothing"
    assert refused(with_field("offset", None)).found == "null"


@pytest.mark.parametrize("value", [None, 1, "x", []])
def test_a_blob_is_an_object(value):
    """Each blob is an object."""
    assert refused({"blobs": [BLOB, value]}).expected == "blobs[1] to be an object"


@pytest.mark.parametrize("value", ["null", "[]", "1", '"blobs"'])
def test_the_payload_is_an_object(value):
    """The root is an object."""
    assert refused(value).expected == "the footer payload to be an object"


def test_half_a_surrogate_pair():
    r"""JSON can spell text that UTF-8 cannot hold (``"\ud83d"``); it is refused wherever text is asked for."""
    kind = "a string of Unicode characters"
    assert refused(with_field("type", "\ud83d")).expected == f"blobs[1].type to be {kind}"
    assert refused(with_field("compression-codec", "\udc00")).expected == f"blobs[1].compression-codec to be {kind}"
    assert refused({"blobs": [], "properties": {"k": "\ud83d"}}).expected == f'properties["k"] to be {kind}'
    error = refused({"blobs": [], "properties": {"\ud83d": "v"}})
    assert error.expected == rf'the key of properties["\ud83d"] to be {kind}'
    assert error.found == r'"\ud83d"'


def test_a_found_value_is_shown_in_short():
    """The error stays one short line, however large the value."""
    assert refused(with_field("offset", {"k" * 9999: 1})).found == "an object"
    assert refused(with_field("offset", [[[1] * 9999]])).found == "an array"
    assert refused(with_field("offset", "k" * 9999)).found == '"' + "k" * 39 + "..."
    assert len(str(refused(with_field("properties", {"k" * 9999: 1})))) < 150


def test_unknown_keys_are_ignored():
    """Whatever a later version adds, of whatever type, changes nothing."""
    assert parsed({"blobs": [{**BLOB, "new": None}], "new": [{"a": 1.5}]}) == parsed({"blobs": [BLOB]})


def test_rendering_is_compact_and_in_order():
    """No space, keys in the order of the spec, nothing for what is absent, text as it is."""
    blob = {"type": "t", "fields": (9, 8), "snapshot_id": 1, "sequence_number": 2, "offset": 4, "length": 0}
    full = BlobMetadata(**blob, compression_codec="zstd", properties={"b": "é🐧", "a": "\0"})
    same = '"type":"t","fields":[9,8],"snapshot-id":1,"sequence-number":2,"offset":4,"length":0'
    metadata = FileMetadata(blobs=(full, BlobMetadata(**blob)), properties={"created-by": 'a "b"'})
    assert render(metadata).decode() == (
        '{"blobs":[{' + same + r',"compression-codec":"zstd","properties":{"b":"é🐧","a":"\u0000"}},'
        "{" + same + r'}],"properties":{"created-by":"a \"b\""}}'
    )
