"""Rankers on the first 100, by a simulated judge: nDCG@10, calls and tokens.

    python benchmarks/comparative.py                             # the mini collection
    python benchmarks/comparative.py --data FOLDER --queries 50  # any folder in BEIR's format

No model is asked. The judge knows the judgements and sees each passage's grade with two errors,
both normal, in shares of the highest grade: one of its own, which it always has of that passage,
and another in each call. Personas have errors of their own, of which a part can be the same for
all. It answers the prompts of all rankers; of what looks equal, it prefers what it was shown
first, and it can be made to prefer the first places anyway. It reads 20 passages as well as two,
which small models do not, unless its error in a call is made to grow with their number. What it
shows is how rankers deal with errors, and what they take; not how well any model ranks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import anyio

import beir_eval
from mcranker import (
    ChatReply,
    ChatRequest,
    DirectRanker,
    MCRanker,
    Passage,
    Query,
    Ranker,
    RankerConfig,
    RankGPTRanker,
    ScriptedChat,
    SetwiseRanker,
    Usage,
)
from mcranker.method.session import passage_text
from personas.format import counted
from personas.untrusted import marker, without_tokens

DEPTH, SEEDS = 100, 5
BUDGETS = (50, 100, 200, 400)
BYTES_A_TOKEN = 4
PERSONAS = ("Reader", "Expert", "Editor")
TEAM: Mapping[str, Any] = {"team": list(PERSONAS), "criteria": "none"}

_SHOWN = re.compile(r"^\[ ?(\w{1,3})\]\n<<<([0-9a-f]{8})$", re.MULTILINE)
_LETTER = re.compile(r"^[A-Z]$")


@dataclass(frozen=True)
class Errors:
    """Standard deviations of the judge's errors, in shares of the highest grade.

    Attributes:
        name: of the setting.
        own: of a passage, always the same.
        call: of a passage in a call.
        crowd: by what `call` is multiplied for each doubling of the passages shown beyond two.
        place: by what the first of the passages shown looks better than the last; evenly between.
        shared: share of the variance of `own` that is the same for all personas.
    """

    name: str
    own: float
    call: float
    crowd: float = 1.0
    place: float = 0.0
    shared: float = 0.0

    def of_call(self, shown: int) -> float:
        return self.call * self.crowd ** max(0.0, math.log2(shown / 2)) if shown > 1 else self.call


ERRORS = (
    Errors("none", 0, 0),
    Errors("0.25", 0.25, 0.25),
    Errors("0.5", 0.5, 0.5),
    Errors("0.25, growing", 0.25, 0.25, crowd=1.4),
    Errors("0.25, by place", 0.25, 0.25, place=0.5),
    Errors("0.25, shared", 0.25, 0.25, shared=0.75),
)


@dataclass
class Topic:
    """A query with its first stage and its judgements, and the marker of each passage."""

    query: Query
    docs: list[Passage]
    grades: Mapping[str, int]
    doc_of: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        config = RankerConfig()
        texts = {each.id: passage_text(each, each.text, config) for each in self.docs}
        self.doc_of = {
            marker(without_tokens(text), query=self.query.text): doc_id
            for doc_id, text in texts.items()
        }


class Judge:
    """Answers as if it knew the judgements, with errors; counts what it was asked.

    Args:
        topics: the queries.
        errors: how far it errs.
        seed: of the errors.
    """

    def __init__(self, topics: Sequence[Topic], errors: Errors, seed: int) -> None:
        self._topics = {topic.query.id: topic for topic in topics}
        self._errors = errors
        self._seed = seed
        self._top = max(grade for topic in topics for grade in topic.grades.values())
        self._own: dict[tuple[str, str], dict[str, float]] = {}
        self.calls = 0
        self.tokens = 0
        self.model = ScriptedChat(self._answer, name="simulated")

    def _answer(self, request: ChatRequest) -> ChatReply:
        prompt = request.messages[-1].content
        tokens = math.ceil(len(prompt.encode()) / BYTES_A_TOKEN)
        self.calls += 1
        self.tokens += tokens
        topic = self._topics[request.tag.query_id]
        own = self._seen(topic, request.tag.persona)
        shown = _SHOWN.findall(prompt)
        docs = [topic.doc_of[token] for _, token in shown] or [request.tag.doc_id]
        draw = random.Random(f"{self._seed} {hashlib.sha256(prompt.encode()).hexdigest()}")
        deviation = self._top * self._errors.of_call(len(docs))
        step = self._top * self._errors.place / max(1, len(docs) - 1)
        seen = [
            own[doc_id] + draw.gauss(0, deviation) - place * step
            for place, doc_id in enumerate(docs)
        ]
        best_first = sorted(range(len(docs)), key=lambda place: -seen[place])
        if not shown:
            score = min(10, max(0, round(10 * seen[0] / self._top)))
            text = json.dumps({"Score": score})
        elif _LETTER.match(shown[0][0]):
            text = shown[best_first[0]][0]
        else:
            text = " > ".join(f"[{shown[place][0]}]" for place in best_first)
        return ChatReply(text, usage=Usage(calls=1, input_tokens=tokens, output_tokens=1))

    def _seen(self, topic: Topic, persona: str) -> Mapping[str, float]:
        """Return the persona's fixed view of each passage."""
        key = (topic.query.id, persona)
        if key not in self._own:
            deviation = self._top * self._errors.own
            drawn = [
                (draw, deviation * math.sqrt(share))
                for draw, share in (
                    (random.Random(f"{self._seed} {topic.query.id}"), self._errors.shared),
                    (random.Random(f"{self._seed} {key!r}"), 1 - self._errors.shared),
                )
            ]
            self._own[key] = {
                each.id: max(0, topic.grades.get(each.id, 0))
                + sum(draw.gauss(0, each_deviation) for draw, each_deviation in drawn)
                for each in topic.docs
            }
        return self._own[key]


Make = Callable[[ScriptedChat], Ranker]


def contenders() -> dict[str, Make]:
    """Configuration -> what makes the ranker for a model."""
    made: dict[str, Make] = {}

    def add(
        name: str, kind: Callable[..., Ranker], *, by_team: bool = False, **options: Any
    ) -> None:
        shown = ", ".join(f"{key}={value}" for key, value in options.items())
        judges = f", {len(PERSONAS)} personas" if by_team else ""
        made[f"{name}({shown}){judges}"] = partial(
            _with_model, kind, {**options, **(TEAM if by_team else {})}
        )

    for window, step, passes in (
        *((20, 10, 1), (20, 10, 2), (10, 5, 1), (10, 5, 2), (5, 3, 1), (5, 3, 3)),
    ):
        add("rankgpt", RankGPTRanker, window=window, step=step, passes=passes)
    for children in (3, 9):
        add("setwise", SetwiseRanker, children=children, ranks=10)
    add("setwise", SetwiseRanker, children=3, ranks=10, sort="bubble")
    for ranks in (1, 2):
        add("setwise", SetwiseRanker, children=1, ranks=ranks, sort="bubble")
    add("setwise", SetwiseRanker, children=1, ranks=10)
    made["direct"] = partial(_with_model, DirectRanker, {})
    for ensemble in ("rrf", "reciprocal_rank", "sum"):
        for window, step in ((20, 10), (10, 5), (5, 3)):
            shown: dict[str, Any] = {"window": window, "step": step, "ensemble": ensemble}
            add("rankgpt", RankGPTRanker, by_team=True, **shown)
        add("setwise", SetwiseRanker, by_team=True, children=3, ensemble=ensemble)
    made[f"mcranker, {len(PERSONAS)} personas"] = partial(_with_model, MCRanker, TEAM)
    return made


def _with_model(
    kind: Callable[..., Ranker], options: Mapping[str, Any], chat: ScriptedChat
) -> Ranker:
    return kind(model=chat, ledger=None, **options)


@dataclass(frozen=True)
class Found:
    """Of one configuration: calls and tokens of prompts a query, and nDCG@10 of each seed."""

    calls: float
    most_calls: int
    tokens: float
    ndcg: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.ndcg)


def measured(make: Make, topics: Sequence[Topic], errors: Errors, seeds: int) -> Found:
    """Ranks all queries, once a seed, or once if there is no error to be drawn."""
    calls: list[int] = []
    tokens, values = 0, []

    async def run_of(judge: Judge) -> dict[str, list[tuple[str, float]]]:
        run = {}
        async with make(judge.model) as ranker:
            for topic in topics:
                before = judge.calls
                ranking = await ranker.arank(topic.query, topic.docs)
                calls.append(judge.calls - before)
                run[topic.query.id] = [(doc_id, 0.0) for doc_id in ranking.ids]
        return run

    for seed in range(seeds if errors.own or errors.call else 1):
        judge = Judge(topics, errors, seed)
        values.append(ndcg(anyio.run(run_of, judge), topics))
        tokens += judge.tokens
    return Found(fmean(calls), max(calls), tokens / len(calls), tuple(values))


def ndcg(run: Mapping[str, Sequence[tuple[str, float]]], topics: Sequence[Topic]) -> float:
    qrels = {topic.query.id: dict(topic.grades) for topic in topics}
    return beir_eval.evaluate(run, qrels).means["nDCG@10"]


def load_topics(data: str, queries: int | None) -> list[Topic]:
    """The judged queries with the first `DEPTH` of BM25."""
    dataset = beir_eval.load(data)
    judged = [each for each in dataset.queries if any(dataset.qrels.get(each, {}).values())]
    run = beir_eval.retrieve(dataset, DEPTH)
    topics = []
    for query_id in judged[:queries]:
        docs = [
            Passage(doc_id, dataset.corpus[doc_id].text, dataset.corpus[doc_id].title, score)
            for doc_id, score in run[query_id]
        ]
        query = Query(dataset.queries[query_id], query_id)
        topics.append(Topic(query, docs, dataset.qrels[query_id]))
    return topics


def tables(data: str, topics: Sequence[Topic], seeds: int) -> str:
    """All configurations, and the best of each budget."""
    made = contenders()
    found = {
        (name, errors.name): measured(make, topics, errors, seeds)
        for errors in ERRORS
        for name, make in made.items()
    }
    first = ndcg({each.query.id: [(doc.id, 0.0) for doc in each.docs] for each in topics}, topics)
    ideal = ndcg(
        {
            each.query.id: [
                (doc.id, 0.0)
                for doc in sorted(each.docs, key=lambda doc: -each.grades.get(doc.id, 0))
            ]
            for each in topics
        },
        topics,
    )
    name = Path(data).name
    heads = ["simulated judge, errors:", "calls a query", "thousand prompt tokens"]
    heads += [f"{errors.name}" for errors in ERRORS]
    rows = []
    for contender in made:
        each = [found[contender, errors.name] for errors in ERRORS]
        low, high = min(one.calls for one in each), max(one.calls for one in each)
        calls = f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"
        spread = [
            f"{one.mean:.3f}" + (f" ± {pstdev(one.ndcg):.3f}" if len(one.ndcg) > 1 else "")
            for one in each
        ]
        rows.append([contender, calls, f"{fmean(one.tokens for one in each) / 1000:.1f}", *spread])
    text = (
        f"Simulated judge, mean ± standard deviation of {seeds} seeds. {name}: "
        f"{counted(len(topics), 'query', 'queries')}, top {DEPTH} of BM25 (nDCG@10 {first:.3f}; "
        f"the best order of these passages {ideal:.3f}).\n\n{table(heads, rows)}\n"
    )
    heads = ["simulated judge, calls a query", *(f"errors {errors.name}" for errors in ERRORS)]
    rows = []
    for budget in BUDGETS:
        row = [f"at most {budget}"]
        for errors in ERRORS:
            within = {
                contender: found[contender, errors.name]
                for contender in made
                if found[contender, errors.name].most_calls <= budget
            }
            best = max(within, key=lambda each: within[each].mean)
            row.append(f"{best}: {within[best].mean:.3f}, {within[best].calls:.0f} calls")
        rows.append(row)
    return text + table(heads, rows)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--data", default="mini", help="a name or a folder, as beir-eval takes it")
    parser.add_argument("--queries", type=int, help="only the first N judged ones")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    arguments = parser.parse_args()
    started = time.perf_counter()
    topics = load_topics(arguments.data, arguments.queries)
    text = tables(arguments.data, topics, arguments.seeds)
    print(f"{text}\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
