"""Spark with Iceberg 1.11.0, the first release that asks servers for plans, reads from the face as from its catalog."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines import spark_of_first_client
from tests.server.conftest import Process

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.xdist_group("first client")  # which shares no server with the other tests of the folder
def test_spark_with_iceberg_1_11_reads_one_file(jars: Callable[[str], list[Path]], tmp_path: Path) -> None:
    service = Process(tmp_path, "--iceberg", "--ttl", "0.1")
    try:
        of_client = ",".join(map(str, jars("iceberg-runtime-1.11")))
        command = [sys.executable, "-m", spark_of_first_client.__name__, of_client, str(tmp_path), service.url]
        ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    finally:
        service.end()
    found = json.loads(ran.stdout)
    assert found["version"] == "1.11.0"
    assert found["fast"] == found["own"]
    assert len(found["own"][0]) == 1
    assert found["files"] <= 2
    assert "Server does not support endpoint: POST" in found["refused"]
