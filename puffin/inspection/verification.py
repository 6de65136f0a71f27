"""
Whether a Puffin file keeps every rule: those of the layout, of each blob's codec and of the known blob types.

A file whose magics or footer break a rule leaves nothing to go by, so that this is the only error told of it. Else each
blob is held against its rules by itself, and all errors are collected.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from puffin.errors import CorruptError, PuffinError, UnsupportedError
from puffin.format import DELETION_VECTOR_V1, THETA_V1, BlobMetadata, PuffinReader
from puffin.inspection.contents import SUMMARIES, DeletionVectorSummary, SketchSummary, Summary
from puffin.storage import open_source

_BOUNDS = "puffin-sidecar.bounds"  # of a writer that also knows how many values there are


class Verdict(NamedTuple):
    """What is wrong with the file at ``path``: a line for each broken rule, and none if it is valid."""

    path: str
    errors: tuple[str, ...]

    @property
    def valid(self) -> bool:
        """Whether no rule is broken."""
        return not self.errors

    def to_json(self) -> dict[str, Any]:
        """The verdict as programs get it."""
        return {"path": self.path, "valid": self.valid, "errors": list(self.errors)}


def verify(path: str) -> Verdict:
    """
    Verify a Puffin file, a local path, a URI, or ``-`` for standard input: every blob is decompressed and decoded.

    That there is no such file, or that it cannot be read, is an error of the verdict like any other.
    """
    return Verdict(path, tuple(_file_errors(path)))


def _file_errors(path: str) -> Iterator[str]:
    try:
        with open_source(path) as source:
            reader = PuffinReader(source)
            reader.check_head()
            for index, blob in enumerate(reader.file_metadata.blobs):
                for error in _blob_errors(reader, blob):
                    yield f"blob {index}: {error}"
    except PuffinError as exc:
        yield str(exc)


def _blob_errors(reader: PuffinReader, blob: BlobMetadata) -> Iterator[str]:
    summary = None
    try:
        payload = reader.read(blob)
        if blob.type in SUMMARIES:
            summary = SUMMARIES[blob.type].of(payload)
    except (CorruptError, UnsupportedError) as exc:
        yield str(exc)
    yield from _metadata_errors(blob, summary)


# --- what the spec asks of the metadata of known blob types -------------------------------------------------------


def _metadata_errors(blob: BlobMetadata, summary: Summary | None) -> Iterator[str]:
    """What is wrong with the metadata, as far as can be said if the payload could not be summed up."""
    if blob.type == THETA_V1:
        counted = _ndv(blob, summary) if isinstance(summary, SketchSummary) else None
        yield from _count_errors(blob, "ndv", counted)
    elif blob.type == DELETION_VECTOR_V1:
        counted = summary.cardinality if isinstance(summary, DeletionVectorSummary) else None
        yield from _required_errors(blob, "cardinality", "referenced-data-file")
        yield from _count_errors(blob, "cardinality", counted)
        if blob.compression_codec is not None:
            yield f"compression-codec: expected none for a deletion vector, found {blob.compression_codec!r}"


def _ndv(blob: BlobMetadata, sketch: SketchSummary) -> int:
    """The sketch's estimate, or the number of values where the writer knows that there are fewer: its upper bound."""
    upper = re.fullmatch("[0-9]+,([0-9]{1,19})", blob.properties.get(_BOUNDS, ""))
    return sketch.ndv if upper is None else max(sketch.retained, min(sketch.ndv, int(upper[1])))


def _required_errors(blob: BlobMetadata, *names: str) -> Iterator[str]:
    for name in names:
        if name not in blob.properties:
            yield f"property {name}: expected one, found none"


def _count_errors(blob: BlobMetadata, name: str, counted: int | None) -> Iterator[str]:
    """A count among the properties is of digits only, since some readers accept nothing else, and it is right."""
    text = blob.properties.get(name)
    if text is None:
        return
    if not re.fullmatch("[0-9]+", text):
        yield f"property {name}: expected decimal digits only, found {reprlib.repr(text)}"
    elif counted is not None and text.lstrip("0") != str(counted).lstrip("0"):
        yield f"property {name}: expected {counted} as the payload says, found {reprlib.repr(text)}"
