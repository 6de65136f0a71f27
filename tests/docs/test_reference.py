"""The README is checked against the program it describes."""

import re
from pathlib import Path

import click
import pytest

from puffin.cli.program import _COMMANDS, _puffin

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(_puffin)
    return [(name, command) for name in _COMMANDS if (command := _puffin.get_command(context, name)) is not None]


def section_of(name: str) -> str:
    match = re.search(rf"^### puffin {name} .*?(?=^##)", README, re.MULTILINE | re.DOTALL)
    assert match, f"no section for puffin {name}"
    return match[0]


@pytest.mark.parametrize(("name", "command"), commands())
def test_reference_covers_every_command_and_option(name: str, command: click.Command) -> None:
    """Each command has help, and its section names its options."""
    assert command.help
    named = set(re.findall(r"--[a-z][a-z-]*", section_of(name)))
    options = {o for p in command.params if isinstance(p, click.Option) for o in p.opts if o.startswith("--")}
    assert options == named


def test_every_mentioned_command_exists() -> None:
    assert set(re.findall(r"^puffin ([a-z-]+)", README, re.MULTILINE)) <= set(_COMMANDS)


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_documents_refer_to_existing_files(document: str) -> None:
    text = (ROOT / document).read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    paths = re.findall(r"`((?:puffin|stats_jobs|tests|fixtures|tools|demo)/[\w/.-]*)`", text)
    for name in [*links, *paths]:
        assert (ROOT / name).exists() or (ROOT / f"{name}.py").exists(), name
