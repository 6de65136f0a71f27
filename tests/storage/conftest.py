"""The stores of local files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from puffin.storage import LocalStore, Store
from puffin.storage.arrow import ArrowStore


@pytest.fixture(params=["local", "arrow"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each kind of store, over the same local directory."""
    return LocalStore() if request.param == "local" else ArrowStore(pafs.LocalFileSystem)


@pytest.fixture
def names(tmp_path: Path) -> Callable[[], list[str]]:
    """The names in the directory, hidden ones too, so that the tests overlook no leftovers."""
    return lambda: sorted(path.name for path in tmp_path.iterdir())
