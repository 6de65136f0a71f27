"""
One target under atheris: ``python -m fuzz.instrumented TARGET``, and libFuzzer's own options and directories.

To see again what an input does, name the file instead of the directories.
"""

import sys

import atheris

with atheris.instrument_imports(include=["puffin"], enable_loader_override=False):
    from fuzz.targets import TARGETS


def main() -> None:
    """Never returns: libFuzzer ends the process."""
    target = TARGETS[sys.argv[1]]
    atheris.Setup(sys.argv[1:], lambda data: target(data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
