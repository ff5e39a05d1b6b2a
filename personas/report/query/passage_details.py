"""A passage's details: who judged it how, who raised or sank it, and its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from personas.report.formats import fixed, whole
from personas.report.markup import escaped, moved, shortened
from personas.report.query.passage_sheet import NOT_SCORED, Sheet, Shown, criterion_label

__all__ = ["GENEROUS", "TEXT_LIMIT", "TIGHT", "Limits", "passage_details"]

TEXT_LIMIT = 20_000
"""Bytes of one passage's text that are shown at most, as they stand in the page."""

_ID = 160
_NAME = 80
_MOST_NAMES = 3


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


def passage_details(sheet: Sheet, shown: Shown, limits: Limits = GENEROUS) -> str:
    """The fold with the details, as markup."""
    hit = shown.hit
    rank, judged = hit.rank, ""
    if hit.grade is not None:
        kind, words = sheet.judgement(hit.grade)
        judged = f'<span class="grade {kind}">{words}</span>'
    brief = f"{shown.score} {moved(hit.moved)!s}" if shown.score else NOT_SCORED
    parts = [
        f'<details class="passage" id="details-{rank}"><summary><span class="rank">{rank}</span>'
        f'<span class="label" dir="auto">{shown.label}</span>{judged}'
        f'<span class="brief">{brief}</span></summary>\n'
        f'<div class="inside" id="passage-{rank}">\n'
        f'<dl class="facts small">{_facts(sheet, shown)}</dl>\n'
    ]
    add = parts.append
    if shown.effects:
        add(f'<p class="why">{_why(sheet, shown)}</p>\n')
    if shown.final is not None:
        add(_scores(sheet, shown, limits.criteria))
    for name, why in hit.missing.items():
        who = sheet.names.get(name) or escaped(name, _NAME)
        add(
            f'<p class="gap"><strong>No score by <bdi>{who}</bdi>.</strong> '
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


def _facts(sheet: Sheet, shown: Shown) -> str:
    hit = shown.hit
    final, inspection = NOT_SCORED, sheet.inspection
    if shown.final is not None:
        final = f"{'' if hit.at_most is None else 'at most '}{shown.final:.6g}"
    facts = [
        ("Id", f"<bdi>{escaped(hit.doc_id, _ID)}</bdi>"),
        ("Final score", final),
        ("First stage", _place(hit.first_stage_rank, hit.first_stage_score, "")),
    ]
    if inspection.grades is not None:
        facts.insert(1, ("Judgement", sheet.judgement(hit.grade)[1]))
    if inspection.other:
        place = "not ranked"
        if hit.other is not None:
            place = _place(hit.other.rank, hit.other.score, ", no score")
        facts.append((f"<bdi>{sheet.other_name}</bdi>", place))
    span = hit.score_range
    if shown.apart is not None and span is not None:
        facts.append(
            (
                "Disagreement",
                f"{fixed(shown.apart, sheet.apart_places)} "
                f'<span class="aside">range {fixed(span, sheet.score_places)}</span>',
            )
        )
    return "".join([f"<div><dt>{term}</dt><dd>{what}</dd></div>" for term, what in facts])


def _place(rank: int, score: float | None, otherwise: str) -> str:
    return f"rank {rank}{otherwise if score is None else f', score {score:.6g}'}"


def _why(sheet: Sheet, shown: Shown) -> str:
    """Who raised and who sank the passage, in sentences."""
    hit, said = shown.hit, []
    if not sheet.exact:
        said.append(f"By the scores alone it stands at rank {hit.rank_of_all}.")
    elif hit.rank_of_all != hit.rank:
        said.append(f"Among the passages that all have scored it stands at rank {hit.rank_of_all}.")
    for names, verb in ((shown.raised, "raised"), (shown.sunk, "sank")):
        if not names:
            continue
        who = " or ".join(
            f"without <strong><bdi>{sheet.names[name]}</bdi></strong>"
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
        said.append("It would keep its rank without any one of those who scored it.")
    return " ".join(said)


def _scores(sheet: Sheet, shown: Shown, most_criteria: int) -> str:
    hit = shown.hit
    without, effects = hit.rank_without, shown.effects
    head, rest = "", ""
    if without:
        head = '<th scope="col">Rank without</th><th scope="col" class="words">Effect on rank</th>'
        rest = '<td colspan="2"></td>'
    parts = [
        '<div class="scroll plain fit" role="region" tabindex="0" '
        f'aria-label="Scores of rank {hit.rank}"><table class="judgements"><thead><tr>'
        f'<th scope="col" class="name">Judge</th><th scope="col">Score</th>{head}'
        "</tr></thead><tbody>\n"
    ]
    add = parts.append
    for name, score in hit.scores.items():
        if score is None:
            cell = sheet.without_score(hit, name)
        else:
            cell = f'<td class="cell h{sheet.level(score)}">{score:.6g}</td>'
        add(f'<tr><th scope="row" class="name">{sheet.judges[name]}</th>{cell}')
        if without:
            add(f"<td>{without[name]}</td>{_effect(effects[name], score)}")
        add("</tr>\n")
        if name in hit.criteria:
            scores = hit.criteria[name]
            add(_by_criterion(scores, sheet.criteria(name), most_criteria, rest))
    add("</tbody></table></div>\n")
    return "".join(parts)


def _by_criterion(
    scores: Mapping[str, float], labels: Mapping[str, str], most: int, rest: str
) -> str:
    head = '<tr class="sub"><th scope="row" class="name">'
    rows = [
        f"{head}{labels.get(name) or criterion_label(name)}</th><td>{score:.6g}</td>{rest}</tr>\n"
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
