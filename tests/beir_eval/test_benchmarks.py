"""The benchmarks run: tiny loads, so that they cannot rot."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.postgres import server

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def load(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.parametrize(
    ("name", "warm_up"),
    [("openai", 1), ("anthropic", 1), ("ours-openai", 3), ("ours-anthropic", 3)],
)
def test_every_contender_makes_the_same_calls(name: str, warm_up: int) -> None:
    contenders, server = load("contenders"), load("fixed_latency_server")
    work = contenders.Load(queries=2, passages=5, concurrency=4, latency=0.005)
    with server.serving(work.latency) as port:
        timing = contenders.time_contender(name, port, work, ledger=True)
        assert server.answered(port) == 2 * 5 * 3 + warm_up
    # 30 calls in 8 waves of 4 at most; nobody can be faster than the server.
    assert timing.seconds >= 30 / 4 * 0.005
    assert timing.cpu > 0


def test_throughput_reports_medians_and_ratios(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(load("throughput"), "alone", at_once)
    options = "--calls 30 --latency 0.005 --concurrency 8 --only aiohttp --only ours-url"
    run("throughput", f"{options} --output json", monkeypatch)
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["calls"] == 30
    assert outcome["ideal_seconds"] == pytest.approx(30 * 0.005 / 8, abs=1e-3)
    bare, ours = outcome["results"]["aiohttp"], outcome["results"]["ours-url"]
    assert 0 < ours["of_ideal"] < 1
    assert bare["x_aiohttp"] == 1
    assert ours["x_aiohttp"] == pytest.approx(bare["seconds"] / ours["seconds"], rel=0.05)
    assert ours["x_openai"] is None
    assert ours["cpu_ms_a_call"] > 0


def test_pages_of_a_query_are_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("pages", "--passages 60 --personas 12 --words 20 --times 1", monkeypatch)
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["page_bytes"] < 10_000_000
    assert min(outcome["read_ms"], outcome["page_ms"], outcome["both_ms"]) > 0


@pytest.mark.local_model
def test_the_encoder_is_timed_with_nothing_known_and_with_its_vectors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("encoder", "--passages 2", monkeypatch)
    measured = json.loads(capsys.readouterr().out.splitlines()[-1])["measured"]
    tokens = [row["tokens_encoded"] for row in measured.values()]
    assert tokens[0] > tokens[1] > tokens[2] == 0
    assert min(row["seconds"] for row in measured.values()) > 0


def run(script: str, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [script, *options.split()])
    load(script).main()


def at_once(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Stands for `throughput.alone`: a process of its own takes seconds to start."""
    return function(*args, **kwargs)


def test_workers_write_the_run_of_one_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load = "--workers 2 --queries 4 --passages 2 --latency 0.01"
    run("workers", f"{load} --ledger {server()}", monkeypatch)
    (row,) = json.loads(capsys.readouterr().out)["workers"]
    assert (row["calls"], row["calls_of_the_last_command"], row["same_run"]) == (8, 0, True)
