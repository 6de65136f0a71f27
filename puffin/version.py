"""The name and version that we write into files."""

from __future__ import annotations

APPLICATION = "puffin-sidecar"


def version() -> str:
    """The installed version, ``"0+unknown"`` where the package was shipped to an executor as sources."""
    from importlib import metadata  # slow to import, and readers need no version

    try:
        return metadata.version(APPLICATION)
    except metadata.PackageNotFoundError:
        return "0+unknown"


def created_by() -> str:
    """The ``created-by`` of our files."""
    return f"{APPLICATION} {version()}"


def is_our_name(created_by: str | None) -> bool:
    """Whether a ``created-by`` names this project, in any version."""
    return created_by is not None and created_by.partition(" ")[0] == APPLICATION
