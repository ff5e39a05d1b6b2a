"""The passages of a query's page, each a row of the table and its details below it, as markup.

There are a hundred passages on a page and a hundred thousand in a report, so their markup is put
together by hand, not by a template. Every text from outside goes through `markup.escaped` or
`markup.shortened`; whatever else stands between the tags are numbers and our own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from personas.ranking.record import Hit, RankingRecord
from personas.report.formats import bare, judgement
from personas.report.markup import escaped, shortened, tersely
from personas.schema import Rubric
from personas.words import decimals, exact, fixed, percent, weight, whole

TEXT_LIMIT = 20_000
"""Bytes of one passage's text that are shown at most, as they stand in the page."""

NOT_SCORED = "not scored"
MISSING = "\N{EN DASH}"
SKIPPED = "\N{MIDDLE DOT}"
IMPUTED = "*"
SUSPICIOUS = "\N{BLACK FLAG}"

_LEVELS = 10
_LABEL = 160
_SNIPPET = 90
_NAME = 80
_ID, _SHORT_ID = 160, 80
_TOOLTIP = 200
_MOST_NAMES = 3
_FINE = 3.0
_UNASKED = "not asked for"
_UNREACHING = "not asked: it could not reach the first ranks"
_DROPPED = "dropped"
_AT_MOST = "\N{LESS-THAN OR EQUAL TO} "


@dataclass(frozen=True, slots=True)
class Shown:
    """One passage, with what both its row and its details show.

    Attributes:
        hit: the passage.
        label: title or beginning, as markup.
        cut: whether the label does not hold the whole title.
        final: what it is ranked by; None if it was not scored.
        score: that as text, empty for None.
        effects: `Hit.effects`.
        raised: `Hit.raised_most_by`.
        sunk: `Hit.sunk_most_by`.
        apart: `Hit.disagreement`.
    """

    hit: Hit
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
        lowest: the score of the palest colour, an end of the scale.
        highest: the score of the strongest colour, its other end.
        known: the lowest and the highest score that there is; None if there is none. A reader can
            have the colours go from one to the other.
        score_places: decimals of a persona's score.
        final_places: decimals of a final score.
        other_places: decimals of a score by the ranker compared with.
        apart_places: decimals of a disagreement.
        graded: whether judgements above 1 occur.
        last_rank: the last rank that was asked for.
        columns: how many the table has.
        names: persona -> name as markup.
        judges: persona -> name as markup, with a link to the team where it is a member.
        other_name: name of the ranker compared with as markup; empty if there is none.
    """

    def __init__(
        self, inspection: RankingRecord, *, team_page: str = "", graded: bool = False
    ) -> None:
        """Look at all passages.

        Args:
            inspection: the query.
            team_page: name of the page that has the team; empty if it is the same one.
            graded: whether judgements above 1 occur.
        """
        hits = inspection.hits
        known = [score for hit in hits for score in hit.known_scores]
        self.inspection = inspection
        self.several = len(inspection.judges) > 1
        self.by_rank = inspection.by_rank
        self.exact = inspection.leave_one_out_exact
        self.lowest, self.highest = 0.0, inspection.top
        self.known = (min(known), max(known)) if known else None
        self.score_places = decimals(known)
        self.final_places = decimals([each for hit in hits if (each := _final(hit)) is not None])
        self.other_places = decimals(
            [hit.other.score for hit in hits if hit.other and hit.other.score is not None]
        )
        self.apart_places = 3 if known and max(known) <= _FINE else 2
        self.names = {name: escaped(name, _NAME) for name in inspection.judges}
        self.judges = _judges(inspection, self.names, team_page)
        self.other_name = escaped(inspection.other.name, _NAME) if inspection.other else ""
        self.graded = graded
        self._levels: dict[float, int] = {}
        self._rubrics: dict[str, Rubric | None] = {}
        last = inspection.last_sure_rank
        self.last_rank = len(hits) if last is None else last
        self.columns = 2 + (not inspection.unscored) + len(inspection.judges) + self.several
        self.columns += (inspection.grades is not None) + (inspection.other is not None)

    def shown(self, hit: Hit) -> Shown:
        """The passage, ready to be shown."""
        title = hit.title.strip()
        label = escaped(title or excerpt(hit.text), _LABEL)
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

    def mark(self, hit: Hit, persona: str) -> tuple[str, str]:
        """A persona's score, or its rank, as text; and the value by which the column is sorted."""
        rank = hit.ranks.get(persona)
        if rank is not None:
            return f"{rank}{'+' if self.inspection.tails.get(persona) == rank else ''}", str(rank)
        score = hit.scores.get(persona)
        return fixed(score or 0.0, self.score_places), f"{score:.6g}"

    def without_score(self, hit: Hit, persona: str) -> str:
        """The cell of a persona who gave no score."""
        if persona in hit.missing:
            title, stood = _missing_title(hit.missing[persona]), hit.imputed.get(persona)
            if stood is None:
                return _marked("missing", MISSING, title)
            return _marked("missing", f"({stood:.4g})", f"{stood:.4g} is imputed; {title}")
        if persona in hit.skipped:
            return _marked("skipped", SKIPPED, _UNREACHING)
        if hit.judged:
            return _marked("unasked", SKIPPED, _UNASKED)
        return '<td class="none"></td>'

    def judgement(self, grade: int | None) -> tuple[str, str]:
        """Class and words of a judgement."""
        kind = "unjudged" if grade is None else "relevant" if grade > 0 else "irrelevant"
        return kind, judgement(grade, graded=self.graded)

    def rubric(self, persona: str) -> Rubric | None:
        """The criteria of a persona of the team; None where it has none."""
        if persona not in self._rubrics:
            member = self.inspection.member(persona)
            self._rubrics[persona] = member.rubric if member else None
        return self._rubrics[persona]

    judged_as_a_whole = "<small>judged as a whole</small>"
    """What stands beside a persona that gave one score; a script adds `rubrics` to it."""

    def rubrics(self, *, most: int, name: int) -> list[str]:
        """Criteria and weights of each persona that gave one score, as markup; else empty.

        A page has them once: beside every score they would take half of it.

        Args:
            most: criteria of a persona.
            name: characters of a criterion's name.
        """
        by_criterion = {name for hit in self.inspection.hits for name in hit.criteria}
        said = []
        for persona in self.inspection.judges:
            rubric = None if persona in by_criterion else self.rubric(persona)
            criteria = rubric.criteria if rubric else ()
            named = [
                f"{tersely(each.name, min(_NAME, name))} {weight(each.weight)}"
                for each in criteria[:most]
            ]
            if len(criteria) > most:
                named.append(f"{whole(len(criteria) - most)} more")
            said.append(", ".join(named))
        return said


def excerpt(text: str) -> str:
    """The beginning of a text on one line, cut between words and with an ellipsis."""
    line = " ".join(text[: 4 * _SNIPPET].split())
    if len(line) <= _SNIPPET and len(text) <= 4 * _SNIPPET:
        return line
    kept = line[: _SNIPPET + 1].rpartition(" ")[0][:_SNIPPET]
    # Without blanks, as in Chinese, a word may be cut.
    return f"{kept if 2 * len(kept) > _SNIPPET else line[:_SNIPPET]}…"


def _missing_title(why: str) -> str:
    """Why a score is missing, for a tooltip."""
    return f"missing: {escaped(bare(why[: 4 * _TOOLTIP]), _TOOLTIP) or 'no reason is known'}"


def value_cell(level: int, value: str, text: str, title: str = "", hint: str = "") -> str:
    """A coloured cell of the table: a score, a rank, or whatever else has a place on a scale.

    Args:
        level: the step of the colours, 0 to 10.
        value: what the column is sorted by, a number.
        text: what the cell says.
        title: a tooltip, as markup; empty for none.
        hint: markup that follows the value.
    """
    tip = f' title="{title}"' if title else ""
    return f'<td class="cell h{level}" data-v="{value}"{tip}>{text}{hint}</td>'


def _row(form: PassageFormat, shown: Shown) -> str:
    """The passage's row of the table."""
    hit = shown.hit
    rank, first = hit.rank, hit.first_stage_rank
    flag = ""
    if hit.suspicions:
        said = bare("; ".join([each.sentence for each in hit.suspicions]))
        flag = (
            f'<abbr class="flag" title="{escaped(said, _TOOLTIP)}">'
            f'<span aria-hidden="true">{SUSPICIOUS}</span><span class="sr">suspicious</span></abbr>'
        )
    # Asked for nowhere: below the line a move is no finding.
    where = _moved(hit.moved) if rank <= form.last_rank else ""
    parts = [
        f'<tr><th class="name" data-v="{rank}"><span class="rank">{rank}</span>{flag}'
        f'<a class="label" href="#passage-{rank}" dir="auto">{shown.label}</a>'
        f'<bdi class="id">{escaped(hit.doc_id, _SHORT_ID)}</bdi></th>',
    ]
    add = parts.append
    if not form.inspection.unscored:
        add(_final_cell(form, shown))
    movers = shown.raised + shown.sunk
    for name, score in hit.marks.items():
        if score is None:
            add(form.without_score(hit, name))
        else:
            text, value = form.mark(hit, name)
            hint = _hint(shown.effects[name]) if name in movers else ""
            add(value_cell(form.level(score), value, text, _tip(hit, name, score), hint))
    if form.several:
        apart = shown.apart
        said = "" if apart is None else fixed(apart, form.apart_places)
        value = "" if apart is None else f' data-v="{apart:.6g}"'
        add(f'<td class="quiet apart"{value}>{said}</td>')
    add(f'<td class="from" data-v="{first}">{first}{where}</td>')
    if form.inspection.grades is not None:
        add(_grade_cell(form, hit.grade))
    if form.inspection.other:
        add(_other_cell(hit, form.other_places))
    add("</tr>")
    return "".join(parts)


def _tip(hit: Hit, name: str, score: float) -> str:
    """What a cell is about: exact score, rank without the persona, confidence."""
    at = hit.members.get(name)
    said = _place(at.rank, at.score, "") if at else "" if hit.ranks else f"{score:.6g}"
    if name in hit.rank_without:
        said += f"; without it rank {hit.rank_without[name]}"
    if name in hit.confidence:
        said += f"; {percent(hit.confidence[name])} sure"
    return said.removeprefix("; ")


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


def passage(form: PassageFormat, hit: Hit, limits: Limits = GENEROUS) -> str:
    """The passage's row, and its details in a row of their own, as markup."""
    shown = form.shown(hit)
    beyond = " beyond" if hit.rank > form.last_rank else ""
    return (
        f'<tbody class="passage{beyond}" id="passage-{hit.rank}">{_row(form, shown)}\n'
        f'<tr class="detail"><td colspan="{form.columns}">{_details(form, shown, limits)}</td></tr>'
        "</tbody>\n"
    )


def _details(form: PassageFormat, shown: Shown, limits: Limits) -> str:
    hit = shown.hit
    parts = ['<div class="inside"><div>\n']
    add = parts.append
    if shown.effects:
        add(f'<p class="why">{_why(form, shown)}</p>\n')
    for each in hit.suspicions:
        add(
            f'<p class="gap"><strong>{SUSPICIOUS} Suspicious.</strong> '
            f'<span class="iso">{escaped(each.sentence, limits.reason)}</span></p>\n'
        )
    for name, why in hit.missing.items():
        who = form.names.get(name) or escaped(name, _NAME)
        stood = hit.imputed.get(name)
        instead = "" if stood is None else f" {stood:.4g} is imputed."
        add(
            f'<p class="gap"><strong>No score by <bdi>{who}</bdi>.{instead}</strong> '
            f'<span class="iso">{escaped(why or "No reason is known.", limits.reason)}</span></p>\n'
        )
    if hit.marks and (shown.final is not None or hit.dropped is not None):
        add(_scores(form, shown, limits.criteria))
    add(f'<dl class="terms">{_facts(form, shown)}</dl></div>\n<div>')
    if shown.cut:
        title, more = shortened(hit.title, limits.text)
        add(f'<h3 dir="auto">{title}</h3>\n{_cut_here(more, "title")}')
    text, more = shortened(hit.text, limits.text)
    if text:
        add(f'<div class="text" dir="auto">{text}</div>\n')
    elif not hit.text:
        add('<p class="none">The passage has no text.</p>\n')
    if hit.cut:
        add(f'<p class="note">The model did not see the last {whole(hit.cut)} characters.</p>\n')
    add(f"{_cut_here(more, 'passage')}</div></div>")
    return "".join(parts)


def _final(hit: Hit) -> float | None:
    return hit.score if hit.at_most is None else hit.at_most


def _without_final(hit: Hit) -> str:
    """What stands in place of the final score of a passage that has none."""
    if hit.dropped is None:
        return NOT_SCORED
    return f"{_DROPPED}: relevance {hit.dropped:.6g}"


def _judges(
    inspection: RankingRecord, names: Mapping[str, str], team_page: str
) -> Mapping[str, str]:
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


def _final_cell(form: PassageFormat, shown: Shown) -> str:
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
    star = ""
    if hit.imputed:
        who = ", ".join(
            [f"{value:.4g} for {_plain_name(name)}" for name, value in hit.imputed.items()]
        )
        star = f'<abbr title="imputed: {who}">{IMPUTED}</abbr>'
    elif "(assessor)" in hit.missing:
        star = f'<abbr title="{_missing_title(hit.missing["(assessor)"])}">{IMPUTED}</abbr>'
    formula = hit.formula
    title = f' title="{formula}"' if formula else ""
    return f'<td class="final" data-v="{final:.6g}"{title}>{shown.score}{star}</td>'


def _plain_name(name: str) -> str:
    return escaped(bare(name[: 4 * _NAME]), _NAME)


def _grade_cell(form: PassageFormat, grade: int | None) -> str:
    if grade is None:
        return '<td class="grade"><span class="sr">not judged</span></td>'
    kind, _ = form.judgement(grade)
    mark = "\N{CHECK MARK}" if grade > 0 else "\N{BALLOT X}"
    if grade > 0 and form.graded:
        mark += f"\N{THIN SPACE}{grade}"
    return f'<td class="grade {kind}" data-v="{grade}">{mark}</td>'


def _moved(ranks: int) -> str:
    """Ranks gained or lost; the style adds the arrow, and words for screen readers."""
    if not ranks:
        return ' <b class="same"></b>'
    return f' <b class="{"up" if ranks > 0 else "down"}">{abs(ranks)}</b>'


def _hint(effect: int) -> str:
    return f'<small class="{"up" if effect > 0 else "down"}">{abs(effect)}</small>'


def _other_cell(hit: Hit, places: int) -> str:
    if hit.other is None:
        return '<td class="quiet other">not ranked</td>'
    rank, score = hit.other.rank, hit.other.score
    said = "no score" if score is None else fixed(score, places)
    return f'<td class="quiet other" data-v="{rank}">{rank} <small>{said}</small></td>'


def _facts(form: PassageFormat, shown: Shown) -> str:
    hit = shown.hit
    final, inspection = _without_final(hit), form.inspection
    if shown.final is not None:
        final = f"{'' if hit.at_most is None else 'at most '}{shown.final:.6g}"
    facts = [
        *([] if inspection.unscored else [("Final score", hit.formula or final)]),
        *([] if hit.relevance is None else [("Relevance", f"{hit.relevance:.3f}")]),
        ("First stage", _place(hit.first_stage_rank, hit.first_stage_score, "")),
    ]
    if len(hit.doc_id) > _SHORT_ID:
        facts.insert(0, ("Id", f"<bdi>{escaped(hit.doc_id, _ID)}</bdi>"))
    if inspection.grades is not None:
        facts.append(("Judgement", form.judgement(hit.grade)[1]))
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
    return "".join([f"<dt>{term}</dt><dd>{what}</dd>" for term, what in facts])


def _place(rank: int, score: float | None, otherwise: str) -> str:
    return f"rank {rank}{otherwise if score is None else f', score {score:.6g}'}"


def _why(form: PassageFormat, shown: Shown) -> str:
    """Who raised and who sank the passage, in sentences."""
    hit, said = shown.hit, []
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
    if not form.exact:
        what = "ranks" if form.by_rank else "scores"
        said.append(f"By the {what} alone it stands at rank {hit.rank_of_all}.")
    elif hit.rank_of_all != hit.rank:
        said.append(f"Among the passages that all have scored it stands at rank {hit.rank_of_all}.")
    return " ".join(said)


def _scores(form: PassageFormat, shown: Shown, most_criteria: int) -> str:
    hit = shown.hit
    without, effects = hit.rank_without, shown.effects
    head, what = "", "Rank" if form.by_rank else "Score"
    if without:
        head = '<th>Rank without</th><th class="words">Effect</th>'
    width = 4 if without else 2
    parts = [
        f'<table class="judgements"><thead><tr><th class="name">Judge</th><th>{what}</th>'
        f"{head}</tr></thead><tbody>\n"
    ]
    add = parts.append
    for name, score in hit.marks.items():
        if score is None:
            cell = form.without_score(hit, name)
        else:
            text = form.mark(hit, name)[0]
            cell = f'<td class="cell h{form.level(score)}">{text}</td>'
        said = form.judges[name]
        if score is not None and name not in hit.criteria and form.rubric(name):
            said += form.judged_as_a_whole
        add(f'<tr><th class="name">{said}</th>{cell}')
        if without:
            add(f"<td>{without[name]}</td>{_effect(effects[name], score)}")
        add("</tr>\n")
        if name in hit.criteria:
            add(_by_criterion(form, name, hit.criteria[name], most_criteria, width))
    add("</tbody></table>\n")
    return "".join(parts)


def _by_criterion(
    form: PassageFormat, persona: str, scores: Mapping[str, float], most: int, width: int
) -> str:
    """What each criterion adds to the persona's score: weight times score, of the most it could."""
    rubric = form.rubric(persona)
    weights = {each.name: each.weight for each in rubric.criteria} if rubric else {}
    rows = []
    for name, score in islice(scores.items(), most):
        share, added = weights.get(name), ""
        label = str(tersely(name, _NAME))
        if share is not None:
            label += f" {weight(share)}"
            part = min(max(score / form.highest, 0.0), 1.0) * share
            added = (
                f"+{exact(round(share * score / 100, 2))}"
                f'<svg class="bar"><rect width="{share:.4g}%"/><rect width="{part:.4g}%"/></svg>'
            )
        rest = f'<td colspan="{width - 2}">{added}</td>' if width > 2 else ""
        if not rest:
            label += added
        rows.append(f'<tr class="sub"><th>{label}</th><td>{score:.6g}</td>{rest}</tr>\n')
    if len(scores) > most:
        more = f"{whole(len(scores) - most)} more criteria"
        rows.append(f'<tr class="sub"><th colspan="{width}">{more}</th></tr>\n')
    return "".join(rows)


def _effect(effect: int, score: float | None) -> str:
    if score is None or not effect:
        said = "none" if score is not None else "gave no score"
        return f'<td class="words same">{said}</td>'
    kind, verb = ("up", "raised") if effect > 0 else ("down", "sank")
    return f'<td class="words {kind}">{verb} it by {abs(effect)}</td>'


def _cut_here(more: int, what: str) -> str:
    if not more:
        return ""
    characters = "character" if more == 1 else "characters"
    return (
        f'<p class="note">Cut here: {whole(more)} more {characters} of this {what} are not '
        "shown.</p>\n"
    )
