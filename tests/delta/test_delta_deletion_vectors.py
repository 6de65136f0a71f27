"""Deletion vectors of a Delta log: where they are, what they delete, and errors of broken ones."""

import json
import struct
import uuid
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.delta.log.actions import DeletionVectorDescriptor
from puffin.delta.scan.deletion_vectors import deletion_vector_file
from puffin.delta.schema import table_schema
from puffin.errors import CorruptDataFileError, CorruptMetadataError, FileNotFound
from puffin.format.deletion_vector import DeletionVector
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.storage.data_uri import content_of, data_uri

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
INLINE = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"  # as delta-kernel-rs has it in its tests
INLINE_ROWS = [3, 4, 7, 11, 18, 29]
INLINE_OF_ANOTHER_MAGIC = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"  # as the protocol has it in an example
ROWS = 40


def z85(data):
    """ZeroMQ's RFC 32 written out: one number for each four bytes, padded with zeros."""
    padded = data + bytes(-len(data) % 4)
    numbers = struct.unpack(f">{len(padded) // 4}I", padded)
    return "".join("".join(ALPHABET[number // 85**place % 85] for place in (4, 3, 2, 1, 0)) for number in numbers)


def data_of(rows):
    """Magic and vector, without the surrounding size and checksum."""
    return DeletionVector.from_positions(rows).to_bytes()[4:-4]


def descriptor(storage_type, path_or_inline_dv, size, cardinality, offset=None):
    return DeletionVectorDescriptor(storage_type, path_or_inline_dv, offset, size, cardinality)


@pytest.fixture
def live(tmp_path, read_files):
    """Reads a file of forty rows with a deletion vector, and returns the remaining rows."""
    schema = table_schema(
        json.dumps({"type": "struct", "fields": [{"name": "row", "type": "long", "metadata": {}}]}), {}, {}, "t"
    )
    path = tmp_path / "part-0.parquet"
    pq.write_table(pa.table({"row": range(ROWS)}), path)

    def read(vector):
        return read_files(schema, path, vectors=[deletion_vector_file(vector, str(tmp_path))])

    return read


def assert_deleted(answer, deleted):
    left = sorted(set(range(ROWS)) - set(deleted))
    assert answer.rows == len(left)
    assert answer.sketches["row"] == ThetaSketch.from_arrow(pa.array(left), "long")


def write_vectors(path, *vectors):
    """Writes a file of deletion vectors, and returns the offset and size of each."""
    content = b"\1"
    places = []
    for data in map(data_of, vectors):
        places.append((len(content), len(data)))
        content += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return places


# --- where it is --------------------------------------------------------------------------------------------------


def test_path_of_the_protocols_example_comes_from_prefix_and_uuid():
    vector = deletion_vector_file(descriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4), "s3://mytable")
    assert vector.file_path == "s3://mytable/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert (vector.content_offset, vector.content_size_in_bytes, vector.record_count) == (4, 48, 6)
    assert vector.content == "POSITION_DELETES"


def test_path_without_a_prefix_is_beside_the_data_files():
    vector = deletion_vector_file(descriptor("u", "^-aqEH.-t@S}K{vb[*k^", 40, 6, 4), "/data/my table%20/")
    assert vector.file_path == "/data/my table%20/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


@settings(max_examples=30)
@given(st.uuids(), st.text("abcXYZ019", max_size=8))
def test_any_uuid_is_found_behind_any_prefix(number, prefix):
    vector = deletion_vector_file(descriptor("u", prefix + z85(number.bytes), 1, 1, 1), "t")
    assert vector.file_path == "/".join(["t", *([prefix] if prefix else []), f"deletion_vector_{number}.bin"])


@pytest.mark.parametrize(
    ("path", "decoded"),
    [
        ("file:/data/a%20b/deletion_vector_1.bin", "file:/data/a b/deletion_vector_1.bin"),
        ("s3://bucket/x%25y/v.bin", "s3://bucket/x%y/v.bin"),
        ("/data/v%C3%BC.bin", "/data/vü.bin"),
    ],
)
def test_absolute_path_is_percent_decoded(path, decoded):
    assert deletion_vector_file(descriptor("p", path, 40, 6, 4), "t").file_path == decoded


def test_absent_offset_is_the_start_of_the_file():
    assert deletion_vector_file(descriptor("p", "/v.bin", 40, 6), "t").content_offset == 0


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (descriptor("x", "abc", 1, 1), r"xabc: expected a UUID \(u\), an absolute path \(p\) or the vector \(i\), fou"),
        (descriptor("p", "deletion_vector.bin", 1, 1), r"expected a UUID"),
        (descriptor("u", "tooshort", 1, 1), "expected Z85 of its bytes, found 8 characters"),
        (descriptor("u", "^-aqEH.-t@S}K{vb[*k~", 1, 1), "expected Z85 of its bytes, found '~' in it"),
        (descriptor("u", "#####H.-t@S}K{vb[*k^", 1, 1), "found ##### for more than 32 bits"),
        (descriptor("u", "", 1, 1), "expected Z85 of its bytes"),
        (descriptor("i", "wi5b=", 5, 1), "found 4 bytes for 5"),
        (descriptor("i", "wi5b", 1, 1), "found 4 characters"),
        (descriptor("p", "/v.bin", 40, 6, -1), "a cardinality from 0 on, found -1, 40 and 6"),
        (descriptor("p", "/v.bin", -8, 6, 1), "a cardinality from 0 on, found 1, -8 and 6"),
        (descriptor("p", "/v.bin", 2**40, 6, 1), "a cardinality from 0 on, found 1, 1099511627776 and 6"),
        (descriptor("p", "/v.bin", 40, -6, 1), "a cardinality from 0 on, found 1, 40 and -6"),
    ],
)  # fmt: skip
def test_descriptor_without_a_valid_location_is_refused(vector, message):
    with pytest.raises(CorruptMetadataError, match=f"^t: deletion vector .*{message}"):
        deletion_vector_file(vector, "t")


# --- what it deletes ----------------------------------------------------------------------------------------------


def test_each_of_several_vectors_in_a_file_deletes_its_own_rows(tmp_path, live):
    number = uuid.uuid4()
    first, second = [0, 1, 39], list(range(5, 30))
    places = write_vectors(tmp_path / "pre" / f"deletion_vector_{number}.bin", first, second)
    for rows, (offset, size) in zip((first, second), places, strict=True):
        assert_deleted(live(descriptor("u", "pre" + z85(number.bytes), size, len(rows), offset)), rows)


def test_vector_at_an_absolute_path_elsewhere_is_read(tmp_path, live):
    elsewhere = tmp_path / "an other table" / "v.bin"
    ((offset, size),) = write_vectors(elsewhere, [7])
    path = f"file:{elsewhere}".replace(" ", "%20")
    assert_deleted(live(descriptor("p", path, size, 1, offset)), [7])


def test_inline_vector_is_read(live):
    assert_deleted(live(descriptor("i", INLINE, 44, 6)), INLINE_ROWS)


def test_inline_example_of_the_protocol_has_an_undocumented_format(live):
    """Its magic is 1681511376, big endian; Spark refuses it too."""
    with pytest.raises(CorruptDataFileError, match="magic at offset 4: expected d1 d3 39 64, found 64 39 d3 d0"):
        live(descriptor("i", INLINE_OF_ANOTHER_MAGIC, 40, 6))


@settings(max_examples=30)
@given(st.sets(st.integers(0, 2**40), max_size=300))
def test_inline_vector_is_the_record_of_a_file(rows):
    data = data_of(sorted(rows))
    vector = deletion_vector_file(descriptor("i", z85(data), len(data), len(rows)), "t")
    record = content_of(vector.file_path)
    assert vector.content_size_in_bytes == len(record)
    assert DeletionVector.from_bytes(record, expected_cardinality=len(rows)).positions().tolist() == sorted(rows)


def test_empty_vector_deletes_nothing(live):
    data = data_of([])
    assert_deleted(live(descriptor("i", z85(data), len(data), 0)), [])


# --- what is broken -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "CRC-32 of magic and vector"),
        (lambda content: content[:12] + b"\xff" + content[13:], "CRC-32 of magic and vector"),
        (lambda content: content[:5] + b"\xd0" + content[6:], "magic at offset 4: expected d1 d3 39 64"),
        (lambda content: content[:1] + b"\xff" + content[2:], "length of magic and vector"),
        (lambda content: content[:-1], "at offset 1, found"),
        (lambda _: b"", "bytes at offset 1, found 0"),
    ],
)
def test_broken_record_names_its_file(tmp_path, live, change, message):
    path = tmp_path / "v.bin"
    ((offset, size),) = write_vectors(path, [1, 2, 3])
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CorruptDataFileError) as caught:
        live(descriptor("p", str(path), size, 3, offset))
    assert str(caught.value).startswith(f"{path}: expected a readable delete file: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("size_off", "cardinality", "offset", "message"),
    [
        (0, 4, 1, "cardinality at offset 8: expected 4, found 3"),
        (1, 3, 1, "at offset 1, found"),
        (-1, 3, 1, "length of magic and vector"),
        (0, 3, 0, "length of magic and vector"),
        (0, 3, 1000, "bytes at offset 1000, found 0"),
        (0, 3, 2**62, "bytes at offset 4611686018427387904, found 0"),
        (2**30, 3, 1, "bytes at offset 1, found"),
    ],
)
def test_descriptor_that_does_not_fit_the_file_names_the_file(tmp_path, live, size_off, cardinality, offset, message):
    path = tmp_path / "v.bin"
    ((_, size),) = write_vectors(path, [1, 2, 3])
    with pytest.raises(CorruptDataFileError) as caught:
        live(descriptor("p", str(path), size + size_off, cardinality, offset))
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_broken_inline_vector_names_the_data_file(live):
    with pytest.raises(CorruptDataFileError) as caught:
        live(descriptor("i", INLINE, 44, 7))
    assert "part-0.parquet: expected a readable deletion vector in the table's log" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_missing_file_is_named(tmp_path, live):
    with pytest.raises(FileNotFound, match=r"gone\.bin: no such file"):
        live(descriptor("p", str(tmp_path / "gone.bin"), 40, 6, 1))


# --- data URIs ----------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.binary(max_size=100))
def test_inline_uri_gives_its_content_back(content):
    assert content_of(data_uri(content)) == content


@pytest.mark.parametrize("uri", ["s3://b/data:application/octet-stream;base64,AA==", "data:text/plain,hello", "/data"])
def test_other_uris_have_no_inline_content(uri):
    assert content_of(uri) is None
