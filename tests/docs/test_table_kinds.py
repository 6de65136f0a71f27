"""The table of kinds in the documentation is the one that the tests make."""

from tests.docs import table_kinds


def test_page_of_table_kinds_is_made_of_the_tests() -> None:
    """Run ``python -m tests.docs.table_kinds`` after a change to the marks of tests."""
    page = table_kinds.page()
    assert table_kinds.PAGE.read_text() == page
    rows = page.splitlines()[page.splitlines().index("|---|---|---|---|---|") + 1 :]
    assert len(rows) > 15
    assert all("✓" in line for line in rows)
