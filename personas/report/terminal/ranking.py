"""The ranking in the terminal view: a heat map of numbers, and what stands out in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.text import Text

from personas.console import letter, moved
from personas.ranking.record import Hit, RankingRecord
from personas.report.terminal.screen import (
    AT_MOST,
    MISSING,
    NOTE,
    SKIPPED,
    SPREAD,
    WIDE,
    Column,
    Screen,
    clipped,
    shade,
)
from personas.words import counted, decimals, exact, fixed

_LONGEST_ID = 24
_LONGEST_NAME = 12  # columns of a persona's name above its scores
_EXCERPT = 400  # characters of a passage looked at
_LEAST_EXCERPT = 16  # columns
_ROOM_BESIDE_NAMES = 40  # columns for excerpts; with less, letters replace the personas
_REASONS = 5


def show_ranking(screen: Screen, inspection: RankingRecord, top: int) -> None:
    """The first `top` passages with every score, and the notable ones of all."""
    screen.line()
    screen.line("Ranking", "bold")
    if not inspection.hits:
        screen.words("No passages were given, so there was nothing to rank.", NOTE)
        return
    hits = inspection.hits[: max(1, top)]
    show_table(screen, inspection, hits)
    rest = len(inspection.hits) - len(hits)
    if rest:
        screen.words(f"{rest:,} more passages below these", NOTE)
    show_legend(screen, inspection)
    _show_notable(screen, inspection)
    show_missing(screen, inspection)


def show_table(screen: Screen, inspection: RankingRecord, hits: Sequence[Hit]) -> None:
    """The heat map of these passages."""
    tables, gap = _tables(screen, inspection, hits)
    for place, columns in enumerate(tables):
        if place:
            screen.line()
        screen.cells(columns, gap)


def _score_text(inspection: RankingRecord, hit: Hit, persona: str, places: int) -> str:
    """A persona's score or rank, or the sign for why there is none."""
    rank = hit.ranks.get(persona)
    if rank is not None:
        return f"{rank}{'+' if inspection.tails.get(persona) == rank else ''}"
    score = hit.scores.get(persona)
    if persona in hit.members:
        return f"#{hit.members[persona].rank}"
    if score is not None:
        return fixed(score, places)
    if persona in hit.missing:
        return f"({hit.imputed[persona]:.4g})" if persona in hit.imputed else MISSING
    return SKIPPED if hit.judged or persona in hit.skipped else ""


def _tables(
    screen: Screen, inspection: RankingRecord, hits: Sequence[Hit]
) -> tuple[list[list[Column]], int]:
    """The columns, on as many tables as the width asks for, and the blanks between them.

    Rank and id lead each table.
    """
    lead = _lead(screen, hits)
    finals = [] if inspection.unscored else [_finals(hits)]
    rest = _rest(inspection, hits)
    gap = 2 if screen.width >= WIDE else 1
    for names, wanted in ((True, _ROOM_BESIDE_NAMES), (False, _LEAST_EXCERPT)):
        whole = [*lead, *finals, *_judges(screen, inspection, hits, names=names, gap=gap), *rest]
        room = screen.width - _taken(whole, gap) - gap
        if room >= wanted:
            return [[*whole, _excerpts(hits, room)]], gap
    gap = 1
    tables = [[*lead]]
    for column in (*finals, *_judges(screen, inspection, hits, names=False, gap=gap), *rest):
        if len(tables[-1]) > len(lead) and _taken([*tables[-1], column], gap) > screen.width:
            tables.append([*lead])
        tables[-1].append(column)
    room = screen.width - _taken(tables[-1], gap) - gap
    if room >= _LEAST_EXCERPT:
        tables[-1].append(_excerpts(hits, room))
    return tables, gap


def _lead(screen: Screen, hits: Sequence[Hit]) -> list[Column]:
    ids = [Text(clipped(hit.doc_id, _LONGEST_ID + 1)) for hit in hits]
    most = max(6, min(_LONGEST_ID, screen.width // 6))
    return [
        Column(("rank",), [Text(str(hit.rank)) for hit in hits]),
        Column(
            ("id",),
            ids,
            right=False,
            fixed_width=min(most, max(len("id"), *(each.cell_len for each in ids))),
        ),
    ]


def _finals(hits: Sequence[Hit]) -> Column:
    by = [hit.score if hit.at_most is None else hit.at_most for hit in hits]
    places = decimals([final for final in by if final is not None])
    cells = []
    for hit, final in zip(hits, by, strict=True):
        sign = "" if hit.at_most is None else AT_MOST
        without = "" if hit.dropped is None else "dropped"
        said = without if final is None else f"{sign}{fixed(final, places)}"
        cells.append(Text(said, style="bold" if final is not None else NOTE))
    return Column(("score",), cells)


def _judges(
    screen: Screen, inspection: RankingRecord, hits: Sequence[Hit], *, names: bool, gap: int
) -> list[Column]:
    places = decimals([score for hit in hits for score in hit.known_scores])
    letters = {
        member.name: letter(place)
        for place, member in enumerate(inspection.team.members if inspection.team else ())
    }
    columns = []
    for name in inspection.judges:
        heading = _broken(name) if names or name not in letters else (letters[name],)
        texts = [_score_text(inspection, hit, name, places) for hit in hits]
        pad = " " * (gap - 1)
        width = max(3, *map(cell_len, [*texts, *heading]))
        styles = [_style(screen, hit.marks[name], inspection.top) for hit in hits]
        cells = [
            Text(f"{pad}{text:>{width}}{pad}", style=style)
            for text, style in zip(texts, styles, strict=True)
        ]
        columns.append(Column(tuple(f"{part}{pad}" for part in heading), cells))
    return columns


def _rest(inspection: RankingRecord, hits: Sequence[Hit]) -> list[Column]:
    columns = [_column(("from",), hits, _where_from(hits))]
    if len(inspection.judges) > 1:
        places = 2 if inspection.top > 1 else 3
        columns.append(_column((SPREAD,), hits, lambda hit: _spread(hit, places)))
    if inspection.grades is not None:
        columns.append(_column(("grade",), hits, _grade))
    other = inspection.other
    if other is not None:
        columns.append(_column((_short(other.name),), hits, lambda hit: Text(_other_rank(hit))))
    return columns


def _column(heading: tuple[str, ...], hits: Sequence[Hit], cell: Callable[[Hit], Text]) -> Column:
    return Column(heading, [cell(hit) for hit in hits])


def _where_from(hits: Sequence[Hit]) -> Callable[[Hit], Text]:
    longest = max(moved(hit.moved).cell_len for hit in hits)

    def cell(hit: Hit) -> Text:
        by = moved(hit.moved)
        return Text(f"{hit.first_stage_rank} ") + by + Text(" " * (longest - by.cell_len))

    return cell


def _spread(hit: Hit, places: int) -> Text:
    return Text("" if hit.disagreement is None else fixed(hit.disagreement, places))


def _grade(hit: Hit) -> Text:
    if hit.grade is None:
        return Text("")
    return Text(str(hit.grade), style="bold green" if hit.grade > 0 else NOTE)


def _other_rank(hit: Hit) -> str:
    return "" if hit.other is None else str(hit.other.rank)


def _short(ranker: str) -> str:
    return clipped(ranker.partition("(")[0].strip() or ranker, 8)


def _excerpts(hits: Sequence[Hit], room: int) -> Column:
    cells = [_excerpt(hit) for hit in hits]
    return Column(("passage",), cells, right=False, fixed_width=room)


def _excerpt(hit: Hit) -> Text:
    """Title and text, told apart without colour as well."""
    title, text = clipped(hit.title, _EXCERPT), clipped(hit.text, _EXCERPT)
    if not title:
        return Text(text)
    shown = Text(title, style="bold")
    return shown.append(f" | {text}", style="not bold") if text else shown


def _broken(name: str) -> tuple[str, ...]:
    """The name on lines of up to `_LONGEST_NAME` columns, three at most."""
    words = clipped(name, 3 * _LONGEST_NAME).split() or [""]
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= _LONGEST_NAME:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return tuple(clipped(line, _LONGEST_NAME) for line in lines[:3])


def _style(screen: Screen, score: float | None, top: float) -> str:
    return "" if score is None else shade(screen, score / top)


def _taken(columns: Sequence[Column], gap: int) -> int:
    return sum(column.width + gap for column in columns) - gap


def show_legend(screen: Screen, inspection: RankingRecord) -> None:
    """The columns and signs of the table, explained."""
    parts = [f"Scores go from 0 to {exact(inspection.top)}"] if inspection.judges else []
    if any(hit.members for hit in inspection.hits):
        parts = ["#3 the rank that a member gave"]
    if inspection.by_rank:
        parts = ["Each persona's column has its ranks"]
        if inspection.tails:
            parts.append(
                "+ the rank behind those that a persona has sorted out; all others share it and "
                "count by the mean of their ranks"
            )
    parts.append("from: rank in the first stage, and how far the passage moved")
    if len(inspection.judges) > 1:
        what = "ranks" if inspection.by_rank else "scores"
        parts.append(f"{SPREAD} disagreement, the standard deviation of the personas' {what}")
    if inspection.grades is not None:
        parts.append("grade: the judgement, above 0 for relevant, blank without a judgement")
    if inspection.other is not None:
        name = inspection.other.name
        parts.append(f"{_short(name)}: rank by {clipped(name, 60)}")
    if inspection.dropped:
        parts.append(
            f"{counted(len(inspection.dropped), 'passage')} dropped for too low a relevance, "
            "without a final score, and not returned"
        )
    if inspection.missing:
        said = f"{MISSING} a missing score"
        parts.append("(7.5) a missing score that was imputed" if _filled(inspection) else said)
    if inspection.skipped:
        goal = f"rank {inspection.top_k}" if inspection.top_k else "the first ranks"
        parts.append(
            f"{SKIPPED} a score not asked for ({inspection.skipped:,} in all), because the "
            f"passage could not reach {goal}; {AT_MOST} the score it could have got at most"
        )
    screen.words("; ".join(parts) + ".", NOTE)


def _filled(inspection: RankingRecord) -> bool:
    return any(name in hit.imputed for hit in inspection.hits for name in inspection.judges)


def _show_notable(screen: Screen, inspection: RankingRecord) -> None:
    climbed, fell = inspection.climbed_most, inspection.fell_most
    disputed = inspection.most_disputed
    if climbed or fell or disputed:
        screen.line()
        screen.line("Notable", "bold")
    for said, hit in (("climbed most", climbed), ("fell most", fell)):
        if hit is not None:
            _show_hit(screen, said, moved(hit.moved), hit)
    if disputed is not None:
        spread = Text(f"{disputed.score_range or 0.0:.3g} apart")
        _show_hit(screen, "most disputed", spread, disputed)


def _show_hit(screen: Screen, said: str, figure: Text, hit: Hit) -> None:
    line = Text(f"{said:<14}") + figure
    line.append(f", rank {hit.rank} from {hit.first_stage_rank}: ")
    line.append(f"{clipped(hit.doc_id, 40)} ", style="cyan")
    line.append(clipped(f"{hit.title} {hit.text[:_EXCERPT]}", _EXCERPT), style=NOTE)
    screen.line(line)


def show_missing(screen: Screen, inspection: RankingRecord) -> None:
    """Describe the number of missing scores, and the first reasons."""
    missing = len(inspection.missing)
    if not missing:
        return
    screen.line()
    said = "score is" if missing == 1 else "scores are"
    screen.line(f"{missing:,} {said} missing", "bold yellow")
    lost = ((hit, name, why) for hit in inspection.hits for name, why in hit.missing.items())
    for (hit, name, why), _ in zip(lost, range(_REASONS), strict=False):
        reason = clipped(why, 300) or "no reason is known"
        screen.words(
            f"rank {hit.rank} ({clipped(hit.doc_id, 40)}), {clipped(name, 80)}: {reason}", hang=2
        )
    if missing > _REASONS:
        rest = counted(missing - _REASONS, "score")
        screen.words(f"and {rest} more; a passage's own view shows why", NOTE)
