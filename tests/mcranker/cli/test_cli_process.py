"""The command as a whole process: start-up, pipes, terminals, interrupts, real HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.loopback import Body, Hang, Loopback, completion, serve_in_thread

COMMAND = (sys.executable, "-m", "mcranker")
HEAVY = {"pydantic", "numpy", "anyio", "asyncio", "openai", "anthropic", "aiohttp", "rich", "yaml"}
SECONDS = 60  # after which a process counts as stuck


def reply(body: Body) -> Body:
    """What a model would say: two recruits, one rubric, the score 7."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("name")
    texts: dict[str, Any] = {
        "team": {"Identities": ["Virologist", "Parent"], "Reason": "r"},
        "rubric": {
            "Criteria": [{"Criterion": "Efficacy", "Explanation": "e", "Weight": 100}],
            "Reason": "r",
        },
        "score": {"Score": 7},
    }
    return completion(json.dumps(texts[schema]) if schema else "OK")


@pytest.fixture
def server() -> Iterator[Loopback]:
    with serve_in_thread(reply) as running:
        yield running


def environment(**more: str) -> dict[str, str]:
    hidden = ("OPENAI_", "ANTHROPIC_", "MCRANKER_", "NO_COLOR", "FORCE_COLOR", "COLUMNS")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(hidden) and not name.lower().endswith("_proxy")
    }
    # The user's ledger may know an earlier server at the same port.
    fixed = {"MCRANKER_LEDGER": "none"}
    return kept | fixed | {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"} | more


def run(
    args: Sequence[str], *, given: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *args],
        check=False,
        capture_output=True,
        encoding="utf-8",
        input=given,
        env=env or environment(),
        timeout=SECONDS,
    )


def at(server: Loopback) -> list[str]:
    return ["--model", "openai:test", "--base-url", server.url]


@pytest.mark.parametrize("name", ["main", "main_of_personas"])
def test_help_imports_nothing_heavy(name: str) -> None:
    code = (
        f"import sys\nfrom mcranker.cli.group import {name} as main\nsys.argv = ['x', '--help']\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert "Commands:" in done.stdout
    assert not HEAVY & set(done.stderr.split())


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_says_how_far_it_came(tmp_path: Path) -> None:
    reached = threading.Event()
    scored = 0

    def hanging(body: Body) -> Body | Hang:
        nonlocal scored
        if body["response_format"]["json_schema"]["name"] == "score":
            scored += 1
            if scored == 4:
                reached.set()
                return Hang()
        return reply(body)

    with serve_in_thread(hanging) as server:
        args = ["rank", "q", *"abcdef", *at(server), "--team-size", "1", "-o", "concurrency=1"]
        args += ["--out", "result"]
        with subprocess.Popen(
            [*COMMAND, *args],
            env=environment(),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert reached.wait(SECONDS)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert stdout == ""
    assert re.fullmatch(r"mcranker: interrupted while scoring, [23] of 6 done\n", stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_reader_that_goes_away_is_no_error(server: Loopback) -> None:
    with subprocess.Popen(
        [*COMMAND, "rank", "q", "a", *at(server)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
