"""The passages of a query's page: their rows of the heat map and their details, as markup.

There are a hundred passages on a page and a hundred thousand in a report, so their markup is put
together by hand, not by a template. Every text from outside goes through `markup.escaped` or
`markup.shortened`; whatever else stands between the tags are numbers and our own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from personas.inspection.inspection import InspectedHit, Inspection
from personas.report.formats import bare, judgement
from personas.report.markup import escaped, moved, shortened
from personas.words import decimals, fixed, weight, whole

TEXT_LIMIT = 20_000
"""Bytes of one passage's text that are shown at most, as they stand in the page."""

_MOST_NAMES = 3

NOT_SCORED = "not scored"
MISSING = "\N{EN DASH}"
SKIPPED = "\N{MIDDLE DOT}"

_LEVELS = 10
_LABEL = 160
_SNIPPET = 90
_NAME = 80
_ID, _SHORT_ID = 160, 80
_TOOLTIP = 200
_FEW_LEVELS = 3
_FINE = 3.0
_UNASKED = "not asked for"
_UNREACHING = "not asked: it could not reach the first ranks"
_DROPPED = "dropped"
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


class PassageFormat:
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
        """Look at all passages.

        Args:
            inspection: the query.
            team_page: name of the page that has the team; empty if it is the same one.
            graded: whether judgements above 1 occur.
        """
        hits = inspection.hits
        known = [score for hit in hits for score in hit.known_scores]
        low, high = min(known, default=0.0), max(known, default=0.0)
        self.inspection = inspection
        self.several = len(inspection.personas) > 1
        self.by_rank = inspection.by_rank
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

    def mark(self, hit: InspectedHit, persona: str) -> tuple[str, str]:
        """A persona's score, or its rank, as text; and the value by which the column is sorted."""
        rank = hit.ranks.get(persona)
        if rank is not None:
            return f"{rank}{'+' if self.inspection.tails.get(persona) == rank else ''}", str(rank)
        score = hit.scores[persona]
        return fixed(score or 0.0, self.score_places), f"{score:.6g}"

    def without_score(self, hit: InspectedHit, persona: str) -> str:
        """The cell of a persona who gave no score."""
        if persona in hit.missing:
            title, stood = _missing_title(hit.missing[persona]), hit.stood_in.get(persona)
            if stood is None:
                return _marked("missing", MISSING, title)
            return _marked("missing", f"({stood:.4g})", f"{stood:.4g} stood in; {title}")
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
                each.name: _criterion_label(each.name, weight(each.weight))
                for each in (rubric.criteria if rubric else ())
            }
        return self._criteria[persona]


def _criterion_label(name: str, share: str = "") -> str:
    """A criterion's name, with its weight where that is known."""
    behind = f' <span class="weight">{share}</span>' if share else ""
    return f"<bdi>{escaped(name, _NAME)}</bdi>{behind}"


def _missing_title(why: str) -> str:
    """Why a score is missing, for a tooltip."""
    return f"missing: {escaped(bare(why[: 4 * _TOOLTIP]), _TOOLTIP) or 'no reason is known'}"


def heat_row(form: PassageFormat, shown: Shown) -> str:
    """The row as markup, a cell for each heading of ``templates/ranking.html``."""
    hit = shown.hit
    rank, first, up = hit.rank, hit.first_stage_rank, hit.moved
    parts = [
        f'<tr data-place="{rank}"><th scope="row" class="name" data-v="{rank}">'
        f'<span class="rank">{rank}</span><span class="what">'
        f'<a href="#passage-{rank}" dir="auto">{shown.label}</a>'
        f'<span class="id" dir="auto">{escaped(hit.doc_id, _SHORT_ID)}</span></span></th>',
    ]
    add = parts.append
    if not form.inspection.unscored:
        add(_final_cell(shown))
    movers = shown.raised + shown.sunk
    for name, score in hit.marks.items():
        if score is None:
            add(form.without_score(hit, name))
        else:
            text, value = form.mark(hit, name)
            hint = _hint(shown.effects[name]) if name in movers else ""
            at = hit.members.get(name)
            where = f' title="{_place(at.rank, at.score, "")}"' if at else ""
            add(f'<td class="cell h{form.level(score)}" data-v="{value}"{where}>{text}{hint}</td>')
    if form.several:
        apart = shown.apart
        if apart is None:
            add('<td class="quiet"></td>')
        else:
            add(f'<td class="quiet" data-v="{apart:.6g}">{fixed(apart, form.apart_places)}</td>')
    add(f'<td class="quiet" data-v="{first}">{first}</td><td data-v="{up}">{moved(up)!s}</td>')
    if form.inspection.grades is not None:
        add(_grade_cell(form, hit.grade))
    if form.inspection.other:
        add(_other_cells(hit, form.other_places))
    add("</tr>\n")
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a passage's details is shown.

    Attributes:
        text: bytes of the text, and of a title too long for the label.
        reason: characters of why a score is missing.
        criteria: scores by criterion, of each persona.
    """

    text: int = TEXT_LIMIT
    reason: int = 1000
    criteria: int = 100


GENEROUS = Limits()
TIGHT = Limits(text=2_000, reason=80, criteria=0)
"""For a passage that would otherwise fill a page by itself."""


def passage_details(form: PassageFormat, shown: Shown, limits: Limits = GENEROUS) -> str:
    """The fold with the details, as markup."""
    hit = shown.hit
    rank, judged = hit.rank, ""
    if hit.grade is not None:
        kind, words = form.judgement(hit.grade)
        judged = f'<span class="grade {kind}">{words}</span>'
    brief = f"{shown.score} {moved(hit.moved)!s}" if shown.score else _without_final(hit)
    if form.inspection.unscored:
        brief = str(moved(hit.moved))
    parts = [
        f'<details class="passage" id="details-{rank}"><summary><span class="rank">{rank}</span>'
        f'<span class="label" dir="auto">{shown.label}</span>{judged}'
        f'<span class="brief">{brief}</span></summary>\n'
        f'<div class="inside" id="passage-{rank}">\n'
        f'<dl class="facts small">{_facts(form, shown)}</dl>\n'
    ]
    add = parts.append
    if shown.effects:
        add(f'<p class="why">{_why(form, shown)}</p>\n')
    if shown.final is not None or hit.dropped is not None:
        add(_scores(form, shown, limits.criteria))
    for name, why in hit.missing.items():
        who = form.names.get(name) or escaped(name, _NAME)
        stood = hit.stood_in.get(name)
        instead = "" if stood is None else f" {stood:.4g} stood in for it."
        add(
            f'<p class="gap"><strong>No score by <bdi>{who}</bdi>.{instead}</strong> '
            f'<span class="iso">{escaped(why or "No reason is known.", limits.reason)}</span></p>\n'
        )
    if shown.cut:
        title, more = shortened(hit.title, limits.text)
        add(f'<h3 dir="auto">{title}</h3>\n{_cut_here(more, "title")}')
    text, more = shortened(hit.text, limits.text)
    if text:
        add(f'<div class="text" dir="auto">{text}</div>\n')
    elif not hit.text:
        add('<p class="none">The passage has no text.</p>\n')
    add(f"{_cut_here(more, 'passage')}</div></details>\n")
    return "".join(parts)


def _final(hit: InspectedHit) -> float | None:
    return hit.score if hit.at_most is None else hit.at_most


def _without_final(hit: InspectedHit) -> str:
    """What stands in place of the final score of a passage that has none."""
    if hit.dropped is None:
        return NOT_SCORED
    return f"{_DROPPED}: relevance {hit.dropped:.6g}"


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


def _final_cell(shown: Shown) -> str:
    hit, final = shown.hit, shown.final
    if final is None:
        if hit.dropped is None:
            return f'<td class="final none">{NOT_SCORED}</td>'
        return f'<td class="final none" title="{_without_final(hit)}">{_DROPPED}</td>'
    if not hit.judged:
        return (
            f'<td class="final none" data-v="{final:.6g}" title="at most: not all were asked">'
            f"{shown.score}</td>"
        )
    why = hit.missing.get("(assessor)")
    star = "" if why is None else f'<abbr title="{_missing_title(why)}">*</abbr>'
    return f'<td class="final" data-v="{final:.6g}">{shown.score}{star}</td>'


def _grade_cell(form: PassageFormat, grade: int | None) -> str:
    kind, words = form.judgement(grade)
    value = "" if grade is None else f' data-v="{grade}"'
    return f'<td class="grade {kind}"{value}>{words}</td>'


def _hint(effect: int) -> str:
    if effect > 0:
        return f'<small class="up"><span class="sr">, raised it </span>▲{effect}</small>'
    return f'<small class="down"><span class="sr">, sank it </span>▼{-effect}</small>'


def _other_cells(hit: InspectedHit, places: int) -> str:
    if hit.other is None:
        return '<td class="quiet">not ranked</td><td class="quiet"></td>'
    rank, score = hit.other.rank, hit.other.score
    place = f'<td class="quiet" data-v="{rank}">{rank}</td>'
    if score is None:
        return f'{place}<td class="quiet">none</td>'
    return f'{place}<td class="quiet" data-v="{score:.6g}">{fixed(score, places)}</td>'


def _facts(form: PassageFormat, shown: Shown) -> str:
    hit = shown.hit
    final, inspection = _without_final(hit), form.inspection
    if shown.final is not None:
        final = f"{'' if hit.at_most is None else 'at most '}{shown.final:.6g}"
    facts = [
        ("Id", f"<bdi>{escaped(hit.doc_id, _ID)}</bdi>"),
        *([] if inspection.unscored else [("Final score", final)]),
        ("First stage", _place(hit.first_stage_rank, hit.first_stage_score, "")),
    ]
    if inspection.grades is not None:
        facts.insert(1, ("Judgement", form.judgement(hit.grade)[1]))
    if inspection.other:
        place = "not ranked"
        if hit.other is not None:
            place = _place(hit.other.rank, hit.other.score, ", no score")
        facts.append((f"<bdi>{form.other_name}</bdi>", place))
    for name, at in hit.members.items():
        said = _place(at.rank, at.score, "")
        facts.append((f"<bdi>{form.names.get(name) or escaped(name, _NAME)}</bdi>", said))
    span = hit.score_range
    if shown.apart is not None and span is not None:
        facts.append(
            (
                "Disagreement",
                f"{fixed(shown.apart, form.apart_places)} "
                f'<span class="aside">range {fixed(span, form.score_places)}</span>',
            )
        )
    return "".join([f"<div><dt>{term}</dt><dd>{what}</dd></div>" for term, what in facts])


def _place(rank: int, score: float | None, otherwise: str) -> str:
    return f"rank {rank}{otherwise if score is None else f', score {score:.6g}'}"


def _why(form: PassageFormat, shown: Shown) -> str:
    """Who raised and who sank the passage, in sentences."""
    hit, said = shown.hit, []
    if not form.exact:
        what = "ranks" if form.by_rank else "scores"
        said.append(f"By the {what} alone it stands at rank {hit.rank_of_all}.")
    elif hit.rank_of_all != hit.rank:
        said.append(f"Among the passages that all have scored it stands at rank {hit.rank_of_all}.")
    for names, verb in ((shown.raised, "raised"), (shown.sunk, "sank")):
        if not names:
            continue
        who = " or ".join(
            f"without <strong><bdi>{form.names[name]}</bdi></strong>"
            for name in names[:_MOST_NAMES]
        )
        if len(names) > _MOST_NAMES:
            who += f", or without any of {len(names) - _MOST_NAMES} more,"
        each = "this persona" if len(names) == 1 else "each of them"
        said.append(
            f"{who[0].upper()}{who[1:]} it would stand at rank {hit.rank_without[names[0]]}: "
            f"{each} {verb} it by {abs(shown.effects[names[0]])}."
        )
    if not shown.raised and not shown.sunk:
        who = "them" if form.by_rank else "those who scored it"
        said.append(f"It would keep its rank without any one of {who}.")
    return " ".join(said)


def _scores(form: PassageFormat, shown: Shown, most_criteria: int) -> str:
    hit = shown.hit
    without, effects = hit.rank_without, shown.effects
    head, rest, what = "", "", "Rank" if form.by_rank else "Score"
    if without:
        head = '<th scope="col">Rank without</th><th scope="col" class="words">Effect on rank</th>'
        rest = '<td colspan="2"></td>'
    parts = [
        '<div class="scroll plain fit" role="region" tabindex="0" '
        f'aria-label="{what}s of rank {hit.rank}"><table class="judgements"><thead><tr>'
        f'<th scope="col" class="name">Judge</th><th scope="col">{what}</th>{head}'
        "</tr></thead><tbody>\n"
    ]
    add = parts.append
    for name, score in hit.marks.items():
        if score is None:
            cell = form.without_score(hit, name)
        else:
            said = form.mark(hit, name)[0] if form.by_rank else f"{score:.6g}"
            cell = f'<td class="cell h{form.level(score)}">{said}</td>'
        add(f'<tr><th scope="row" class="name">{form.judges[name]}</th>{cell}')
        if without:
            add(f"<td>{without[name]}</td>{_effect(effects[name], score)}")
        add("</tr>\n")
        if name in hit.criteria:
            scores = hit.criteria[name]
            add(_by_criterion(scores, form.criteria(name), most_criteria, rest))
    add("</tbody></table></div>\n")
    return "".join(parts)


def _by_criterion(
    scores: Mapping[str, float], labels: Mapping[str, str], most: int, rest: str
) -> str:
    head = '<tr class="sub"><th scope="row" class="name">'
    rows = [
        f"{head}{labels.get(name) or _criterion_label(name)}</th><td>{score:.6g}</td>{rest}</tr>\n"
        for name, score in islice(scores.items(), most)
    ]
    if len(scores) > most:
        rows.append(f"{head}{whole(len(scores) - most)} more criteria</th><td></td>{rest}</tr>\n")
    return "".join(rows)


def _effect(effect: int, score: float | None) -> str:
    if score is None:
        return '<td class="words"><span class="same">gave no score</span></td>'
    if not effect:
        return '<td class="words"><span class="same">none</span></td>'
    kind, verb = ("up", "raised") if effect > 0 else ("down", "sank")
    return f'<td class="words"><span class="{kind}">{verb} it by {abs(effect)}</span></td>'


def _cut_here(more: int, what: str) -> str:
    if not more:
        return ""
    characters = "character" if more == 1 else "characters"
    return (
        f'<p class="note">Cut here: {whole(more)} more {characters} of this {what} are not '
        "shown.</p>\n"
    )
