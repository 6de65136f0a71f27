"""Whether tests run with the compiled kernels: fixtures for `pytest.mark.usefixtures`, and a part of a test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from puffin import kernels


@pytest.fixture(scope="module")
def compiled() -> Iterator[None]:
    """Runs tests with the compiled kernels."""
    with using_kernels(True):
        yield


@pytest.fixture(scope="module", params=[False, True], ids=["numpy", "compiled"])
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs tests without the compiled kernels, and with them."""
    with using_kernels(request.param):
        yield


@contextlib.contextmanager
def using_kernels(are_used: bool) -> Iterator[None]:
    assert kernels.load_kernels(), "the compiled kernels are tested too: install numba"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_is_ready", are_used)
        yield
