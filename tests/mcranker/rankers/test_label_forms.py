"""Rankers by log-probabilities over HTTP: each server's form, the label first, later or nowhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mcranker import DirectRanker, Hit, SetwiseRanker
from mcranker.llm.providers.openai_chat import CompatibleChat
from mcranker.rankers.likelihood import PYesRanker, RankRAGRanker, RGSRanker, RGYNRanker
from tests.support.loopback import Body, completion, serve_in_thread

Step = tuple[str, dict[str, float]]
"""The token that was written, and the probability of each that is listed."""


def openai(steps: Sequence[Step]) -> Body:
    def entry(token: str, p: float) -> Body:
        return {"token": token, "logprob": math.log(p), "bytes": [*token.encode()]}

    content = [
        entry(said, listed[said]) | {"top_logprobs": [entry(*each) for each in listed.items()]}
        for said, listed in steps
    ]
    return completion("7", logprobs={"content": content, "refusal": None})


def vllm(steps: Sequence[Step]) -> Body:
    """Tokens by their numbers with the texts in bytes; what is not possible is -9999."""
    data = openai(steps)
    for position in data["choices"][0]["logprobs"]["content"]:
        for each in position["top_logprobs"]:
            each["token"] = f"token_id:{each['bytes'][0]}"
        position["top_logprobs"].append({"token": "<pad>", "logprob": -9999.0, "bytes": None})
    return data


def completions(steps: Sequence[Step]) -> Body:
    tops = [{text: math.log(p) for text, p in listed.items()} for _, listed in steps]
    tokens = [said for said, _ in steps]
    logprobs = {"tokens": tokens, "token_logprobs": [None] * len(steps), "top_logprobs": tops}
    return completion("7", logprobs=logprobs)


FORMS = [openai, vllm, completions]


def later(label: Step, *before: str) -> list[Step]:
    """The label behind other tokens, each with the labels in the tail."""
    noise = {text: math.exp(-12 - place) for place, text in enumerate(label[1])}
    return [*((text, noise | {text: 0.9}) for text in before), label]


PLACES: dict[str, Callable[[Step], list[Step]]] = {
    "first": lambda label: [label],
    "blank": lambda label: later(label, "\u2581"),
    "bold": lambda label: later(label, "**"),
    "key": lambda label: later(label, '{"', "score", '":', " "),
    "thoughts": lambda label: later(label, "<think>", "7", " Yes", " A", "</think>", "\n\n"),
    "nowhere": lambda label: later(label, "<think>")[:1],
    "prose": lambda label: later(label, "There", " are", " about"),
    "an object": lambda label: later(label, '{"')[:1],
}

WITHOUT = ("nowhere", "prose", "an object")

# 2 · 0.2 + 7 · 0.6, of 0.8
EXPECTED = ({"\uff17": 0.3, "\u25817": 0.2, "<0x37>": 0.1, " 2": 0.2}, "\uff17", 5.75)
FOUR = ({"4": 0.6, "\u01201": 0.2}, "4", 3.25)  # (4 · 0.6 + 0.2) / 0.8
YES = ({" Yes": 0.5, "yes": 0.1, "No": 0.2}, " Yes", 0.75)  # 0.6 / 0.8
RAW = ({" Yes": 0.5, "yes": 0.1, "No": 0.2}, " Yes", 0.6)
TRUE = ({"True": 0.5, "False": 0.2}, "True", 0.5)
RANKERS: dict[str, tuple[Callable[..., Any], tuple[dict[str, float], str, float]]] = {
    "expected": (lambda **rest: DirectRanker(scoring="expected", **rest), EXPECTED),
    "rg_s": (RGSRanker, FOUR),
    "rg_yn": (RGYNRanker, YES),
    "p_yes": (PYesRanker, RAW),
    "rankrag": (RankRAGRanker, TRUE),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RANKERS)
def test_a_score_is_read_where_the_label_stands(name: str, form: Callable[..., Body]) -> None:
    kind, (listed, said, score) = RANKERS[name]
    docs = {place: f"the passage {place}" for place in PLACES}

    def answer(body: Body) -> Body:
        (place,) = (each for each in PLACES if f"the passage {each}" in str(body["messages"]))
        return form(PLACES[place]((said, listed)))

    with serve_in_thread(answer) as server:
        model = CompatibleChat("m", base_url=server.url, api_key="k")
        with kind(model=model, ledger=None) as ranker:
            hits: dict[str, Hit] = {hit.doc_id: hit for hit in ranker.rank("q", docs).hits}
    for place, hit in hits.items():
        assert bool(hit.missing) == (place in WITHOUT), place
        assert place in WITHOUT or hit.score == pytest.approx(score), place


@pytest.mark.parametrize("form", FORMS)
def test_a_choice_is_read_where_the_letter_stands(form: Callable[..., Body]) -> None:
    places = iter(PLACES.values())
    label = ("\u0120B", {"\u0120B": 0.6, "A": 0.3})
    with serve_in_thread(lambda _: form(next(places)(label))) as server:
        model = CompatibleChat("m", base_url=server.url, api_key="k")
        with SetwiseRanker(model=model, ledger=None, on_failure="keep_order") as ranker:
            for place in PLACES:
                ids = ranker.rank("q", {"a": "bread", "b": "masks"}).ids
                assert ids == (["a", "b"] if place in WITHOUT else ["b", "a"]), place
