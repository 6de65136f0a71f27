"""Property tests: what is written is read back, and damage raises only errors of this project."""

import io

from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import PuffinError
from puffin.format import Blob, PuffinReader, PuffinWriter
from puffin.format.source import COALESCE_GAP, COALESCE_TOTAL, coalesce

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
longs = st.integers(-(2**63), 2**63 - 1)
properties = st.dictionaries(texts, texts, max_size=3)
blobs = st.builds(
    Blob,
    type=texts,
    fields=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3).map(tuple),
    snapshot_id=longs,
    sequence_number=longs,
    payload=st.binary(max_size=300) | st.integers(0, 100_000).map(bytes),
    compression_codec=st.sampled_from([None, "lz4", "zstd"]),
    properties=properties,
)


def write(blobs: list[Blob], **options) -> bytes:
    """A file of these blobs."""
    sink = io.BytesIO()
    writer = PuffinWriter(sink, **options)
    for blob in blobs:
        writer.add(blob)
    writer.finish()
    return sink.getvalue()


@settings(max_examples=100)
@given(st.lists(blobs, max_size=5), properties, st.booleans())
def test_round_trip_keeps_blobs_and_order(written, file_properties, compress_footer):
    reader = PuffinReader(write(written, properties=file_properties, compress_footer=compress_footer))
    reader.check_head()
    assert list(reader.file_metadata.properties.items()) == list(file_properties.items())
    read = [
        Blob(
            type=metadata.type,
            fields=metadata.fields,
            snapshot_id=metadata.snapshot_id,
            sequence_number=metadata.sequence_number,
            payload=payload,
            compression_codec=metadata.compression_codec,
            properties=metadata.properties,
        )
        for metadata, payload in zip(reader.file_metadata.blobs, reader.read_all(), strict=True)
    ]
    assert read == written


PAYLOADS = [b"as it is", b"compressed " * 20, bytes(range(250))]
SAMPLE = [
    Blob(type="x", fields=(1,), snapshot_id=1, sequence_number=1, payload=payload, compression_codec=codec)
    for payload, codec in zip(PAYLOADS, [None, "lz4", "zstd"], strict=True)
]
PLAIN = write(SAMPLE, properties={"created-by": "me"})
COMPRESSED = write(SAMPLE, properties={"created-by": "me"}, compress_footer=True)


@settings(max_examples=100)
@given(
    st.sampled_from([PLAIN, COMPRESSED]),
    st.lists(st.tuples(st.integers(0, len(PLAIN) - 1), st.integers(1, 255)), min_size=1, max_size=3),
    st.booleans(),
)
def test_flipped_bytes_raise_only_our_errors(image, flips, knows_footer_size):
    """Otherwise the file is read to the end."""
    damaged = bytearray(image)
    for place, flip in flips:
        damaged[place % len(image)] ^= flip
    footer_size = PuffinReader(image).footer_size if knows_footer_size else None
    try:
        reader = PuffinReader(damaged, footer_size=footer_size)
        reader.check_head()
        read = reader.read_all()
    except PuffinError:
        return
    assert len(read) == len(reader.file_metadata.blobs)


@settings(max_examples=150)
@given(st.integers(1, 2), st.integers(0, 10**6), st.integers(1, 255))
def test_checksum_detects_damage(index, place, flip):
    """A flipped byte in a compressed blob never yields another payload."""
    blob = PuffinReader(PLAIN).file_metadata.blobs[index]
    damaged = bytearray(PLAIN)
    damaged[blob.offset + place % blob.length] ^= flip
    try:
        assert PuffinReader(damaged).read(blob) == PAYLOADS[index]
    except PuffinError:
        return


@settings(max_examples=100)
@given(st.binary(max_size=200), st.binary(max_size=200), st.sampled_from([0, 1]))
def test_any_footer_payload_raises_only_our_errors(blob, payload, flags):
    """The magics and sizes around it are valid."""
    size = len(payload).to_bytes(4, "little")
    image = b"PFA1" + blob + b"PFA1" + payload + size + bytes([flags, 0, 0, 0]) + b"PFA1"
    try:
        PuffinReader(image).read_all()
    except PuffinError:
        return


ranges = st.tuples(st.integers(0, 3 * COALESCE_TOTAL), st.integers(1, COALESCE_TOTAL + 9) | st.integers(1, 99)).map(
    lambda place: (place[0], sum(place))
)


@settings(max_examples=200)
@given(st.lists(ranges, max_size=12))
def test_coalescing_covers_every_range_within_its_bounds(wanted):
    """Each range is in one group; groups and gaps stay within their limits."""
    groups = coalesce(wanted)
    assert sorted(wanted) == [place for group in groups for place in group]
    for group in groups:
        first, last = group[0][0], max(end for _, end in group)
        assert last - first <= max(COALESCE_TOTAL, *(end - start for start, end in group))
        reached = group[0][1]
        for start, end in group:
            assert start - reached <= COALESCE_GAP
            reached = max(reached, end)
