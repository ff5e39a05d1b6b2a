"""Surveys of any size, made up but consistent, with plain or hostile texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import log2

from personas import Criterion, Member, Persona, Rubric
from personas.provenance import Hand, Provenance
from personas.survey.model import CASE_KINDS, Case, QueryFigures, Survey
from personas.survey.query import Judge, LeftOut, QueryFindings
from personas.survey.surveyor import Surveyor

HOSTILE = (
    "<script>alert(1)</script>",
    "</style></script></title></bdi></table><img src=x onerror=alert(1)>",
    "\"' onmouseover='alert(1)' x=\"",
    "{{ 7 * 7 }}{% raise %}",
    "&lt;b&gt; &amp;amp; <!-- --> <![CDATA[ ]]>",
    "javascript:alert(1)",
    "../../etc/passwd#passage-1?x=y",
    "\u202eright to left \u2067 and not back",
    "\u2069\u2069\u2069 early \u202c end",
    "عربي and עברית",
    "W" * 5000,
    "👩‍🚀🏳️‍🌈 family 👨‍👩‍👧‍👦 " * 40,
    "null \x00 bell \x07 escape \x1b[31m",
    "half a pair \ud800 and \udfff",
    "a > b & c < d > e & f " * 30,
    " \n\t ",
    "",
)

_WHO = (
    *("Virologist", "Worried parent", "Marine biologist", "Medical librarian"),
    *("Clinical researcher", "Science journalist", "Patient with the condition"),
    *("Biostatistician", "Public health official", "Molecular geneticist"),
    *("Nutrition scientist", "General practitioner"),
)
_FIELDS = ("", " in training", " from a small clinic", " who reviews grants", " of long standing")
_SUBJECTS = (
    "vitamin D deficiency and bone density in older adults",
    "masks against airborne infections",
    "microRNA in the regulation of cell growth",
    "statins after a first heart attack",
    "does coffee raise the risk of stroke",
    "gut bacteria and mood disorders",
    "zinc for the common cold",
    "how long immunity lasts after vaccination",
)
_CRITERIA = (
    *("Directness of the answer", "Quality of the evidence", "Right population"),
    *("Study design", "Recency", "Clarity for lay readers", "Statistical soundness"),
    *("Names a mechanism", "Practical use"),
)


def make_survey(
    queries: int = 20,
    *,
    seed: int = 1,
    texts: Sequence[str] = (),
    judged: bool = True,
    other: str = "DIRECT(0,10)",
    recruits: int = 2,
    failed_every: int = 13,
    cases: int = 10,
    most_personas: int = 1000,
) -> Survey:
    """A survey that could have been; the same arguments give the same.

    `texts` are what every text from outside is drawn from; every `failed_every`-th query failed.
    """
    dice = random.Random(seed)

    def text(plain: str) -> str:
        return dice.choice(texts) if texts else plain

    def name(plain: str) -> str:
        return f"{dice.choice(texts).strip()[:190]}{plain[-9:]}" if texts else plain

    pool = [name(f"{who}{field}") for field in _FIELDS for who in _WHO]
    fixed, criteria = name("NLP scientist"), [name(each) for each in _CRITERIA]
    surveyor, lot = Surveyor(), random.Random(seed)
    for place in range(1, queries + 1):
        failed = bool(failed_every) and place % failed_every == 0
        row = _query(
            dice,
            place,
            text(f"{dice.choice(_SUBJECTS)} {dice.choice(_SUBJECTS)}"[: dice.randint(30, 95)]),
            text(f"{dice.randint(1, 99_999)}"),
            tuple(dict.fromkeys((fixed, *_recruited(dice, pool, recruits)))),
            judged=judged,
            other=bool(other),
            error=(text("ModelError: the model gave no answer in 60 s") or "it failed") * failed,
        )
        surveyor.add(QueryFindings(row) if failed else _findings(lot, row, fixed, criteria, text))
    survey = surveyor.finish()
    return replace(
        survey,
        title=text(f"MC: NLP scientist + {recruits} recruits") or "untitled",
        dataset=text("scifact, 300 queries"),
        first_stage=text("BM25"),
        other=(text(other) or other) if other else "",
        models={"recruiter": text("openai:gpt-4o"), "scoring": text("local:qwen")},
        settings={text("ensemble"): text("sum"), "scale": "10", "depth": "100"},
        notes=(text("2 of 300 queries have no judgements."),) if queries > 1 else (),
        personas=survey.personas[:most_personas],
        criteria=survey.criteria[:most_personas],
        cases={kind: found[:cases] for kind, found in survey.cases.items()}
        if judged and other
        else {},
    )


def empty_survey() -> Survey:
    """Of no queries."""
    return make_survey(0)


def _recruited(dice: random.Random, pool: Sequence[str], recruits: int) -> list[str]:
    # Low places are drawn far more often than high ones, as models do.
    names: list[str] = []
    while len(names) < recruits:
        drawn = pool[int(len(pool) * dice.random() ** 3)]
        if drawn not in names or len(set(pool)) <= recruits:
            names.append(drawn)
    return names


def _query(
    dice: random.Random,
    place: int,
    query: str,
    query_id: str,
    personas: tuple[str, ...],
    *,
    judged: bool,
    other: bool,
    error: str,
) -> QueryFigures:
    if error:
        return QueryFigures(
            place=place,
            query_id=query_id,
            query=query,
            ndcg=0.0 if judged else None,
            first_stage_ndcg=0.5 if judged else None,
            error=error,
        )
    several = len(personas) > 1
    return QueryFigures(
        place=place,
        query_id=query_id,
        query=query,
        personas=personas,
        passages=100,
        missing=dice.choice((0, 0, 0, 0, 1, 7)),
        calls=4 + 100 * len(personas),
        cost=0.0123,
        human=dice.random() < 0.1,
        disagreement=dice.uniform(0.02, 0.35) if several else None,
        alpha=dice.uniform(-0.2, 0.95) if several and dice.random() < 0.95 else None,
        tau=dice.uniform(-0.1, 0.8) if several else None,
        ndcg=dice.choice((0.0, 1.0, dice.random(), dice.random())) if judged else None,
        first_stage_ndcg=dice.random() if judged else None,
        other_ndcg=dice.random() if judged and other else None,
    )


def _findings(
    dice: random.Random,
    row: QueryFigures,
    fixed: str,
    criteria: Sequence[str],
    text: Callable[[str], str],
) -> QueryFindings:
    """Findings of a query: what is not in its row is drawn by lot."""
    judges = tuple(_judge(dice, name, criteria, fixed=name == fixed) for name in row.personas)
    several = len(judges) > 1 and row.ndcg is not None
    without = {name: dice.uniform(0.5, 0.7) for name in row.personas}
    return QueryFindings(
        figures=row,
        judges=judges,
        taus={pair: dice.uniform(-0.3, 0.9) for pair in combinations(range(len(judges)), 2)},
        left_out=LeftOut(dice.uniform(0.5, 0.7), without, exact=True) if several else None,
        cases=() if row.other_ndcg is None else tuple(_cases(dice, row, text)),
        reused=1,
        locked=dice.random() < 0.1,
    )


def _judge(dice: random.Random, name: str, criteria: Sequence[str], *, fixed: bool) -> Judge:
    # Not checked: hostile names are such as no file can have.
    weights = [dice.uniform(5, 70) for _ in range(3)]
    chosen = zip(dice.sample(criteria, 3), weights, strict=True)
    listed = tuple(
        Criterion.model_construct(name=each, description="", weight=weight)
        for each, weight in chosen
    )
    member = Member.model_construct(
        persona=Persona.model_construct(name=name, description="", topics=(), reason=""),
        rubric=Rubric.model_construct(criteria=listed, reason=""),
        origin="fixed" if fixed else "recruited",
        by_model=(),
    )
    hand: Hand = "human" if dice.random() < 0.05 else "model"
    hands = Provenance(hand, (hand,) * 3, hand, edited=False)
    missing = dice.choice((0, 0, 7))
    return Judge(member, hands, 100, 100 * dice.random(), missing, recruited=not fixed)


def _cases(dice: random.Random, row: QueryFigures, text: Callable[[str], str]) -> Iterator[Case]:
    for kind in CASE_KINDS:
        near, far = dice.randint(1, 10), dice.randint(11, 100)
        rank, other_rank = (near, far) if kind in ("recognised", "fooled") else (far, near)
        yield Case(
            kind=kind,
            place=row.place,
            query=row.query[:300],
            doc_id=text(f"doc{dice.randint(1, 9_999_999)}"),
            rank=rank,
            title=text("A cohort study of exposure and outcome in a regional register")[:300],
            excerpt=text("We followed 1,204 participants over eleven years. " * 8)[:400],
            grade=int(kind in ("recognised", "overlooked")),
            scores={
                persona: dice.choice((None, *map(float, range(11)))) for persona in row.personas
            },
            top=10.0,
            effects={persona: dice.randint(-9, 9) for persona in row.personas},
            other_rank=other_rank,
            other_score=dice.choice((None, 7.0)),
            first_stage_rank=dice.randint(1, 100),
            strength=abs(1 / log2(1 + rank) - 1 / log2(1 + other_rank)),
        )
