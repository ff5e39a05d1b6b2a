"""What ranking would take, by the same steps as the ranking itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcranker import (
    Capabilities,
    ChatReply,
    ChatRequest,
    DirectRanker,
    Estimate,
    MCRanker,
    RankGPTRanker,
    ScriptedChat,
    SetwiseRanker,
    Usage,
)
from mcranker.llm.prices import cost
from mcranker.rankers import Ranker
from personas.ranking.usage import UsageTable
from tests.support.comparing import best, comparing, in_order, shown_in
from tests.support.scripted import RECRUITS, RUBRIC, answers

DOCS = [f"passage {number}" for number in range(8)]
pytestmark = pytest.mark.anyio


def fitting(request: ChatRequest) -> ChatReply:
    """Answers of the form that is asked for, whatever it is."""
    usage = Usage(calls=1, input_tokens=100, output_tokens=5)
    if request.labels:
        return ChatReply("", usage, label_logprobs=dict.fromkeys(request.labels, -1.0))
    if request.questions:
        return ChatReply("", usage, answers=answers(*(1.0 for _ in request.questions)))
    assert request.schema is not None
    match request.schema.name:
        case "team":
            names = request.schema.schema["properties"]["Identities"]["items"].get("enum", [])
            text = json.dumps({"Identities": names[-2:], "Reason": "r"}) if names else RECRUITS
        case "rubric":
            text = RUBRIC
        case "scores":
            numbers = request.schema.schema["properties"]["Scores"]["properties"]
            text = json.dumps({"Scores": dict.fromkeys(numbers, 3)})
        case "final_score":
            text = '{"Final score": 5}'
        case _:
            text = '{"Score": 5}'
    return ChatReply(text, usage)


def answering(capabilities: Capabilities | None = None, name: str = "a:b") -> ScriptedChat:
    return ScriptedChat(fitting, name=name, capabilities=capabilities)


def silent(capabilities: Capabilities | None = None) -> ScriptedChat:
    def answer(request: ChatRequest) -> str:
        raise AssertionError(f"{request.tag} was sent")

    return ScriptedChat(answer, name="a:b", capabilities=capabilities)


def calls_by(table: UsageTable) -> dict[str, int]:
    return {stage: usage.calls for stage, usage in table.by("stage").items()}


@pytest.mark.parametrize(
    ("options", "capabilities"),
    [
        ({}, None),
        ({"team_size": 1}, None),
        ({"team_size": 2, "nlp_scientist": False}, None),
        ({"criteria": "none"}, None),
        ({"criteria": "dataset", "dataset": "a data set"}, None),
        ({"recruiting": "library"}, None),
        ({"recruiting": "library", "criteria": "library"}, None),
        ({"ensemble": "assessor"}, None),
        ({"ensemble": "reciprocal_rank", "snake_case_personas": True}, None),
        ({"scoring": "per_criterion"}, None),
        ({"scoring": "per_criterion"}, Capabilities(json_schema=True, max_questions=400)),
        ({"scoring": "expected"}, Capabilities(label_logprobs=True)),
        ({"depth": 3}, None),
        ({"preset": "reference"}, None),
        ({"scale": 100}, None),
    ],
)
def test_the_calls_are_those_of_the_ranking(
    options: dict[str, Any], capabilities: Capabilities | None, caplog: pytest.LogCaptureFixture
) -> None:
    estimate = MCRanker(model=silent(capabilities), **options).estimate("q", DOCS)
    assert caplog.text == ""
    ranking = MCRanker(model=answering(capabilities), **options).rank("q", DOCS)
    assert calls_by(estimate.table) == calls_by(ranking.calls)
    assert estimate.calls == estimate.calls_at_least == ranking.usage.calls
    assert estimate.reused == 0


@pytest.mark.parametrize("options", [{}, {"with_criteria": True}, {"team": "epidemic_research"}])
def test_the_calls_of_other_rankers(options: dict[str, Any]) -> None:
    estimate = DirectRanker(model=silent(), **options).estimate("q", DOCS)
    ranking = DirectRanker(model=answering(), **options).rank("q", DOCS)
    assert calls_by(estimate.table) == calls_by(ranking.calls)


@pytest.mark.parametrize(
    "ranker",
    [
        lambda model: SetwiseRanker(model=model, ranks=2),
        lambda model: SetwiseRanker(model=model, ranks=2, children=1),
        lambda model: RankGPTRanker(model=model, window=4, step=2),
    ],
)
def test_comparisons_that_end_early_stay_above_the_least(
    ranker: Callable[[ScriptedChat], Ranker],
) -> None:
    """The first stage's order is right, so that sorting takes as little as it ever does."""
    docs = {str(number): f"passage {20 - number}" for number in range(9)}
    model, seen = comparing(
        lambda request: (in_order if "1" in shown_in(request) else best)(request)
    )
    estimate = ranker(model).estimate("q", docs)
    assert not seen
    made = ranker(model).rank("q", docs).usage.calls
    assert 0 < estimate.calls_at_least <= made <= estimate.calls


def test_what_is_made_up_leaves_no_trace() -> None:
    ranker = MCRanker(model=answering(), criteria="dataset", dataset="d")
    before = ranker.estimate("q", DOCS)
    ranking = ranker.rank("q", DOCS)
    assert ranking.usage.calls == before.calls
    assert ranking.personas == ("NLP scientist", "Virologist", "Worried parent")
    # The rubrics of the first query now serve all others, but for the recruits not known yet.
    assert calls_by(ranker.estimate("p", DOCS).table)["criteria"] == 2


def ranker_with(ledger: Path, model: ScriptedChat, **options: Any) -> MCRanker:
    return MCRanker(model=model, ledger=ledger, **options)


def test_what_the_ledger_has_is_not_counted(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    with ranker_with(ledger, answering()) as ranker:
        ranker.rank("q", DOCS[:6])
    with ranker_with(ledger, silent()) as ranker:
        estimate = ranker.estimate("q", DOCS)
        assert ranker.estimate("q", DOCS) == estimate  # and nothing was kept
    # The team and its rubrics are known, and so are six of the eight passages' scores.
    assert calls_by(estimate.table) == {"score": 2 * 3}
    assert calls_by(estimate.table.reused) == {"recruit": 1, "criteria": 3, "score": 6 * 3}
    assert (estimate.calls, estimate.reused) == (6, 22)
    with ranker_with(ledger, answering()) as ranker:
        assert ranker.rank("q", DOCS).usage.calls == 6


def test_equal_requests_are_counted_once_where_they_share_an_answer(tmp_path: Path) -> None:
    work = [("q", DOCS), ("q", DOCS)]
    with ranker_with(tmp_path / "ledger.sqlite", silent()) as ranker:
        assert ranker.estimate_many(work).calls == ranker.estimate("q", DOCS).calls == 28
    assert MCRanker(model=silent()).estimate_many(work).calls == 2 * 28


def test_cost_is_the_price_of_the_tokens() -> None:
    estimate = MCRanker(model=answering(name="openai:gpt-5-mini")).estimate("q", DOCS)
    usage = Usage(estimate.calls, estimate.input_tokens, 0, estimate.output_tokens)
    assert estimate.cost == pytest.approx(cost("openai:gpt-5-mini", usage))
    assert estimate.cost is not None
    assert estimate.cost_at_most is not None
    assert estimate.cost_at_most > 10 * estimate.cost
    assert MCRanker(model=answering(name="local:x")).estimate("q", DOCS).cost == 0
    unknown = MCRanker(model=answering(name="openai:foo")).estimate("q", DOCS)
    assert unknown.cost is unknown.cost_at_most is None


def test_every_reply_at_its_limit_and_asked_for_twice() -> None:
    def at_most(**options: Any) -> float:
        model = answering(Capabilities(label_logprobs=True), name="openai:gpt-5-mini")
        found = MCRanker(model=model, team_size=1, **options).estimate("q", DOCS)
        assert found.cost_at_most is not None
        return found.cost_at_most

    # One rubric of 2,048 tokens and eight scores of 1,024, all with 4,096 of thoughts, at $2 for
    # a million, make the most of the cost; the rest is input.
    output = (2048 + 8 * 1024 + 9 * 4096) * 2 / 1e6
    assert output < at_most(repair_attempts=0) < 1.05 * output
    assert 2 * output < at_most(repair_attempts=1) < 1.05 * 2 * output
    # What is read from probabilities is asked for once.
    labelled = at_most(repair_attempts=1, scoring="expected")
    assert labelled == pytest.approx(at_most(repair_attempts=0) + (2048 + 4096) * 2 / 1e6, rel=0.05)


def test_estimates_add_up() -> None:
    ranker = MCRanker(model=answering(name="openai:gpt-5-mini"))
    one, other = ranker.estimate("q", DOCS), ranker.estimate("another query", DOCS[:3])
    both, total = one + other, ranker.estimate_many([("q", DOCS), ("another query", DOCS[:3])])
    assert (both.table, both.calls_at_least) == (total.table, total.calls_at_least)
    assert both.cost_at_most == pytest.approx(total.cost_at_most)
    assert (one + other).calls == one.calls + other.calls
    assert sum([one, other], start=Estimate()) == one + other
    unknown = MCRanker(model=answering(name="openai:foo")).estimate("q", DOCS)
    assert (one + unknown).cost_at_most is None
