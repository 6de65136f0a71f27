"""
Fixtures of the format tests: the case table, files assembled part by part, and sources that count reads.

The table drives reader and writer alike. Its images come from Iceberg's Java library or are assembled here from the
picture of the layout, never from the writer under test.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import lz4.frame
import pytest

from puffin.format import CREATED_BY, DELETION_VECTOR_V1, LZ4, THETA_V1, ZSTD, Blob

FIXTURES = Path(__file__).parents[2] / "fixtures"
JAVA = FIXTURES / "puffin-java"
BINARY_TEXT = "some blob \0 binary data 🤯 that is not very very very very very very long, is it?".encode()


@dataclass(frozen=True)
class Case:
    """A file: its content and its bytes."""

    name: str
    image: bytes
    blobs: tuple[Blob, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    compress_footer: bool = False


def assemble(
    payload: bytes,
    blobs: bytes = b"",
    *,
    head: bytes = b"PFA1",
    footer_magic: bytes = b"PFA1",
    payload_size: int | None = None,
    flags: tuple[int, int, int, int] = (0, 0, 0, 0),
    tail: bytes = b"PFA1",
) -> bytes:
    """Assemble a file of the parts given; the other parts are valid."""
    size = len(payload) if payload_size is None else payload_size
    return head + blobs + footer_magic + payload + struct.pack("<i4B", size, *flags) + tail


def java_blobs(codec: str | None) -> tuple[Blob, ...]:
    """The blobs of the samples in Iceberg's Java tests."""
    return tuple(
        Blob(type=kind, fields=(index,), snapshot_id=2, sequence_number=1, payload=payload, compression_codec=codec)
        for index, (kind, payload) in enumerate(
            [("some-blob", b"abcdefghi"), ("some-other-blob", BINARY_TEXT)], start=1
        )
    )


LZ4_FRAME = lz4.frame.compress(b"puffin " * 40, store_size=True, content_checksum=True)
LZ4_FOOTER = b'{"blobs":[{"type":"x","fields":[1],"snapshot-id":1,"sequence-number":1,"offset":4,"length":%d,' % len(
    LZ4_FRAME
)
LZ4_FOOTER += b'"compression-codec":"lz4"}]}'

CASES = [
    Case("java-empty", (JAVA / "empty-puffin-uncompressed.bin").read_bytes()),
    Case(
        "java-uncompressed",
        (JAVA / "sample-metric-data-uncompressed.bin").read_bytes(),
        java_blobs(None),
        {CREATED_BY: "Test 1234"},
    ),
    Case(
        "java-zstd",
        (JAVA / "sample-metric-data-compressed-zstd.bin").read_bytes(),
        java_blobs(ZSTD),
        {CREATED_BY: "Test 1234"},
    ),
    Case(
        "lz4-blob-and-footer",
        assemble(lz4.frame.compress(LZ4_FOOTER, store_size=True, content_checksum=True), LZ4_FRAME, flags=(1, 0, 0, 0)),
        (
            Blob(
                type="x", fields=(1,), snapshot_id=1, sequence_number=1, payload=b"puffin " * 40, compression_codec=LZ4
            ),
        ),
        compress_footer=True,
    ),
    Case(
        "extremes",
        assemble(
            b'{"blobs":[{"type":"","fields":[],"snapshot-id":-1,"sequence-number":-1,"offset":4,"length":0},'
            b'{"type":"deletion-vector-v1","fields":[2147483645,-2147483648],"snapshot-id":9223372036854775807,'
            b'"sequence-number":-9223372036854775808,"offset":4,"length":3,"properties":{"z":"","a":"\\"\\\\\\n"}}],'
            b'"properties":{"\xc3\xa9":"\xf0\x9f\x90\xa7\xe2\x80\xa8"}}',
            b"\x00\xffP",
        ),
        (
            Blob(type="", fields=(), snapshot_id=-1, sequence_number=-1, payload=b""),
            Blob(
                type=DELETION_VECTOR_V1,
                fields=(2147483645, -(2**31)),
                snapshot_id=2**63 - 1,
                sequence_number=-(2**63),
                payload=b"\x00\xffP",
                properties={"z": "", "a": '"\\\n'},
            ),
        ),
        {"é": "🐧\u2028"},
    ),
    Case(
        "empty-payloads",
        assemble(
            b'{"blobs":[{"type":"apache-datasketches-theta-v1","fields":[1],"snapshot-id":1,"sequence-number":1,'
            b'"offset":4,"length":23,"compression-codec":"lz4"},{"type":"apache-datasketches-theta-v1","fields":[2],'
            b'"snapshot-id":1,"sequence-number":1,"offset":27,"length":13,"compression-codec":"zstd"}]}',
            bytes.fromhex("04224d186c400000000000000000 09 00000000 055dcc02 28b52ffd2400010000 99e9d851"),
        ),
        tuple(
            Blob(type=THETA_V1, fields=(index,), snapshot_id=1, sequence_number=1, payload=b"", compression_codec=codec)
            for index, codec in enumerate([LZ4, ZSTD], start=1)
        ),
    ),
]


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    """Each case of the table in turn."""
    return request.param


@pytest.fixture(name="assemble")
def assemble_fixture() -> Callable[..., bytes]:
    """The function that assembles a file of its parts."""
    return assemble


@pytest.fixture
def fixtures() -> Path:
    """The directory of the fixtures."""
    return FIXTURES


class CountingSource:
    """A range source over bytes that records its reads."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.sizes = 0
        self.reads: list[tuple[int, int]] = []

    def size(self) -> int:
        self.sizes += 1
        return len(self.content)

    def read_at(self, offset: int, length: int) -> bytes:
        self.reads.append((offset, length))
        return self.content[offset : offset + length]


@pytest.fixture
def counting() -> type[CountingSource]:
    """The class of sources that count."""
    return CountingSource
