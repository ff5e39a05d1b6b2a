"""A passage's row in the heat map."""

from __future__ import annotations

from personas.inspection.inspection import InspectedHit
from personas.report.formats import fixed
from personas.report.markup import escaped, moved
from personas.report.query.passage_sheet import NOT_SCORED, Sheet, Shown, missing_title

__all__ = ["heat_row"]

_ID = 80


def heat_row(sheet: Sheet, shown: Shown) -> str:
    """The row as markup, a cell for each heading of ``templates/ranking.html``."""
    hit = shown.hit
    rank, first, up = hit.rank, hit.first_stage_rank, hit.moved
    parts = [
        f'<tr data-place="{rank}"><th scope="row" class="name" data-v="{rank}">'
        f'<span class="rank">{rank}</span><span class="what">'
        f'<a href="#passage-{rank}" dir="auto">{shown.label}</a>'
        f'<span class="id" dir="auto">{escaped(hit.doc_id, _ID)}</span></span></th>',
        _final(shown),
    ]
    add = parts.append
    movers = shown.raised + shown.sunk
    for name, score in hit.scores.items():
        if score is None:
            add(sheet.without_score(hit, name))
        else:
            text = fixed(score, sheet.score_places)
            hint = _hint(shown.effects[name]) if name in movers else ""
            add(f'<td class="cell h{sheet.level(score)}" data-v="{score:.6g}">{text}{hint}</td>')
    if sheet.several:
        apart = shown.apart
        if apart is None:
            add('<td class="quiet"></td>')
        else:
            add(f'<td class="quiet" data-v="{apart:.6g}">{fixed(apart, sheet.apart_places)}</td>')
    add(f'<td class="quiet" data-v="{first}">{first}</td><td data-v="{up}">{moved(up)!s}</td>')
    if sheet.inspection.grades is not None:
        add(_grade(sheet, hit.grade))
    if sheet.inspection.other:
        add(_other(hit, sheet.other_places))
    add("</tr>\n")
    return "".join(parts)


def _final(shown: Shown) -> str:
    hit, final = shown.hit, shown.final
    if final is None:
        return f'<td class="final none">{NOT_SCORED}</td>'
    if not hit.judged:
        return (
            f'<td class="final none" data-v="{final:.6g}" title="at most: not all were asked">'
            f"{shown.score}</td>"
        )
    why = hit.missing.get("(assessor)")
    star = "" if why is None else f'<abbr title="{missing_title(why)}">*</abbr>'
    return f'<td class="final" data-v="{final:.6g}">{shown.score}{star}</td>'


def _grade(sheet: Sheet, grade: int | None) -> str:
    kind, words = sheet.judgement(grade)
    value = "" if grade is None else f' data-v="{grade}"'
    return f'<td class="grade {kind}"{value}>{words}</td>'


def _hint(effect: int) -> str:
    if effect > 0:
        return f'<small class="up"><span class="sr">, raised it </span>▲{effect}</small>'
    return f'<small class="down"><span class="sr">, sank it </span>▼{-effect}</small>'


def _other(hit: InspectedHit, places: int) -> str:
    if hit.other is None:
        return '<td class="quiet">not ranked</td><td class="quiet"></td>'
    rank, score = hit.other.rank, hit.other.score
    place = f'<td class="quiet" data-v="{rank}">{rank}</td>'
    if score is None:
        return f'{place}<td class="quiet">none</td>'
    return f'{place}<td class="quiet" data-v="{score:.6g}">{fixed(score, places)}</td>'
