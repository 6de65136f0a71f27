"""Every field of the layout broken on its own: the rule, the place and the exact message."""

import json

import lz4.frame
import pytest

from puffin.errors import CorruptPuffinError
from puffin.format import Limits, PuffinReader
from puffin.format.compression import compress

EMPTY = b'{"blobs":[]}'


def refused(image: bytes, **options) -> CorruptPuffinError:
    """The error that reading the footer of the image ends with."""
    with pytest.raises(CorruptPuffinError) as caught:
        _ = PuffinReader(image, **options).file_metadata
    return caught.value


def footer_of(*places: tuple[int, int]) -> bytes:
    """A footer payload of blobs at these offsets, of these lengths."""
    same = {"type": "x", "fields": [1], "snapshot-id": 1, "sequence-number": 1}
    return json.dumps({"blobs": [{**same, "offset": offset, "length": length} for offset, length in places]}).encode()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"head": b"PFA2"}, "head-magic at offset 0: expected b'PFA1', found b'PFA2'"),
        ({"footer_magic": b"pFA1"}, "footer-magic at offset 4: expected b'PFA1', found b'pFA1'"),
        ({"tail": b"PAR1"}, "tail-magic at offset 28: expected b'PFA1', found b'PAR1'"),
    ],
)
def test_each_magic(assemble, parts, message):
    """Each of the three magics is checked and named."""
    error = refused(assemble(EMPTY, **parts))
    assert str(error) == message


def test_the_head_magic_of_a_long_file_is_checked_on_demand(assemble):
    """Where the head is not among the bytes read for the footer, it is up to check_head."""
    reader = PuffinReader(assemble(EMPTY, bytes(100_000), head=b"PFA0"))
    assert reader.file_metadata.blobs == ()
    with pytest.raises(CorruptPuffinError, match="head-magic at offset 0: expected b'PFA1', found b'PFA0'"):
        reader.check_head()


@pytest.mark.parametrize("size", [0, 4, 12, 19])
def test_a_file_too_short(size):
    """Below the three magics, the payload size and the flags there is no file."""
    error = refused((b"PFA1" * 5)[-size:] if size else b"")
    assert str(error) == (f"file-size: expected at least 20 bytes, found {size} bytes")


@pytest.mark.parametrize("payload_size", [-1, -(2**31), 13, 28, 2**31 - 1])
def test_an_impossible_payload_size(assemble, payload_size):
    """A payload size is neither negative nor more than the file has room for."""
    error = refused(assemble(EMPTY, payload_size=payload_size))
    message = f"footer-payload-size at offset 20: expected 0 to 12 bytes, found {payload_size} bytes"
    assert str(error) == message


def test_a_payload_size_that_is_too_small(assemble):
    """A payload size that does not lead back to the footer's first magic is caught there."""
    error = refused(assemble(EMPTY, payload_size=11))
    message = "footer-magic at offset 5: expected b'PFA1', found b'FA1{'"
    assert str(error) == message


@pytest.mark.parametrize("bit", range(1, 32))
def test_each_reserved_flag_bit(assemble, bit):
    """Every flag bit but the lowest is reserved; the error names byte and bit."""
    byte, bit_of_byte = divmod(bit, 8)
    flags = [0, 0, 0, 0]
    flags[byte] = 1 << bit_of_byte
    error = refused(assemble(EMPTY, flags=tuple(flags)))
    found = f"byte {byte} bit {bit_of_byte} set"
    assert error.rule == "flags"
    assert str(error) == f"flags at offset {24 + byte}: expected reserved bits 0, found {found}"


def test_a_reserved_flag_beside_the_compression_flag(assemble):
    """The compression flag does not hide a reserved one."""
    assert refused(assemble(EMPTY, flags=(0b101, 0, 0, 0))).found == "byte 0 bit 2 set"


@pytest.mark.parametrize(
    ("payload", "rule", "found"),
    [
        (b"\xff{}", "footer-utf8", "0xff in byte 0 of the payload"),
        (b'{"blobs":[],"x":"\xed\xa0\x80"}', "footer-utf8", "0xed in byte 17 of the payload"),
        (b"", "footer-json", "Expecting value: line 1 column 1 (char 0)"),
        (EMPTY + b" 1", "footer-json", "Extra data: line 1 column 14 (char 13)"),
        (EMPTY[:-1], "footer-json", "Expecting ',' delimiter: line 1 column 12 (char 11)"),
        (b'{"blobs":[],"x":NaN}', "footer-json", "NaN"),
        (b'{"blobs":[],"x":-Infinity}', "footer-json", "-Infinity"),
        (b'{"blobs":[],"blobs":[]}', "footer-json-keys", '"blobs" 2 times'),
        (b'{"blobs":[],"x":{"a":1,"b":2,"a":3}}', "footer-json-keys", '"a" 2 times'),
    ],
)
def test_a_payload_that_is_not_one_json_document(assemble, payload, rule, found):
    """UTF-8, JSON, one document, every key once."""
    error = refused(assemble(payload))
    assert (error.rule, error.offset, error.found) == (rule, 8, found)


@pytest.mark.parametrize("payload", [b"[" * 200_000, b'{"blobs":' + b"1" * 50_000 + b"}"])
def test_a_payload_that_exhausts_the_json_parser(assemble, payload):
    """Nesting without end and numbers without end give our error too."""
    error = refused(assemble(payload))
    assert error.rule == "footer-json"


@pytest.mark.parametrize(
    ("payload", "rule"),
    [
        (EMPTY, "frame-magic"),
        (compress("zstd", EMPTY), "frame-magic"),
        (lz4.frame.compress(EMPTY, store_size=False), "frame-content-size"),
        (compress("lz4", EMPTY)[:-1], "frame-data"),
        (compress("lz4", EMPTY) * 2, "single-frame"),
        (compress("lz4", b"\xff"), "footer-utf8"),
        (compress("lz4", EMPTY * 2), "footer-json"),
    ],
)
def test_a_compressed_payload_that_is_not_one_lz4_frame_of_json(assemble, payload, rule):
    """A compressed payload is one LZ4 frame with its content size, and the document is in it."""
    error = refused(assemble(payload, flags=(1, 0, 0, 0)))
    assert (error.rule, error.offset) == (rule, 8)


def test_a_blob_before_the_first_byte(assemble):
    """The first byte of a blob comes after the head magic."""
    error = refused(assemble(footer_of((3, 1)), b"abc"))
    message = "blob-start at offset 3: expected offset 4 or more, found 3"
    assert str(error) == message


@pytest.mark.parametrize(
    ("offset", "length", "end"), [(4, 4, 8), (8, 0, 8), (7, 2**63 - 1, 2**63 + 6), (2**63 - 1, 0, 2**63 - 1)]
)
def test_a_blob_that_reaches_into_the_footer(assemble, offset, length, end):
    """The last byte of a blob comes before the footer, whatever the sum of two longs."""
    error = refused(assemble(footer_of((offset, length)), b"abc"))
    message = f"blob-end at offset {offset}: expected at most 7, the footer's start, found {end}"
    assert str(error) == message


def test_blobs_that_overlap(assemble):
    """Two blobs share no byte, in whatever order the footer lists them."""
    error = refused(assemble(footer_of((6, 2), (4, 3)), b"abcd"))
    message = "blob-overlap at offset 6: expected offset 7 or more, found 6"
    assert str(error) == message


def test_a_blob_inside_another(assemble):
    """A blob within a longer one shares bytes, also when a third begins after it."""
    error = refused(assemble(footer_of((4, 10), (5, 1), (7, 1)), bytes(10)))
    assert str(error) == "blob-overlap at offset 5: expected offset 14 or more, found 5"


def test_blobs_that_only_touch(assemble):
    """Neighbours, gaps and blobs without bytes are no overlap, also where those lie inside another blob."""
    reader = PuffinReader(assemble(footer_of((4, 2), (6, 2), (5, 0), (5, 0), (9, 0), (9, 1)), b"abcdef"))
    assert reader.read_all() == [b"ab", b"cd", b"", b"", b"", b"f"]


def test_a_footer_beyond_the_limit(assemble):
    """A footer larger than the caller will hold is refused before it is read, and read when the limit is raised."""
    image = assemble(EMPTY)
    for options in ({}, {"footer_size": 28}):
        error = refused(image, limits=Limits(footer_payload_size=11), **options)
        message = "footer-size-limit at offset 4: expected at most 11 bytes, found 12 bytes"
        assert str(error) == message
    assert PuffinReader(image, limits=Limits(footer_payload_size=12)).file_metadata.blobs == ()


def test_too_many_blobs(assemble):
    """The number of blobs is bounded, and the bound can be raised."""
    image = assemble(footer_of((4, 0), (4, 0)))
    error = refused(image, limits=Limits(blob_count=1))
    message = "blob-count-limit at offset 8: expected at most 1 blobs, found 2 blobs"
    assert str(error) == message
    assert len(PuffinReader(image, limits=Limits(blob_count=2)).file_metadata.blobs) == 2
