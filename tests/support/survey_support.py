"""Surveys of any size, made up but consistent, with plain or hostile texts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from math import log2

from personas.schema import Origin
from personas.survey.model import (
    CASE_KINDS,
    Case,
    CaseKind,
    CriterionFigures,
    PairFigures,
    PersonaFigures,
    QueryFigures,
    Survey,
    Totals,
    Without,
)

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
    "Virologist",
    "Worried parent",
    "Marine biologist",
    "Medical librarian",
    "Clinical researcher",
    "Science journalist",
    "Patient with the condition",
    "Biostatistician",
    "Public health official",
    "Molecular geneticist",
    "Nutrition scientist",
    "General practitioner",
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
    "Directness of the answer",
    "Quality of the evidence",
    "Right population",
    "Study design",
    "Recency",
    "Clarity for lay readers",
    "Statistical soundness",
    "Names a mechanism",
    "Practical use",
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

    Args:
        queries: how many.
        seed: of the random numbers.
        texts: what every text from outside is drawn from, e.g. `HOSTILE`; plain ones if empty.
        judged: whether there are judgements.
        other: the ranker compared with; empty for none.
        recruits: on the team besides the NLP scientist.
        failed_every: every so many queries one failed; 0 for none.
        cases: of each kind, at most; none without judgements or another ranker.
        most_personas: how many personas and criteria the survey lists at most.
    """
    dice = random.Random(seed)

    def text(plain: str) -> str:
        return dice.choice(texts) if texts else plain

    def name(plain: str) -> str:
        return f"{dice.choice(texts).strip()[:190]}{plain[-9:]}" if texts else plain

    pool = [name(f"{who}{field}") for field in _FIELDS for who in _WHO]
    fixed = name("NLP scientist")
    rows = [
        _query(
            dice,
            place,
            text(f"{dice.choice(_SUBJECTS)} {dice.choice(_SUBJECTS)}"[: dice.randint(30, 95)]),
            text(f"{dice.randint(1, 99_999)}"),
            (fixed, *_recruited(dice, pool, recruits)),
            judged=judged,
            other=bool(other),
            error=text("ModelError: the model gave no answer in 60 s") or "it failed"
            if failed_every and place % failed_every == 0
            else "",
        )
        for place in range(1, queries + 1)
    ]
    ranked = [row for row in rows if not row.error]
    people = _personas(dice, ranked, fixed)
    found = _criteria(dice, ranked, [name(each) for each in _CRITERIA])
    with_cases = judged and other and ranked
    return Survey(
        title=text(f"MC: NLP scientist + {recruits} recruits") or "untitled",
        dataset=text("scifact, 300 queries"),
        first_stage=text("BM25"),
        other=(text(other) or other) if other else "",
        models={"recruiter": text("openai:gpt-4o"), "scoring": text("local:qwen")},
        settings={text("ensemble"): text("sum"), "scale": "10", "depth": "100"},
        notes=(text("2 of 300 queries have no judgements."),) if queries > 1 else (),
        totals=_totals(rows, ranked, bool(other)),
        queries=tuple(rows),
        personas=people[:most_personas],
        personas_in_all=len(people),
        pairs=_pairs(dice, ranked)[:200],
        criteria=found[:most_personas],
        criteria_in_all=len(found),
        cases={kind: _cases(dice, kind, ranked, cases, text) for kind in CASE_KINDS}
        if with_cases
        else {},
        recruits=Without(len(ranked), 0.6512, 0.6391, exact=True)
        if judged and recruits and ranked
        else None,
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
        skipped=0,
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


def _totals(rows: Sequence[QueryFigures], ranked: Sequence[QueryFigures], other: bool) -> Totals:
    def mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else None

    costs = [row.cost or 0.0 for row in ranked]
    return Totals(
        queries=len(rows),
        failed=len(rows) - len(ranked),
        judged=sum(row.ndcg is not None for row in ranked),
        passages=sum(row.passages for row in ranked),
        missing=sum(row.missing for row in ranked),
        skipped=0,
        calls=sum(row.calls for row in ranked),
        reused=17 if ranked else 0,
        cost=sum(costs),
        ndcg=mean([row.ndcg for row in rows]),
        first_stage_ndcg=mean([row.first_stage_ndcg for row in rows]),
        other_ndcg=mean([row.other_ndcg for row in rows]) if other else None,
        alpha=mean([row.alpha for row in ranked]),
        tau=mean([row.tau for row in ranked]),
        disagreement=mean([row.disagreement for row in ranked]),
        locked=len(ranked) // 10,
        human=sum(row.human for row in ranked),
    )


def _personas(
    dice: random.Random, ranked: Sequence[QueryFigures], fixed: str
) -> tuple[PersonaFigures, ...]:
    judged: dict[str, list[QueryFigures]] = {}
    for row in ranked:
        for persona in dict.fromkeys(row.personas):
            judged.setdefault(persona, []).append(row)
    made = []
    for persona, rows in judged.items():
        several = [row for row in rows if row.ndcg is not None and len(row.personas) > 1]
        origin: Origin = "fixed" if persona == fixed else "recruited"
        made.append(
            PersonaFigures(
                name=persona,
                origins={origin: len(rows)},
                queries=len(rows),
                recruited=0 if persona == fixed else len(rows),
                human=sum(row.human for row in rows),
                mean_score=dice.random(),
                missing=sum(row.missing for row in rows),
                tau=dice.uniform(-0.2, 0.9) if several else None,
                without=Without(
                    len(several), dice.uniform(0.5, 0.7), dice.uniform(0.5, 0.7), exact=True
                )
                if several
                else None,
                examples=tuple(row.place for row in rows[:20]),
            )
        )
    return tuple(sorted(made, key=lambda each: (-each.queries, each.name)))


def _pairs(dice: random.Random, ranked: Sequence[QueryFigures]) -> tuple[PairFigures, ...]:
    together: Counter[tuple[str, str]] = Counter()
    for row in ranked:
        names = list(dict.fromkeys(row.personas))
        together.update(
            (first, second) for place, first in enumerate(names) for second in names[place + 1 :]
        )
    ordered = sorted(together.items(), key=lambda entry: (-entry[1], entry[0]))
    return tuple(
        PairFigures(first, second, queries, dice.uniform(-0.3, 0.9))
        for (first, second), queries in ordered
    )


def _criteria(
    dice: random.Random, ranked: Sequence[QueryFigures], names: Sequence[str]
) -> tuple[CriterionFigures, ...]:
    standing: dict[str, list[tuple[str, int]]] = {}
    for row in ranked:
        for persona in row.personas:
            for criterion in dice.sample(names, 3):
                standing.setdefault(criterion, []).append((persona, row.place))
    made = []
    for criterion, places in standing.items():
        weights = [dice.uniform(5, 70) for _ in places[:50]]
        made.append(
            CriterionFigures(
                name=criterion,
                rubrics=len(places),
                human=len(places) // 20,
                personas=dict(Counter(persona for persona, _ in places).most_common(20)),
                mean_weight=sum(weights) / len(weights),
                least_weight=min(weights),
                most_weight=max(weights),
                examples=tuple(dict.fromkeys(place for _, place in places))[:20],
            )
        )
    return tuple(sorted(made, key=lambda each: (-each.rubrics, each.name)))


def _cases(
    dice: random.Random,
    kind: CaseKind,
    ranked: Sequence[QueryFigures],
    most: int,
    text: Callable[[str], str],
) -> tuple[Case, ...]:
    made = []
    relevant = kind in ("recognised", "overlooked")
    for row in dice.sample(ranked, min(most, len(ranked))):
        near, far = dice.randint(1, 10), dice.randint(11, 100)
        rank, other_rank = (near, far) if kind in ("recognised", "fooled") else (far, near)
        made.append(
            Case(
                kind=kind,
                place=row.place,
                query=row.query[:300],
                doc_id=text(f"doc{dice.randint(1, 9_999_999)}"),
                rank=rank,
                title=text("A cohort study of exposure and outcome in a regional register")[:300],
                excerpt=text("We followed 1,204 participants over eleven years. " * 8)[:400],
                grade=1 if relevant else 0,
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
        )
    return tuple(sorted(made, key=lambda case: (-case.strength, case.place)))
