"""The benchmarks run: tiny loads, so that they cannot rot."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from personas.report.site import PAGE_BYTES
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
    run("inspection_pages", "--passages 600 --personas 12 --words 20 --times 1", monkeypatch)
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["pages"] > 1
    assert outcome["largest_page_bytes"] < PAGE_BYTES
    assert min(outcome["read_ms"], outcome["page_ms"], outcome["both_ms"]) > 0


@pytest.mark.local_model
def test_the_encoder_is_timed_with_nothing_known_and_with_its_vectors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("encoder", "--passages 5", monkeypatch)
    measured = json.loads(capsys.readouterr().out.splitlines()[-1])["measured"]
    tokens = [row["tokens_encoded"] for row in measured.values()]
    assert tokens[0] > tokens[1] > tokens[2] == 0
    assert min(row["seconds"] for row in measured.values()) > 0


@pytest.mark.local_model
def test_relevance_is_the_same_in_every_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("relevance", "mini --queries 1 --depth 12", monkeypatch)
    printed = capsys.readouterr().out
    found = json.loads(printed[printed.index("\n{") :])
    assert sum(row["passages"] for row in found["mini"]) == 12
    orders = found["examples"]["three orders"]
    assert orders[0] == orders[1] == orders[2]
    (right,) = found["examples"]["one right"].items()
    assert orders[0][right[0]] == right[1] > 0.7
    assert max(found["examples"]["three irrelevant"].values()) < 0.1


def test_evaluation_finds_what_pytrec_eval_finds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load = "--queries 3 --passages 5 --repeats 1"
    run("evaluation", f"{load} --only ours --only pytrec_eval", monkeypatch)
    programs = json.loads(capsys.readouterr().out)["programs"]
    assert list(programs) == ["ours", "pytrec_eval"]
    assert programs["ours"]["ndcg"] == pytest.approx(programs["pytrec_eval"]["ndcg"], abs=1e-12)
    assert 0 < programs["ours"]["ndcg"] < 1
    assert programs["ours"]["seconds"] > 0


def test_ties_make_differences_of_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("inference", "--population 60 --experiments 20 --queries 40", monkeypatch)
    found = json.loads(capsys.readouterr().out)["by_queries"]["40"]
    assert found["ties"]["as ranked"] > 0.5 > found["ties"]["by lot"]
    assert found["coverage"]["Student"] > 0.5
    assert found["daggers"]["comparisons"] <= found["daggers"]["experiments"] < 0.5


def run(script: str, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [script, *options.split()])
    load(script).main()


def at_once(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Stands for `throughput.alone`: a process of its own takes seconds to start."""
    return function(*args, **kwargs)


def test_prompts_shows_every_kind_of_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["prompts.py", "--preset", "reference"])
    load("prompts").main()
    printed = capsys.readouterr().out
    sections = printed.split("\n===== ")[1:]
    kinds = [re.findall(r"^--- (\w+)", section, re.MULTILINE) for section in sections]
    recruited = ["recruit", *["criteria"] * 3]
    assert kinds == [
        [*recruited, *["score"] * 3, "assess"],
        ["recruit", *["score"] * 3],
        ["score"],
        [*recruited, "score"],
        [*recruited, *["score"] * 3],
    ]
    assert printed.count("temperature: None") == sum(map(len, kinds))


def test_the_simulated_judge_knows_the_best_order_where_it_makes_no_errors() -> None:
    comparative = load("comparative")
    topics = comparative.load_topics("mini", 1)
    (topic,) = topics
    best = sorted(topic.docs, key=lambda doc: -topic.grades.get(doc.id, 0))
    ideal = comparative.ndcg({topic.query.id: [(doc.id, 0.0) for doc in best]}, topics)
    none = comparative.ERRORS[0]
    made = comparative.contenders()
    for name in (
        "rankgpt(window=20, step=10, passes=1)",
        "setwise(children=3, ranks=10)",
        "direct",
    ):
        found = comparative.measured(made[name], topics, none, 2)
        assert found.ndcg == (pytest.approx(ideal),), name
        assert 0 < found.calls == found.most_calls
        assert found.tokens > 0


def test_workers_write_the_run_of_one_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load = "--workers 2 --queries 4 --passages 2 --latency 0.01"
    run("workers", f"{load} --ledger {server()}", monkeypatch)
    (row,) = json.loads(capsys.readouterr().out)["workers"]
    assert (row["calls"], row["calls_of_the_last_command"], row["same_run"]) == (8, 0, True)


def test_a_fleet_keeps_to_the_limit_and_shares_it() -> None:
    simulate = load("fleet").simulate
    found = simulate(10, 30_000, seed=3)
    assert found == simulate(10, 30_000, seed=3)
    spans = {each["from"]: each for each in found["spans"]}
    steady, told, silent = (spans[each] for each in (320.0, 150.0, 400.0))
    assert steady["refused_share"] == 0
    assert 0.97 < steady["taken_of_limit"] < 1.02
    # A provider that takes half of the limit is used nearly as well as before.
    assert min(told["taken_of_limit"], silent["taken_of_limit"]) > 0.85
    assert told["refused_share"] < silent["refused_share"] < 0.5
    assert 0.98 < found["jain"] <= 1
    # Of a worker that is killed in the middle, its calls under way.
    assert 0 < found["paid_twice"] < 0.01 * 30_000
    # One worker of 11 needs 150 calls / (30 a second / 11) = 55 s by its even share.
    other = found["other_run"]
    assert other["seconds_by_an_even_share"] == 55.0
    assert other["seconds"] < 60
