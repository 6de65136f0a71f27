"""The example's shop stands where its program says, whatever the directory is called."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_shop_is_written_to_a_directory_with_a_blank_in_its_name(tmp_path: Path) -> None:
    program = [sys.executable, ROOT / "examples" / "shop.py", "a shop", "10"]
    subprocess.run(program, check=True, cwd=tmp_path, capture_output=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a shop"]
    assert (tmp_path / "a shop" / "orders" / "metadata" / "v1.metadata.json").exists()
