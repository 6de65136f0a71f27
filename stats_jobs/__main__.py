"""Entry point for spark-submit: ``puffin analyze`` with the same arguments."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "analyze")
    runpy.run_module("puffin", run_name="__main__", alter_sys=True)
