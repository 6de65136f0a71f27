"""One table of cases for the reader and the writer: every case whole, cut at every byte, and with trailing junk."""

import io

import pytest

from puffin.errors import CorruptError, CorruptPuffinError
from puffin.format import PuffinReader, PuffinWriter


def test_writer_reproduces_the_image_byte_for_byte(case):
    """For the Java files that includes the zstd frames."""
    sink = io.BytesIO()
    writer = PuffinWriter(sink, properties=case.properties, compress_footer=case.compress_footer)
    for blob in case.blobs:
        writer.add(blob)
    writer.finish()
    assert sink.getvalue() == case.image


def test_writer_returns_what_the_reader_finds(case):
    writer = PuffinWriter(io.BytesIO(), properties=case.properties, compress_footer=case.compress_footer)
    added = tuple(writer.add(blob) for blob in case.blobs)
    written = writer.finish()
    reader = PuffinReader(case.image)
    assert written.blobs == added == reader.file_metadata.blobs
    assert written.file_size == reader.file_size == len(case.image)
    assert written.footer_size == reader.footer_size == len(case.image) - case.image.rindex(b"PFA1", 0, -4)


def test_reader_returns_payloads_in_footer_order(case):
    assert PuffinReader(case.image).read_all() == [blob.payload for blob in case.blobs]


def test_reader_returns_metadata_and_properties_in_order(case):
    reader = PuffinReader(case.image)
    metadata = reader.file_metadata
    assert list(metadata.properties.items()) == list(case.properties.items())
    assert reader.footer_compressed == case.compress_footer
    assert len(metadata.blobs) == len(case.blobs)
    for found, blob in zip(metadata.blobs, case.blobs, strict=True):
        assert (found.type, found.fields) == (blob.type, blob.fields)
        assert (found.snapshot_id, found.sequence_number) == (blob.snapshot_id, blob.sequence_number)
        assert found.compression_codec == blob.compression_codec
        assert list(found.properties.items()) == list(blob.properties.items())


def test_copying_raw_blobs_reproduces_the_file(case):
    reader = PuffinReader(case.image)
    sink = io.BytesIO()
    writer = PuffinWriter(sink, properties=reader.file_metadata.properties, compress_footer=reader.footer_compressed)
    for raw in reader.read_all_raw():
        writer.copy(raw)
    writer.finish()
    assert sink.getvalue() == case.image


def test_known_sizes_change_no_answer(case):
    free = PuffinReader(case.image)
    told = PuffinReader(case.image, footer_size=free.footer_size, file_size=len(case.image))
    assert told.file_metadata == free.file_metadata
    assert told.read_all() == free.read_all()


def test_reader_rejects_every_prefix(case):
    for length in range(len(case.image)):
        with pytest.raises(CorruptError):
            _ = PuffinReader(case.image[:length]).file_metadata


@pytest.mark.parametrize("junk", [b"\0", b"\n", b"P", b"PFA1", b"\0" * 8 + b"PFA1", bytes(range(64))])
def test_reader_rejects_trailing_junk(case, junk):
    """Even junk that ends in the magic."""
    with pytest.raises(CorruptError):
        _ = PuffinReader(case.image + junk).file_metadata


@pytest.mark.parametrize("off_by", [1, -1, 10, -10, 10_000, -10_000])
def test_wrong_footer_size_names_both_sizes(case, off_by):
    """The error always has the given size, and the real one where the footer has room for it."""
    right = PuffinReader(case.image).footer_size
    with pytest.raises(CorruptPuffinError) as caught:
        _ = PuffinReader(case.image, footer_size=right + off_by).file_metadata
    assert caught.value.rule == "footer-size"
    assert f"{right + off_by} bytes as given" in str(caught.value)
    if 16 <= right + off_by <= len(case.image) - 4:
        assert f"found {right} bytes" in str(caught.value)
    else:
        assert f"expected 16 to {len(case.image) - 4} bytes" in str(caught.value)


@pytest.mark.parametrize("off_by", [1, -1, 10, -10, 10_000, -10_000])
@pytest.mark.parametrize("knows_footer_size", [True, False])
def test_wrong_file_size_names_both_sizes(case, off_by, knows_footer_size):
    """The error is about the size given, not about the bytes at the wrong place."""
    footer_size = PuffinReader(case.image).footer_size if knows_footer_size else None
    with pytest.raises(CorruptPuffinError) as caught:
        _ = PuffinReader(case.image, footer_size=footer_size, file_size=len(case.image) + off_by).file_metadata
    given, found = len(case.image) + off_by, len(case.image)
    assert str(caught.value) == f"file-size: expected {given} bytes as given, found {found} bytes"
