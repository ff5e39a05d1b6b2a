"""The benchmarks run: tiny loads, so that they cannot rot."""

from __future__ import annotations

import importlib
import json
import math
import re
import socket
import statistics
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from personas.report.site import PAGE_BYTES

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def load(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_server_waits_and_reads_a_request_that_comes_in_pieces() -> None:
    server = load("fixed_latency_server")
    request = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 4\r\n\r\nbody"
    with (
        server.serving(0.05) as port,
        socket.create_connection(("127.0.0.1", port), timeout=10) as connection,
    ):
        start = time.perf_counter()
        for part in (request[:20], request[20:-2], request[-2:] + request):
            connection.sendall(part)
        received = b""
        while received.count(b'{\\"Score\\": ') < 2:
            received += connection.recv(65536)
        assert time.perf_counter() - start >= 0.05
        assert received.count(b"HTTP/1.1 200 OK") == 2
        assert server.answered(port) == 2


@pytest.mark.parametrize(
    ("name", "warm_up"),
    [
        ("aiohttp", 1),
        ("openai", 1),
        ("anthropic", 1),
        ("ours-url", 3),
        ("ours-openai", 3),
        ("ours-anthropic", 3),
    ],
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


def test_contenders_are_all_tested() -> None:
    assert len(load("contenders").NAMES) == 6


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


def test_throughput_as_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    throughput = load("throughput")
    timing = load("contenders").Timing
    took = {"aiohttp": [2.0, 1.0, 9.0], "openai": [4.0, 4.0, 4.0]}  # medians 2 and 4

    def pretend(_function: object, name: str, *_: object, **__: object) -> Any:
        return timing(took[name].pop(), 0.3, "asyncio")

    counts = count(0, 300)
    monkeypatch.setattr(throughput, "alone", pretend)
    monkeypatch.setattr(throughput, "answered", lambda _port: next(counts))
    options = "--calls 300 --concurrency 30 --latency 0.1 --only aiohttp --only openai"
    run("throughput", options, monkeypatch)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    # 300 calls of 0.1 s, 30 at once, take 1 s at best; 0.3 s of CPU time are 1 ms a call.
    assert ["aiohttp", "2.00", "0.50", "1.00", "2.00", "1.00"] in rows
    assert ["openai", "4.00", "0.25", "0.50", "1.00", "1.00"] in rows


def test_a_long_query_is_left_after_the_first_results(monkeypatch: pytest.MonkeyPatch) -> None:
    throughput, server = load("throughput"), load("fixed_latency_server")
    monkeypatch.setattr(throughput, "RESULTS", 10)
    with server.serving(0.0) as port:
        outcome = throughput.queue_up(port, 200, 4, ledger=True)
        # 300 calls to warm up, 10 results, and what was under way when the query was left.
        assert 300 + 10 <= server.answered(port) < 300 + 600
    assert outcome["results"] == 10
    assert outcome["seconds_to_first"] > 0
    assert outcome["added_mib"] >= 0


def test_many_queries_samples_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("many_queries", "--queries 20 --passages 2 --every 5", monkeypatch)
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["calls"] == 20 * 2 * 3
    assert list(outcome["resident_mib"]) == ["5", "10", "15", "20"]
    assert min(outcome["resident_mib"].values()) > 1
    assert isinstance(outcome["bytes_a_query"], float)


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
    found = comparative.measured(made["tournament(window=10, ranks=10)"], topics, none, 2)
    assert found.ndcg == (pytest.approx(ideal),)
    assert 0 < found.calls == found.most_calls < len(topic.docs)
    assert found.tokens > 0


def test_the_simulated_judge_may_prefer_places_and_share_its_errors() -> None:
    comparative = load("comparative")
    topics = comparative.load_topics("mini", 1)
    (topic,) = topics
    first = comparative.ndcg({topic.query.id: [(doc.id, 0.0) for doc in topic.docs]}, topics)
    by_place = comparative.Errors("place", 0, 0, place=1000)
    for name in ("rankgpt(window=20, step=10, passes=1)", "pairwise(ranks=1)"):
        found = comparative.measured(comparative.contenders()[name], topics, by_place, 1)
        assert found.ndcg == (pytest.approx(first),), name
    for shared in (0.0, 0.5, 1.0):
        errors = comparative.Errors("", 1, 0, shared=shared)
        judge = comparative.Judge(topics, errors, seed=1)
        one, other = (judge._seen(topic, persona) for persona in ("Reader", "Expert"))
        differ = [one[each.id] - other[each.id] for each in topic.docs]
        # Both have the variance of the highest grade; of their difference, 2 (1 - shared) of it.
        expected = math.sqrt(2 * (1 - shared)) * judge._top
        assert statistics.pstdev(differ) == pytest.approx(expected, rel=0.25)
        assert statistics.pstdev(one.values()) == pytest.approx(judge._top, rel=0.3)


def test_the_simulated_judge_errs_by_its_seed_and_is_named_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comparative = load("comparative")
    topics = comparative.load_topics("mini", 1)
    errors = comparative.Errors("much", 0.5, 0.5)
    made = comparative.contenders()
    chosen = {name: made[name] for name in ("direct", "rankgpt(window=20, step=10, passes=1)")}
    found = comparative.measured(chosen["direct"], topics, errors, 3)
    assert len(set(found.ndcg)) > 1
    assert comparative.measured(chosen["direct"], topics, errors, 3) == found
    assert comparative.Errors("", 0, 1, crowd=2).of_call(8) == 4  # two doublings beyond two
    monkeypatch.setattr(comparative, "contenders", lambda: chosen)
    monkeypatch.setattr(comparative, "ERRORS", (comparative.ERRORS[0], errors))
    monkeypatch.setattr(comparative, "BUDGETS", (10, 100))
    text = comparative.tables("mini", topics, 2)
    assert text.startswith("Simulated judge, mean")
    assert text.count("simulated judge") == 2
    assert "| at most 10 | rankgpt(window=20, step=10, passes=1): " in text
