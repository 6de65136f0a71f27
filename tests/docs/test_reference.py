"""The README and the pages in ``docs/`` are checked against the program that they describe."""

import re
from pathlib import Path

import click
import pytest

from puffin.cli.program import _COMMANDS, _puffin
from puffin.server import problems
from tests.test_architecture import ROOMS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
REFERENCE = (ROOT / "docs" / "command-line.md").read_text()
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text()
TOP = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md"]
DOCUMENTS = [*TOP, *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(_puffin)
    return [(name, command) for name in _COMMANDS if (command := _puffin.get_command(context, name)) is not None]


def section_of(name: str) -> str:
    match = re.search(rf"^## puffin {name}\b.*?(?=^## |\Z)", REFERENCE, re.MULTILINE | re.DOTALL)
    assert match, f"no section for puffin {name}"
    return match[0]


@pytest.mark.parametrize(("name", "command"), commands())
def test_every_command_and_option_is_in_the_reference(name: str, command: click.Command) -> None:
    """A command has help, and its section names each of its options and no other."""
    assert command.help
    named = set(re.findall(r"--[a-z][a-z-]*", section_of(name)))
    options = {o for p in command.params if isinstance(p, click.Option) for o in p.opts if o.startswith("--")}
    assert options == named


def test_reference_has_no_command_that_does_not_exist() -> None:
    assert re.findall(r"^## puffin ([a-z-]+)", REFERENCE, re.MULTILINE) == [name for name, _ in commands_in_order()]


def commands_in_order() -> list[tuple[str, click.Command]]:
    """In the order of the reference, which leads with what a user needs first."""
    return sorted(commands(), key=lambda each: REFERENCE.index(f"## puffin {each[0]}"))


def test_readme_fits_in_200_lines() -> None:
    assert len(README.splitlines()) <= 200


def test_figures_of_the_readme_are_those_of_record() -> None:
    """Every number of the benchmark table stands in the results."""
    table = README.partition("## How fast")[2].partition("\n## ")[0]
    cells = [cell.strip() for line in table.splitlines() if line.startswith("| ") for cell in line.split("|")[2:]]
    figures = [cell for cell in cells if re.search(r"\d", cell)]
    assert len(figures) > 10
    for figure in figures:
        assert re.search(rf"\| {re.escape(figure)} [\[|]", RESULTS), figure


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_files_and_headings_that_exist(document: str) -> None:
    """A link or a path that a document names is there, and so is the heading that a link ends with."""
    text = (ROOT / document).read_text()
    here = (ROOT / document).parent
    for link in re.findall(r"\]\(([^)]+)\)", text):
        path, _, heading = link.partition("#")
        if "://" not in link:
            assert (here / path).exists(), link
            assert not heading or heading in headings_of(here / path if path else ROOT / document), link
    for name in re.findall(r"`((?:puffin|stats_jobs|tests|fixtures|tools|demo|benchmarks|examples)/[\w/.-]*)`", text):
        assert (ROOT / name).exists() or (ROOT / f"{name}.py").exists(), name


def headings_of(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_linked() -> None:
    """From the README, or from the index of decisions."""
    index = README + (ROOT / "docs" / "decisions" / "README.md").read_text()
    pages = list((ROOT / "docs").rglob("*.md"))
    assert pages
    for page in pages:
        assert page.name in index, page


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("2*.md")), ids=lambda page: page.stem)
def test_decision_has_a_date_and_its_four_parts(page: Path) -> None:
    text = page.read_text()
    assert f"\nDate: {page.name[:10]}\n" in text
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Evidence", "Consequences"]


def test_map_has_a_row_for_each_folder() -> None:
    """A row names modules of its folder, and nothing that is not there."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = dict(re.findall(r"^\| `((?:puffin|stats_jobs)[\w/]*)` \| (.+) \|$", text, re.MULTILINE))
    modules = [*(ROOT / "puffin").rglob("*.py"), *(ROOT / "stats_jobs").rglob("*.py")]
    assert rows.keys() == {str(path.parent.relative_to(ROOT)) for path in modules if path.name != "__init__.py"}
    for folder, row in rows.items():
        for name in re.findall(r"`(\w+)`", row):
            assert (ROOT / folder / f"{name}.py").exists(), f"{folder}: {name}"


def test_map_draws_the_arrows_that_are_allowed() -> None:
    """Every room is on a line of the picture, above everything that it may import."""
    text = (ROOT / "ARCHITECTURE.md").read_text().partition("## Arrows")[2]
    lines = text.partition("```text\n")[2].partition("```")[0].splitlines()
    height = {room: -number for number, line in enumerate(lines) for room in line.split()}
    assert set(height) == set(ROOMS)
    for room, imported in ROOMS.items():
        assert all(height[below] < height[room] for below in imported), room


def test_every_problem_of_the_server_is_in_the_reference() -> None:
    table = (ROOT / "docs" / "http.md").read_text().partition("## Problems")[2].partition("\n## ")[0]
    kinds = {
        kind for line in table.splitlines() if line.startswith("| ") for kind in re.findall(r"`([a-z][a-z-]*)`", line)
    }
    assert kinds - {"column", "reason", "missing"} == set(problems._TITLES)
