"""The life of a writer: when it writes what, what closes it, and how sink failures end."""

import io

import pytest

from puffin.errors import ClosedWriterError, StorageError, UnsupportedCodecError, UsageError
from puffin.format import LZ4, Blob, BlobMetadata, PuffinReader, PuffinWriter, RawBlob, layout


def blob(payload: bytes = b"payload", **options) -> Blob:
    """A blob that is valid whatever the options."""
    return Blob(**{"type": "x", "fields": (1,), "snapshot_id": 2, "sequence_number": 1, "payload": payload, **options})


class RecordingSink:
    """A sink that takes up to ``room`` bytes and returns what it is told to."""

    def __init__(self, room: int = 10**6, *, full: BaseException | None = None, silent: bool = False) -> None:
        self.written: list[bytes] = []
        self._room = room
        self._full = full
        self._silent = silent

    def write(self, data: bytes, /) -> int | None:
        part = data[: self._room]
        self._room -= len(part)
        self.written.append(part)
        if part != data and self._full is not None:
            raise self._full
        return None if self._silent else len(part)


def test_writer_reproduces_the_size_of_icebergs_test_file():
    """Iceberg's tests write this file with 122 bytes."""
    writer = PuffinWriter(io.BytesIO())
    writer.add(blob(b"blob", type="blob"))
    assert writer.finish().file_size == 122


def test_blobs_are_written_as_they_are_added():
    """The head magic goes before the first one."""
    sink = RecordingSink()
    writer = PuffinWriter(sink)
    assert sink.written == []
    writer.add(blob(b"one"))
    assert sink.written == [b"PFA1", b"one"]
    writer.add(blob(b"two"))
    assert sink.written == [b"PFA1", b"one", b"two"]


def test_finish_leaves_the_sink_open():
    """The sink may hold more than the file."""
    sink = io.BytesIO()
    PuffinWriter(sink).finish()
    sink.write(b"more")
    assert sink.getvalue()[-8:] == b"PFA1more"


@pytest.mark.parametrize("sink", ["t.puffin", None, b""])
def test_sink_without_write_is_refused(sink):
    with pytest.raises(UsageError, match=f"sink: expected a binary file .* found {type(sink).__name__}"):
        PuffinWriter(sink)


def test_sink_may_return_none():
    """None means that it took everything."""
    sink = RecordingSink(silent=True)
    writer = PuffinWriter(sink)
    writer.add(blob())
    writer.finish()
    assert PuffinReader(b"".join(sink.written)).read_all() == [b"payload"]


def test_closed_sink_is_a_storage_error():
    sink = io.BytesIO()
    writer = PuffinWriter(sink)
    sink.close()
    with pytest.raises(StorageError, match="closed file"):
        writer.add(blob())


USES = [lambda writer: writer.add(blob()), lambda writer: writer.copy(raw()), PuffinWriter.finish]


@pytest.mark.parametrize("use", USES, ids=["add", "copy", "finish"])
def test_finished_writer_refuses_everything(use):
    sink = RecordingSink()
    writer = PuffinWriter(sink)
    writer.finish()
    before = list(sink.written)
    with pytest.raises(ClosedWriterError, match=r"closed by finish\(\)"):
        use(writer)
    assert sink.written == before


def raw() -> RawBlob:
    """A blob of an unknown codec, as some file stores it."""
    metadata = BlobMetadata(
        type="x",
        fields=(9,),
        snapshot_id=5,
        sequence_number=6,
        offset=777,
        length=3,
        compression_codec="brotli",
        properties={"ndv": "1"},
    )
    return RawBlob(metadata=metadata, stored=b"\x01\x02\x03")


def test_raw_copy_changes_only_the_offset():
    sink = io.BytesIO()
    writer = PuffinWriter(sink)
    writer.add(blob(b"before"))
    copied = writer.copy(raw())
    writer.finish()
    reader = PuffinReader(sink.getvalue())
    assert (copied.offset, copied.compression_codec, copied.properties) == (10, "brotli", {"ndv": "1"})
    assert reader.file_metadata.blobs[1] == copied
    assert reader.read_raw(copied) == RawBlob(metadata=copied, stored=raw().stored)


@pytest.mark.parametrize("full", [None, OSError("disk full")])
def test_sink_failure_at_any_byte_is_a_storage_error(full):
    """The error says what failed and where, and the writer stays closed."""
    whole = RecordingSink()
    write_small_file(PuffinWriter(whole))
    sizes = {0: 4, 4: 7, 11: len(whole.written[2])}
    for room in range(sum(sizes.values())):
        writer = PuffinWriter(RecordingSink(room, full=full))
        with pytest.raises(StorageError) as caught:
            write_small_file(writer)
        offset = max(start for start in sizes if start <= room)
        place = f"{sizes[offset]} bytes at offset {offset}"
        if full is None:
            assert str(caught.value) == f"short write: expected to write {place}, wrote {room - offset}"
        else:
            assert str(caught.value) == f"writing {place} failed: disk full"
            assert caught.value.__cause__ is full
        for use in USES:
            with pytest.raises(ClosedWriterError, match=f"closed by a failed write of {place}"):
                use(writer)


def write_small_file(writer: PuffinWriter) -> None:
    """Write a file in three writes: the head magic, a blob of 7 bytes, the footer."""
    writer.add(blob(b"payload"))
    writer.finish()


def test_interrupted_write_closes_the_writer():
    """Nobody may go on writing a half-written file."""
    writer = PuffinWriter(RecordingSink(2, full=KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        writer.add(blob())
    with pytest.raises(ClosedWriterError):
        writer.finish()


def test_unknown_codec_is_refused_before_writing():
    """The writer can go on."""
    sink = io.BytesIO()
    writer = PuffinWriter(sink)
    message = "compression-codec: expected lz4, zstd or no codec, found 'gzip'"
    with pytest.raises(UnsupportedCodecError) as caught:
        writer.add(blob(compression_codec="gzip"))
    assert str(caught.value) == message
    assert sink.getvalue() == b""
    writer.add(blob(compression_codec=LZ4))
    writer.finish()
    assert PuffinReader(sink.getvalue()).read_all() == [b"payload"]


def test_footer_too_large_for_its_size_field_is_refused(monkeypatch):
    """The payload size has 31 bits."""
    monkeypatch.setattr(layout, "LARGEST_FOOTER_PAYLOAD", 11)
    sink = io.BytesIO()
    writer = PuffinWriter(sink)
    with pytest.raises(UsageError, match="footer payload: expected at most 11 bytes, found 12"):
        writer.finish()
    assert sink.getvalue() == b"PFA1"


def test_with_block_without_finish_is_an_error():
    """The file would have no footer."""
    writer = PuffinWriter(io.BytesIO())
    with pytest.raises(UsageError, match=r"ended without finish\(\)"), writer as entered:
        assert entered is writer
    with pytest.raises(ClosedWriterError, match="closed by the end of its with block"):
        writer.finish()


def test_with_block_passes_errors_on_and_closes_the_writer():
    writer = PuffinWriter(io.BytesIO())
    with pytest.raises(LookupError), writer:
        raise LookupError
    with pytest.raises(ClosedWriterError):
        writer.add(blob())


def test_with_block_after_finish_ends_quietly():
    sink = io.BytesIO()
    with PuffinWriter(sink) as writer:
        written = writer.finish()
    assert written.file_size == len(sink.getvalue()) == 32
