"""
The server follows its OpenAPI document, whatever a request has.

schemathesis sends valid and invalid values at the boundaries of every parameter, follows links, and sends
``PUFFIN_OPENAPI_EXAMPLES`` random requests to each operation.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLES = os.environ.get("PUFFIN_OPENAPI_EXAMPLES", "4")


def test_schemathesis_finds_no_violation(guarded: Any, analyzed: Callable[..., Path], tmp_path: Path) -> None:
    """It sends valid and invalid requests to a server that demands a token and has the REST face."""
    analyzed(guarded.root / "t", range(100), 200)
    # The protocol's status for what it cannot carry, where schemathesis expects none.
    accepted = '["2xx", "3xx", "401", "403", "404", "406", "429", "5xx"]'
    config = f"[checks]\npositive_data_acceptance.expected-statuses = {accepted}\n"
    (tmp_path / "schemathesis.toml").write_text(config)
    options = ["--max-examples", EXAMPLES, "--seed", "1", "--generation-database", "none", "--no-color"]
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{guarded.url}/openapi.json", *options]
    command += ["--header", "Authorization: Bearer abc"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
