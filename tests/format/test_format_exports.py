"""The public names of the package, and what importing it loads."""

import subprocess
import sys
import types

import puffin.format

HELPERS = {"TYPE_CHECKING", "on_first_use"}


def test_all_lists_every_public_name_sorted():
    """Modules are not public names."""
    for name in puffin.format.__all__:
        getattr(puffin.format, name)  # loads it
    public = [
        name
        for name, value in vars(puffin.format).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name not in HELPERS
    ]
    assert sorted(puffin.format.__all__) == sorted(public)
    constants = [name for name in puffin.format.__all__ if name.isupper()]
    others = [name for name in puffin.format.__all__ if not name.isupper()]
    assert puffin.format.__all__ == sorted(constants) + sorted(others)


def test_import_loads_no_compression_library():
    """The first frame of a codec loads its library."""
    program = """
import io, sys
from puffin.format import Blob, PuffinReader, PuffinWriter
sink = io.BytesIO()
writer = PuffinWriter(sink)
writer.add(Blob(type="x", fields=(1,), snapshot_id=1, sequence_number=1, payload=b"x"))
writer.finish()
assert PuffinReader(sink).read_all() == [b"x"]
print(sorted({name.partition(".")[0] for name in sys.modules} & {"deflate", "lz4", "zstandard", "numpy", "pyarrow"}))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
