"""``mcranker serve`` as a process: it begins, serves a model over HTTP, and ends in order."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import yaml

from mcranker.serve import hash_key
from mcranker.serve.settings import load_settings
from tests.mcranker.cli.test_cli_process import COMMAND, SECONDS, environment, reply
from tests.support.cli_support import invoke
from tests.support.loopback import Body, Loopback, serve_in_thread
from tests.support.serving import KEY, until, until_so

ASKED = {"query": "best masks", "documents": ["cloth", "N95"]}
PROVIDER_KEY = "sk-tests-only-0123456789"
needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM")


@contextmanager
def running(
    *args: str, command: Sequence[str] = COMMAND, **env: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address that it says it serves at."""
    with subprocess.Popen(
        [*command, "serve", "--port", "0", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment(**{"MCRANKER_LEDGER": "none", "OPENAI_API_KEY": PROVIDER_KEY, **env}),
    ) as process:
        assert process.stderr is not None
        said = []
        try:
            for line in process.stderr:
                said.append(line)
                if found := re.search(r" at (http://\S+)", line):
                    break
            else:
                raise AssertionError("".join(said))
            yield process, found[1]
        finally:
            if process.poll() is None:
                process.kill()


@contextmanager
def asking(address: str) -> Iterator[list[httpx.Response]]:
    """Ask for a ranking meanwhile; the answer is there after the block, if it came."""
    answers: list[httpx.Response] = []

    def post() -> None:
        with suppress(httpx.HTTPError):  # the service may be killed meanwhile
            answers.append(httpx.post(f"{address}/v2/rerank", json=ASKED, timeout=SECONDS))

    client = threading.Thread(target=post)
    client.start()
    yield answers
    client.join(SECONDS)


def model_at(server: Loopback) -> tuple[str, ...]:
    return "--model", "openai:served", "--base-url", server.url


@needs_signals
def test_it_serves_and_finishes_what_is_under_way() -> None:
    released = threading.Event()

    async def slow(body: Body) -> Body:
        await until_so(released.is_set)
        return reply(body)

    with serve_in_thread(slow) as server, running(*model_at(server)) as (process, address):
        with asking(address) as answers:
            until(lambda: bool(server.requests))
            process.send_signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
            released.set()
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert answers[0].status_code == 200
    # Of three personas, two recruited, each says 7 of 10.
    scores = [each["relevance_score"] for each in answers[0].json()["results"]]
    assert scores == [pytest.approx(0.7)] * 2
    assert out == ""
    calls = rf"{len(server.requests)} model calls"
    logged = rf"mcranker: POST /v2/rerank 200 \d+\.\d{{3}} s, mcranker, 2 documents, {calls}"
    assert re.search(rf"{logged}\nmcranker: stopped; what was under way is finished\n$", err)


@needs_signals
@pytest.mark.parametrize("by_signal", [False, True])
def test_what_takes_too_long_is_cancelled_when_it_stops(tmp_path: Path, *, by_signal: bool) -> None:
    async def never(_: Body) -> Body:
        await anyio.sleep_forever()
        return {}

    with serve_in_thread(never) as server:
        path = tmp_path / "serve.toml"
        path.write_text(
            f"[limits]\nstop = {60 if by_signal else 1}\n"
            f'[rankers.a]\nmodel = "openai:m"\nbase_url = "{server.url}"\n'
        )
        with running("--config", str(path)) as (process, address), asking(address) as answers:
            until(lambda: bool(server.requests))
            process.send_signal(signal.SIGINT)
            if by_signal:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.7)  # a second one within half a second is not counted
                process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert answers[0].status_code == 503
    assert answers[0].json()["message"] == "the service stops; try again elsewhere"
    assert err.endswith("mcranker: stopped; 1 request cancelled\n")


def test_keys_are_made_and_hashed() -> None:
    made = invoke("serve", "--new-key")
    assert made.stdout.startswith("mcr_")
    assert hash_key(made.stdout.strip()) in made.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--host", "0.0.0.0"), "--allow-no-keys"),
        (("--config", "none.toml"), "none.toml"),
        (("--config", "x.toml", "-o", "scale=5"), "--option does not go with the tables of"),
        (("--config", "x.toml", "--ranker", "direct"), "--ranker does not go with the tables of"),
        (("--ranker", "direct", "-o", "assessor_model=openai:x"), "assessor"),
        (("--port", "70000"), "70000"),
    ],
)
def test_what_cannot_be_served_is_said(
    args: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.toml").write_text("[rankers.mine]\nscale = 5\n")
    monkeypatch.chdir(tmp_path)
    done = invoke("serve", "--check", *args)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_configuration_is_checked_without_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", PROVIDER_KEY)
    path = tmp_path / "serve.toml"
    path.write_text(
        f'[server]\nhost = "0.0.0.0"\n[keys]\na = "{hash_key(KEY)}"\n'
        '[rankers.a]\nmodel = "openai:m"\nbase_url = "http://127.0.0.1:9/v1"\nledger = "none"\n'
    )
    done = invoke("serve", "--check", "--config", str(path))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")


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


def test_what_it_serves_by_itself_needs_keys(service: Any) -> None:
    settings = load_settings(DEPLOY / "serve.toml")
    assert [each.name for each in settings.rankers] == ["mcranker", "direct"]
    assert "--allow-no-keys" not in lists()[-1]
    # Docker gives it longer to stop than it gives its rankings.
    assert settings.limits.stop < int(service["stop_grace_period"].removesuffix("s"))
