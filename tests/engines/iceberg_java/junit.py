"""Runs tests of Iceberg's that are published as jars, with JUnit's console launcher, and tells what came of each."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path

_REPORT = "TEST-junit-jupiter.xml"
_NAME = re.compile(r"(\w+)\(.*\)((?:\[\d+\])*)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcomes:
    """
    What came of the tests of a class, each by its method's name; ``[1]`` and so on follows if it runs several times.

    Attributes:
        passed: Those that passed.
        failed: Why the others did not.
        skipped: Those whose assumptions do not hold, and disabled ones.
    """

    passed: frozenset[str]
    failed: Mapping[str, str]
    skipped: frozenset[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class JUnit:
    """A JVM to be started: ``java`` with options, a class path, and a directory of its own to run in."""

    java: Path
    options: Sequence[str]
    classpath: Sequence[Path]
    directory: Path

    def run(
        self, test_class: str, *, left_out: Sequence[str] = (), settings: Mapping[str, str] | None = None
    ) -> Outcomes:
        """Run the tests of a class but some methods; ``settings`` are JUnit's configuration parameters."""
        command = [self.java, *self.options, "-cp", ":".join(map(str, self.classpath))]
        command += ["org.junit.platform.console.ConsoleLauncher", "execute", "--details=none", "--disable-banner"]
        command += ["--select-class", test_class, "--reports-dir", self.directory]
        for method in left_out:
            command += ["--exclude-methodname", f".*#{method}"]
        for key, value in (settings or {}).items():
            command += ["--config", f"{key}={value}"]
        with (self.directory / "log").open("wb") as log:
            subprocess.run(command, check=False, stdout=log, stderr=log, cwd=self.directory)
        report = self.directory / _REPORT
        assert report.exists(), "\n".join((self.directory / "log").read_text().splitlines()[-50:])
        return _read(report)


def _read(report: Path) -> Outcomes:
    failed, skipped, names = {}, set(), set()
    for case in ElementTree.parse(report).iter("testcase"):
        name = _NAME.sub(r"\1\2", case.attrib["name"])
        names.add(name)
        for problem in (*case.iter("failure"), *case.iter("error")):
            failed[name] = f"{problem.attrib['type']}: {problem.attrib.get('message', '')}"
        if case.find("skipped") is not None:
            skipped.add(name)
    return Outcomes(passed=frozenset(names - failed.keys() - skipped), failed=failed, skipped=frozenset(skipped))
