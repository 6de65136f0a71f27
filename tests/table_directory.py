"""Directories of tables, with versions of the metadata as a writer without a catalog leaves them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def versions_of(root: Path) -> list[Path]:
    """The metadata files, the newest last."""
    return sorted(root.glob("metadata/v*.metadata.json"), key=lambda file: int(file.name[1:].partition(".")[0]))


def publish(root: Path, document: Mapping[str, Any]) -> Path:
    """Make a document the next version, which the hint names; returns its file."""
    (root / "metadata").mkdir(parents=True, exist_ok=True)
    version = len(versions_of(root)) + 1
    file = root / "metadata" / f"v{version}.metadata.json"
    file.write_text(json.dumps(document))
    (root / "metadata" / "version-hint.text").write_text(str(version))
    return file


def statistics_of(root: Path) -> list[dict[str, Any]]:
    """The entries of the newest version; none if there is no version."""
    return [entry for file in versions_of(root)[-1:] for entry in json.loads(file.read_text())["statistics"]]
