"""The filters of an index as its segments store them."""

from puffin.index.segment import read_rows
from puffin.index.upkeep import IndexHome
from puffin.tables.snapshot import Table


def stored_filters(table: Table) -> dict[tuple[str, str], bytes]:
    """The bitsets by column and data file, whatever the segments."""
    home = IndexHome.of(table.open())
    index = home.read()
    found = {}
    for segment in index.segments:
        with home.store.open_source(home.uri_of(segment.id)) as source:
            for size_class in index.classes[segment.id]:
                parts = [p.transpose(1, 0, 2) for p in read_rows(source, size_class, 0, 1 << size_class.lg_blocks)]
                for place, file in enumerate(size_class.files):
                    found[segment.column, file] = b"".join(part[place].tobytes() for part in parts)
    return found
