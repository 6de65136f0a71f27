"""
The JVM jars that tests and demo need, fetched once into ``.jars/<set>/``: ``python tools/jars.py [SET...]``.

``ivy.xml`` beside this file declares the sets. Ivy fetches them: pyspark ships it, so Java and pyspark are all that a
fresh machine needs, and Ivy's default settings know where Maven Central is and check its checksums. An archive, as
servers come in, is unpacked; what it unpacks to is in the set in its place.

A set is fetched into a directory of its own, which then takes the set's name in one rename: a directory under a set's
name is a whole set. It also holds the declarations it was fetched for, and a set is fetched anew when they change.
"""

from __future__ import annotations

import fcntl
import importlib.util
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
DECLARATION = TOOLS / "ivy.xml"
SETTINGS = TOOLS / "ivysettings.xml"
JARS = TOOLS.parent / ".jars"
DECLARED = "declared.xml"


class JarsError(Exception):
    """The jars cannot be had; the message is one line that says what to do."""


def jars(set_name: str) -> list[Path]:
    """
    Return the jars of one set, and what its archives unpacked to, by name, after fetching them if they are not there.

    Raises:
        JarsError: No such set, no Java, no pyspark, or Maven Central cannot be reached.
    """
    declared = _declarations(set_name)
    directory = JARS / set_name
    if not _is_fetched(directory, declared):
        with _alone_with(set_name):
            if not _is_fetched(directory, declared):  # by whoever held the lock before
                _fetch(set_name, declared, directory)
    return sorted(path for path in directory.iterdir() if path.name != DECLARED)


def main(set_names: list[str]) -> int:
    """Print the paths of what is in the named sets, or in all sets; return the exit code."""
    try:
        with ThreadPoolExecutor() as threads:  # most of a fetch is waiting
            for paths in threads.map(jars, set_names or _sets()):
                print(*paths, sep="\n")
    except JarsError as error:
        print(f"jars: {error}", file=sys.stderr)
        return 1
    return 0


def _sets() -> dict[str, str]:
    """Return what each set is, by its name."""
    confs = ElementTree.parse(DECLARATION).iter("conf")
    return {conf.attrib["name"]: conf.attrib["description"] for conf in confs}


def _declarations(set_name: str) -> str:
    """Return what ``ivy.xml`` declares for one set, as text."""
    if set_name not in _sets():
        raise JarsError(f"no set is named {set_name!r}; there are {', '.join(_sets())}")
    dependencies = ElementTree.parse(DECLARATION).iter("dependency")
    return "".join(
        ElementTree.tostring(dependency, encoding="unicode").strip() + "\n"
        for dependency in dependencies
        if dependency.attrib["conf"].partition("->")[0] == set_name
    )


def _is_fetched(directory: Path, declared: str) -> bool:
    fetched_for = directory / DECLARED
    return fetched_for.is_file() and fetched_for.read_text() == declared


@contextmanager
def _alone_with(set_name: str) -> Iterator[None]:
    JARS.mkdir(exist_ok=True)
    with (JARS / f"{set_name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(set_name: str, declared: str, directory: Path) -> None:
    print(f"jars: fetching {set_name} from Maven Central: {_sets()[set_name]}", file=sys.stderr, flush=True)
    partial = JARS / f"{set_name}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # of a fetch that was killed
    whole = partial / "jars"
    whole.mkdir(parents=True)
    _run_ivy(set_name, cache=partial / "cache", into=whole)
    for path in list(whole.iterdir()):
        _unpack(path)
    (whole / DECLARED).write_text(declared)
    shutil.rmtree(directory, ignore_errors=True)
    whole.rename(directory)
    shutil.rmtree(partial)


def _unpack(path: Path) -> None:
    """Put what is in an archive beside it, and remove it; what is no archive stays."""
    # Not shutil.unpack_archive: it leaves out, in silence, files that have two dots in their names, as some jars do.
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            archive.extractall(path.parent)
    elif path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            archive.extractall(path.parent, filter="data")
    else:
        return
    path.unlink()


def _run_ivy(set_name: str, *, cache: Path, into: Path) -> None:
    command = [_java(), "-cp", str(_ivy_jar()), "org.apache.ivy.Main"]
    command += ["-settings", str(SETTINGS), "-ivy", str(DECLARATION), "-confs", set_name, "-cache", str(cache)]
    command += ["-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]"]
    log = JARS / f"{set_name}.log"
    with log.open("wb") as output:
        ran = subprocess.run(command, check=False, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    # Ivy leaves with 0 although a jar could not be downloaded, and says so in its report.
    if ran.returncode != 0 or b"FAILED DOWNLOADS" in log.read_bytes() or not any(into.iterdir()):
        again = f"python tools/jars.py {set_name}"
        raise JarsError(f"cannot fetch {set_name} (is this machine offline? Ivy says why in {log}); again: {again}")
    log.unlink()


def _java() -> str:
    found = subprocess.run(["sh", str(TOOLS / "java.sh")], check=False, capture_output=True, text=True)
    if found.returncode != 0:
        raise JarsError(found.stderr.strip())
    return str(Path(found.stdout.strip()) / "bin" / "java")


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise JarsError("pyspark is not installed, and Ivy comes with it: pip install '.[spark]'")
    return next((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
