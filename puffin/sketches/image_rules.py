"""
Check the fields of our binary images; errors name the image, field, offset, expected and found values.

This module does not import numpy, so that inspecting the image of a theta sketch starts fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from puffin.errors import CorruptSketchError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SEED_HASH = 0x93CC  # of the update seed 9001


@dataclass(frozen=True, slots=True)
class ImageRules:
    """The rules of one kind of image; errors name it."""

    image: str

    def expect(self, holds: bool, offset: int, field: str, expected: object, found: object) -> None:
        """Check one field; raise CorruptSketchError if the rule does not hold."""
        if not holds:
            raise CorruptSketchError(f"{self.image}, {field} at offset {offset}: expected {expected}, found {found}")

    def expect_size(self, view: memoryview, size: int) -> None:
        self.expect(len(view) == size, min(len(view), size), "size", f"{size} bytes", f"{len(view)} bytes")

    def expect_at_least(self, view: memoryview, size: int) -> None:
        self.expect(len(view) >= size, len(view), "size", f"at least {size} bytes", f"{len(view)} bytes")

    def expect_at_most(self, found: int, limit: int, offset: int, field: str) -> None:
        self.expect(found <= limit, offset, field, f"at most {limit}", found)

    def expect_seed_hash(self, found: int, offset: int) -> None:
        self.expect(found == SEED_HASH, offset, "seed hash", f"{SEED_HASH:#06x}", f"{found:#06x}")

    def expect_each(
        self,
        numbers: npt.NDArray[Any],
        is_sound: npt.NDArray[np.bool_],
        at: tuple[int, int],
        field: str,
        expected: object,
    ) -> None:
        """Check an array of numbers; ``at`` is the offset of the first number, and the stride."""
        if not is_sound.all():
            index = int(is_sound.argmin())
            self.expect(False, at[0] + index * at[1], field, expected, numbers[index])
