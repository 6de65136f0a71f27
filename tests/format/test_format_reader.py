"""How a reader reads: how many ranges and which, from which kinds of sources, and what it never reads."""

import io
import mmap
import runpy
import time
from concurrent.futures import ThreadPoolExecutor
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
    """The metadata of a blob at this place."""
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


def test_making_a_reader_reads_nothing(counting):
    source = counting(LONG)
    PuffinReader(source)
    assert (source.sizes, source.reads) == (0, [])


def test_known_footer_size_takes_one_read(counting):
    """The reader reads only the footer, and does not ask for the size."""
    footer_size = PuffinReader(LONG).footer_size
    source = counting(LONG)
    reader = PuffinReader(source, footer_size=footer_size, file_size=len(LONG))
    assert reader.file_metadata is reader.file_metadata
    assert (reader.footer_size, reader.footer_compressed, reader.file_size) == (footer_size, False, len(LONG))
    assert (source.sizes, source.reads) == (0, [(len(LONG) - footer_size, footer_size)])


def test_unknown_footer_size_takes_one_read_of_the_tail(counting):
    """The reader asks for the size once."""
    source = counting(LONG)
    reader = PuffinReader(source)
    assert len(reader.file_metadata.blobs) == 2
    assert (source.sizes, source.reads) == (1, [(len(LONG) - TAIL_READ_SIZE, TAIL_READ_SIZE)])


def test_long_unknown_footer_takes_a_second_read(counting):
    """It reads only the missing bytes."""
    source = counting(LONG_FOOTER)
    reader = PuffinReader(source)
    start = len(LONG_FOOTER) - reader.footer_size
    tail_start = len(LONG_FOOTER) - TAIL_READ_SIZE
    assert reader.file_metadata.properties == {"note": "n" * TAIL_READ_SIZE}
    assert source.reads == [(tail_start, TAIL_READ_SIZE), (start, tail_start - start)]


def test_small_file_is_read_once(counting, case):
    """The head magic and all blobs came along with the footer."""
    source = counting(case.image)
    reader = PuffinReader(source)
    reader.check_head()
    reader.read_all()
    assert source.reads == [(0, len(case.image))]


def test_check_head_reads_the_head_only_on_demand(counting):
    source = counting(LONG)
    reader = PuffinReader(source, footer_size=PuffinReader(LONG).footer_size)
    reader.check_head()
    assert source.reads[1:] == [(0, 4)]


def test_blobs_read_with_the_footer_are_not_read_again(counting):
    """Of two blobs, one before the tail and one in it, only the first is read."""
    image = written(b"a" * COALESCE_GAP, bytes(COALESCE_GAP + 1), b"b")
    source = counting(image)
    reader = PuffinReader(source)
    first, _, last = reader.file_metadata.blobs
    assert reader.read(last) == b"b"
    assert reader.read(first) == b"a" * COALESCE_GAP
    assert source.reads[1:] == [(4, COALESCE_GAP)]


def test_adjacent_blobs_take_one_read_in_any_order(counting):
    """The answers keep the requested order, repetitions included."""
    payloads = [bytes([value]) * 9_000 for value in range(4)]
    source = counting(written(*payloads))
    reader = PuffinReader(source)
    blobs = reader.file_metadata.blobs
    asked = [2, 0, 2, 1]
    assert reader.read_all(blobs[index] for index in asked) == [payloads[index] for index in asked]
    assert source.reads[1:] == [(4, 27_000)]


@pytest.mark.parametrize(("gap", "reads"), [(COALESCE_GAP, 1), (COALESCE_GAP + 1, 2)])
def test_small_gaps_are_read_along(counting, gap, reads):
    """Reading a gap is cheaper than a second read, up to a limit."""
    source = counting(written(b"a", bytes(gap), b"b", bytes(TAIL_READ_SIZE)))
    reader = PuffinReader(source)
    first, _, last, _ = reader.file_metadata.blobs
    assert reader.read_all([first, last]) == [b"a", b"b"]
    assert len(source.reads) == 1 + reads


def test_joined_reads_are_bounded(counting):
    """A blob that is larger than the limit is read whole."""
    payloads = [bytes(COALESCE_TOTAL - 1), b"a", b"b", bytes(COALESCE_TOTAL + 1), bytes(TAIL_READ_SIZE)]
    source = counting(written(*payloads))
    reader = PuffinReader(source)
    assert reader.read_all(reader.file_metadata.blobs[:4]) == payloads[:4]
    assert [length for _, length in source.reads[1:]] == [COALESCE_TOTAL, 1, COALESCE_TOTAL + 1]


def test_overlapping_places_take_one_read(counting):
    text = bytes(range(250)) * 400
    source = counting(written(text, bytes(TAIL_READ_SIZE)))
    reader = PuffinReader(source)
    asked = [at(14, 50), at(4, 100_000), at(5, 3), at(100_004, 2)]
    assert reader.read_all(asked) == [text[10:60], text, text[1:4], b"\0\0"]
    assert reader.read_all(asked[:2]) == [text[10:60], text]
    assert source.reads[1:] == [(4, 100_002), (4, 100_000)]


def test_empty_blobs_take_no_read(counting):
    source = counting(written(b"", bytes(TAIL_READ_SIZE), b""))
    reader = PuffinReader(source)
    first, _, last = reader.file_metadata.blobs
    assert reader.read_all([first, last]) == [b"", b""]
    assert len(source.reads) == 1


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO])
def test_bytes_views_and_memory_files_read_alike(case, kind):
    assert PuffinReader(kind(case.image)).read_all() == [blob.payload for blob in case.blobs]


@pytest.mark.parametrize("buffering", [-1, 0])
def test_file_on_disk_stays_open(tmp_path: Path, buffering):
    """It is read from any position, buffered or not."""
    path = tmp_path / "x.puffin"
    path.write_bytes(LONG)
    with path.open("rb", buffering=buffering) as file:
        file.seek(17)
        reader = PuffinReader(file)
        reader.check_head()
        assert reader.read_all() == [bytes(TAIL_READ_SIZE), b"second"]
        assert not file.closed


def test_mapped_file_is_read(tmp_path: Path):
    """Before Python 3.13 its seek returns None."""
    path = tmp_path / "file.puffin"
    path.write_bytes(written(b"payload"))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert PuffinReader(mapped).read_all() == [b"payload"]


def test_short_raw_reads_are_continued():
    """A raw file may return fewer bytes than asked before its end."""

    class Dribble(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 7))

    assert PuffinReader(Dribble(LONG)).read_all() == [bytes(TAIL_READ_SIZE), b"second"]


def test_threads_may_share_a_reader_of_an_open_file():
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            time.sleep(0.001)  # lets another thread seek
            return super().read(size)

    payloads = [bytes([number]) * 10 for number in range(20)]
    reader = PuffinReader(Slow(written(*payloads, bytes(TAIL_READ_SIZE))))
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(reader.read, reader.file_metadata.blobs[:20])) == payloads


def test_file_objects_with_their_own_read_at_are_files():
    """Some have a ``read_at`` with other arguments; the reader does not use it."""

    class ArrowLike(io.BytesIO):
        def size(self) -> int:
            raise AssertionError("the size is sought")

        def read_at(self, nbytes: int, offset: int) -> bytes:
            raise AssertionError(f"{nbytes} bytes at {offset} are sought and read")

    assert PuffinReader(ArrowLike(LONG)).read_all()[1] == b"second"


@pytest.mark.parametrize("source", ["x.puffin", None, 1, io.StringIO("PFA1"), Path("x.puffin")])
def test_paths_and_text_are_refused_as_sources(source):
    with pytest.raises(UsageError, match="source: expected bytes, a seekable binary file or a RangeSource, found "):
        PuffinReader(source)


def test_os_errors_become_storage_errors():
    """The original error is the cause."""

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


def test_closed_file_is_a_storage_error():
    file = io.BytesIO(written(b"payload"))
    reader = PuffinReader(file)
    file.close()
    with pytest.raises(StorageError, match="closed file"):
        _ = reader.file_metadata


def test_short_read_of_the_footer_is_an_error(counting):
    """The source has fewer bytes than it says."""

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


def test_short_read_of_a_blob_is_an_error(counting):
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
def test_blob_metadata_of_another_file_is_refused_before_reading(counting, blob, rule):
    source = counting(LONG)
    for read in (PuffinReader(source).read, PuffinReader(source).read_raw):
        with pytest.raises(CorruptPuffinError, match=rule):
            read(blob)
    assert {length for _, length in source.reads} == {TAIL_READ_SIZE}


def test_stored_size_beyond_the_limit_is_not_read(counting):
    """The limit can be raised."""
    source = counting(LONG)
    reader = PuffinReader(source, limits=Limits(blob_size=TAIL_READ_SIZE - 1))
    with pytest.raises(CorruptPuffinError) as caught:
        reader.read(reader.file_metadata.blobs[0])
    expected = f"expected at most {TAIL_READ_SIZE - 1} bytes, found {TAIL_READ_SIZE} bytes"
    assert str(caught.value) == f"blob-size-limit at offset 4: {expected}"
    assert len(source.reads) == 1
    raised = PuffinReader(LONG, limits=Limits(blob_size=TAIL_READ_SIZE))
    assert raised.read(raised.file_metadata.blobs[0]) == bytes(TAIL_READ_SIZE)


def test_decompressed_size_beyond_the_limit_is_refused():
    image = written(bytes(1000), codec="zstd")
    reader = PuffinReader(image, limits=Limits(blob_size=999))
    with pytest.raises(
        CorruptPuffinError, match="payload-size-limit at offset 4: expected at most 999 bytes, found 1000"
    ):
        reader.read_all()
    assert len(reader.read_all_raw()) == 1


def test_compressed_footer_beyond_the_limit_is_refused(assemble):
    """However small its frame is."""
    image = assemble(compress("lz4", b'{"blobs":[]}' + b" " * 10_000), flags=(1, 0, 0, 0))
    assert PuffinReader(image).file_metadata.blobs == ()
    with pytest.raises(
        CorruptPuffinError, match="payload-size-limit at offset 8: expected at most 10011 bytes, found 10012"
    ):
        _ = PuffinReader(image, limits=Limits(footer_payload_size=10_011)).file_metadata


def test_damaged_blob_leaves_the_others_readable(assemble):
    """A blob is decompressed when it is read; the error has its offset."""
    image = bytearray(written(b"first" * 9, b"second" * 9, codec="lz4"))
    reader = PuffinReader(bytes(image))
    first, second = reader.file_metadata.blobs
    image[first.offset] ^= 1
    damaged = PuffinReader(image)
    assert damaged.read(second) == b"second" * 9
    with pytest.raises(CorruptPuffinError, match="frame-magic at offset 4: "):
        damaged.read(first)


def test_wrong_head_magic_of_a_small_file_is_found_with_the_footer():
    """A small file is read whole."""
    with pytest.raises(CorruptPuffinError, match="head-magic"):
        _ = PuffinReader(b"?" + written(b"a")[1:]).file_metadata


def test_reader_reads_an_lz4_footer_of_an_independent_recipe(fixtures):
    """No library made the LZ4 frame; beside it is a zstd frame without checksum."""
    reader = PuffinReader((fixtures / "puffin-recipe" / "lz4-footer.bin").read_bytes())
    assert reader.footer_compressed
    assert reader.file_metadata.properties == {"created-by": "a recipe"}
    assert reader.file_metadata.blobs[2].properties == {"name": "Fratercula arctica 🐧"}
    assert reader.read_all() == [b"puffin " * 100, b"a raw block", b"as it is"]


def test_reader_rejects_every_prefix_of_a_file_with_a_compressed_footer(fixtures):
    image = (fixtures / "puffin-recipe" / "lz4-footer.bin").read_bytes()
    for length in range(len(image)):
        with pytest.raises(CorruptError):
            _ = PuffinReader(image[:length]).file_metadata


def test_reader_lists_unknown_types_codecs_and_keys(fixtures):
    """Only the payload of an unknown codec cannot be read."""
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
    message = "compression-codec of the blob at offset 11: expected lz4, zstd or no codec, found 'brotli'"
    assert str(caught.value) == message


def test_unknown_codec_is_refused_before_reading(counting):
    source = counting(LONG)
    with pytest.raises(UnsupportedCodecError):
        PuffinReader(source).read_all([at(4, 10), at(20, 10, "gzip")])
    assert {length for _, length in source.reads} <= {TAIL_READ_SIZE}


def test_known_footer_size_beyond_the_limit_is_not_read(counting):
    source = counting(LONG_FOOTER)
    with pytest.raises(CorruptPuffinError, match="footer-size-limit"):
        _ = PuffinReader(source, footer_size=8300, limits=Limits(footer_payload_size=8000)).file_metadata
    assert source.reads == []


def test_recipe_reproduces_its_files(fixtures):
    recipe = runpy.run_path(str(fixtures / "puffin-recipe" / "make.py"))
    assert recipe["lz4_footer"]() == (fixtures / "puffin-recipe" / "lz4-footer.bin").read_bytes()
    assert recipe["foreign_footer"]() == (fixtures / "puffin-recipe" / "foreign-footer.bin").read_bytes()
