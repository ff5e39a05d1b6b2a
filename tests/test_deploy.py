"""The Kubernetes manifests, by the published schemas; strict, so unknown keys are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from mcranker.cli.group import cli

MANIFESTS = sorted((Path(__file__).parents[1] / "deploy" / "kubernetes").glob("*.yaml"))


def parts(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_valid(path: Path) -> None:
    for each in parts(path):
        kubernetes_validate.validate(each, "1.34", strict=True)


@pytest.mark.parametrize("name", ["workers.yaml", "serve.yaml"])
def test_their_commands_have_these_flags(name: str) -> None:
    (workload,) = (each for each in parts(MANIFESTS[0].parent / name) if each["kind"] != "Service")
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    verb, *args = container["args"]
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    known = {flag for param in command.params for flag in param.opts}
    assert {each.split("=")[0] for each in args if each.startswith("-")} <= known
