"""Fixtures of the command tests: a command run in this process, and a file with every kind of blob."""

import io
import json
import logging
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from puffin.cli import main
from puffin.format import (
    CREATED_BY,
    DELETION_VECTOR_V1,
    LZ4,
    THETA_V1,
    ZSTD,
    Blob,
    BlobMetadata,
    PuffinWriter,
    RawBlob,
)
from puffin.format.deletion_vector import DeletionVector
from puffin.sketches.theta_sketch import ThetaSketch

FIXTURES = Path(__file__).parents[2] / "fixtures"

SMALL_SKETCH = ThetaSketch.from_arrow(pa.array(range(3)), "long")
LARGE_SKETCH = ThetaSketch.from_arrow(pa.array(range(100)), "long", lg_k=5)
POSITIONS = [*range(5, 40, 2), 2**32 + 1]


@dataclass(frozen=True)
class Run:
    """How a command ended, and what it printed."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """Stdout as text."""
        return self.stdout.decode()

    @property
    def document(self) -> Any:
        """Stdout as JSON."""
        return json.loads(self.stdout)


@pytest.fixture(autouse=True)
def restore_root_logger() -> Iterator[None]:
    """Undo after each test what ``--verbose`` does to the root logger, so that no test depends on those before it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def puffin(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Run the command line in this process."""

    def run(*args: object, stdin: bytes = b"") -> Run:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as exit_:
            main([str(arg) for arg in args])
        captured = capfdbinary.readouterr()
        return Run(exit_.value.code or 0, captured.out, captured.err.decode())

    return run


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The directory of the fixtures."""
    return FIXTURES


@pytest.fixture(scope="session")
def spark_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Puffin files that Iceberg's Spark runtime wrote, in the directories of their tables."""
    target = tmp_path_factory.mktemp("spark")
    with tarfile.open(FIXTURES / "tables-spark-3.5-iceberg-1.10" / "iceberg-spark.tar.gz") as archive:
        for member in archive.getmembers():
            if member.name.endswith((".stats", ".puffin")):
                archive.extract(member, target)
    return target


def blob(kind: str, payload: bytes, codec: str | None = None, **properties: str) -> Blob:
    """A blob whose other fields do not matter, except that a deletion vector names no snapshot."""
    snapshot, sequence = (-1, -1) if kind == DELETION_VECTOR_V1 else (11, 2)
    return Blob(
        type=kind,
        fields=(1,),
        snapshot_id=snapshot,
        sequence_number=sequence,
        payload=payload,
        compression_codec=codec,
        properties={name.replace("_", "-"): value for name, value in properties.items()},
    )


def raw_blob(kind: str, stored: bytes, codec: str | None, **properties: str) -> RawBlob:
    """A blob stored as it is, whatever its codec."""
    metadata = BlobMetadata(
        type=kind,
        fields=(1,),
        snapshot_id=11,
        sequence_number=2,
        offset=4,
        length=len(stored),
        compression_codec=codec,
        properties=properties,
    )
    return RawBlob(metadata=metadata, stored=stored)


def deletion_vector(**properties: str) -> Blob:
    """A valid deletion vector, except for the properties given."""
    return blob(
        DELETION_VECTOR_V1,
        DeletionVector.from_positions(POSITIONS).to_bytes(),
        **{"referenced-data-file": "s3://bucket/data.parquet", "cardinality": str(len(POSITIONS)), **properties},
    )


def puffin_file(*blobs: Blob | RawBlob, compress_footer: bool = False) -> bytes:
    """Make a file of these blobs."""
    sink = io.BytesIO()
    writer = PuffinWriter(sink, properties={CREATED_BY: "the tests"}, compress_footer=compress_footer)
    for each in blobs:
        writer.copy(each) if isinstance(each, RawBlob) else writer.add(each)
    writer.finish()
    return sink.getvalue()


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """Return the function that makes files, and the blobs in them."""
    return SimpleNamespace(
        blob=blob,
        raw_blob=raw_blob,
        deletion_vector=deletion_vector,
        file=puffin_file,
        small_sketch=SMALL_SKETCH,
        large_sketch=LARGE_SKETCH,
        positions=POSITIONS,
    )


SOUND_BLOBS = (
    blob(THETA_V1, LARGE_SKETCH.to_bytes(), ZSTD, ndv=str(LARGE_SKETCH.ndv)),
    blob(THETA_V1, SMALL_SKETCH.to_bytes(), LZ4, ndv="3"),
    blob(THETA_V1, SMALL_SKETCH.to_bytes()),
    deletion_vector(),
    blob("x-unknown", b"payload \x00\xff" * 9, ZSTD, note="for us alone"),
    blob("x-empty", b""),
)
BAD_BLOBS = (
    raw_blob("x-unknown", b"opaque", "brotli"),
    raw_blob(THETA_V1, b"opaque", "brotli"),
    blob(THETA_V1, b"not a sketch"),
    blob(THETA_V1, b""),
    raw_blob(THETA_V1, b"not a frame", ZSTD),
    blob(DELETION_VECTOR_V1, b"not a vector"),
)


@pytest.fixture(scope="session", params=[False, True], ids=["plain-footer", "lz4-footer"])
def sound_image(request: pytest.FixtureRequest) -> bytes:
    """A valid file with every kind of blob, with either kind of footer."""
    return puffin_file(*SOUND_BLOBS, compress_footer=request.param)


@pytest.fixture
def sound_file(sound_image: bytes, tmp_path: Path) -> Path:
    """The valid file on disk."""
    path = tmp_path / "sound.puffin"
    path.write_bytes(sound_image)
    return path


@pytest.fixture
def bad_blobs_file(tmp_path: Path) -> Path:
    """A file with a valid footer that lists valid blobs first and then bad ones."""
    path = tmp_path / "bad-blobs.puffin"
    path.write_bytes(puffin_file(*SOUND_BLOBS, *BAD_BLOBS))
    return path
