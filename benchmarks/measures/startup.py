"""How long a person waits for ``puffin dump`` of a small file, beside what importing its two libraries alone takes."""

from __future__ import annotations

import io
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.results import LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say
from puffin.format import THETA_V1, Blob, PuffinWriter
from puffin.sketches.theta_sketch import ThetaSketch

NAMES = (_DUMP,) = ("dump",)

_RUNS = 15  # each is short, and the machine's noise is not
_DISTINCT = 100  # in the one sketch of the file
_BAR = Bar(LOWER, 1.5, 1.1)


def measure(run: Run, results: Results) -> None:
    """Run both commands in turn."""
    if not run.wants(_DUMP):
        return
    path = _small_file(HOME / "data" / "small.puffin")
    program = Path(sysconfig.get_path("scripts"), "puffin")
    commands = {
        f"puffin dump of {path.stat().st_size} bytes": [str(program), "dump", str(path)],
        'python -c "import click, rich"': [sys.executable, "-c", "import click, rich"],
    }
    seconds: dict[str, list[float]] = {what: [] for what in commands}
    for number in range(_RUNS + 1):
        for what, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if number > 0:  # the first run finds nothing in the page cache
                seconds[what].append(time.perf_counter() - started)
    ours, other = (Sample(what, "s", tuple(values)) for what, values in seconds.items())
    say(f"{_DUMP}: {ours.median:.3f} s / {other.median:.3f} s")
    results.rows.append(Row(_DUMP, f"{ours.what} / {other.what}", ours, other, _BAR))


def _small_file(path: Path) -> Path:
    sketch = ThetaSketch.from_arrow(pa.array(range(_DISTINCT)), "long")
    blob = Blob(
        type=THETA_V1,
        fields=(1,),
        snapshot_id=1,
        sequence_number=1,
        payload=sketch.to_bytes(),
        properties={"ndv": str(sketch.ndv)},
    )
    sink = io.BytesIO()
    with PuffinWriter(sink) as writer:
        writer.add(blob)
        writer.finish()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sink.getvalue())
    return path
