"""The container's files: what they start is what the service is, and its health is seen."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from mcranker.serve.settings import load_settings
from tests.mcranker.cli.test_cli_process import SECONDS, reply
from tests.mcranker.serve.test_command import ASKED, running
from tests.support.loopback import serve_in_thread

DEPLOY = Path(__file__).parents[3] / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
MOUNTED = "/etc/mcranker/serve.toml"


def lists() -> list[list[str]]:
    """The lists in the Dockerfile: how it is seen to be healthy, the program, and its arguments."""
    return [
        json.loads(found)
        for found in re.findall(r"(?:CMD|ENTRYPOINT) (\[.*\])$", DOCKERFILE, re.MULTILINE)
    ]


@pytest.fixture(scope="module")
def service() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["mcranker"]


def test_the_composed_service_answers_and_is_healthy(service: Any) -> None:
    healthcheck, program, started = lists()
    command, mounted = service["command"], service["volumes"][0].split(":")
    assert program == ["mcranker"]
    assert command == [*started, "--allow-no-keys"]
    assert mounted == ["./serve.toml", MOUNTED, "ro"]
    command = [str(DEPLOY / mounted[0]) if word == MOUNTED else word for word in command[1:]]
    with serve_in_thread(reply) as model:
        names = {"MCRANKER_MODEL": "openai:qwen3:4b", "OPENAI_BASE_URL": model.url}
        assert names.keys() < service["environment"].keys()
        with running(*command, **names) as (_, address):
            port = address.rpartition(":")[2]
            check = healthcheck[2].replace(":8080/", f":{port}/")
            subprocess.run([sys.executable, "-c", check], check=True, timeout=SECONDS)
            found = httpx.post(f"http://127.0.0.1:{port}/v1/rerank", json=ASKED, timeout=SECONDS)
    assert [each["relevance_score"] for each in found.json()["results"]] == [pytest.approx(0.7)] * 2
    with pytest.raises(subprocess.CalledProcessError):  # it is gone
        subprocess.run(
            [sys.executable, "-c", check], check=True, timeout=SECONDS, stderr=subprocess.DEVNULL
        )


def test_it_writes_to_its_volume_alone(service: Any) -> None:
    (volume,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    assert f"MCRANKER_CACHE={volume}" in DOCKERFILE
    assert service["read_only"]
    assert service["volumes"][1] == f"ledger:{volume}"
    (user,) = re.findall(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)
    assert int(user) > 0


def test_what_it_serves_by_itself_needs_keys(service: Any) -> None:
    settings = load_settings(DEPLOY / "serve.toml")
    assert [each.name for each in settings.rankers] == ["mcranker", "direct"]
    assert "--allow-no-keys" not in lists()[-1]
    # Docker gives it longer to stop than it gives its rankings.
    assert settings.limits.stop < int(service["stop_grace_period"].removesuffix("s"))
