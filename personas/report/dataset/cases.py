"""Cases in which the team and the ranker compared with differ most, as cards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from personas.report.formats import judgement
from personas.report.site import PAGE_BYTES, query_page
from personas.survey.model import CASE_KINDS, Case, CaseKind, Survey
from personas.words import decimals, fixed, weight

_JUDGES = 12
_LEVELS = 10


@dataclass(frozen=True, slots=True)
class Judge:
    """One persona of a case: its score, how strong a colour that gets, its heaviest criterion."""

    persona: str
    score: str
    level: int
    criterion: str
    weight: str


@dataclass(frozen=True, slots=True)
class Card:
    """One case.

    Attributes:
        key: id of the card.
        case: what it shows.
        page: path of the query's page.
        passage: address of the passage there.
        judgement: in words.
        other_score: as it is printed; empty if there is none.
        judges: the personas, at most `_JUDGES`.
        more: how many more there are.
    """

    key: str
    case: Case
    page: str
    passage: str
    judgement: str
    other_score: str
    judges: tuple[Judge, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Kind:
    """The cases of one kind, strongest first.

    Attributes:
        key: id of its part of the page.
        name: what happened in them.
        cards: the cases shown.
        found: how many the survey holds.
    """

    key: str
    name: CaseKind
    cards: tuple[Card, ...]
    found: int


def kinds(survey: Survey, most: int | None = None) -> tuple[Kind, ...]:
    """All four kinds in their fixed order, with at most that many cases each."""
    graded = any((case.grade or 0) > 1 for cases in survey.cases.values() for case in cases)
    return tuple(
        _kind(name, survey.cases.get(name, ()), most, graded=graded) for name in CASE_KINDS
    )


def fitting(survey: Survey, render: Callable[[Sequence[Kind]], str]) -> str:
    """The page with as many cases as fit below `PAGE_BYTES`, strongest ones of each kind first.

    Args:
        survey: what was found.
        render: makes the page of some cases.
    """
    most = max((len(survey.cases.get(name, ())) for name in CASE_KINDS), default=0)
    while True:
        page = render(kinds(survey, most))
        excess = len(page.encode()) - PAGE_BYTES
        if excess < 0 or not most:
            return page
        # At least one fewer of each kind, and as many as the excess makes likely.
        most = min(most - 1, most * PAGE_BYTES // (PAGE_BYTES + excess))


def _kind(name: CaseKind, cases: Sequence[Case], most: int | None, *, graded: bool) -> Kind:
    key = f"cases-{name.replace('_', '-')}"
    cards = tuple(
        _card(f"{key}-{number}", case, graded=graded)
        for number, case in enumerate(cases[:most], start=1)
    )
    return Kind(key, name, cards, len(cases))


def _card(key: str, case: Case, *, graded: bool) -> Card:
    other = case.other_score
    judged = judgement(case.grade, graded=graded)
    page = query_page(case.place)
    known = [score for score in case.scores.values() if score is not None]
    places = decimals(known)
    judges = tuple(_judge(case, persona, places) for persona in list(case.scores)[:_JUDGES])
    return Card(
        key,
        case,
        page,
        f"{page}#passage-{case.rank}",
        judged if case.grade is not None else f"{judged}, taken as not relevant",
        "" if other is None else fixed(other, decimals([other])),
        judges,
        len(case.scores) - len(judges),
    )


def _judge(case: Case, persona: str, places: int) -> Judge:
    score = case.scores[persona]
    share = 0.0 if score is None or not case.top else score / case.top
    criterion, percent = case.criteria.get(persona, ("", 0.0))
    return Judge(
        persona,
        "" if score is None else fixed(score, places),
        min(_LEVELS, max(0, round(_LEVELS * share))),
        criterion,
        weight(percent) if criterion else "",
    )
