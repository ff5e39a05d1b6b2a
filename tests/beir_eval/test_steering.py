"""Steering: the collection, and how far a judge that keeps the rule of the prompts is steered."""

from __future__ import annotations

import asyncio
import json
import random
import re
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from beir_eval import load
from beir_eval.cli.group import cli
from beir_eval.steering import COLLECTION, PLAIN, Steered, steer, wishes
from mcranker import ChatRequest, ScriptedChat

_PASSAGE = re.compile(r"Passage \d+:\n<<<\w+\n(.+?)\n\w+>>>", re.DOTALL)
_WEIGHT = re.compile(r"^\d+\. (.+) \(weight (\d+)%\)", re.MULTILINE)


@cache
def grades() -> dict[tuple[str, str], tuple[int, bool]]:
    """Query and passage, as prompts show them -> relevance, and whether it has what is wanted."""
    relevance, wanted = load(COLLECTION), load(COLLECTION, split="wanted")
    known = {}
    for query, judged in relevance.qrels.items():
        for doc, grade in judged.items():
            shown = f"{relevance.corpus[doc].title}\n{relevance.corpus[doc].text}"
            known[relevance.queries[query], shown] = grade, wanted.qrels[query][doc] > 0
    return known


def simulated(error: float, seed: int = 1) -> ScriptedChat:
    """A judge that knows the grades but for errors of this deviation, and keeps the rule."""
    rng = random.Random(seed)
    sentences = {wish.sentence for wish in wishes()}

    def answer(request: ChatRequest) -> str:
        text = request.messages[0].content
        asked = text.partition("Query: <<<")[2].partition("Passage 1:")[0]
        query, _, about = asked.partition(">>>")
        judges = re.split(r"^Judge \d+: ", about, flags=re.MULTILINE)[1:]
        scores = {}
        for number, passage in enumerate(_PASSAGE.findall(text), start=1):
            grade, has = grades()[query, passage]
            row = []
            for judge in judges or [about]:
                score = 10 * grade / 3 + rng.gauss(0, error)
                score -= sum(
                    4 * int(weight) / 100
                    for name, weight in _WEIGHT.findall(judge)
                    if name in sentences and not has
                )
                row.append(min(10, max(0, round(score))))
            scores[str(number)] = row if len(row) > 1 else row[0]
        return json.dumps(scores)

    return ScriptedChat(answer, name="simulated")


def steered(error: float) -> dict[str, Steered]:
    options = {"model": simulated(error), "ledger": None, "passages_per_call": 10}
    return {row.label: row for row in asyncio.run(steer(options))}


def test_what_is_wanted_rises_with_its_weight_and_relevance_holds() -> None:
    rows = steered(1.5)
    wanted = [of.wanted.by_lot or 0 for of in rows.values()]
    plain, instructed, by_20, by_50, by_80, in_team = wanted
    assert plain < by_20 < by_50 < by_80
    assert plain < instructed < by_80
    assert plain < in_team
    relevance = [of.relevance.by_lot or 0 for of in rows.values()]
    assert min(relevance) > relevance[0] - 0.05
    assert [row.against[1] is None for row in rows.values()] == [True, *[False] * 5]


def test_a_score_that_did_not_come_is_counted_once() -> None:
    good, lost = simulated(0.0), next(iter(load(COLLECTION).corpus.values())).title

    async def answer(request: ChatRequest) -> str:
        scores = json.loads((await good.complete(request)).text)
        titles = [each.partition("\n")[0] for each in _PASSAGE.findall(request.messages[0].content)]
        return json.dumps({n: 99 if titles[int(n) - 1] == lost else x for n, x in scores.items()})

    options = {"model": ScriptedChat(answer), "ledger": None, "passages_per_call": 10}
    plain = asyncio.run(steer(options))[0].relevance
    assert plain.asked == 400
    assert plain.missing == 1
    assert any("missing" in flaw.said for flaw in plain.flaws())


def test_the_collection_is_judged_in_full_and_each_wish_can_be_met() -> None:
    relevance, wanted = load(COLLECTION), load(COLLECTION, split="wanted")
    assert [len(wish.queries) for wish in wishes()] == [5, 5, 5, 5]
    for query, judged in relevance.qrels.items():
        assert len(judged) == 20
        having = [doc for doc, grade in wanted.qrels[query].items() if grade]
        assert all(wanted.qrels[query][doc] == judged[doc] for doc in having)
        assert 3 <= len(having) <= sum(grade > 0 for grade in judged.values()) - 3


def test_the_command_says_so_and_its_page_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tuple(steered(0.0).values())

    async def known(options: object, note: object) -> tuple[Steered, ...]:
        return rows

    monkeypatch.setattr("beir_eval.cli.steer.steer", known)
    model = ["--base-url", "http://127.0.0.1:1/v1", "--model", "openai:m"]
    made = CliRunner().invoke(cli, ["steer", *model, "-q", "--output", "json"])
    record = json.loads(made.stdout)["steering"]
    assert record["rows"][0]["label"] == PLAIN
    assert record["rows"][4]["wanted"]["mean"] > record["rows"][0]["wanted"]["mean"]
    page = tmp_path / "steer.html"
    assert CliRunner().invoke(cli, ["steer", *model, "-q", "--html", str(page)]).exit_code == 0
    text = page.read_text("utf-8")
    assert "a reader, 80%" in text
    assert "Studies of people count for more" in text
