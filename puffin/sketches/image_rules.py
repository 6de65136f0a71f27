"""
The rulebook of our binary images: what is wrong with one is told by image, field, offset, what is expected and found.

Nothing here imports numpy, for the sake of the image of a theta sketch: looking into one has to start fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from puffin.errors import CorruptSketchError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class ImageRules:
    """The rules of one kind of image, by its name in errors."""

    image: str

    def expect(self, holds: bool, offset: int, field: str, expected: object, found: object) -> None:
        """
        Check one field.

        Raises:
            CorruptSketchError: The rule does not hold.
        """
        if not holds:
            raise CorruptSketchError(f"{self.image}, {field} at offset {offset}: expected {expected}, found {found}")

    def expect_size(self, view: memoryview, size: int) -> None:
        """Check that the image has exactly so many bytes."""
        self.expect(len(view) == size, min(len(view), size), "size", f"{size} bytes", f"{len(view)} bytes")

    def expect_at_least(self, view: memoryview, size: int) -> None:
        """Check that the image has so many bytes or more."""
        self.expect(len(view) >= size, len(view), "size", f"at least {size} bytes", f"{len(view)} bytes")

    def expect_at_most(self, found: int, limit: int, offset: int, field: str) -> None:
        """Check a count against its limit."""
        self.expect(found <= limit, offset, field, f"at most {limit}", found)

    def expect_each(
        self,
        numbers: npt.NDArray[Any],
        is_sound: npt.NDArray[np.bool_],
        at: tuple[int, int],
        field: str,
        expected: object,
    ) -> None:
        """Check numbers of which the first stands at an offset, and each other one a stride behind the one before."""
        if not is_sound.all():
            index = int(is_sound.argmin())
            self.expect(False, at[0] + index * at[1], field, expected, numbers[index])
