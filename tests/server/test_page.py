"""The page at ``/`` in a real browser: what it shows, what it escapes, and that its policy lets it run."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stats_jobs import analyze
from tests.server.iceberg_face import table_of_files

ROOT = Path(__file__).parent.parent.parent
FILES = ["/", "/page.js", "/charts.js", "/page.css"]


@pytest.fixture(scope="session")
def browser() -> str:
    """A browser, installed if need be, because a test without one proves nothing."""
    ran = subprocess.run(
        ["sh", ROOT / "tools" / "chromium.sh", "--install"], check=False, capture_output=True, text=True
    )
    if ran.returncode != 0:
        pytest.fail(ran.stderr.strip().rpartition("\n")[2], pytrace=False)
    return ran.stdout.splitlines()[-1]


@pytest.fixture
def look(browser: str, tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Opens an address, waits for its scripts, and returns the resulting document and the console."""

    def open_at(url: str) -> tuple[str, str]:
        quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"]
        once = [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000", "--dump-dom"]
        command = [browser, *quiet, *once, url]
        ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
        console = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
        return ran.stdout, "\n".join(console)

    return open_at


def test_page_shows_bars_history_and_age_of_a_table(
    shared: Any, write_table: Callable[..., Path], look: Callable[..., tuple[str, str]]
) -> None:
    """A bar with bounds for each column, a point for each snapshot, full snapshot ids, and the list of tables."""
    last = 5270940239847000003
    table = write_table(shared.root / "t", snapshots=(1, 2, last, last + 1), ndv={1: 5000, 2: 6000, last: 7000})
    document, console = look(f"{shared.url}/#{urlencode({'table': table, 'column': 'b'})}")
    assert console == ""
    assert len(re.findall(r'<path class="whisker"', document)) == 3
    assert len(re.findall(r'<circle class="dot"', document)) == 3
    assert f"snapshot {last + 1}" in document
    assert "7,000" in document
    assert "1 snapshot behind" in document
    assert re.search(r'<a href="#table=[^"]*" title="[^"]*" aria-current="page">t ', document)
    assert f"<small>{shared.root}</small>" in document


def test_page_shows_the_distribution_of_a_column_and_a_join(shared: Any, look: Callable[..., tuple[str, str]]) -> None:
    """A bar for each value of a column of few, its most frequent values, and what the address asks to join."""
    for name in ("orders", "customers"):
        write_deltalake(shared.root / name, pa.table({"k": [1, 1, 1, 2, None], "s": ["<i>a", "<i>a", "b", "b", "b"]}))
        analyze(str(shared.root / name))
    table, other = str(shared.root / "orders"), str(shared.root / "customers")
    document, console = look(f"{shared.url}/#{urlencode({'table': table, 'column': 'k', 'join': other, 'on': 'k'})}")
    assert console == ""
    assert re.findall(r'class="fill bucket".*?<title>(.*?)</title>', document) == [
        "1: 3 rows (3 to 3)",
        "2: 1 rows (1 to 1)",
    ]
    rows = re.findall(
        r'<tr><td class="name">(1|2)</td><td class="number">(.*?)</td><td class="number">(.*?)</td>', document
    )
    assert rows == [("1", "3", "60 %"), ("2", "1", "20 %")]
    joined = "10 rows, between 10 and 10 · 100 % of the left values are on the right · 100 % of the right values"
    assert joined in document
    document, console = look(f"{shared.url}/#{urlencode({'table': table, 'column': 's'})}")
    assert console == ""
    assert "&lt;i&gt;a: 2 rows" in document
    assert "<i>" not in document


def test_page_shows_names_as_text(
    shared: Any, write_table: Callable[..., Path], look: Callable[..., tuple[str, str]]
) -> None:
    evil = "<img src=x onerror=alert(1)>"
    table = write_table(shared.root / "<b>t", columns=(evil, "b", "c"))
    document, console = look(f"{shared.url}/#{urlencode({'table': table, 'column': evil})}")
    assert "&lt;img src=x onerror=alert(1)&gt;" in document
    assert "<img" not in document
    assert "<b>" not in document
    assert console == ""


def test_page_opens_with_the_health_of_all_tables(
    tmp_path: Path, process_of: Callable[..., Any], look: Callable[..., tuple[str, str]]
) -> None:
    """The worst first: what cannot be read, what has no statistics, what is stale and what is current."""
    (tmp_path / "broken/_delta_log").mkdir(parents=True)
    for name, is_analyzed in (("bare", False), ("current", True), ("<i>stale", True)):
        (tmp_path / name).mkdir()
        write_deltalake(tmp_path / name, pa.table({"k": [1, 2, 3]}))
        if is_analyzed:
            analyze(str(tmp_path / name))
    write_deltalake(tmp_path / "<i>stale", pa.table({"k": [4, 5, 6]}), mode="append")
    document, console = look(f"{process_of(tmp_path).url}/")
    assert console == ""
    assert "Health of all tables" in document
    rows = [
        re.findall(r"<td[^>]*>(.*?)</td>", row)
        for row in re.findall(r"<tr>(<td.*?)</tr>", document.partition("Health of all tables")[2])
    ]
    cells = [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in rows]
    assert [(row[0], row[1].split()[0], row[2]) for row in cells] == [
        ("0", "bare", "missing"),
        ("0", "broken", "broken"),
        ("75", "&lt;i&gt;stale", "stale"),
        ("100", "current", "current"),
    ]
    assert "expected" in cells[1][3]
    assert cells[3][3:7] == ["the statistics are current", "0", cells[3][5], "0 %"]
    assert re.fullmatch(r"\d+ (s|min)", cells[3][5])
    assert '<span class="chip bad">1 missing</span>' in document
    assert "<i>" not in document


def test_page_shows_problems(shared: Any, look: Callable[..., tuple[str, str]]) -> None:
    document, _ = look(f"{shared.url}/#table=/nowhere")
    assert "the table is outside of what this server serves" in document


def test_page_asks_for_the_token(guarded: Any, look: Callable[..., tuple[str, str]]) -> None:
    document, _ = look(f"{guarded.url}/")
    assert '<form id="token">' in document


@pytest.mark.parametrize("path", FILES)
def test_page_has_a_strict_policy(tmp_path: Path, client_of: Callable[..., Any], path: str) -> None:
    """No inline code, nothing from elsewhere, no frames; the page's files comply."""
    answer = client_of(tmp_path).get(path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|\son\w+=|style=", answer.text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", answer.text)


def test_page_shows_what_plans_left_out(shared: Any, look: Callable[..., tuple[str, str]]) -> None:
    table = table_of_files(shared.root / "<i>planned", *"abcd")
    for where in ("a = 12", "a = 25", "a = 25"):
        httpx.post(f"{shared.url}/v1/plan", json={"table": str(table.root), "where": where}).raise_for_status()
    document, console = look(f"{shared.url}/")
    assert console == ""
    assert "Plans since the server started" in document
    (row,) = re.findall(r"<tr><td[^>]*><a [^>]*>[^<]*&lt;i&gt;planned</a></td>.*?</tr>", document)
    assert re.findall(r'<td class="number">([^<]*)</td>', row) == ["3", "3 of 12", "0", "9", "0", "0B"]
