"""The values picked from a column. A value's place is its position in the order of picking."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.values.serialized import SerializedValues, Words
from puffin.values.value_bytes import join_words, pick, pick_words, words_as_binary

Places: TypeAlias = npt.NDArray[np.int64]


class PickedValues:
    """Picked values; without ``keeps_values`` only their number. ``len`` is the place of the next one."""

    def __init__(self, *, keeps_values: bool) -> None:
        self.keeps_values = keeps_values
        self._values: list[pa.LargeBinaryArray] = []
        self._words: list[Words] = []  # not converted yet: converting a few costs as much as converting many
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, values: SerializedValues, positions: Places) -> None:
        """Take the values at these positions."""
        self._count += len(positions)
        if not self.keeps_values:
            return
        if isinstance(values, Words):
            self._words.append(pick_words(values, positions))
        else:
            self._join_words()
            self._values.append(pick(values, positions))

    def keep(self, places: Places) -> None:
        """Keep the values at these places only, in this order."""
        if self.keeps_values:
            if self._values:
                self._values = [self.at(places)]
            elif self._words:
                self._words = [pick_words(join_words(self._words), places)]
        self._count = len(places)

    def at(self, places: Places) -> pa.LargeBinaryArray:
        """The values at these places."""
        if self._words and not self._values:
            return words_as_binary(pick_words(join_words(self._words), places))
        self._join_words()
        if len(self._values) != 1:
            self._values = [pa.concat_arrays([pa.array([], pa.large_binary()), *self._values])]
        return self._values[0].take(pa.array(places))

    def _join_words(self) -> None:
        if self._words:
            self._values.append(words_as_binary(join_words(self._words)))
            self._words = []
