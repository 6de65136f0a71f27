"""``puffin dump``: show what is in a Puffin file, or write the payload of one of its blobs."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from puffin.cli.options import CatalogChoice, as_json, diagnostics, of_catalog, silence_logs, stored_files
from puffin.cli.render import counted, exact_bytes, print_bytes, print_result
from puffin.errors import CorruptError, FileNotFound, TableNotFound, UnsupportedCodecError
from puffin.storage import FileSource, has_query, open_source, store_for
from puffin.storage.uri import local_name
from puffin.version import APPLICATION

if TYPE_CHECKING:
    from puffin.inspection import BlobDescription, FileDescription, SketchSummary

_NOT_SHOWN = "for later runs and estimates, not shown"
_PARTS = {
    "puffin-sidecar.bounds": "95 % bounds of the ndv: lower, upper",
    "puffin-sidecar.summary": "rows, nulls, NaNs, bytes, min, max",
}
"""What the parts of our own properties are."""


@click.command(name="dump")
@click.argument("file", metavar="FILE", callback=stored_files)
@of_catalog
@click.option("--blob", type=click.IntRange(min=0), metavar="N", help="Only this blob; the first is 0.")
@click.option("--raw", is_flag=True, help="Write the uncompressed payload of --blob N to stdout, and nothing else.")
@as_json
@diagnostics
def command(*, file: str, catalog: CatalogChoice, blob: int | None, raw: bool, json_output: bool) -> None:
    """
    Show what is in a Puffin file: metadata, sketches, deletion vectors.

    FILE is a local path, a URI, or - for standard input; also the directory of a table, or with --catalog
    namespace.table, for the statistics file of its current snapshot. Blobs that cannot be decoded are listed all the
    same.
    """
    from puffin.inspection import describe, read_payload

    if raw and blob is None:
        raise click.UsageError("--raw needs --blob N")
    if raw and json_output:
        raise click.UsageError("--raw and --json exclude each other")
    file, opened_by = _found(file, catalog)
    with _naming_file(file):
        if raw and blob is not None:
            print_bytes(read_payload(file, blob, opened_by=opened_by))
            return
        description = describe(file, only=blob, opened_by=opened_by)
    print_result(description, _lines(description, is_part=blob is not None), as_json=json_output)


def _found(name: str, catalog: CatalogChoice) -> tuple[str, Callable[[str], FileSource]]:
    """The Puffin file of this name, or the one with the statistics of the table of this name; and what opens it."""
    if catalog.name is None and not _may_be_table(name):
        return name, open_source
    from puffin.lookup.cached_lookup import Lookup

    silence_logs()
    lookup = Lookup(**catalog.arguments)
    try:
        return lookup.ndv(name).statistics_path, functools.partial(lookup.open_statistics, name)
    except TableNotFound:
        if local_name(name) is not None or catalog.name is not None:
            raise
        return name, open_source  # which says that no file is there either


def _may_be_table(name: str) -> bool:
    """Whether a directory has this name, or, in an object store, no file has it."""
    local = local_name(name)
    if local is not None:
        return os.path.isdir(local)  # noqa: PTH112 - importing Path takes long
    return not has_query(name) and store_for(name).find(name) is None


@contextmanager
def _naming_file(file: str) -> Iterator[None]:
    """Add the name of the file to errors that only name a place in it, and a hint to that about a table's name."""
    try:
        yield
    except FileNotFound as exc:
        hint = "" if "/" in file else "; for a table of a catalog, pass --catalog"
        raise FileNotFound(f"{exc}{hint}") from exc
    except CorruptError as exc:
        raise CorruptError(f"{file}: {exc}") from exc
    except UnsupportedCodecError as exc:
        raise UnsupportedCodecError(f"{file}: {exc}") from exc


def _lines(file: FileDescription, is_part: bool) -> Iterator[str]:
    footer = "compressed" if file.footer_compressed else "not compressed"
    yield file.path
    yield _line("size", exact_bytes(file.file_size))
    yield _line("footer", f"{exact_bytes(file.footer_size)}, {footer}")
    yield from _property_lines(file.properties)
    if not is_part:
        yield _line("blobs", f"{len(file.blobs):,}" if file.blobs else "none")
    for blob in file.blobs:
        yield ""
        yield from _blob_lines(blob)


def _blob_lines(blob: BlobDescription) -> Iterator[str]:
    metadata = blob.metadata
    yield f"blob {blob.index}: {metadata.type}"
    yield _line("fields", ", ".join(map(str, metadata.fields)) or "none")
    yield _line("snapshot", f"{metadata.snapshot_id}, sequence number {metadata.sequence_number}")
    codec = metadata.compression_codec or "not compressed"
    yield _line("stored", f"{exact_bytes(metadata.length)} at offset {metadata.offset:,}, {codec}")
    yield from _summary_lines(blob)
    yield from _property_lines(metadata.properties)


def _summary_lines(blob: BlobDescription) -> Iterator[str]:
    from puffin.inspection import DeletionVectorSummary, RowCountsSummary, SketchSummary

    if blob.error is not None:
        yield _line("NOT DECODED", blob.error)
    elif isinstance(blob.summary, SketchSummary):
        yield from _sketch_lines(blob.summary)
    elif isinstance(blob.summary, DeletionVectorSummary):
        positions = blob.summary.first_positions
        shown = ", ".join(map(str, positions)) or "none"
        yield _line("cardinality", f"{blob.summary.cardinality:,}")
        yield _line("positions", shown + (", ..." if blob.summary.cardinality > len(positions) else ""))
    elif isinstance(blob.summary, RowCountsSummary):
        counts = blob.summary
        hashes = counted(counts.hashes, "hash", "hashes")
        yield _line("row counts", f"{hashes} in {counted(counts.rows, 'row')}, theta {counts.theta:.6g}")
    else:
        is_ours = blob.metadata.type.startswith(f"{APPLICATION}-")
        yield _line("content", _NOT_SHOWN if is_ours else "of a type not known here, not decoded")


def _sketch_lines(sketch: SketchSummary) -> Iterator[str]:
    bounds = f"95 % bounds {math.floor(sketch.lower):,} to {math.ceil(sketch.upper):,}"
    yield _line("ndv", f"{sketch.ndv:,} ({bounds if sketch.estimating else 'exact'})")
    image = f"seed hash {sketch.seed_hash:04x}, serial version {sketch.serial_version}"
    yield _line("sketch", f"theta {sketch.theta:.6g}, {sketch.retained:,} retained, {image}")


def _property_lines(properties: Mapping[str, str]) -> Iterator[str]:
    label = "properties"
    for name, value in properties.items():
        parts = f" ({_PARTS[name]})" if name in _PARTS else ""
        yield _line(label, f"{name} = {value}{parts}")
        label = ""


def _line(label: str, text: str) -> str:
    return f"  {label:<13}{text}"
