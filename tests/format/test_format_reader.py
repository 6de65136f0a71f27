"""How a reader reads: how many ranges, which ones, from what kinds of sources, and what it does not read at all."""

import io
import runpy
from pathlib import Path

import pytest

from puffin.errors import CorruptError, CorruptPuffinError, StorageError, UnsupportedCodecError, UsageError
from puffin.format import Blob, BlobMetadata, Limits, PuffinReader, PuffinWriter
from puffin.format.compression import compress
from puffin.format.reader import TAIL_READ_SIZE
from puffin.format.source import COALESCE_GAP, COALESCE_TOTAL


def written(*payloads: bytes, codec: str | None = None, note: str = "") -> bytes:
    """A file of these payloads."""
    sink = io.BytesIO()
    writer = PuffinWriter(sink, properties={"note": note})
    for payload in payloads:
        writer.add(
            Blob(type="x", fields=(1,), snapshot_id=1, sequence_number=1, payload=payload, compression_codec=codec)
        )
    writer.finish()
    return sink.getvalue()


def at(offset: int, length: int, codec: str | None = None) -> BlobMetadata:
    """The metadata of a blob in this place."""
    return BlobMetadata(
        type="x",
        fields=(1,),
        snapshot_id=1,
        sequence_number=1,
        offset=offset,
        length=length,
        compression_codec=codec,
    )


LONG = written(bytes(TAIL_READ_SIZE), b"second")
LONG_FOOTER = written(b"first", note="n" * TAIL_READ_SIZE)


def test_nothing_is_read_before_it_is_asked_for(counting):
    """Making a reader asks the source for nothing."""
    source = counting(LONG)
    PuffinReader(source)
    assert (source.sizes, source.reads) == (0, [])


def test_a_known_footer_takes_one_read_of_its_size(counting):
    """With both sizes known, the footer is the only thing read, once, and the size is not asked for."""
    footer_size = PuffinReader(LONG).footer_size
    source = counting(LONG)
    reader = PuffinReader(source, footer_size=footer_size, file_size=len(LONG))
    assert reader.file_metadata is reader.file_metadata
    assert (reader.footer_size, reader.footer_compressed, reader.file_size) == (footer_size, False, len(LONG))
    assert (source.sizes, source.reads) == (0, [(len(LONG) - footer_size, footer_size)])


def test_an_unknown_footer_takes_one_read_of_the_tail(counting):
    """With no size known, the size is asked for once and the tail read once."""
    source = counting(LONG)
    reader = PuffinReader(source)
    assert len(reader.file_metadata.blobs) == 2
    assert (source.sizes, source.reads) == (1, [(len(LONG) - TAIL_READ_SIZE, TAIL_READ_SIZE)])


def test_a_long_unknown_footer_takes_a_second_read_of_the_rest(counting):
    """A footer that is longer than the tail costs one more read, of the bytes that were missing."""
    source = counting(LONG_FOOTER)
    reader = PuffinReader(source)
    start = len(LONG_FOOTER) - reader.footer_size
    tail_start = len(LONG_FOOTER) - TAIL_READ_SIZE
    assert reader.file_metadata.properties == {"note": "n" * TAIL_READ_SIZE}
    assert source.reads == [(tail_start, TAIL_READ_SIZE), (start, tail_start - start)]


def test_a_small_file_is_read_once(counting, case):
    """What came along with the footer is not read again: head magic and all blobs are there."""
    source = counting(case.image)
    reader = PuffinReader(source)
    reader.check_head()
    reader.read_all()
    assert source.reads == [(0, len(case.image))]


def test_the_head_costs_a_read_only_where_it_is_asked_for(counting):
    """A reader that knows the footer size reads the head for check_head alone."""
    source = counting(LONG)
    reader = PuffinReader(source, footer_size=PuffinReader(LONG).footer_size)
    reader.check_head()
    assert source.reads[1:] == [(0, 4)]


def test_blobs_that_came_along_are_not_read_again(counting):
    """Of two blobs, one before the tail and one in it, only the first is read."""
    image = written(b"a" * COALESCE_GAP, bytes(COALESCE_GAP + 1), b"b")
    source = counting(image)
    reader = PuffinReader(source)
    first, _, last = reader.file_metadata.blobs
    assert reader.read(last) == b"b"
    assert reader.read(first) == b"a" * COALESCE_GAP
    assert source.reads[1:] == [(4, COALESCE_GAP)]


def test_neighbours_are_read_together_in_any_order(counting):
    """Adjacent blobs take one read; the answers come in the order asked, repetitions included."""
    payloads = [bytes([value]) * 9_000 for value in range(4)]
    source = counting(written(*payloads))
    reader = PuffinReader(source)
    blobs = reader.file_metadata.blobs
    asked = [2, 0, 2, 1]
    assert reader.read_all(blobs[index] for index in asked) == [payloads[index] for index in asked]
    assert source.reads[1:] == [(4, 27_000)]


@pytest.mark.parametrize(("gap", "reads"), [(COALESCE_GAP, 1), (COALESCE_GAP + 1, 2)])
def test_a_gap_is_read_along_up_to_its_bound(counting, gap, reads):
    """Bytes between two blobs are read along while that is cheaper than a second read."""
    source = counting(written(b"a", bytes(gap), b"b", bytes(TAIL_READ_SIZE)))
    reader = PuffinReader(source)
    first, _, last, _ = reader.file_metadata.blobs
    assert reader.read_all([first, last]) == [b"a", b"b"]
    assert len(source.reads) == 1 + reads


def test_joined_reads_are_bounded(counting):
    """Blobs are not joined into a read beyond the bound; one that is larger on its own is read whole."""
    payloads = [bytes(COALESCE_TOTAL - 1), b"a", b"b", bytes(COALESCE_TOTAL + 1), bytes(TAIL_READ_SIZE)]
    source = counting(written(*payloads))
    reader = PuffinReader(source)
    assert reader.read_all(reader.file_metadata.blobs[:4]) == payloads[:4]
    assert [length for _, length in source.reads[1:]] == [COALESCE_TOTAL, 1, COALESCE_TOTAL + 1]


def test_places_inside_one_another_take_one_read(counting):
    """Whatever a caller asks for comes out of one read of all of it."""
    text = bytes(range(250)) * 400
    source = counting(written(text, bytes(TAIL_READ_SIZE)))
    reader = PuffinReader(source)
    asked = [at(14, 50), at(4, 100_000), at(5, 3), at(100_004, 2)]
    assert reader.read_all(asked) == [text[10:60], text, text[1:4], b"\0\0"]
    assert reader.read_all(asked[:2]) == [text[10:60], text]
    assert source.reads[1:] == [(4, 100_002), (4, 100_000)]


def test_blobs_without_bytes_take_no_read(counting):
    """A blob of length 0 is there without reading."""
    source = counting(written(b"", bytes(TAIL_READ_SIZE), b""))
    reader = PuffinReader(source)
    first, _, last = reader.file_metadata.blobs
    assert reader.read_all([first, last]) == [b"", b""]
    assert len(source.reads) == 1


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO])
def test_kinds_of_sources(case, kind):
    """Bytes, views of bytes and files in memory read alike."""
    assert PuffinReader(kind(case.image)).read_all() == [blob.payload for blob in case.blobs]


@pytest.mark.parametrize("buffering", [-1, 0])
def test_a_file_on_disk_stays_open(tmp_path: Path, buffering):
    """A binary file object is read from wherever it stands, buffered or not, and left open."""
    path = tmp_path / "x.puffin"
    path.write_bytes(LONG)
    with path.open("rb", buffering=buffering) as file:
        file.seek(17)
        reader = PuffinReader(file)
        reader.check_head()
        assert reader.read_all() == [bytes(TAIL_READ_SIZE), b"second"]
        assert not file.closed


def test_a_file_that_returns_less_at_a_time_is_read_on():
    """A raw file may return fewer bytes than asked; that is not yet the end."""

    class Dribble(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 7))

    assert PuffinReader(Dribble(LONG)).read_all() == [bytes(TAIL_READ_SIZE), b"second"]


def test_a_file_object_that_looks_like_a_range_source_is_a_file():
    """Some file objects have a ``read_at`` of their own, with other arguments: it is not used."""

    class ArrowLike(io.BytesIO):
        def size(self) -> int:
            raise AssertionError("the size is sought")

        def read_at(self, nbytes: int, offset: int) -> bytes:
            raise AssertionError(f"{nbytes} bytes at {offset} are sought and read")

    assert PuffinReader(ArrowLike(LONG)).read_all()[1] == b"second"


@pytest.mark.parametrize("source", ["x.puffin", None, 1, io.StringIO("PFA1"), Path("x.puffin")])
def test_what_is_no_source(source):
    """Paths and text are refused at once."""
    with pytest.raises(UsageError, match="source: expected bytes, a seekable binary file or a RangeSource, found "):
        PuffinReader(source)


def test_a_store_that_fails_is_a_storage_error():
    """An error of the file system is ours, with the original as its cause."""

    class Failing(io.BytesIO):
        def read(self, *_: int) -> bytes:
            raise OSError("unplugged")

        def seek(self, offset: int, whence: int = 0, /) -> int:
            if whence:
                raise OSError("not seekable")
            return offset

    with pytest.raises(StorageError, match="seeking to the end of the file failed: not seekable"):
        _ = PuffinReader(Failing()).file_size
    with pytest.raises(StorageError, match="reading 32 bytes at offset 0 failed: unplugged") as caught:
        _ = PuffinReader(Failing(), file_size=32).file_metadata
    assert isinstance(caught.value.__cause__, OSError)


def test_a_short_read_of_the_footer(counting):
    """A source with fewer bytes than it says is an error, not a shorter footer."""

    class Short(counting):
        def size(self) -> int:
            return len(self.content) + 5

    with pytest.raises(CorruptPuffinError) as caught:
        _ = PuffinReader(Short(LONG)).file_metadata
    start = len(LONG) + 5 - TAIL_READ_SIZE
    assert (
        str(caught.value)
        == f"read at offset {start}: expected {TAIL_READ_SIZE} bytes, found {TAIL_READ_SIZE - 5} bytes"
    )


def test_a_short_read_of_a_blob(counting):
    """A source that returns a part of a blob is an error, not a shorter payload."""
    source = counting(LONG)
    reader = PuffinReader(source)
    blob = reader.file_metadata.blobs[0]
    source.content = LONG[:100]
    with pytest.raises(CorruptPuffinError) as caught:
        reader.read(blob)
    assert str(caught.value) == f"read at offset 4: expected {TAIL_READ_SIZE} bytes, found 96 bytes"


@pytest.mark.parametrize(
    ("blob", "rule"),
    [(at(0, 4), "blob-start"), (at(len(LONG) - 20, 4), "blob-end"), (at(4, 2**62), "blob-end")],
)
def test_a_blob_of_another_file_is_refused(counting, blob, rule):
    """Metadata that does not fit this file is refused before anything is read for it."""
    source = counting(LONG)
    for read in (PuffinReader(source).read, PuffinReader(source).read_raw):
        with pytest.raises(CorruptPuffinError, match=rule):
            read(blob)
    assert {length for _, length in source.reads} == {TAIL_READ_SIZE}


def test_a_blob_beyond_the_limit_is_not_read(counting):
    """The stored size is held against the limit first, and the limit can be raised."""
    source = counting(LONG)
    reader = PuffinReader(source, limits=Limits(blob_size=TAIL_READ_SIZE - 1))
    with pytest.raises(CorruptPuffinError) as caught:
        reader.read(reader.file_metadata.blobs[0])
    expected = f"expected at most {TAIL_READ_SIZE - 1} bytes, found {TAIL_READ_SIZE} bytes"
    assert str(caught.value) == f"blob-size-limit at offset 4: {expected}"
    assert len(source.reads) == 1
    raised = PuffinReader(LONG, limits=Limits(blob_size=TAIL_READ_SIZE))
    assert raised.read(raised.file_metadata.blobs[0]) == bytes(TAIL_READ_SIZE)


def test_a_payload_beyond_the_limit():
    """The decompressed size is held against the same limit."""
    image = written(bytes(1000), codec="zstd")
    reader = PuffinReader(image, limits=Limits(blob_size=999))
    with pytest.raises(
        CorruptPuffinError, match="payload-size-limit at offset 4: expected at most 999 bytes, found 1000"
    ):
        reader.read_all()
    assert len(reader.read_all_raw()) == 1


def test_a_compressed_footer_beyond_the_limit(assemble):
    """A footer that decompresses to more than the caller will hold is refused, however small its frame."""
    image = assemble(compress("lz4", b'{"blobs":[]}' + b" " * 10_000), flags=(1, 0, 0, 0))
    assert PuffinReader(image).file_metadata.blobs == ()
    with pytest.raises(
        CorruptPuffinError, match="payload-size-limit at offset 8: expected at most 10011 bytes, found 10012"
    ):
        _ = PuffinReader(image, limits=Limits(footer_payload_size=10_011)).file_metadata


def test_a_damaged_blob_leaves_the_others_readable(assemble):
    """A blob is decompressed when it is read, and its error has its offset."""
    image = bytearray(written(b"first" * 9, b"second" * 9, codec="lz4"))
    reader = PuffinReader(bytes(image))
    first, second = reader.file_metadata.blobs
    image[first.offset] ^= 1
    damaged = PuffinReader(image)
    assert damaged.read(second) == b"second" * 9
    with pytest.raises(CorruptPuffinError, match="frame-magic at offset 4: "):
        damaged.read(first)


def test_a_wrong_head_is_seen_with_the_footer_of_a_small_file():
    """A small file is read whole, so its head magic is checked without being asked for."""
    with pytest.raises(CorruptPuffinError, match="head-magic"):
        _ = PuffinReader(b"?" + written(b"a")[1:]).file_metadata


def test_the_lz4_footer_of_an_independent_recipe(fixtures):
    """An LZ4 frame that no library made: footer and blob, beside a zstd frame without checksum."""
    reader = PuffinReader((fixtures / "puffin-recipe" / "lz4-footer.bin").read_bytes())
    assert reader.footer_compressed
    assert reader.file_metadata.properties == {"created-by": "a recipe"}
    assert reader.file_metadata.blobs[2].properties == {"name": "Fratercula arctica 🐧"}
    assert reader.read_all() == [b"puffin " * 100, b"a raw block", b"as it is"]


def test_a_cut_lz4_footer_of_an_independent_recipe(fixtures):
    """Every prefix of a file with a compressed footer is corrupt."""
    image = (fixtures / "puffin-recipe" / "lz4-footer.bin").read_bytes()
    for length in range(len(image)):
        with pytest.raises(CorruptError):
            _ = PuffinReader(image[:length]).file_metadata


def test_a_footer_that_another_writer_may_write(fixtures):
    """Unknown types, codecs and keys are listed; only the payload of an unknown codec cannot be had."""
    reader = PuffinReader((fixtures / "puffin-recipe" / "foreign-footer.bin").read_bytes())
    blobs = reader.file_metadata.blobs
    assert [(blob.type, blob.offset, blob.length, blob.compression_codec) for blob in blobs] == [
        ("presto-kll-sketch-bytes-v1", 20, 5, None),
        ("apache-datasketches-theta-v1", 4, 7, None),
        ("x-brotli", 11, 8, "brotli"),
        ("x-empty", 20, 0, None),
        ("x-empty", 4, 0, None),
    ]
    known = [blob for blob in blobs if blob.compression_codec is None]
    assert reader.read_all(known) == [b"later", b"earlier", b"", b""]
    assert reader.read_raw(blobs[2]).stored == b"squeezed"
    with pytest.raises(UnsupportedCodecError) as caught:
        reader.read_all()
    message = "compression-codec of the blob at offset 11: expected lz4, zstd or none, found 'brotli'"
    assert str(caught.value) == message


def test_an_unknown_codec_is_refused_before_anything_is_read(counting):
    """A blob whose payload cannot be had is not fetched."""
    source = counting(LONG)
    with pytest.raises(UnsupportedCodecError):
        PuffinReader(source).read_all([at(4, 10), at(20, 10, "gzip")])
    assert {length for _, length in source.reads} <= {TAIL_READ_SIZE}


def test_a_known_footer_beyond_the_limit_is_not_read(counting):
    """A footer size that is given is held against the limit before the read."""
    source = counting(LONG_FOOTER)
    with pytest.raises(CorruptPuffinError, match="footer-size-limit"):
        _ = PuffinReader(source, footer_size=8300, limits=Limits(footer_payload_size=8000)).file_metadata
    assert source.reads == []


def test_the_recipe_still_makes_its_files(fixtures):
    """The files of the recipe are what the recipe beside them makes."""
    recipe = runpy.run_path(str(fixtures / "puffin-recipe" / "make.py"))
    assert recipe["lz4_footer"]() == (fixtures / "puffin-recipe" / "lz4-footer.bin").read_bytes()
    assert recipe["foreign_footer"]() == (fixtures / "puffin-recipe" / "foreign-footer.bin").read_bytes()
