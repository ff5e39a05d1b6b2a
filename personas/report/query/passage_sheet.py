"""What the rows of a heat map and the details of its passages have in common.

There are a hundred passages on a page and a hundred thousand in a report, so their markup is put
together by hand, not by a template. Every text from outside goes through `markup.escaped` or
`markup.shortened`; whatever else stands between the tags are numbers and our own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from personas.inspection.inspection import InspectedHit, Inspection
from personas.report.formats import bare, decimals, fixed, judgement, weight
from personas.report.markup import escaped

__all__ = ["NOT_SCORED", "SKIPPED", "Sheet", "Shown", "criterion_label"]

NOT_SCORED = "not scored"
MISSING = "\N{EN DASH}"
SKIPPED = "\N{MIDDLE DOT}"

_LEVELS = 10
_LABEL = 160
_SNIPPET = 90
_NAME = 80
_TOOLTIP = 200
_FEW_LEVELS = 3
_FINE = 3.0
_UNASKED = "not asked for"
_UNREACHING = "not asked: it could not reach the first ranks"
_AT_MOST = "\N{LESS-THAN OR EQUAL TO} "


@dataclass(frozen=True, slots=True)
class Shown:
    """One passage, with what both its places on the page show.

    Attributes:
        hit: the passage.
        label: title or beginning, as markup.
        cut: whether the label does not hold the whole title.
        final: what it is ranked by; None if it was not scored.
        score: that as text, empty for None.
        effects: `InspectedHit.effects`.
        raised: `InspectedHit.raised_most_by`.
        sunk: `InspectedHit.sunk_most_by`.
        apart: `InspectedHit.disagreement`.
    """

    hit: InspectedHit
    label: str
    cut: bool
    final: float | None
    score: str
    effects: Mapping[str, int]
    raised: tuple[str, ...]
    sunk: tuple[str, ...]
    apart: float | None


class Sheet:
    """How the passages of one query are shown.

    Attributes:
        inspection: the query.
        several: whether there are several personas.
        exact: whether leaving a persona out is exact.
        lowest: the score of the palest colour.
        highest: the score of the strongest colour. Both are the ends of the scale, unless all
            scores lie within a third of it: then nothing could be told apart, and the colours
            go from the lowest to the highest score.
        stretched: whether that is so.
        score_places: decimals of a persona's score.
        final_places: decimals of a final score.
        other_places: decimals of a score by the ranker compared with.
        apart_places: decimals of a disagreement.
        names: persona -> name as markup.
        judges: persona -> name as markup, with a link to the team where it is a member.
        other_name: name of the ranker compared with as markup; empty if there is none.
    """

    def __init__(
        self, inspection: Inspection, *, team_page: str = "", graded: bool = False
    ) -> None:
        """A sheet.

        Args:
            inspection: the query.
            team_page: name of the page that has the team; empty if it is the same one.
            graded: whether judgements above 1 occur.
        """
        hits = inspection.hits
        known = [score for hit in hits for score in hit.scores.values() if score is not None]
        low, high = min(known, default=0.0), max(known, default=0.0)
        self.inspection = inspection
        self.several = len(inspection.personas) > 1
        self.exact = inspection.leave_one_out_exact
        self.stretched = 0 < high - low < inspection.top / _FEW_LEVELS
        self.lowest, self.highest = (low, high) if self.stretched else (0.0, inspection.top)
        self.score_places = decimals(known)
        self.final_places = decimals([each for hit in hits if (each := _final(hit)) is not None])
        self.other_places = decimals(
            [hit.other.score for hit in hits if hit.other and hit.other.score is not None]
        )
        self.apart_places = 3 if known and high <= _FINE else 2
        self.names = {name: escaped(name, _NAME) for name in inspection.personas}
        self.judges = _judges(inspection, self.names, team_page)
        self.other_name = escaped(inspection.other.name, _NAME) if inspection.other else ""
        self._graded = graded
        self._levels: dict[float, int] = {}
        self._criteria: dict[str, Mapping[str, str]] = {}

    def shown(self, hit: InspectedHit) -> Shown:
        """The passage, ready to be shown."""
        title = hit.title.strip()
        label = escaped(title or " ".join(hit.text[: 4 * _SNIPPET].split())[:_SNIPPET], _LABEL)
        final = _final(hit)
        bound = "" if hit.at_most is None else _AT_MOST
        return Shown(
            hit=hit,
            label=label or "(no text)",
            cut=len(title) > _LABEL,
            final=final,
            score="" if final is None else bound + fixed(final, self.final_places),
            effects=hit.effects,
            raised=hit.raised_most_by,
            sunk=hit.sunk_most_by,
            apart=hit.disagreement,
        )

    def level(self, score: float) -> int:
        """The step of the colours for a score, 0 to 10."""
        level = self._levels.get(score)
        if level is None:
            share = (score - self.lowest) / (self.highest - self.lowest)
            level = self._levels[score] = min(_LEVELS, max(0, round(_LEVELS * share)))
        return level

    def without_score(self, hit: InspectedHit, persona: str) -> str:
        """The cell of a persona who gave no score."""
        if persona in hit.missing:
            return _marked("missing", MISSING, missing_title(hit.missing[persona]))
        if persona in hit.skipped:
            return _marked("skipped", SKIPPED, _UNREACHING)
        if hit.judged:
            return _marked("unasked", SKIPPED, _UNASKED)
        return '<td class="none"></td>'

    def judgement(self, grade: int | None) -> tuple[str, str]:
        """Class and words of a judgement."""
        kind = "unjudged" if grade is None else "relevant" if grade > 0 else "irrelevant"
        return kind, judgement(grade, graded=self._graded)

    def criteria(self, persona: str) -> Mapping[str, str]:
        """Criterion of the persona's rubric -> its name and weight as markup."""
        if persona not in self._criteria:
            member = self.inspection.member(persona)
            rubric = member.rubric if member else None
            self._criteria[persona] = {
                each.name: criterion_label(each.name, weight(each.weight))
                for each in (rubric.criteria if rubric else ())
            }
        return self._criteria[persona]


def criterion_label(name: str, share: str = "") -> str:
    """A criterion's name, with its weight where that is known."""
    behind = f' <span class="weight">{share}</span>' if share else ""
    return f"<bdi>{escaped(name, _NAME)}</bdi>{behind}"


def missing_title(why: str) -> str:
    """Why a score is missing, for a tooltip."""
    return f"missing: {escaped(bare(why[: 4 * _TOOLTIP]), _TOOLTIP) or 'no reason is known'}"


def _final(hit: InspectedHit) -> float | None:
    return hit.score if hit.at_most is None else hit.at_most


def _judges(inspection: Inspection, names: Mapping[str, str], team_page: str) -> Mapping[str, str]:
    team = inspection.team.names if inspection.team else ()
    numbers = {name: number for number, name in enumerate(team, start=1)}
    page = escaped(team_page, len(team_page))
    return {
        name: f'<a href="{page}#member-{numbers[name]}"><bdi>{text}</bdi></a>'
        if name in numbers
        else f"<bdi>{text}</bdi>"
        for name, text in names.items()
    }


def _marked(kind: str, mark: str, title: str) -> str:
    return (
        f'<td class="cell {kind}" title="{title}"><span aria-hidden="true">{mark}</span>'
        f'<span class="sr">{title}</span></td>'
    )
