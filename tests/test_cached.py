"""Values that are computed when they are first asked for."""

import threading

from puffin.cached import cached_property


class Table:
    def __init__(self, answers: threading.Event) -> None:
        self._answers = answers
        self.reads = 0

    @cached_property
    def rows(self) -> int:
        """The rows."""
        assert self._answers.wait(60)
        self.reads += 1
        return 7


def test_value_is_computed_once() -> None:
    answers = threading.Event()
    answers.set()
    table = Table(answers)
    assert [table.rows, table.rows, table.reads] == [7, 7, 1]
    assert Table.rows.__doc__ == "The rows."


def test_hanging_instance_stops_no_other() -> None:
    """`functools.cached_property` makes others wait up to Python 3.11."""
    never, at_once = threading.Event(), threading.Event()
    at_once.set()
    hanging = threading.Thread(target=lambda: Table(never).rows)
    hanging.start()
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(Table(at_once).rows), daemon=True)
    other.start()
    other.join(30)
    never.set()
    hanging.join()
    assert found == [7]
