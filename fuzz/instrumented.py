"""
One target under atheris: ``python -m fuzz.instrumented TARGET``, and libFuzzer's own options and directories.

To see again what an input does, name the file instead of the directories.
"""

import importlib
import pkgutil
import sys

import atheris

from puffin import kernels

NAME = sys.argv[1]

kernels.load_kernels()
for module in pkgutil.iter_modules(kernels.__path__):  # first: numba does not know what atheris puts into code
    importlib.import_module(f"puffin.kernels.{module.name}")
with atheris.instrument_imports(include=["puffin", "stats_jobs"], enable_loader_override=False):
    from fuzz.seeds import sound_bytes
    from fuzz.targets import TARGETS

    for data in sound_bytes(NAME):  # what is imported no sooner than it is needed
        TARGETS[NAME](data)


def main() -> None:
    """Never returns: libFuzzer ends the process."""
    # To merge, libFuzzer starts what it takes for its program again, by way of a shell.
    program = f"{sys.executable} -m fuzz.instrumented {NAME}"
    atheris.Setup([program, *sys.argv[2:]], lambda data: TARGETS[NAME](data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
