"""The slope chart of a comparison: the ranks before on the left, those after on the right.

The passages are lists of text, and only the lines between them are drawn, so that the chart is as
wide as the window and its words stay as large as all others. It is put together by hand; foreign
text goes through `markup.iso`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from personas.ranking.comparison import ComparedPassage, RankingComparison
from personas.ranking.record import Hit
from personas.report.markup import iso, moved
from personas.words import whole

FIRST = 20
"""Ranks that are drawn on either side, with all that left them or came to them."""

_ROW = 1.875  # rem, as in comparison.css
_LABEL = 90
_THIN, _THICK = 1.5, 5.0


def slope_chart(comparison: RankingComparison, anchor: Callable[[ComparedPassage], str]) -> Markup:
    """The chart as markup.

    Args:
        comparison: what to draw.
        anchor: the address of a passage's details; empty where there are none.
    """
    drawn = [each for each in comparison.passages if _is_drawn(each)]
    left = sorted((each for each in drawn if each.before), key=_rank_before)
    right = sorted((each for each in drawn if each.after), key=_rank_after)
    height = _ROW * max(len(left), len(right))
    rows = {id(each): row for row, each in enumerate(right)}
    lines = [_line(each, row, rows[id(each)]) for row, each in enumerate(left) if id(each) in rows]
    # Those that moved most are drawn last, above all others.
    lines = [
        line
        for _, line in sorted(
            zip((-each.weight for each in left if id(each) in rows), lines, strict=True),
            key=lambda pair: -pair[0],
        )
    ]
    return Markup(
        '<div class="slope"><div class="side"><p class="head">Before</p><ol>{}</ol></div>'
        '<svg class="lines" height="{}rem" viewBox="0 0 100 {}" preserveAspectRatio="none" '
        'aria-hidden="true" focusable="false">{}</svg>'
        '<div class="side"><p class="head">After</p><ol>{}</ol></div></div>'
    ).format(
        _items(left, lambda each: each.before, anchor, marked=False),
        f"{height:g}",
        f"{height:g}",
        Markup("").join(lines),
        _items(right, lambda each: each.after, anchor, marked=True),
    )


def left_out(comparison: RankingComparison) -> int:
    """How many passages are not drawn."""
    return sum(not _is_drawn(each) for each in comparison.passages)


def _is_drawn(each: ComparedPassage) -> bool:
    return any(hit is not None and hit.rank <= FIRST for hit in (each.before, each.after))


def _rank_before(each: ComparedPassage) -> int:
    assert each.before is not None
    return each.before.rank


def _rank_after(each: ComparedPassage) -> int:
    assert each.after is not None
    return each.after.rank


def _line(each: ComparedPassage, left: int, right: int) -> Markup:
    ranks = each.moved or 0
    kind = "up" if ranks > 0 else "down" if ranks < 0 else "same"
    width = _THIN if not ranks else _THIN + (_THICK - _THIN) * min(1.0, 2 * each.weight)
    return Markup(
        '<line class="{}" x1="0" y1="{:g}" x2="100" y2="{:g}" stroke-width="{:.2f}" '
        'vector-effect="non-scaling-stroke"/>'
    ).format(kind, _ROW * (left + 0.5), _ROW * (right + 0.5), width)


def _items(
    passages: Sequence[ComparedPassage],
    side: Callable[[ComparedPassage], Hit | None],
    anchor: Callable[[ComparedPassage], str],
    *,
    marked: bool,
) -> Markup:
    items = []
    last = 0
    for each in passages:
        hit = side(each)
        assert hit is not None
        gap = Markup(' class="skip"') if hit.rank > last + 1 else Markup("")
        last = hit.rank
        label = Markup('<span class="label">{}</span>').format(iso(label_of(each), _LABEL))
        address = anchor(each)
        if address:
            label = Markup('<a href="#{}">{}</a>').format(address, label)
        judged = Markup("")
        if each.grade is not None and each.grade > 0:
            judged = Markup('<span class="relevant"><span class="sr">judged relevant</span></span>')
        note = Markup("")
        if marked:
            note = (
                moved(each.moved)
                if each.moved is not None
                else Markup('<span class="up">new</span>')
            )
        elif each.after is None:
            note = Markup('<span class="down">gone</span>')
        items.append(
            Markup('<li{}><span class="rank">{}</span>{}{}{}</li>').format(
                gap, whole(hit.rank), label, judged, note
            )
        )
    return Markup("").join(items)


def label_of(each: ComparedPassage) -> str:
    """Title, or beginning of the text, or id."""
    return each.title.strip() or " ".join(each.text[: 4 * _LABEL].split()) or each.doc_id
