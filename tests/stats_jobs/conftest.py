"""Tables with statistics but no data, for decisions made from metadata alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from puffin.format import ROW_COUNTS_V1
from puffin.load import load_table
from puffin.statistics.private_state.manifest import BlobKey, Manifest, encode
from puffin.tables.snapshot import Table
from tests.table_directory import publish

# What this version's sketches say of themselves, so that nobody has to read them.
NOTED = {"ndv": "3", "puffin-sidecar.type": "long", "puffin-sidecar.reading": "1"}


@pytest.fixture
def table_with(tmp_path: Path, table_document: Callable[..., dict[str, Any]]) -> Callable[..., Table]:
    """
    Makes a table with snapshots 10 and 11, and statistics of some columns as (field id, snapshot they are of).

    The properties of its blobs, and other metadata, can be given.
    """

    def make(
        name: str,
        *computed: tuple[int, int],
        properties: Mapping[str, str] | None = None,
        **others: Any,
    ) -> Table:
        blobs = [
            {
                "type": "apache-datasketches-theta-v1",
                "snapshot-id": snapshot_id,
                "sequence-number": 1,
                "fields": [field_id],
                "properties": {**NOTED, **(properties or {})},
            }
            for field_id, snapshot_id in computed
        ]
        entry = {
            "snapshot-id": 11,
            "statistics-path": str(tmp_path / "made.stats"),
            "file-size-in-bytes": 200,
            "file-footer-size-in-bytes": 100,
            "blob-metadata": blobs,
        }
        (tmp_path / "made.stats").write_bytes(bytes(200))  # of which nothing but the size is looked at
        root = tmp_path / name
        document = table_document(root, snapshots=(10, 11), columns=("a", "b"), statistics=[entry])
        publish(root, document | others)
        (root / "_puffin_sidecar").mkdir()
        omitted = frozenset(BlobKey(ROW_COUNTS_V1, field_id, of) for field_id, of in computed)
        manifest = Manifest(document["table-uuid"], "made.stats", 200, {}, omitted)
        (root / "_puffin_sidecar" / "made.stats").write_bytes(encode(manifest))
        return load_table(str(root))

    return make
