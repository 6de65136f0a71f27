"""The value classes are immutable, comparable and picklable, and refuse what a file could not hold."""

import dataclasses
import pickle

import pytest

from puffin.errors import UsageError
from puffin.format import Blob, BlobMetadata, FileMetadata, RawBlob

SAME = {"type": "x", "fields": (1, 2), "snapshot_id": 3, "sequence_number": 4}
MAKERS = [
    lambda **changes: Blob(**{**SAME, "payload": b"", **changes}),
    lambda **changes: BlobMetadata(**{**SAME, "offset": 4, "length": 0, **changes}),
]


@pytest.fixture(params=MAKERS, ids=["Blob", "BlobMetadata"])
def make(request):
    """Each class that describes a blob."""
    return request.param


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": None}, "type: expected a str, found None"),
        ({"type": "\ud83d"}, r"type: expected text that UTF-8 can encode, found '\ud83d'"),
        ({"fields": (1, 2**31)}, "fields[1]: expected an integer from -2147483648 to 2147483647, found 2147483648"),
        ({"fields": (True,)}, "fields[0]: expected an integer from -2147483648 to 2147483647, found True"),
        ({"fields": ("1",)}, "fields[0]: expected an integer from -2147483648 to 2147483647, found '1'"),
        (
            {"snapshot_id": 2**63},
            "snapshot_id: expected an integer from -9223372036854775808 to 9223372036854775807, "
            "found 9223372036854775808",
        ),
        (
            {"sequence_number": 1.0},
            "sequence_number: expected an integer from -9223372036854775808 to 9223372036854775807, found 1.0",
        ),
        ({"compression_codec": 1}, "compression_codec: expected a str, found 1"),
        ({"fields": None}, "fields: expected a sequence, found None"),
        ({"properties": ["ab"]}, "properties: expected a mapping, found ['ab']"),
        ({"properties": {"ndv": 1}}, "property 'ndv': expected a str, found 1"),
        ({"properties": {1: "ndv"}}, "a property name: expected a str, found 1"),
        ({"properties": {"k": "\udc00"}}, r"property 'k': expected text that UTF-8 can encode, found '\udc00'"),
    ],
)
def test_values_refuse_what_the_reader_would_refuse(make, changes, message):
    """So it cannot be written either."""
    with pytest.raises(UsageError) as caught:
        make(**changes)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["offset", "length"])
def test_offsets_and_lengths_must_not_be_negative(name):
    with pytest.raises(UsageError, match=f"{name}: expected a non-negative integer, found -1"):
        BlobMetadata(**{**SAME, "offset": 4, "length": 0, name: -1})


def test_payload_must_be_bytes():
    with pytest.raises(UsageError, match="payload: expected bytes, found str"):
        Blob(**SAME, payload="text")


def test_raw_blob_must_be_as_long_as_its_metadata_says():
    metadata = BlobMetadata(**SAME, offset=4, length=3)
    with pytest.raises(UsageError, match="stored: expected 3 bytes as in the metadata, found 2"):
        RawBlob(metadata=metadata, stored=b"ab")
    with pytest.raises(UsageError, match="stored: expected bytes, found bytearray"):
        RawBlob(metadata=metadata, stored=bytearray(3))


def test_values_are_immutable(make):
    """Changing what they were made from does not change them."""
    properties, fields = {"b": "1", "a": "2"}, [1, 2]
    value = make(properties=properties, fields=fields)
    properties["c"] = "3"
    fields.append(3)
    assert list(value.properties.items()) == [("b", "1"), ("a", "2")]
    assert value.fields == (1, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.type = "y"
    with pytest.raises(TypeError):
        value.properties["b"] = "2"


def test_equal_values_hash_alike_and_survive_pickling(make):
    """The order of properties does not matter."""
    one, other = make(properties={"a": "1", "b": "2"}), make(properties={"b": "2", "a": "1"})
    assert one == other
    assert len({one, other, make()}) == 2
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.properties == {"a": "1", "b": "2"}
    assert repr(one.properties) == "{'a': '1', 'b': '2'}"


def test_replace_checks_the_new_value(make):
    assert dataclasses.replace(make(), snapshot_id=9).snapshot_id == 9
    with pytest.raises(UsageError):
        dataclasses.replace(make(), snapshot_id="9")


def test_file_metadata_is_immutable():
    """Lists become tuples; properties cannot be set."""
    metadata = FileMetadata(blobs=[], properties={"a": "b"})
    assert metadata.blobs == ()
    assert hash(metadata) == hash(FileMetadata(blobs=(), properties={"a": "b"}))
    with pytest.raises(TypeError):
        metadata.properties["a"] = "c"


def test_blob_ends_at_offset_plus_length():
    assert BlobMetadata(**SAME, offset=4, length=3).end == 7
