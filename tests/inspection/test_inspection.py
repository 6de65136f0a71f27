"""Inspection of Puffin files from Python."""

import io

import pyarrow as pa
import pytest

from puffin.errors import CorruptPuffinError, CorruptSketchError, FileNotFound, UnsupportedCodecError, UsageError
from puffin.format import ROW_COUNTS_V1, Blob, BlobMetadata, PuffinWriter, RawBlob
from puffin.format.deletion_vector import DeletionVector
from puffin.inspection import DeletionVectorSummary, SketchSummary, Verdict, describe, read_payload, verify
from puffin.sketches.row_counts import RowCountsBuilder, row_counts_limit
from puffin.sketches.theta_sketch import ThetaSketch
from tests.counting import count_rows


@pytest.fixture
def unknown_codec_file(tmp_path):
    """A file whose only blob has an unknown codec."""
    metadata = BlobMetadata(
        type="x", fields=(1,), snapshot_id=1, sequence_number=1, offset=4, length=3, compression_codec="brotli"
    )
    sink = io.BytesIO()
    writer = PuffinWriter(sink)
    writer.copy(RawBlob(metadata=metadata, stored=b"abc"))
    writer.finish()
    path = tmp_path / "file.puffin"
    path.write_bytes(sink.getvalue())
    return str(path)


@pytest.mark.parametrize("count", [0, 1, 2, 32, 33, 5000])
def test_summary_equals_the_sketch(count):
    """In every mode of a sketch."""
    sketch = ThetaSketch.from_arrow(pa.array(range(count), pa.int64()), "long", lg_k=5)
    summary = SketchSummary.of(sketch.to_bytes())
    assert (summary.estimate, summary.ndv) == (sketch.estimate, sketch.ndv)
    assert (summary.lower, summary.upper) == (sketch.lower_bound(2), sketch.upper_bound(2))
    assert (summary.retained, summary.estimating) == (sketch.retained, sketch.estimating)
    assert summary.estimating == (count > 32) == (summary.theta < 1.0)


def test_summary_of_an_empty_sketch_has_no_seed_hash():
    """Java leaves it zero too."""
    empty = ThetaSketch.from_arrow(pa.array([], pa.int64()), "long").to_bytes()
    assert SketchSummary.of(empty).to_json() == {
        "estimate": 0.0,
        "lower": 0.0,
        "upper": 0.0,
        "theta": 1.0,
        "retained": 0,
        "estimating": False,
        "seed-hash": "0000",
        "serial-version": 3,
    }


def test_summary_of_other_bytes_is_an_error():
    with pytest.raises(CorruptSketchError):
        SketchSummary.of(b"not a sketch")


@pytest.mark.parametrize("count", [0, 9, 10, 11])
def test_summary_of_a_deletion_vector_has_the_lowest_positions(count):
    """Ten of them, or all if there are fewer."""
    positions = [7 * row for row in range(count)]
    summary = DeletionVectorSummary.of(DeletionVector.from_positions(reversed(positions)).to_bytes())
    assert summary == DeletionVectorSummary(cardinality=count, first_positions=tuple(positions[:10]))


def test_row_counts_beside_an_absent_sketch_are_summarized(tmp_path):
    """Broken ones too: a dump says so, and the file is invalid."""
    builder = RowCountsBuilder(row_counts_limit(5))
    count_rows(builder, pa.array([*range(500), 7]), "long")
    payload = builder.compact().to_bytes()
    sink = io.BytesIO()
    writer = PuffinWriter(sink)
    for content in (payload, payload[:-1]):
        writer.add(Blob(type=ROW_COUNTS_V1, fields=(1,), snapshot_id=1, sequence_number=1, payload=content))
    writer.finish()
    path = tmp_path / "file.puffin"
    path.write_bytes(sink.getvalue())
    sound, broken = (blob.to_json() for blob in describe(str(path)).blobs)
    assert (sound["sketch"], sound["row-counts"]["hashes"]) == (None, 128)
    assert sound["row-counts"]["rows"] >= 128
    assert 0 < sound["row-counts"]["theta"] < 1
    assert (broken["sketch"], broken["row-counts"], "size" in broken["error"]) == (None, None, True)
    assert len(verify(str(path)).errors) == 1


def test_describe_raises_errors_unchanged(tmp_path, unknown_codec_file):
    with pytest.raises(FileNotFound):
        describe(str(tmp_path / "missing"))
    with pytest.raises(CorruptPuffinError, match="magic"):
        describe(__file__)
    for index in (-1, 1):
        with pytest.raises(UsageError, match=f"expected 0 to 0, found {index}"):
            describe(unknown_codec_file, only=index)


def test_undecoded_payload_is_not_read(unknown_codec_file):
    """Describing a blob of an unknown type does not need its codec; reading its payload does."""
    (blob,) = describe(unknown_codec_file).blobs
    assert (blob.summary, blob.error) == (None, None)
    with pytest.raises(UnsupportedCodecError):
        read_payload(unknown_codec_file, 0)


def test_verdict_is_valid_exactly_without_errors(tmp_path, unknown_codec_file):
    """Verdicts are returned and never raised."""
    assert not verify(unknown_codec_file).valid
    assert verify(str(tmp_path / "missing")).errors == (f"{tmp_path / 'missing'}: no such file or directory",)
    assert Verdict("x", ()).valid
