"""Steering: does a criterion in a person's words raise what it asks for, and does relevance hold?

The collection ``steer`` has 20 queries with 20 passages each. Of each passage two readers, large
models, said how relevant it is, 0 to 3, and whether it has what this query's sentence asks for:
people rather than animals, experiments rather than theory, or the other way round.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

from beir_eval.data.load import load
from beir_eval.experiment.run_folder import FigureNote
from beir_eval.measures import ties
from beir_eval.measures.ties import Tied, missing_bounds
from beir_eval.measures.values import Comparison, Values, compare_runs
from beir_eval.report.figures import render_svg
from beir_eval.report.forms import environment_of_reports
from beir_eval.report.model import Figure
from beir_eval.report.tables import NOTHING, Entry, Table, measure_text, p_text
from mcranker import DirectRanker, MCRanker, Passage, Query, Ranker, Ranking
from mcranker.llm.limits.budget import Budget
from personas import Criterion, Member, Persona, Rubric, Team, library
from personas.format import signed
from personas.report.formats import printable
from personas.report.page import NO_FOOTER, ReportFooter

COLLECTION = "steer"
MEASURE = "nDCG@10"
PLAIN = "DIRECT"
TOPIC = "Relevance to the query"
INSTRUCTED, IN_TEAM = "DIRECT, instruction", "one of three"
SHARES = {20: "a reader, 20%", 50: "a reader, 50%", 80: "a reader, 80%"}
"""Percent of the rubric that the sentence has, and its label."""
GOALS = {"relevance": "relevance", "wanted": "relevance with what is wanted"}
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
        asks = Member(persona=Persona(name=_PEOPLE[self.wanted]), rubric=self.rubric(50))
        return Team(members=(library.nlp_scientist(), reader, asks))


@dataclass(frozen=True, slots=True)
class Steered:
    """A way to ask, measured twice: by relevance, and by what the sentence asks for."""

    label: str
    relevance: Values
    wanted: Values
    against: tuple[Comparison | None, ...]  # DIRECT: by relevance, and by what is wanted

    def cells(self) -> Iterator[str]:
        """Mean, difference and p, by relevance and by what is wanted."""
        for of, found in zip((self.relevance, self.wanted), self.against, strict=True):
            yield measure_text(of.by_lot)
            yield NOTHING if found is None else signed(found.difference, 3)
            yield NOTHING if found is None else p_text(found.p_adjusted)

    def record(self) -> dict[str, Any]:
        """The row as JSON has it."""
        record: dict[str, Any] = {"label": self.label}
        for goal, found in zip(GOALS, self.against, strict=True):
            of: Values = getattr(self, goal)
            record[goal] = {"mean": of.by_lot, "compared": found and asdict(found), "of": of.fair}
        return record


def wishes() -> tuple[Wish, ...]:
    """The sentences, with their queries."""
    found: dict[str, Wish] = {}
    file = resources.files("beir_eval") / "collections" / COLLECTION / "queries.jsonl"
    for record in map(json.loads, file.read_text("utf-8").splitlines()):
        about, query = record["metadata"], Query(record["text"], record["_id"])
        known = found.get(about["wanted"], Wish(**about, queries=()))
        found[known.wanted] = Wish(known.wanted, known.sentence, (*known.queries, query))
    return tuple(found.values())


def ways(wish: Wish, options: Mapping[str, Any]) -> dict[str, Ranker]:
    """Label -> ranker of this sentence; a judge that does not read criteria has the first two."""
    plain = DirectRanker(**options)
    found: dict[str, Ranker] = {
        PLAIN: plain,
        INSTRUCTED: DirectRanker(**options, instruction=wish.sentence),
    }
    if plain.models.scoring.capabilities.prompts:
        for share, label in SHARES.items():
            judge = Member(persona=Persona(name="careful reader"), rubric=wish.rubric(share))
            found[label] = MCRanker(**options, team=Team(members=(judge,)))
        found[IN_TEAM] = MCRanker(**options, team=wish.team())
    return found


def work(wish: Wish) -> list[tuple[Query, list[Passage]]]:
    """The queries of a sentence, with their passages."""
    dataset = load(COLLECTION)
    found = []
    for query in wish.queries:
        texts = [dataset.corpus[each] for each in dataset.qrels[query.id]]
        found.append((query, [Passage(each.id, each.text, each.title) for each in texts]))
    return found


async def steer(
    options: Mapping[str, Any], note: Callable[[Ranking], object] = lambda ranking: None
) -> tuple[Steered, ...]:
    """Rank the collection in every way, and measure it; `options` go to all rankers."""
    rankings: dict[str, list[Ranking]] = {}
    options = {**options}
    budget = Budget(**{name: options.pop(name, None) for name in ("max_calls", "max_cost")})
    for wish in wishes():
        for label, ranker in ways(wish, options).items():
            async with ranker:
                async for ranked in ranker.within(budget).arank_many(work(wish)):
                    rankings.setdefault(label, []).append(ranking := ranked.result())
                    note(ranking)
    return measured(rankings)


def measured(rankings: Mapping[str, Sequence[Ranking]]) -> tuple[Steered, ...]:
    """The ways, by relevance and by what was wanted, each against DIRECT."""
    found = {
        split: {label: _values(each, split) for label, each in rankings.items()}
        for split in ("test", "wanted")
    }
    tested = compare_runs(found, PLAIN)
    return tuple(
        Steered(label, of, found["wanted"][label], tuple(tested[x].get(label) for x in found))
        for label, of in found["test"].items()
    )


def render(rows: Sequence[Steered], judge: str, *, footer: ReportFooter = NO_FOOTER) -> str:
    """The page: a figure, and a table with the tests."""
    lines = tuple(
        (name, tuple((row.label, getattr(row, of)) for row in rows)) for of, name in GOALS.items()
    )
    figure = Figure(FigureNote(title=f"Steered by one sentence: {judge}"), lines)
    table = Table(
        "Means over queries, ties by lot",
        ("way to ask", *(f"{name}{end}" for name in GOALS.values() for end in ("", " ±", " p"))),
        tuple((Entry(row.label), *map(Entry, row.cells())) for row in rows),
        note="±: difference from DIRECT; p: paired t-test, corrected by Holm.",
    )
    page = environment_of_reports().get_template("templates/steering.html")
    return printable(
        page.render(
            svg=render_svg(figure, measure=MEASURE, embedded=True),
            table=table,
            judge=judge,
            wishes=wishes(),
            flaws=flaws(rows),
            footer=footer,
        )
    )


def flaws(rows: Sequence[Steered]) -> list[str]:
    """Sentences on the flaws of the values."""
    return [f"{row.label}: {flaw.said}." for row in rows for flaw in row.relevance.flaws()]


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
        asked=sum(len(hit.scores) for each in rankings for hit in each),
        scale=(0.0, 1.0),
    )
