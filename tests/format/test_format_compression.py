"""Frames of each codec round-trip, and every kind of invalid frame is refused within bounded memory."""

import tracemalloc
from dataclasses import replace

import lz4.frame
import pytest
import zstandard

from puffin.errors import CorruptPuffinError, UnsupportedCodecError
from puffin.format import compression
from puffin.format.compression import compress, decompress

MIB = 1024 * 1024
TEXT = b"Fratercula arctica " * 50


def refused(codec: str, stored: bytes, *, limit: int = MIB):
    """Return the error that decompressing raises."""
    with pytest.raises(CorruptPuffinError) as caught:
        decompress(codec, stored, offset=77, limit=limit)
    return caught.value


def zstd_claiming(content_size: int, blocks: bytes, *, window_log: int = 20) -> bytes:
    """A zstd frame with a window of 2^window_log bytes, an 8-byte content size and these blocks."""
    content_size_of_8_bytes, window = 0b11 << 6, (window_log - 10) << 3
    return (
        bytes.fromhex("28b52ffd")
        + bytes([content_size_of_8_bytes, window])
        + content_size.to_bytes(8, "little")
        + blocks
    )


def lz4_claiming(content_size: int) -> bytes:
    """The start of an LZ4 frame with this content size and no block."""
    return lz4.frame.compress_begin(
        lz4.frame.create_compression_context(), source_size=content_size, content_checksum=True
    )


def rle_block(length: int, *, last: bool) -> bytes:
    """A zstd block of 4 bytes that decompresses to ``length`` bytes."""
    return (length << 3 | 1 << 1 | last).to_bytes(3, "little") + b"x"


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("payload", [b"", b"a", TEXT, bytes(range(256)) * 4000])
def test_codec_round_trips_with_a_limit_of_exactly_the_size(codec, payload):
    assert decompress(codec, compress(codec, payload), offset=4, limit=len(payload)) == payload


@pytest.mark.parametrize("payload", [b"", TEXT])
def test_frames_contain_their_content_size(payload):
    """The specification asks for it, even for an empty payload."""
    frame = compress("lz4", payload)
    assert frame[4] & 1 << 3
    assert lz4.frame.get_frame_info(frame)["content_size"] == len(payload)
    assert lz4.frame.decompress(frame) == payload
    assert zstandard.frame_content_size(compress("zstd", payload)) == len(payload)


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_payload_beyond_the_limit_is_refused_by_its_size(codec):
    error = refused(codec, compress(codec, TEXT), limit=949)
    assert str(error) == "payload-size-limit at offset 77: expected at most 949 bytes, found 950 bytes"


@pytest.mark.parametrize("codec", ["LZ4", "gzip", "", "none"])
def test_unknown_codec_is_refused_by_place_and_name(codec):
    """Codec names are exact."""
    message = f"compression-codec of the blob at offset 5: expected lz4, zstd or no codec, found {codec!r}"
    with pytest.raises(UnsupportedCodecError) as caught:
        decompress(codec, b"", offset=5, limit=9)
    assert str(caught.value) == message
    with pytest.raises(UnsupportedCodecError):
        compress(codec, b"")


MAGICS = {"lz4": rb"""b'\x04"M\x18'""".decode(), "zstd": r"b'(\xb5/\xfd'"}
SKIPPABLE_FRAME = bytes.fromhex("502a4d18 01000000") + b"x"
FRAMES = {codec: compress(codec, TEXT) for codec in MAGICS}


@pytest.mark.parametrize("codec", MAGICS)
@pytest.mark.parametrize(("stored", "found"), [(b"", "b''"), (b"PFA1?", "b'PFA1'"), (SKIPPABLE_FRAME, r"b'P*M\x18'")])
def test_frame_without_its_codecs_magic_is_refused(codec, stored, found):
    """So are the skippable frames that both libraries would accept."""
    assert str(refused(codec, stored)) == f"frame-magic at offset 77: expected {MAGICS[codec]}, found {found}"


@pytest.mark.parametrize(
    ("codec", "stored"),
    [
        ("lz4", lz4.frame.compress(TEXT, store_size=False)),
        ("lz4", lz4.frame.compress(b"", store_size=True)),
        ("zstd", zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)),
    ],
)
def test_frame_without_content_size_is_refused(codec, stored):
    """Both libraries would accept it."""
    expected = f"the content size in the {codec} frame"
    assert str(refused(codec, stored)) == f"frame-content-size at offset 77: expected {expected}, found none"


@pytest.mark.parametrize("codec", MAGICS)
def test_truncated_frame_is_refused(codec):
    stored = FRAMES[codec][:-1]
    expected = f"expected a whole {codec} frame, found its first {len(stored)} bytes"
    assert str(refused(codec, stored)) == f"frame-data at offset 77: {expected}"


@pytest.mark.parametrize("codec", MAGICS)
@pytest.mark.parametrize("more", [b"!", bytes(1000), SKIPPABLE_FRAME, FRAMES["lz4"], FRAMES["zstd"]])
def test_bytes_after_the_frame_are_refused(codec, more):
    """Even a second frame."""
    expected = f"expected one {codec} frame, found {len(more)} bytes after it"
    assert str(refused(codec, FRAMES[codec] + more)) == f"single-frame at offset 77: {expected}"


@pytest.mark.parametrize("codec", MAGICS)
def test_damaged_frame_raises_our_error(codec):
    """The library's error is its cause."""
    error = refused(codec, FRAMES[codec][:-1] + b"?")
    assert str(error).startswith(f"frame-data at offset 77: expected a sound {codec} frame, found ")
    assert isinstance(error.__cause__, (RuntimeError, zstandard.ZstdError))


def test_frame_shorter_than_it_claims_is_refused(monkeypatch):
    """We check where the library is lenient."""
    assert refused("zstd", zstd_claiming(5, rle_block(4, last=True))).rule == "frame-data"
    assert refused("lz4", lz4_claiming(len(TEXT) + 1) + FRAMES["lz4"][len(lz4_claiming(1)) :]).rule == "frame-data"
    lenient = replace(compression.CODECS["lz4"](), content_size=lambda _: len(TEXT) + 1)
    monkeypatch.setitem(compression.CODECS, "lz4", lambda: lenient)
    expected = "expected 951 bytes as claimed, found 950 bytes"
    assert str(refused("lz4", FRAMES["lz4"])) == f"frame-content-size at offset 77: {expected}"


def test_frame_longer_than_it_claims_is_refused():
    """LZ4's library takes a claim of zero bytes for no claim."""
    claims_nothing = compress("lz4", b"")[:-8]
    stored = claims_nothing + FRAMES["lz4"][len(claims_nothing) :]
    assert str(refused("lz4", stored)) == "frame-content-size at offset 77: expected 0 bytes as claimed, found more"


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("cut", [4, 5])
def test_truncated_frame_header_raises_our_error(codec, cut):
    """The library's error is its cause."""
    error = refused(codec, FRAMES[codec][:cut])
    assert error.rule == "frame-data"
    assert error.__cause__ is not None


@pytest.mark.parametrize(
    ("codec", "stored"),
    [
        ("lz4", lz4_claiming(4 * 1024 * MIB)),
        ("zstd", zstd_claiming(4 * 1024 * MIB, b"")),
        ("zstd", zstd_claiming(2**64 - 3, b"")),
    ],
)
def test_huge_claim_allocates_nothing(codec, stored):
    """A frame that claims 4 GiB or more is refused by its header."""
    assert peak_of(lambda: refused(codec, stored, limit=256 * MIB)) < MIB
    assert refused(codec, stored, limit=256 * MIB).rule == "payload-size-limit"


@pytest.mark.parametrize(
    ("codec", "stored"),
    [("lz4", lz4_claiming(256 * MIB)), ("zstd", zstd_claiming(256 * MIB, rle_block(9, last=False)))],
)
def test_memory_follows_the_content_not_the_claim(codec, stored):
    """A frame that claims 256 MiB and holds nothing takes almost no memory."""
    assert peak_of(lambda: refused(codec, stored, limit=256 * MIB)) < MIB


@pytest.mark.parametrize(
    ("codec", "stored"),
    [
        ("lz4", lz4_claiming(1000) + compress("lz4", bytes(64 * MIB))[len(lz4_claiming(1)) :]),
        ("zstd", zstd_claiming(1000, rle_block(128 * 1024, last=False) * 512)),
    ],
)
def test_frame_that_swells_beyond_its_claim_is_dropped_early(codec, stored):
    """Decompression stops long before the 64 MiB that the frame holds."""
    assert peak_of(lambda: refused(codec, stored)) < 10 * MIB


@pytest.mark.parametrize("window_log", [10, 27, 28, 31])
def test_frames_with_large_windows_are_read(window_log):
    """The content size bounds the memory, not the library's default window."""
    stored = zstd_claiming(600, rle_block(1, last=False) * 599 + rle_block(1, last=True), window_log=window_log)
    assert decompress("zstd", stored, offset=4, limit=600) == b"x" * 600


def peak_of(call) -> int:
    """Return the most memory that Python held during a call, in bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
