"""
Verify a Puffin file against every rule of the layout, of the codecs and of the known blob types.

If a magic or the footer breaks a rule, the verdict has that one error. Otherwise it has the errors of every blob.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from puffin.errors import CorruptError, PuffinError, UnsupportedCodecError, UnsupportedError
from puffin.format import DELETION_VECTOR_V1, THETA_V1, BlobMetadata, PuffinReader
from puffin.inspection.contents import SUMMARIES, DeletionVectorSummary, SketchSummary, Summary
from puffin.inspection.describe import open_puffin

_BOUNDS = "puffin-sidecar.bounds"  # present if the writer also counted values
_NO_SNAPSHOT = -1  # in place of ids that are not known when a deletion vector is written


class Verdict(NamedTuple):
    """
    The errors of the file at ``path``, one line for each broken rule.

    If the file could not be read, and so nobody knows whether it is valid, ``errors`` says why, and ``was_read`` is
    False.
    """

    path: str
    errors: tuple[str, ...]
    was_read: bool = True

    @property
    def valid(self) -> bool:
        return not self.errors

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "valid": self.valid, "errors": list(self.errors)}


def verify(path: str) -> Verdict:
    """Decompress and decode every blob of a file, named as for `describe`; a missing file gets a verdict too."""
    errors: list[str] = []
    try:
        with open_puffin(path) as reader:
            for index, blob in enumerate(reader.file_metadata.blobs):
                errors += (f"blob {index}: {error}" for error in _blob_errors(reader, blob))
    except (CorruptError, UnsupportedCodecError) as exc:
        errors.append(str(exc))
    except PuffinError as exc:  # of the store, or there is none of this kind
        return Verdict(path, (*errors, str(exc)), was_read=bool(errors))
    return Verdict(path, tuple(errors))


def _blob_errors(reader: PuffinReader, blob: BlobMetadata) -> Iterator[str]:
    summary = None
    try:
        payload = reader.read(blob)
        if blob.type in SUMMARIES:
            summary = SUMMARIES[blob.type].of(payload)
    except (CorruptError, UnsupportedError) as exc:
        yield str(exc)
    yield from _metadata_errors(blob, summary)


def _metadata_errors(blob: BlobMetadata, summary: Summary | None) -> Iterator[str]:
    """Errors in the metadata of known blob types (spec, "Blob types"), even if the payload has no summary."""
    if blob.type == THETA_V1:
        counted = _ndv(blob, summary) if isinstance(summary, SketchSummary) else None
        yield from _count_errors(blob, "ndv", counted)
    elif blob.type == DELETION_VECTOR_V1:
        counted = summary.cardinality if isinstance(summary, DeletionVectorSummary) else None
        for name in ("cardinality", "referenced-data-file"):
            if name not in blob.properties:
                yield f"property {name}: expected one, found none"
        yield from _count_errors(blob, "cardinality", counted)
        if blob.compression_codec is not None:
            yield f"compression-codec: expected none for a deletion vector, found {blob.compression_codec!r}"
        for name, value in (("snapshot-id", blob.snapshot_id), ("sequence-number", blob.sequence_number)):
            if value != _NO_SNAPSHOT:
                yield f"{name}: expected {_NO_SNAPSHOT} for a deletion vector, found {value}"


def _ndv(blob: BlobMetadata, sketch: SketchSummary) -> int:
    """The ndv that a writer derives from the sketch, capped by its upper bound if it also counted values."""
    upper = re.fullmatch("[0-9]+,([0-9]{1,19})", blob.properties.get(_BOUNDS, ""))
    return sketch.ndv if upper is None else max(sketch.retained, min(sketch.ndv, int(upper[1])))


def _count_errors(blob: BlobMetadata, name: str, counted: int | None) -> Iterator[str]:
    """A count among the properties must be right, and have digits only, because some readers reject anything else."""
    text = blob.properties.get(name)
    if text is None:
        return
    if not re.fullmatch("[0-9]+", text):
        yield f"property {name}: expected decimal digits only, found {reprlib.repr(text)}"
    elif counted is not None and text.lstrip("0") != str(counted).lstrip("0"):
        yield f"property {name}: expected {counted} as the payload says, found {reprlib.repr(text)}"
