"""``python -m puffin``."""

from puffin.cli import main

if __name__ == "__main__":
    main()
