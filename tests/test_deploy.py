"""The Kubernetes manifests, by the published schemas; strict, so unknown keys are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from mcranker import ConfigError, __version__
from mcranker.cli.group import cli
from mcranker.serve.settings import hash_key, load_settings, new_key

DEPLOY = Path(__file__).parents[1] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def parts(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def workload(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod and the container of a manifest."""
    kinds = {"Deployment", "Job", "StatefulSet"}
    (pod,) = (each["spec"]["template"]["spec"] for each in parts(path) if each["kind"] in kinds)
    (container,) = pod["containers"]
    return pod, container


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_valid(path: Path) -> None:
    for each in parts(path):
        kubernetes_validate.validate(each, "1.34", strict=True)


@pytest.mark.parametrize("name", ["workers.yaml", "serve.yaml"])
def test_their_commands_have_these_flags(name: str) -> None:
    _, container = workload(MANIFESTS[0].parent / name)
    verb, *args = container["args"]
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    known = {flag for param in command.params for flag in param.opts}
    assert {each.split("=")[0] for each in args if each.startswith("-")} <= known


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_containers_are_confined_and_have_a_version(path: Path) -> None:
    pod, container = workload(path)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"].keys() == {"requests", "limits"}
    assert container["image"] in {f"mcranker:{__version__}", "postgres:18"}
    assert "--allow-no-keys" not in container.get("args", ())


def test_the_service_starts_with_a_key_alone(tmp_path: Path) -> None:
    (config,) = (each for each in parts(DEPLOY / "kubernetes/serve.yaml") if "data" in each)
    file, text = tmp_path / "serve.toml", config["data"]["serve.toml"]
    file.write_text(text)
    with pytest.raises(ConfigError, match="'client' is no hash of a key"):
        load_settings(file)
    file.write_text(text.replace("sha256:...", hash_key(new_key())))
    assert load_settings(file).rankers[0].options["on_failure"] == "keep_order"


def test_compose_gives_no_paid_key_and_pins_its_images() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert services["mcranker"]["environment"]["OPENAI_API_KEY"] == "none"
    assert all(each["image"].partition(":")[2] for each in services.values())
    assert services["mcranker"]["image"] == f"mcranker:{__version__}"
