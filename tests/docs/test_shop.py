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


def test_shop_without_pyiceberg_says_what_to_install(tmp_path: Path) -> None:
    script = "import runpy, sys; sys.modules['pyiceberg'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    program = [sys.executable, "-c", script, ROOT / "examples" / "shop.py"]
    run = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    said = "pyiceberg is not installed: run pip install '.[iceberg]' in the checkout\n"
    assert (run.returncode, run.stderr.replace("pyiceberg.catalog", "pyiceberg")) == (1, said)
