"""Every field of the layout broken on its own: the rule, the place and the exact message."""

import json

import lz4.frame
import pytest

from puffin.errors import CorruptPuffinError
from puffin.format import Limits, PuffinReader
from puffin.format.compression import compress

EMPTY = b'{"blobs":[]}'


def refused(image: bytes, **options) -> CorruptPuffinError:
    """Return the error that reading the footer raises."""
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
def test_reader_checks_and_names_each_magic(assemble, parts, message):
    error = refused(assemble(EMPTY, **parts))
    assert str(error) == message


def test_check_head_checks_the_head_magic_of_long_files(assemble):
    """The read of the footer does not include the head."""
    reader = PuffinReader(assemble(EMPTY, bytes(100_000), head=b"PFA0"))
    assert reader.file_metadata.blobs == ()
    with pytest.raises(CorruptPuffinError, match="head-magic at offset 0: expected b'PFA1', found b'PFA0'"):
        reader.check_head()


@pytest.mark.parametrize("size", [0, 4, 12, 19])
def test_reader_rejects_files_shorter_than_the_fixed_parts(size):
    """Those are three magics, the payload size and the flags."""
    error = refused((b"PFA1" * 5)[-size:] if size else b"")
    assert str(error) == (f"file-size: expected at least 20 bytes, found {size} bytes")


@pytest.mark.parametrize("payload_size", [-1, -(2**31), 13, 28, 2**31 - 1])
def test_reader_rejects_negative_and_too_large_payload_sizes(assemble, payload_size):
    error = refused(assemble(EMPTY, payload_size=payload_size))
    message = f"footer-payload-size at offset 20: expected 0 to 12 bytes, found {payload_size} bytes"
    assert str(error) == message


def test_reader_rejects_payload_sizes_that_miss_the_footer_magic(assemble):
    error = refused(assemble(EMPTY, payload_size=11))
    message = "footer-magic at offset 5: expected b'PFA1', found b'FA1{'"
    assert str(error) == message


@pytest.mark.parametrize("bit", range(1, 32))
def test_reader_rejects_footer_with_reserved_flag_bits(assemble, bit):
    """The error names byte and bit."""
    byte, bit_of_byte = divmod(bit, 8)
    flags = [0, 0, 0, 0]
    flags[byte] = 1 << bit_of_byte
    error = refused(assemble(EMPTY, flags=tuple(flags)))
    found = f"byte {byte} bit {bit_of_byte} set"
    assert error.rule == "flags"
    assert str(error) == f"flags at offset {24 + byte}: expected reserved bits 0, found {found}"


def test_reader_rejects_reserved_flags_beside_the_compression_flag(assemble):
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
def test_reader_rejects_payloads_that_are_not_one_json_document(assemble, payload, rule, found):
    """It must be UTF-8, and every key may occur once."""
    error = refused(assemble(payload))
    assert (error.rule, error.offset, error.found) == (rule, 8, found)


@pytest.mark.parametrize("payload", [b"[" * 200_000, b'{"blobs":' + b"1" * 50_000 + b"}"])
def test_reader_rejects_json_that_exhausts_the_parser(assemble, payload):
    """Endless nesting and endless numbers raise our error too."""
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
def test_reader_rejects_compressed_payloads_that_are_not_one_lz4_frame_of_json(assemble, payload, rule):
    error = refused(assemble(payload, flags=(1, 0, 0, 0)))
    assert (error.rule, error.offset) == (rule, 8)


def test_reader_rejects_blobs_that_overlap_the_head_magic(assemble):
    error = refused(assemble(footer_of((3, 1)), b"abc"))
    message = "blob-start at offset 3: expected offset 4 or more, found 3"
    assert str(error) == message


@pytest.mark.parametrize(
    ("offset", "length", "end"), [(4, 4, 8), (8, 0, 8), (7, 2**63 - 1, 2**63 + 6), (2**63 - 1, 0, 2**63 - 1)]
)
def test_reader_rejects_blobs_that_reach_into_the_footer(assemble, offset, length, end):
    """However large the sum of offset and length is."""
    error = refused(assemble(footer_of((offset, length)), b"abc"))
    message = f"blob-end at offset {offset}: expected at most 7, the footer's start, found {end}"
    assert str(error) == message


def test_reader_rejects_overlapping_blobs(assemble):
    """In whatever order the footer lists them."""
    error = refused(assemble(footer_of((6, 2), (4, 3)), b"abcd"))
    message = "blob-overlap at offset 6: expected offset 7 or more, found 6"
    assert str(error) == message


def test_reader_rejects_blobs_inside_other_blobs(assemble):
    """Also when a third begins after them."""
    error = refused(assemble(footer_of((4, 10), (5, 1), (7, 1)), bytes(10)))
    assert str(error) == "blob-overlap at offset 5: expected offset 14 or more, found 5"


def test_reader_accepts_adjacent_and_empty_blobs(assemble):
    """Neighbours, gaps and empty blobs, even inside another blob, are no overlap."""
    reader = PuffinReader(assemble(footer_of((4, 2), (6, 2), (5, 0), (5, 0), (9, 0), (9, 1)), b"abcdef"))
    assert reader.read_all() == [b"ab", b"cd", b"", b"", b"", b"f"]


def test_reader_rejects_footers_beyond_the_limit(assemble):
    """It refuses before reading; a higher limit reads the footer."""
    image = assemble(EMPTY)
    for options in ({}, {"footer_size": 28}):
        error = refused(image, limits=Limits(footer_payload_size=11), **options)
        message = "footer-size-limit at offset 4: expected at most 11 bytes, found 12 bytes"
        assert str(error) == message
    assert PuffinReader(image, limits=Limits(footer_payload_size=12)).file_metadata.blobs == ()


def test_reader_rejects_too_many_blobs(assemble):
    """The limit can be raised."""
    image = assemble(footer_of((4, 0), (4, 0)))
    error = refused(image, limits=Limits(blob_count=1))
    message = "blob-count-limit at offset 8: expected at most 1 blobs, found 2 blobs"
    assert str(error) == message
    assert len(PuffinReader(image, limits=Limits(blob_count=2)).file_metadata.blobs) == 2
