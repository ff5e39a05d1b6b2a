"""The ranking in the terminal view: a heat map of numbers, and the most notable passages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from personas.console import letter, moved
from personas.format import counted, decimals, exact, fixed
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from personas.report.terminal.screen import (
    MISSING,
    NOTE,
    SPREAD,
    WIDE,
    Column,
    Screen,
    clipped,
    shade,
)

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
    if rest := len(inspection.hits) - len(hits):
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


def _tables(
    screen: Screen, inspection: RankingRecord, hits: Sequence[Hit]
) -> tuple[list[list[Column]], int]:
    """The columns, on as many tables as the width asks for, and the blanks between them."""
    lead = _lead(screen, hits)
    rest = list(_rest(inspection, hits))
    gap = 2 if screen.width >= WIDE else 1
    for names, wanted in ((True, _ROOM_BESIDE_NAMES), (False, _LEAST_EXCERPT)):
        whole = [*lead, *_scores(screen, inspection, hits, names=names, gap=gap), *rest]
        if (room := screen.width - _taken(whole, gap) - gap) >= wanted:
            return [[*whole, _excerpts(hits, room)]], gap
    tables = [[*lead]]
    for column in (*_scores(screen, inspection, hits, names=False, gap=1), *rest):
        if len(tables[-1]) > len(lead) and _taken([*tables[-1], column], 1) > screen.width:
            tables.append([*lead])
        tables[-1].append(column)
    if (room := screen.width - _taken(tables[-1], 1) - 1) >= _LEAST_EXCERPT:
        tables[-1].append(_excerpts(hits, room))
    return tables, 1


def _taken(columns: Sequence[Column], gap: int) -> int:
    return sum(column.width + gap for column in columns) - gap


def _lead(screen: Screen, hits: Sequence[Hit]) -> list[Column]:
    ids = [Text(clipped(hit.doc_id, _LONGEST_ID + 1)) for hit in hits]
    most = max(6, min(_LONGEST_ID, screen.width // 6))
    width = min(most, max(len("id"), *(each.cell_len for each in ids)))
    ranks = Column(("rank",), [Text(str(hit.rank)) for hit in hits])
    return [ranks, Column(("id",), ids, right=False, fixed_width=width)]


def _scores(
    screen: Screen, inspection: RankingRecord, hits: Sequence[Hit], *, names: bool, gap: int
) -> Iterator[Column]:
    """The final scores, and those of each persona below its name or letter."""
    if not inspection.unscored:
        yield _finals(hits)
    places = decimals([score for hit in hits for score in hit.known_scores])
    team = inspection.team.names if inspection.team else ()
    letters = {name: letter(place) for place, name in enumerate(team)}
    pad = " " * (gap - 1)
    for name in inspection.judges:
        heading = _broken(name) if names or name not in letters else (letters[name],)
        texts = [_score_text(inspection, hit, name, places) for hit in hits]
        width = max(3, *map(cell_len, [*texts, *heading]))
        cells = []
        for text, mark in zip(texts, (hit.marks[name] for hit in hits), strict=True):
            style = "" if mark is None else shade(screen, mark / inspection.top)
            cells.append(Text(f"{pad}{text:>{width}}{pad}", style=style))
        yield Column(tuple(f"{part}{pad}" for part in heading), cells)


def _finals(hits: Sequence[Hit]) -> Column:
    places = decimals([hit.score for hit in hits if hit.score is not None])
    cells = []
    for hit in hits:
        if hit.score is None:
            cells.append(Text("" if hit.dropped is None else "dropped", style=NOTE))
        else:
            cells.append(Text(fixed(hit.score, places), style="bold"))
    return Column(("score",), cells)


def _score_text(inspection: RankingRecord, hit: Hit, persona: str, places: int) -> str:
    """A persona's score or rank, or the sign for why there is none."""
    if (rank := hit.ranks.get(persona)) is not None:
        return f"{rank}{'+' if inspection.tails.get(persona) == rank else ''}"
    if (score := hit.scores.get(persona)) is not None:
        return fixed(score, places)
    if persona in hit.missing:
        return f"({hit.imputed[persona]:.4g})" if persona in hit.imputed else MISSING
    return ""


def _broken(name: str) -> tuple[str, ...]:
    """The name on lines of up to `_LONGEST_NAME` columns, three at most."""
    lines = wrap(clipped(name, 3 * _LONGEST_NAME), _LONGEST_NAME, break_long_words=False)
    return tuple(clipped(line, _LONGEST_NAME) for line in lines[:3]) or ("",)


def _rest(inspection: RankingRecord, hits: Sequence[Hit]) -> Iterator[Column]:
    """First-stage rank, disagreement, judgement, and rank by the other ranker."""
    moves = [moved(hit.moved) for hit in hits]
    longest = max(move.cell_len for move in moves)
    cells = [Text(f"{hit.first_stage_rank} ") + move for hit, move in zip(hits, moves, strict=True)]
    for cell, move in zip(cells, moves, strict=True):
        cell.pad_right(longest - move.cell_len)
    yield Column(("from",), cells)
    if len(inspection.judges) > 1:
        places = 2 if inspection.top > 1 else 3
        spreads = (hit.disagreement for hit in hits)
        texts = ["" if spread is None else fixed(spread, places) for spread in spreads]
        yield Column((SPREAD,), list(map(Text, texts)))
    if inspection.grades is not None:
        grades = [hit.grade for hit in hits]
        styles = ["bold green" if grade and grade > 0 else NOTE for grade in grades]
        texts = ["" if grade is None else str(grade) for grade in grades]
        yield Column(("grade",), list(map(Text, texts, styles)))
    if inspection.other is not None:
        ranks = [Text(str(hit.other.rank) if hit.other else "") for hit in hits]
        yield Column((_short(inspection.other.name),), ranks)


def _short(ranker: str) -> str:
    return clipped(ranker.partition("(")[0].strip() or ranker, 8)


def _excerpts(hits: Sequence[Hit], room: int) -> Column:
    """Title and text, told apart without colour as well."""
    cells = []
    for hit in hits:
        title, text = clipped(hit.title, _EXCERPT), clipped(hit.text, _EXCERPT)
        cell = Text(title, style="bold") if title else Text(text)
        cells.append(cell.append(f" | {text}" if title and text else "", style="not bold"))
    return Column(("passage",), cells, right=False, fixed_width=room)


def show_legend(screen: Screen, inspection: RankingRecord) -> None:
    """The columns and signs of the table, explained."""
    parts = [f"Scores go from 0 to {exact(inspection.top)}"] if inspection.judges else []
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
        parts.append("grade: the judgement, above 0 for relevant, blank where it is not judged")
    if inspection.other is not None:
        name = inspection.other.name
        parts.append(f"{_short(name)}: rank by {clipped(name, 60)}")
    if inspection.dropped:
        parts.append(
            f"{counted(len(inspection.dropped), 'passage')} dropped for too low a relevance, "
            "without a final score, and not returned"
        )
    if inspection.missing:
        imputed = any(hit.imputed.keys() & inspection.judges for hit in inspection.hits)
        said = "(7.5) a missing score that was imputed" if imputed else f"{MISSING} a missing score"
        parts.append(said)
    screen.words("; ".join(parts) + ".", NOTE)


def _show_notable(screen: Screen, inspection: RankingRecord) -> None:
    notable = [("climbed most", inspection.climbed_most), ("fell most", inspection.fell_most)]
    disputed = inspection.most_disputed
    if disputed or any(hit for _, hit in notable):
        screen.line()
        screen.line("Notable", "bold")
    for said, hit in (*notable, ("most disputed", disputed)):
        if hit is not None:
            apart = Text(f"{hit.score_range or 0.0:.3g} apart")
            line = Text(f"{said:<14}") + (apart if hit is disputed else moved(hit.moved))
            line.append(f", rank {hit.rank} from {hit.first_stage_rank}: ")
            line.append(f"{clipped(hit.doc_id, 40)} ", style="cyan")
            line.append(clipped(f"{hit.title} {hit.text[:_EXCERPT]}", _EXCERPT), style=NOTE)
            screen.line(line)


def show_missing(screen: Screen, inspection: RankingRecord) -> None:
    """Count missing scores, with the reasons of the first ones."""
    if not (missing := len(inspection.missing)):
        return
    screen.line()
    screen.line(
        f"{missing:,} {'score is' if missing == 1 else 'scores are'} missing", "bold yellow"
    )
    lost = ((hit, name, why) for hit in inspection.hits for name, why in hit.missing.items())
    for hit, name, why in islice(lost, _REASONS):
        where = f"rank {hit.rank} ({clipped(hit.doc_id, 40)}), {clipped(name, 80)}"
        screen.words(f"{where}: {clipped(why, 300) or 'no reason is known'}", hang=2)
    if missing > _REASONS:
        rest = counted(missing - _REASONS, "score")
        screen.words(f"and {rest} more; a passage's own view shows why", NOTE)
