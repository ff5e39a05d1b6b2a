"""A passage that nobody scored has no number: one rule for every cause, ranker and form."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker import (
    Answer,
    Capabilities,
    ChatReply,
    ChatRequest,
    DirectRanker,
    MCRanker,
    Query,
    Ranker,
    Ranking,
    RebelRanker,
    RequestRejected,
    ScriptedChat,
    ServerFailed,
)
from mcranker.inputs.trec import read_trec
from mcranker.serve.results import headers_of, meta_of, scores_of, warnings_of
from tests.support.cli_support import invoke, scripted
from tests.support.comparing import shown_in
from tests.support.scripted import RUBRIC

QUERY = Query("best masks", "q")
DOCS = {"a": "alpha", "b": "beta", "c": "gamma"}
SCORES = {"alpha": 4, "gamma": 8}
LOST = "beta"
TWO: dict[str, Any] = {"team": ["Ann", "Ben"], "criteria": "none"}
CONSTANT: dict[str, Any] = {"missing_policy": "constant", "missing_constant": 5.0}

CAUSES = ("unreadable", "failed", "rejected", "deadline")
RANKERS: dict[str, tuple[type[Ranker], dict[str, Any]]] = {
    "sum": (MCRanker, TWO),
    "ranks": (MCRanker, {**TWO, "ensemble": "rrf"}),
    "assessor": (MCRanker, {**TWO, "ensemble": "assessor"}),
    "criteria": (MCRanker, {"team": ["Ann"], "scoring": "per_criterion"}),
    "packed": (MCRanker, {**TWO, "passages_per_call": 3}),
    "direct": (DirectRanker, {}),
    "rebel": (RebelRanker, {"window": 1, "top_n": None}),
    "rebel, windows": (RebelRanker, {"window": 3, "top_n": None}),
}


async def answer(request: ChatRequest, cause: str, kind: str) -> ChatReply:
    """Scores as the table says, and no answer about the passage that is lost."""
    if request.tag.stage == "criteria":
        return ChatReply(RUBRIC)
    state = request.state
    said = "".join(state.passages.values()) if state else request.messages[-1].content
    if LOST in said:
        # A reply about several leaves it out, so that it is asked for again, alone.
        if cause == "deadline" and not any(text in said for text in SCORES):
            await anyio.sleep_forever()
        if cause == "failed":
            raise ServerFailed("out of order")
        if cause == "rejected":
            raise RequestRejected("no")
    if state:
        values = [SCORES.get(state.passages[each.passage]) for each in request.questions]
        return ChatReply("", answers=tuple(map(Answer, values)))
    if kind.startswith("rebel"):
        entries = {
            number: {"Relevance": SCORES.get(text), **{f"P{place}": 0 for place in range(1, 6)}}
            for number, text in shown_in(request).items()
        }
        return ChatReply(json.dumps({"Passages": entries}) if entries else "I cannot say.")
    score = next((SCORES[text] for text in SCORES if text in said), None)
    if score is None:
        return ChatReply("I cannot say.")
    return ChatReply(json.dumps({"Score": score, "Final score": score, "Scores": [score, score]}))


@functools.cache
def ranked(cause: str, kind: str = "sum", *, constant: bool = False) -> Ranking:
    """The ranking of the three passages, the second of which nobody scored."""
    made, options = RANKERS[kind]
    chosen: dict[str, Any] = {**options, **(CONSTANT if constant else {})}
    if cause == "deadline":
        chosen["deadline"] = 1.0
        chosen |= {"window": 1} if "window" in options else {}
    typed = Capabilities(max_questions=64, max_levels=10, prompts=False)
    model = ScriptedChat(
        functools.partial(answer, cause=cause, kind=kind),
        capabilities=typed if kind == "packed" else None,
    )
    with made(model=model, ledger=None, **chosen) as ranker:
        return ranker.rank(QUERY, DOCS)


@pytest.mark.parametrize("kind", RANKERS)
@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_and_ranker(cause: str, kind: str) -> None:
    ranking = ranked(cause, kind)
    assert ranking.ids == ["c", "a", "b"]
    last = ranking[2]
    assert (last.score, last.relevance, last.imputed) == (None, None, {})
    assert last.missing
    assert all(score is None for score in last.scores.values())
    assert all(hit.score is not None and not hit.missing for hit in ranking[:2])
    assert ranking.partial == (cause == "deadline")
    assert ranking.was_judged


@pytest.mark.parametrize("kind", ["sum", "ranks", "assessor", "criteria", "packed", "direct"])
@pytest.mark.parametrize("cause", CAUSES)
def test_a_constant_is_imputed_for_every_cause_and_ranker(cause: str, kind: str) -> None:
    """5 is between 4 and 8, with every ensemble."""
    ranking = ranked(cause, kind, constant=True)
    assert ranking.ids == ["c", "b", "a"]
    assert ranking[1].relevance == 0.5
    assert set(ranking[1].imputed.values()) == {5.0}
    assert all(not hit.imputed for hit in (ranking[0], ranking[2]))


Shown = tuple[list[str], float | None, float | None]
"""Ids best first, the number of the passage that is lost, and what was imputed for one judge."""


def of_hits(ranking: Ranking) -> Shown:
    (hit,) = [each for each in ranking if each.doc_id == "b"]
    assert (hit.score is None) == (hit.relevance is None)
    return ranking.ids, hit.score, hit.imputed.get("Ann")


def read_again(ranking: Ranking) -> Shown:
    again = Ranking.from_dict(json.loads(ranking.to_json()))
    assert again.to_dict() == ranking.to_dict()
    return of_hits(again)


def combined_again(ranking: Ranking) -> Shown:
    return of_hits(ranking.reensemble("rrf").reensemble("sum"))


def of_a_run(ranking: Ranking, folder: Path) -> Shown:
    """A run has a number for every document: a lower one for those without."""
    (folder / "run.trec").write_text(ranking.to_trec())
    listed = read_trec(folder / "run.trec")["q"]
    numbers = dict(listed)
    below = numbers["b"] < min(numbers["a"], numbers["c"])
    imputed = ranking[1].imputed.get("Ann")
    return [doc_id for doc_id, _ in listed], None if below else numbers["b"], imputed


FORMS: tuple[Callable[[Ranking], Shown], ...] = (of_hits, read_again, combined_again)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cause", CAUSES)
def test_every_form(cause: str, form: Callable[[Ranking], Shown]) -> None:
    assert form(ranked(cause)) == (["c", "a", "b"], None, None)
    # Two judges give 5 each.
    assert form(ranked(cause, constant=True)) == (["c", "b", "a"], 10.0, 5.0)


@pytest.mark.parametrize("cause", CAUSES)
def test_a_trec_run(cause: str, tmp_path: Path) -> None:
    assert of_a_run(ranked(cause), tmp_path) == (["c", "a", "b"], None, None)
    assert of_a_run(ranked(cause, constant=True), tmp_path) == (["c", "b", "a"], 10.0, 5.0)


@pytest.mark.parametrize("cause", CAUSES)
def test_the_service(cause: str) -> None:
    ranking = ranked(cause)
    scored = scores_of(ranking, "falling")
    # The lowest stands in.
    assert (scored.scores, scored.unscored) == ([0.8, 0.4, 0.4], 1)
    assert scores_of(ranking, "null").scores == [0.8, 0.4, None]
    assert scored.warnings == ("1 document was not scored: the lowest score is used",)
    assert meta_of(ranking, scored, scored.warnings)["unscored"] == 1
    assert headers_of("id", ranking, scored.unscored, scored.warnings)["X-Unscored"] == "1"
    constant = ranked(cause, constant=True)
    assert scores_of(constant, "falling")[:3] == ([0.8, 0.5, 0.4], "absolute", 0)
    assert "2 of 6 scores are missing; 5 is imputed" in warnings_of(constant, 0)


def test_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def score(request: ChatRequest) -> str:
        known = [SCORES[text] for text in SCORES if text in request.messages[-1].content]
        return json.dumps({"Score": known[0]}) if known else "I cannot say."

    scripted(monkeypatch, tmp_path).answer = score
    docs = tmp_path / "docs.json"
    docs.write_text(json.dumps([{"id": name, "text": text} for name, text in DOCS.items()]))
    options = ["--ranker", "direct", "--docs", str(docs), "-o", "query_id=q", "--ledger", "none"]
    for more, ids, number in (
        ((), ["c", "a", "b"], None),
        (("-o", "missing_policy=constant", "-o", "missing_constant=5"), ["c", "b", "a"], 5.0),
    ):
        outputs = {
            output: invoke("rank", "masks", *options, *more, "--output", output)
            for output in ("json", "jsonl", "trec", "table")
        }
        assert {each.exit_code for each in outputs.values()} == {3}, outputs["json"].output
        ranking = json.loads(outputs["json"].stdout)["ranking"]
        lines = [json.loads(line) for line in outputs["jsonl"].stdout.splitlines()]
        for hits in (ranking["hits"], lines):
            assert [hit["doc_id"] for hit in hits] == ids
            (lost,) = [hit for hit in hits if hit["doc_id"] == "b"]
            assert (lost["score"], lost["relevance"]) == (number, number and 0.5)
            assert lost.get("imputed") == (number and {"DIRECT": 5.0})
        run = [line.split() for line in outputs["trec"].stdout.splitlines()]
        assert [line[2] for line in run] == ids
        assert [float(line[4]) for line in run] == sorted((float(x[4]) for x in run), reverse=True)
        (row,) = [line.split() for line in outputs["table"].stdout.splitlines() if " b " in line]
        assert row[2:4] == (["-", "2"] if number is None else ["5", "(5)"])
