"""
Keeps pandas out of the process of a command.

pyarrow asks of almost every value whether it is one of pandas, and imports pandas for that wherever it is installed.
That takes longer than most commands. PySpark's client of Spark Connect is all that uses it; Spark's Python workers are
processes of their own.
"""

from __future__ import annotations

import sys


class _Refusal:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not needed here, and slow to import", name=name)


def refuse_pandas() -> None:
    """Have every import of pandas fail, as if it were not installed."""
    sys.meta_path.insert(0, _Refusal)


def allow_pandas() -> None:
    """Have imports of pandas succeed again."""
    if _Refusal in sys.meta_path:
        sys.meta_path.remove(_Refusal)
