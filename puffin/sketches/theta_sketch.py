"""
Theta sketches: the builder that takes values, and the frozen sketch that answers.

The sketch is canonical: the k smallest distinct hashes, with theta the next one above them. So it depends only on the
set of values, not on their order or on how builders share them, and two runs over the same rows give the same bytes.
Phases are types: a `ThetaSketchBuilder` does not answer, a `ThetaSketch` does not change.

A sketch is empty if it retains nothing and theta is at its maximum. A sketch that retains nothing *below* a theta is
another state, "too few to be seen", which intersections reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import InitVar, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.errors import CorruptDataFileError, UsageError, in_one_line
from puffin.sketches import estimate, set_operations
from puffin.sketches.hashing import hash_array
from puffin.sketches.sizes import DEFAULT_LG_K, check_lg_k
from puffin.sketches.smallest import SmallestHashes
from puffin.sketches.theta_image import MAX_THETA, SketchImage
from puffin.values.plain_arrays import storage_of


class ArrowStream(Protocol):
    """A column of another library that exports Arrow's PyCapsule interface, in chunks."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class ArrowArray(Protocol):
    """Likewise, in one piece."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class ThetaSketch:
    """
    An immutable theta sketch of a set of values. Equal sketches have equal bytes.

    Attributes:
        theta: Every hash is below it; 2^63 - 1 while the sketch is exact.
        hashes: Ascending, distinct, each above 0 and below theta; read-only.
        is_checked: Whether the caller knows that these rules hold; otherwise a breach is a UsageError.
    """

    theta: int
    hashes: npt.NDArray[np.uint64]
    is_checked: InitVar[bool] = False

    def __post_init__(self, is_checked: bool) -> None:
        if not is_checked:
            check_hashes("theta sketch", self.theta, self.hashes)

    @classmethod
    def from_arrow(
        cls, array: pa.Array | pa.ChunkedArray | ArrowStream | ArrowArray, type_string: str, lg_k: int = DEFAULT_LG_K
    ) -> ThetaSketch:
        """
        Sketch the values of a column, except NULL, empty strings and empty binaries.

        Args:
            array: Plain, chunked, dictionary-encoded, view or extension array; or a Series of polars or pandas, or what
                else exports an Arrow stream or array.
            type_string: The appendix C type of the table's column, e.g. ``"decimal(9, 2)"``.
            lg_k: Base-2 logarithm of the most hashes to retain, 5 to 26.

        Raises:
            UnsupportedTypeError: The column type has no single-value bytes.
            CorruptDataFileError: The array cannot hold values of the column type, or breaks the rules of Arrow.
            UsageError: ``lg_k`` is out of range, or the array is anything else.
        """
        builder = ThetaSketchBuilder(lg_k)
        builder.update(_as_arrow(array), type_string)
        return builder.compact()

    @classmethod
    def from_bytes(cls, image: bytes | bytearray | memoryview) -> ThetaSketch:
        """Read an image (Puffin spec, ``apache-datasketches-theta-v1``); errors are those of `SketchImage.parse`."""
        parsed = SketchImage.parse(image)
        return cls(parsed.theta, np.frombuffer(parsed.hashes, np.uint64), True)

    def to_bytes(self) -> bytes:
        """The image as Java writes it: ordered, compact, uncompressed, serial version 3."""
        return SketchImage(self.theta, self.hashes.data).to_bytes()

    @property
    def retained(self) -> int:
        """How many hashes the sketch holds."""
        return len(self.hashes)

    @property
    def estimating(self) -> bool:
        """Whether the sketch dropped values, so that the estimate is not a count."""
        return self.theta < MAX_THETA

    @property
    def empty(self) -> bool:
        """Whether the sketch has seen no value."""
        return self.retained == 0 and not self.estimating

    @property
    def estimate(self) -> float:
        """The number of distinct values; exact unless estimating."""
        return estimate.estimate(self.theta, self.retained)

    @property
    def ndv(self) -> int:
        """The estimate rounded down, as in the ``ndv`` property of a blob."""
        return int(self.estimate)

    def lower_bound(self, std_devs: int = 2) -> float:
        """A lower bound of the distinct values, at 1, 2 (95 % confidence) or 3 standard deviations."""
        _check_std_devs(std_devs)
        return estimate.lower_bound(self.theta, self.retained, std_devs)

    def upper_bound(self, std_devs: int = 2) -> float:
        """An upper bound of the distinct values, at 1, 2 (95 % confidence) or 3 standard deviations."""
        _check_std_devs(std_devs)
        return estimate.upper_bound(self.theta, self.retained, std_devs)

    def union(self, *others: ThetaSketch, lg_k: int = DEFAULT_LG_K) -> ThetaSketch:
        """The values in any of the sketches; canonical, with at most 2^lg_k hashes. ``a | b`` has the default size."""
        return merge((self, *others), lg_k)

    def intersect(self, other: ThetaSketch) -> ThetaSketch:
        """The values in both sketches, as ``a & b``."""
        return ThetaSketch(*set_operations.intersection(_state(self), _state(other)), True)

    def difference(self, other: ThetaSketch) -> ThetaSketch:
        """The values in this sketch and not in the other, as ``a - b``."""
        return ThetaSketch(*set_operations.difference(_state(self), _state(other)), True)

    def __or__(self, other: ThetaSketch) -> ThetaSketch:
        return self.union(other) if isinstance(other, ThetaSketch) else NotImplemented

    def __and__(self, other: ThetaSketch) -> ThetaSketch:
        return self.intersect(other) if isinstance(other, ThetaSketch) else NotImplemented

    def __sub__(self, other: ThetaSketch) -> ThetaSketch:
        return self.difference(other) if isinstance(other, ThetaSketch) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ThetaSketch):
            return NotImplemented
        return self.theta == other.theta and np.array_equal(self.hashes, other.hashes)

    def __hash__(self) -> int:
        return hash((self.theta, self.hashes.tobytes()))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the image: small, checked on arrival, and the hashes stay read-only."""
        return ThetaSketch.from_bytes, (self.to_bytes(),)


class ThetaSketchBuilder:
    """Sketches the values of a column, array by array, in memory proportional to 2^lg_k."""

    def __init__(self, lg_k: int = DEFAULT_LG_K) -> None:
        """Start with no values; UsageError if ``lg_k`` is not an integer from 5 to 26."""
        check_lg_k(lg_k)
        self._smallest = SmallestHashes(1 << lg_k)

    def update(self, array: pa.Array | pa.ChunkedArray, type_string: str) -> None:
        """Add the values of an array; arguments are those of `ThetaSketch.from_arrow`."""
        for hashes in hash_array(array, type_string):
            self._smallest.add(hashes)

    def update_hashes(self, hashes: npt.NDArray[np.uint64]) -> None:
        """Add hashes from `hash_array`; UsageError unless they are a one-dimensional array of uint64."""
        _check_hash_array(hashes)
        self._smallest.add(hashes)

    def compact(self) -> ThetaSketch:
        """The sketch of the values so far; the builder stays usable."""
        return ThetaSketch(*self._smallest.state(), True)


def merge(parts: Iterable[ThetaSketch], lg_k: int = DEFAULT_LG_K) -> ThetaSketch:
    """The union of the sketches, which may come from an iterator; canonical, with at most 2^lg_k hashes."""
    check_lg_k(lg_k)
    return ThetaSketch(*set_operations.union(map(_state, parts), 1 << lg_k), True)


def check_hashes(what: str, theta: int, hashes: npt.NDArray[np.uint64]) -> None:
    """Raise UsageError, about ``what``, unless theta and hashes are as in a `ThetaSketch`."""
    _check_hash_array(hashes)
    if not 1 <= theta <= MAX_THETA or hashes.flags.writeable:
        raise UsageError(f"{what}: expected theta from 1 to 2^63 - 1 and read-only hashes")
    bounded = np.concatenate(([np.uint64(0)], hashes, [np.uint64(theta)]))
    if (bounded[1:] <= bounded[:-1]).any():
        raise UsageError(f"{what}: expected ascending, distinct hashes above 0 and below theta")


def _check_hash_array(hashes: npt.NDArray[np.uint64]) -> None:
    if hashes.dtype != np.uint64 or hashes.ndim != 1:
        raise UsageError(f"hashes: expected a row of uint64, found {hashes.dtype} of shape {hashes.shape}")


def _state(sketch: ThetaSketch) -> set_operations.State:
    if not isinstance(sketch, ThetaSketch):
        raise UsageError(f"expected a ThetaSketch, found a {type(sketch).__name__}")
    return sketch.theta, sketch.hashes


def _check_std_devs(std_devs: int) -> None:
    if std_devs not in (1, 2, 3):
        raise UsageError(f"std_devs: expected 1, 2 or 3, found {std_devs!r}")


def _as_arrow(array: Any) -> pa.Array | pa.ChunkedArray:
    if not isinstance(array, pa.Array | pa.ChunkedArray):
        if hasattr(array, "__arrow_c_stream__"):
            array = pa.chunked_array(array)
        elif hasattr(array, "__arrow_c_array__"):
            array = pa.array(array)
        else:
            expected, found = "a pyarrow Array or ChunkedArray", type(array).__name__
            raise UsageError(f"array: expected {expected}, found a {found}; pyarrow.array makes one")
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else (array,):
        try:
            _as_bytes(chunk).validate(full=True)
        except pa.ArrowException as exc:
            said = in_one_line(exc)
            raise CorruptDataFileError(f"array: expected a valid one of Arrow type {array.type}: {said}") from exc
    return array


_BYTES_OF = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


def _as_bytes(array: pa.Array) -> pa.Array:
    """The array with bytes for strings, since a string may have any bytes: offsets and indices are to be checked."""
    stored = storage_of(array)
    if isinstance(stored, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(stored.indices, _as_bytes(stored.dictionary), safe=False)
    return stored.view(_BYTES_OF.get(stored.type, stored.type))
