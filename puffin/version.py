"""This distribution's version."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """The installed version, ``"0+unknown"`` where the package was shipped to an executor as sources."""
    try:
        return metadata.version("puffin-sidecar")
    except metadata.PackageNotFoundError:
        return "0+unknown"
