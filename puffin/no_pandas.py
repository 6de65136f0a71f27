"""
Keeps pandas out of the process of a command.

pyarrow checks almost every value for pandas types and imports pandas to do so, which takes longer than most commands.
Only PySpark's Spark Connect client needs it; Spark's Python workers are processes of their own.
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
