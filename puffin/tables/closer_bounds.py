"""
Finds closer bounds for columns whose min or max may be of deleted rows, from the bounds of each live file.

If a file without deleted rows has the known bound, that bound is right, and no other file is needed. Most columns have
few values, so a few files are enough for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from puffin.values.column_bounds import NO_VALUES, Bounds, Missing


@dataclasses.dataclass(frozen=True, slots=True)
class CloserBounds:
    """Bounds of the live rows, within those that were known; loose if one of them may be that of removed rows."""

    bounds: Bounds
    is_loose: bool


class BoundsSearch:
    """
    Takes the bounds of files, in any order.

    Attributes:
        open: The columns for which another file may matter, by field id.
    """

    def __init__(self, known: Mapping[int, Bounds]) -> None:
        self._sides = {field_id: _Sides(bounds) for field_id, bounds in known.items()}
        self.open = set(known)

    def look(self, field_id: int, bounds: Bounds, *, is_whole: bool) -> None:
        """Take what is known of a column in a file; ``is_whole`` if none of the file's rows is deleted."""
        sides = self._sides[field_id]
        if bounds != NO_VALUES and field_id in self.open:
            sides.look(bounds, is_whole=is_whole)
            if sides.has_lower and sides.has_upper:
                self.open.remove(field_id)

    def found(self, has_deletes: Callable[[], bool]) -> dict[int, CloserBounds]:
        """The bounds, once all files were seen or no column is open; asks for deletes only in the former case."""
        deleted = bool(self.open) and has_deletes()
        return {field_id: sides.found(deleted) for field_id, sides in self._sides.items()}


class _Sides:
    def __init__(self, known: Bounds) -> None:
        self._known = known
        self._stated = NO_VALUES
        self.has_lower = self.has_upper = False

    def look(self, bounds: Bounds, *, is_whole: bool) -> None:
        self._stated = self._stated.union(bounds)
        if is_whole:  # a bound outside of the known ones is cut short, and no value of the file
            self.has_lower |= bounds.lower == self._known.lower
            self.has_upper |= bounds.upper == self._known.upper

    def found(self, deleted: bool) -> CloserBounds:
        inner = self._known.intersection(self._stated)
        sides = (
            (self.has_lower, self._stated.lower, inner.lower, self._known.lower),
            (self.has_upper, self._stated.upper, inner.upper, self._known.upper),
        )
        # Bounds of files that are cut shorter than the known one do not tell whose value that is.
        is_loose = any(
            not has
            and (deleted or stated is Missing.UNKNOWN or (bound == known != stated and known != Missing.NO_VALUE))
            for has, stated, bound, known in sides
        )
        return CloserBounds(inner, is_loose)
