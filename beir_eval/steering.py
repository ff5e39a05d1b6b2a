"""Steering: does a criterion in a person's words raise what it asks for, and does relevance hold?

The collection ``steer`` has 20 queries with 20 passages each. Of each passage two readers said how
relevant it is, 0 to 3, and whether it has what this query's sentence asks for: people rather than
animals, experiments rather than theory, or the other way round.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from beir_eval.data.load import load
from beir_eval.measures import ties
from beir_eval.measures.ties import Tied, missing_bounds
from beir_eval.measures.values import Comparison, Values, compare_runs
from mcranker import DirectRanker, MCRanker, Passage, Query, Ranker, Ranking
from mcranker.method.annotator import INSTRUCTION_SHARE
from personas import Criterion, Member, Persona, Rubric, Team, library

COLLECTION = "steer"
MEASURE = "nDCG@10"
PLAIN = "DIRECT"
TOPIC = "Relevance to the query"
SHARES = (20, 50, 80)
"""Percent of the rubric that the sentence has."""
_PEOPLE = {
    "people": "clinician",
    "animals": "researcher of animal models",
    "experiment": "test engineer",
    "theory": "theorist",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """A sentence that a person wrote, and the queries to which it goes."""

    wanted: str
    sentence: str
    queries: tuple[Query, ...]

    def rubric(self, share: float) -> Rubric:
        """Relevance, and the sentence with `share` percent."""
        topic = Criterion(name=TOPIC, weight=100 - share)
        return Rubric(criteria=(topic, Criterion(name=self.sentence, weight=share)))

    def team(self) -> Team:
        """The NLP scientist, a reader, and one persona who asks for it."""
        reader = Member(
            persona=Persona(name="careful reader"),
            rubric=Rubric(criteria=(Criterion(name=TOPIC),)),
        )
        asks = Member(persona=Persona(name=_PEOPLE[self.wanted]), rubric=self.rubric(SHARES[1]))
        return Team(members=(library.member("NLP scientist"), reader, asks))


@dataclass(frozen=True, slots=True)
class Steered:
    """A way to ask, measured twice: by relevance, and by what the sentence asks for."""

    label: str
    share: float  # percent of the judge's rubric, 0 to 100
    relevance: Values
    wanted: Values
    against: tuple[Comparison, Comparison] | None = None  # DIRECT: relevance, wanted

    def record(self) -> dict[str, Any]:
        """The row as JSON has it."""
        both = {"relevance": self.relevance, "wanted": self.wanted}
        return {
            "label": self.label,
            "share": self.share,
            **{name: {"nDCG@10": of.by_lot, "of": of.fair} for name, of in both.items()},
            "p": [each.p_adjusted for each in self.against] if self.against else None,
            "flaws": [flaw.said for flaw in self.relevance.flaws()],
        }


def wishes() -> tuple[Wish, ...]:
    """The sentences, with their queries."""
    found: dict[str, Wish] = {}
    file = resources.files("beir_eval") / "collections" / COLLECTION / "queries.jsonl"
    for record in map(json.loads, file.read_text("utf-8").splitlines()):
        about, query = record["metadata"], Query(record["text"], record["_id"])
        known = found.get(about["wanted"], Wish(**about, queries=()))
        found[known.wanted] = Wish(known.wanted, known.sentence, (*known.queries, query))
    return tuple(found.values())


def ways(wish: Wish, options: Mapping[str, Any], *, criteria: bool) -> dict[str, Ranker]:
    """Label -> ranker of this sentence; without `criteria` those that an encoder can serve."""
    found: dict[str, Ranker] = {
        PLAIN: DirectRanker(**options),
        "DIRECT, instruction": DirectRanker(**options, instruction=wish.sentence),
    }
    if not criteria:
        return found
    for share in SHARES:
        judge = Member(persona=Persona(name="careful reader"), rubric=wish.rubric(share))
        found[f"a reader, {share}%"] = MCRanker(**options, team=Team(members=(judge,)))
    found["one of three"] = MCRanker(**options, team=wish.team())
    return found


def share_of(label: str) -> float:
    """Percent of the judge's rubric that the sentence has."""
    shares = {PLAIN: 0.0, "DIRECT, instruction": INSTRUCTION_SHARE}
    shares |= {f"a reader, {share}%": float(share) for share in SHARES}
    return shares.get(label, SHARES[1] / 3)


async def steer(options: Mapping[str, Any], *, criteria: bool = True) -> tuple[Steered, ...]:
    """Rank the collection in every way, and measure it; `options` go to all rankers."""
    dataset = load(COLLECTION)
    rankings: dict[str, list[Ranking]] = {}
    for wish in wishes():
        for label, ranker in ways(wish, options, criteria=criteria).items():
            async with ranker:
                calls = []
                for query in wish.queries:
                    texts = [dataset.corpus[each] for each in dataset.qrels[query.id]]
                    docs = [Passage(each.id, each.text, each.title) for each in texts]
                    calls.append(ranker.arank(query, docs))
                rankings.setdefault(label, []).extend(await asyncio.gather(*calls))
    return measured(rankings)


def measured(rankings: Mapping[str, Sequence[Ranking]]) -> tuple[Steered, ...]:
    """The ways, by relevance and by what was wanted, each against DIRECT."""
    found = {
        split: {label: _values(each, split) for label, each in rankings.items()}
        for split in ("test", "wanted")
    }
    tested = compare_runs(found, PLAIN)
    return tuple(
        Steered(
            label,
            share_of(label),
            found["test"][label],
            found["wanted"][label],
            (tested["test"][label], tested["wanted"][label]) if label != PLAIN else None,
        )
        for label in rankings
    )


def _values(rankings: Sequence[Ranking], split: str) -> Values:
    qrels = load(COLLECTION, split=split).qrels
    tied = {each.query.id: Tied.of_ranking(each) for each in rankings}
    metrics = ties.measured({each.query.id: each.run for each in rankings}, tied, qrels, [MEASURE])
    return Values(
        metrics.per_query[MEASURE],
        MEASURE,
        lots=metrics.by_lot[MEASURE],
        open=missing_bounds(rankings, qrels, MEASURE),
        missing=sum(len(each.missing) for each in rankings),
        asked=sum(len(hit.scores) + len(hit.missing) for each in rankings for hit in each),
        scale=(0.0, 1.0),
    )
