"""Surveys of any size, made up but consistent, with plain or hostile texts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from personas.survey import QueryFigures, QueryFindings, Survey, survey_of

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
_FIELDS = ("", " in training", " from a clinic", " who reviews grants", " of long standing")
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


def make_survey(
    queries: int = 20,
    *,
    seed: int = 1,
    texts: Sequence[str] = (),
    judged: bool = True,
    other: str = "DIRECT(0,10)",
    recruits: int = 2,
    failed_every: int = 13,
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
    fixed = name("NLP scientist")
    lot = random.Random(seed)
    found = []
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
        found.append(QueryFindings(row) if failed else _findings(lot, row, fixed))
    survey = survey_of(found)
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
        disagreement=dice.uniform(0.02, 0.35) if several else None,
        alpha=dice.uniform(-0.2, 0.95) if several and dice.random() < 0.95 else None,
        tau=dice.uniform(-0.1, 0.8) if several else None,
        ndcg=dice.choice((0.0, 1.0, dice.random(), dice.random())) if judged else None,
        first_stage_ndcg=dice.random() if judged else None,
        other_ndcg=dice.random() if judged and other else None,
    )


def _findings(dice: random.Random, row: QueryFigures, fixed: str) -> QueryFindings:
    """Findings of a query: what is not in its row is drawn by lot."""
    several = len(row.personas) > 1 and row.ndcg is not None
    without = {name: dice.uniform(0.5, 0.7) for name in row.personas}
    return QueryFindings(
        figures=row,
        recruited=frozenset(row.personas) - {fixed},
        with_all=dice.uniform(0.5, 0.7) if several else None,
        without=without if several else {},
        reused=1,
        locked=dice.random() < 0.1,
    )
