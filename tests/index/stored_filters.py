"""The filters of an index as its segments store them, and what single filters hold."""

import numpy as np
import numpy.typing as npt

from puffin.index.bloom import BloomFilter, block_numbers, has_all, masks
from puffin.index.home import IndexHome
from puffin.index.segment import read_rows
from puffin.tables.snapshot import Table
from puffin.values.serialized import WordArray


def stored_filters(table: Table) -> dict[tuple[str, str], bytes]:
    """The bitsets by column and data file, whatever the segments."""
    home = IndexHome.of(table.open())
    index = home.read()
    found = {}
    for segment in index.segments:
        with home.open_segment(segment.id) as source:
            for size_class in index.classes[segment.id]:
                parts = [
                    p.transpose(1, 0, 2)
                    for p in read_rows(source, size_class.layout, 0, 1 << size_class.layout.lg_blocks)
                ]
                for place, file in enumerate(size_class.files):
                    found[segment.column.key, file] = b"".join(part[place].tobytes() for part in parts)
    return found


def may_contain(filter_: BloomFilter, hashes: WordArray) -> npt.NDArray[np.bool_]:
    """For each hash whether a value with it may have been inserted."""
    return has_all(filter_.blocks[block_numbers(hashes, filter_.lg_blocks)], masks(hashes))
