"""The footer payload field by field: what is refused, at which path, and what is accepted."""

import json

import pytest

from puffin.errors import CorruptPuffinError
from puffin.format import BlobMetadata, FileMetadata
from puffin.format.footer_json import parse, render

BLOB = {"type": "x", "fields": [1, 2], "snapshot-id": 3, "sequence-number": 4, "offset": 5, "length": 6}
NOTHING = object()


def parsed(document: object) -> FileMetadata:
    """Return the metadata of a JSON document, given as a value or as text."""
    text = document if isinstance(document, str) else json.dumps(document)
    return parse(text.encode(), offset=100, max_blobs=10)


def refused(document: object) -> CorruptPuffinError:
    """Return the error that a JSON document raises."""
    with pytest.raises(CorruptPuffinError) as caught:
        parsed(document)
    assert caught.value.rule == "footer-field"
    return caught.value


def with_field(key: str, value: object) -> dict:
    """Two blobs, valid but for one field of the second."""
    blob = {**BLOB, key: value}
    return {"blobs": [BLOB, {name: kept for name, kept in blob.items() if kept is not NOTHING}]}


LONGS = ["snapshot-id", "sequence-number"]
SIZES = ["offset", "length"]


@pytest.mark.parametrize("value", [NOTHING, None, True, "3", 1.0, 1e3, [], {}, 2**63, -(2**63) - 1, 10**1000])
@pytest.mark.parametrize("key", LONGS + SIZES)
def test_longs_must_be_64_bit_json_integers(key, value):
    """Not booleans, 1.0, text or null."""
    kind = "a long" if key in LONGS else "a non-negative long"
    error = refused(with_field(key, value))
    assert (error.rule, error.offset) == ("footer-field", 100)
    assert error.expected == f"blobs[1].{key} to be {kind}"
    assert str(error).startswith(f"footer-field at offset 100: expected blobs[1].{key} to be {kind}, found ")


@pytest.mark.parametrize("key", SIZES)
def test_offsets_and_lengths_must_not_be_negative(key):
    assert str(refused(with_field(key, -1))).endswith(f"expected blobs[1].{key} to be a non-negative long, found -1")


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_longs_may_use_all_64_bits(value):
    assert parsed(with_field("snapshot-id", value)).blobs[1].snapshot_id == value


@pytest.mark.parametrize("value", [None, True, "1", 1.0, [], 2**31, -(2**31) - 1])
def test_field_ids_must_be_32_bit_json_integers(value):
    """The path has the position in the list."""
    assert refused(with_field("fields", [7, value])).expected == "blobs[1].fields[1] to be an int"


@pytest.mark.parametrize("value", [NOTHING, None, 1, "1", {"0": 1}])
def test_fields_must_be_an_array(value):
    assert refused(with_field("fields", value)).expected == "blobs[1].fields to be an array"


@pytest.mark.parametrize("value", [NOTHING, None, 1, ["x"]])
def test_type_must_be_a_string(value):
    assert refused(with_field("type", value)).expected == "blobs[1].type to be a string"


@pytest.mark.parametrize("value", [1, False, ["lz4"], {}])
def test_compression_codec_must_be_a_string(value):
    assert refused(with_field("compression-codec", value)).expected == "blobs[1].compression-codec to be a string"


@pytest.mark.parametrize("value", [NOTHING, None])
def test_null_codec_equals_no_codec(value):
    assert parsed(with_field("compression-codec", value)).blobs[1].compression_codec is None


@pytest.mark.parametrize("value", [None, [], "ndv", 1])
def test_properties_must_be_an_object(value):
    """Null does not mean absent."""
    assert refused(with_field("properties", value)).expected == "blobs[1].properties to be an object"
    assert refused({"blobs": [], "properties": value}).expected == "properties to be an object"


@pytest.mark.parametrize("value", [None, 1, True, ["1"], {}])
def test_property_values_must_be_strings(value):
    """The path has the quoted key."""
    error = refused(with_field("properties", {"a": "b", "n d\nv": value}))
    assert error.expected == r'blobs[1].properties["n d\nv"] to be a string'
    assert refused({"blobs": [], "properties": {"k": value}}).expected == 'properties["k"] to be a string'


@pytest.mark.parametrize("value", [NOTHING, None, {}, "[]", 0])
def test_blobs_must_be_an_array(value):
    document = {} if value is NOTHING else {"blobs": value}
    assert refused(document).expected == "blobs to be an array"


def test_missing_field_is_reported_as_missing():
    """Null is not missing."""
    assert refused(with_field("offset", NOTHING)).found == "nothing"
    assert refused(with_field("offset", None)).found == "null"


@pytest.mark.parametrize("value", [None, 1, "x", []])
def test_each_blob_must_be_an_object(value):
    assert refused({"blobs": [BLOB, value]}).expected == "blobs[1] to be an object"


@pytest.mark.parametrize("value", ["null", "[]", "1", '"blobs"'])
def test_payload_must_be_an_object(value):
    assert refused(value).expected == "the footer payload to be an object"


def test_half_a_surrogate_pair_is_refused():
    r"""JSON can spell text that UTF-8 cannot hold (``"\ud83d"``)."""
    kind = "a string of Unicode characters"
    assert refused(with_field("type", "\ud83d")).expected == f"blobs[1].type to be {kind}"
    assert refused(with_field("compression-codec", "\udc00")).expected == f"blobs[1].compression-codec to be {kind}"
    assert refused({"blobs": [], "properties": {"k": "\ud83d"}}).expected == f'properties["k"] to be {kind}'
    error = refused({"blobs": [], "properties": {"\ud83d": "v"}})
    assert error.expected == rf'the key of properties["\ud83d"] to be {kind}'
    assert error.found == r'"\ud83d"'


def test_error_shortens_large_values():
    assert refused(with_field("offset", {"k" * 9999: 1})).found == "an object"
    assert refused(with_field("offset", [[[1] * 9999]])).found == "an array"
    assert refused(with_field("offset", "k" * 9999)).found == '"' + "k" * 39 + "..."
    assert len(str(refused(with_field("properties", {"k" * 9999: 1})))) < 150


def test_unknown_keys_are_ignored():
    assert parsed({"blobs": [{**BLOB, "new": None}], "new": [{"a": 1.5}]}) == parsed({"blobs": [BLOB]})


def test_rendering_is_compact_and_in_spec_order():
    """No spaces, absent fields left out, text unescaped."""
    blob = {"type": "t", "fields": (9, 8), "snapshot_id": 1, "sequence_number": 2, "offset": 4, "length": 0}
    full = BlobMetadata(**blob, compression_codec="zstd", properties={"b": "é🐧", "a": "\0"})
    same = '"type":"t","fields":[9,8],"snapshot-id":1,"sequence-number":2,"offset":4,"length":0'
    metadata = FileMetadata(blobs=(full, BlobMetadata(**blob)), properties={"created-by": 'a "b"'})
    assert render(metadata).decode() == (
        '{"blobs":[{' + same + r',"compression-codec":"zstd","properties":{"b":"é🐧","a":"\u0000"}},'
        "{" + same + r'}],"properties":{"created-by":"a \"b\""}}'
    )
