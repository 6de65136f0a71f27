"""
The files in ``examples/autopilot/``: policies are valid, commands exist, and so do the endpoints that probes ask.

The base image comes from a registry, so no image is built, but the container file has to copy what the package needs.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from puffin.cli.diagnostics import Diagnostics
from puffin.cli.program import _puffin
from puffin.policy.document import parse_policy, read_policy
from puffin.server.app import create_app
from puffin.server.settings import Settings

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
HERE = EXAMPLES / "autopilot"


def accepted(arguments: list[str]) -> dict[str, Any]:
    """The parameters of a command line that the program accepts."""
    name, *rest = arguments
    command = _puffin.get_command(click.Context(_puffin), name)
    assert command is not None
    with command.make_context(name, rest, parent=click.Context(_puffin, obj=Diagnostics())) as context:
        return dict(context.params)


@pytest.fixture
def kubernetes() -> dict[str, Any]:
    """The documents of the manifest, by kind."""
    return {document["kind"]: document for document in yaml.safe_load_all((HERE / "kubernetes.yaml").read_text())}


def test_policies_are_valid(kubernetes: dict[str, Any]) -> None:
    policy = read_policy(str(HERE / "policy.yaml"))
    assert policy.state == "/var/lib/puffin"
    of_pod = parse_policy(kubernetes["ConfigMap"]["data"]["policy.yaml"], "policy.yaml")
    assert of_pod.rules[0].due.never


def test_pod_runs_a_command_that_exists_and_its_probes_ask_its_endpoints(kubernetes: dict[str, Any]) -> None:
    pod = kubernetes["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    params = accepted([str(argument) for argument in container["args"]])
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    assert params["policy_file"] == f"{mounts['policy']}/policy.yaml"
    (port,) = container["ports"]
    assert (port["containerPort"], params["host"]) == (params["port"], "0.0.0.0")
    app: Any = create_app(Settings())
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert (asked["path"] in app.routes, asked["port"]) == (True, port["name"]), probe
    assert pod["terminationGracePeriodSeconds"] > 10
    assert kubernetes["Service"]["spec"]["selector"] == kubernetes["Deployment"]["spec"]["selector"]["matchLabels"]


def test_container_file_copies_what_the_package_is_built_from_and_runs_the_autopilot(tmp_path: Path) -> None:
    text = (HERE / "Containerfile").read_text().replace("\\\n", " ")
    copies = [line.split()[1:] for line in text.splitlines() if line.startswith("COPY")]
    for *sources, target in copies:
        place = tmp_path / target.lstrip("/")
        (place if target.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
        for source in sources:
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            copy(ROOT / source, place)
    project = (tmp_path / "src/pyproject.toml").read_text()
    named = re.findall(r'^(?:readme = |license-files = \[)"(.+?)"', project, re.M)
    assert named == ["README.md", "LICENSE"]
    packages = [name.rstrip("*") for name in re.findall(r'^include = \["(.+)", "(.+)"\]', project, re.M)[0]]
    assert packages == ["puffin", "stats_jobs"]
    assert all((tmp_path / "src" / name).exists() for name in (*named, *packages))
    lines = dict(line.split(" ", 1) for line in text.splitlines() if line.startswith(("ENTRYPOINT", "CMD")))
    assert json.loads(lines["ENTRYPOINT"]) == ["puffin"]
    params = accepted(json.loads(lines["CMD"]))
    assert params["file"] in {target for *_, target in copies}
    assert str(params["metrics_port"]) in re.findall(r"^EXPOSE (.+)$", text, re.M)[0].split()


def test_unit_starts_the_autopilot_and_waits_for_its_end() -> None:
    file = HERE / "puffin-autopilot.service"
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(file)
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "puffin"
    assert accepted(arguments)["file"] == "/etc/puffin/policy.yaml"
    assert int(unit["Service"]["TimeoutStopSec"]) > 10
    if shutil.which("systemd-analyze"):
        ran = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
        complaints = [line for line in ran.stderr.splitlines() if file.name in line]
        assert [line for line in complaints if "is not executable" not in line] == []


def test_dag_runs_the_autopilot_once() -> None:
    tree = ast.parse((EXAMPLES / "airflow/autopilot.py").read_text())
    (call,) = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "BashOperator")
    (value,) = (keyword.value for keyword in call.keywords if keyword.arg == "bash_command")
    command = eval(ast.unparse(value), {"POLICY": "/etc/puffin/policy.yaml"})
    program, *arguments = shlex.split(command)
    params = accepted(arguments)
    assert (program, params["once"], params["file"]) == ("puffin", True, "/etc/puffin/policy.yaml")


def test_unknown_option_in_an_example_would_be_refused() -> None:
    with pytest.raises(click.UsageError):
        accepted(["autopilot", "--policy", "x", "--nope"])
