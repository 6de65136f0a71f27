"""Entry point for spark-submit: ``puffin analyze`` with the same arguments."""

import sys

from puffin.cli import main

if __name__ == "__main__":
    main(["analyze", *sys.argv[1:]])
