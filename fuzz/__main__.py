"""
``make fuzz``: damaged and random bytes, in great numbers, for every reader.

atheris mutates what is in the corpus and keeps what reaches code that nothing before it reached. It ends the process
that it runs in, so each target is a process of its own, one after the other; what it keeps goes to ``.fuzz/``, and an
input that is answered wrongly too, with the command that shows it again. ``--keep`` makes the smallest set of inputs
that reaches as much the target's corpus, for the tests to replay; inputs that were once answered wrongly stay in it.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from fuzz.seeds import ROOT, corpus, keep, seeds, sound_bytes
from fuzz.targets import TARGETS

HOME = ROOT / ".fuzz"
MEGABYTES = 3072
SECONDS_PER_INPUT = 10
MOST_KEPT = 32 * 1024  # bytes of a target's inputs, of which the smallest come first
_ONCE_WRONG = "wrong-"
_EXECUTED = re.compile(r"stat::number_of_executed_units: ([0-9]+)")


def main() -> int:
    """Run what the command line asks for; returns the exit code."""
    args = _arguments()
    total, failed = 0, []
    for name in args.targets:
        started = time.monotonic()
        executions, found_wrong = _fuzz(name, args.executions, args.seed)
        seconds = time.monotonic() - started
        total += executions
        print(f"{name}: {executions:,} executions in {seconds:.0f} s{', WRONG' if found_wrong else ''}", flush=True)
        if found_wrong:
            failed.append(name)
            print(f"see {HOME / name}.log, or: python -m fuzz.instrumented {name} {HOME / 'wrong' / name}/*")
        elif args.keep:
            _keep(name)
    print(f"{total:,} executions of {len(args.targets)} targets; wrong: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"all by default: {', '.join(TARGETS)}")
    parser.add_argument("--executions", type=int, default=500_000, help="of each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="renew the corpus in fixtures/fuzz-corpus")
    args = parser.parse_args()
    if unknown := set(args.targets) - TARGETS.keys():
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    args.targets = args.targets or list(TARGETS)
    return args


def _fuzz(name: str, executions: int, seed: int) -> tuple[int, bool]:
    """Run a target; returns how often, and whether it failed."""
    started_with, found = _directories(name)
    limits = [f"-rss_limit_mb={MEGABYTES}", f"-malloc_limit_mb={MEGABYTES}", f"-timeout={SECONDS_PER_INPUT}"]
    limits.append(f"-max_len={TARGETS[name].kilobytes * 1024}")
    wrong = HOME / "wrong" / name
    wrong.mkdir(parents=True, exist_ok=True)
    ran = _atheris(
        name,
        *(f"-runs={executions}", f"-seed={seed}", f"-artifact_prefix={wrong}/", "-print_final_stats=1", *limits),
        *(str(found), str(started_with)),
    )
    (HOME / f"{name}.log").write_text(ran.stderr)
    executed = _EXECUTED.search(ran.stderr)
    return int(executed[1]) if executed else 0, ran.returncode != 0


def _keep(name: str) -> None:
    started_with, found = _directories(name)
    merged = HOME / "merged" / name
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    ran = _atheris(name, "-merge=1", str(merged), str(found), str(started_with))
    if ran.returncode != 0:
        raise SystemExit(f"{name}: its inputs cannot be merged: {ran.stderr[-1000:]}")
    inputs = {key: content for key, content in corpus(name).items() if key.startswith(_ONCE_WRONG)}
    inputs |= {f"{_ONCE_WRONG}{_digest(path)}": path.read_bytes() for path in (HOME / "wrong" / name).iterdir()}
    sound = set(sound_bytes(name))
    left = MOST_KEPT
    for path in sorted(merged.iterdir(), key=lambda path: path.stat().st_size):
        left -= path.stat().st_size
        if left >= 0 and (content := path.read_bytes()) not in sound:
            inputs[_digest(path)] = content
    keep(name, inputs)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _directories(name: str) -> tuple[Path, Path]:
    """What a run starts with, and where it puts what it finds."""
    started_with, found = HOME / "seeds" / name, HOME / "found" / name
    for directory in (started_with, found):
        directory.mkdir(parents=True, exist_ok=True)
    for seed in seeds(name):
        (started_with / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    return started_with, found


def _atheris(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fuzz.instrumented", name, *options]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, errors="replace")


if __name__ == "__main__":
    sys.exit(main())
