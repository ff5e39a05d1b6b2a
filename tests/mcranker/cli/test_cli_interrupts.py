"""Ctrl-C and other signals: what was being done is named, whenever they come."""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import anyio
import pytest

from mcranker import ChatRequest
from mcranker.cli.invocation import Interrupts
from mcranker.runtime.bridge import interruptible
from mcranker.runtime.processes import stopping
from tests.support.cli_support import Connected, answer, invoke, scripted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Connected:
    monkeypatch.chdir(tmp_path)
    return scripted(monkeypatch, tmp_path)


def interrupting(number: signal.Signals) -> Callable[..., NoReturn]:
    """A function that is interrupted, if the signal does that at once."""

    def raising(*_: object, **__: object) -> NoReturn:
        signal.raise_signal(number)
        raise AssertionError("the signal did nothing")

    return raising


def when(stage: str, model: Connected) -> None:
    """Interrupt the first call of a stage; for scores, the second."""
    scores = 0

    async def interrupted(request: ChatRequest) -> str:
        nonlocal scores
        scores += request.tag.stage == "score"
        if request.tag.stage == stage and scores != 1:
            await anyio.sleep(0.05)  # until what came before has been counted
            signal.raise_signal(signal.SIGINT)
            await anyio.sleep_forever()
        said = answer(request)
        assert isinstance(said, str)
        return said

    model.answer = interrupted


RANK = ("rank", "q", "a", "b", "-o", "concurrency=1", "--team-size", "2")


@pytest.mark.parametrize(
    ("stage", "args", "said"),
    [
        ("recruit", RANK, "while starting"),
        ("score", RANK, "while scoring, 1 of 4 done"),
        ("explain", (*RANK, "--reasons", "1"), "while asking for reasons"),
        ("criteria", ("recruit", "q"), "while writing criteria"),
    ],
)
def test_the_stage_is_named(model: Connected, stage: str, args: tuple[str, ...], said: str) -> None:
    when(stage, model)
    done = invoke(*args)
    assert done.exit_code == 130
    assert done.stderr.startswith(f"mcranker: interrupted {said}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("where", "args", "said"),
    [
        ("mcranker.cli.rank.read_passages", ["--docs", "d"], "while reading queries and passages"),
        (
            "mcranker.llm.local.model_files.resolve",
            ["a", "--model", "local:smollm2-135m"],
            "while fetching smollm2-135m; nothing of it was kept",
        ),
        (
            "mcranker.ranking.Ranking.to_trec",
            ["a", "--output", "trec"],
            "while writing the results",
        ),
    ],
)
def test_what_is_done_before_and_after_is_named(
    model: Connected, monkeypatch: pytest.MonkeyPatch, where: str, args: list[str], said: str
) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setattr(where, interrupting(signal.SIGHUP))
    done = invoke("rank", "q", *args, "--quiet")
    assert (done.exit_code, done.stderr) == (129, f"mcranker: stopped by SIGHUP {said}\n")
    assert {each.name for each in Path.cwd().iterdir()} <= {"cache"}


def test_with_json_there_is_an_envelope(model: Connected) -> None:
    when("recruit", model)
    done = invoke(*RANK, "--output", "json")
    whole = json.loads(done.stdout)
    assert (done.exit_code, whole["exit_code"], whole["status"]) == (130, 130, "error")
    assert whole["errors"] == [
        {"code": "Interrupted", "message": "interrupted while starting", "retryable": True}
    ]


@pytest.fixture(autouse=True)
def _go_on() -> Iterator[None]:
    yield
    stopping.until = math.inf


class TestInterrupts:
    def test_what_runs_in_a_loop_cleans_up_before_the_interrupt_goes_on(self) -> None:
        cleaned = []

        async def main() -> None:
            try:
                signal.raise_signal(signal.SIGTERM)
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(0.01)
                    signal.raise_signal(signal.SIGTERM)
                    await anyio.sleep(0.01)
                    cleaned.append(True)

        with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
            interrupts.run(main)
        assert cleaned == [True]

    def test_long_work_that_a_loop_waits_for_is_interrupted_at_once(self) -> None:
        async def main() -> None:
            with interruptible():
                interrupting(signal.SIGTERM)()

        with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
            interrupts.run(main)

    def test_a_late_second_one_ends_the_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ended: list[int] = []
        monkeypatch.setattr("os._exit", ended.append)
        with Interrupts():
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            later = time.monotonic() + 2.1
            monkeypatch.setattr("time.monotonic", lambda: later)
            signal.raise_signal(signal.SIGINT)
        assert ended == [130]
