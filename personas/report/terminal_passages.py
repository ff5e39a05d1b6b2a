"""Passages in the terminal view: a heat map of numbers, the most notable ones, and one in full."""

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
from personas.report.formats import judgement, place
from personas.report.screen import (
    MISSING,
    NOTE,
    SPREAD,
    WIDE,
    Column,
    Screen,
    clipped,
    shade,
)
from personas.sanitize import plain

_LONGEST_ID = 24
_LONGEST_NAME = 12  # columns of a persona's name above its scores
_EXCERPT = 400  # characters of a passage looked at
_LEAST_EXCERPT = 16  # columns
_ROOM_BESIDE_NAMES = 40  # columns for excerpts; with less, letters replace the personas
_REASONS = 5
_MOST_TEXT = 4000  # characters
_LABEL = 14
_BAR = 10


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
    show_missing(screen, inspection)


def show_table(screen: Screen, inspection: RankingRecord, hits: Sequence[Hit]) -> None:
    """The heat map of these passages."""
    lead, rest = _lead(screen, hits), list(_rest(inspection, hits))
    gap = 2 if screen.width >= WIDE else 1
    for names, wanted in ((True, _ROOM_BESIDE_NAMES), (False, _LEAST_EXCERPT)):
        columns = [*lead, *_scores(screen, inspection, hits, names=names, gap=gap), *rest]
        if (room := screen.width - _taken(columns, gap) - gap) >= wanted:
            columns.append(_excerpts(hits, room))
            break
    screen.cells(columns, gap)


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
    for name in inspection.personas:
        heading = _broken(name) if names or name not in letters else (letters[name],)
        texts = [_score_text(inspection, hit, name, places) for hit in hits]
        width = max(3, *map(cell_len, [*texts, *heading]))
        cells = []
        for text, score in zip(texts, (hit.scores[name] for hit in hits), strict=True):
            style = "" if score is None else shade(screen, score / inspection.top)
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
    """A persona's score, or the sign for why there is none."""
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
    if len(inspection.personas) > 1:
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
    parts = [f"Scores go from 0 to {exact(inspection.top)}"] if inspection.personas else []
    parts.append("from: rank in the first stage, and how far the passage moved")
    if len(inspection.personas) > 1:
        parts.append(f"{SPREAD} disagreement, the standard deviation of the personas' scores")
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
        imputed = any(hit.imputed.keys() & inspection.personas for hit in inspection.hits)
        said = "(7.5) a missing score that was imputed" if imputed else f"{MISSING} a missing score"
        parts.append(said)
    screen.words("; ".join(parts) + ".", NOTE)


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


def show_passage(screen: Screen, inspection: RankingRecord, hit: Hit) -> None:
    """The passage's text, cut if it is long, and everything that placed it."""
    screen.line()
    screen.words(f"Rank {hit.rank} of {len(inspection.hits)}: {clipped(hit.doc_id, 200)}", "bold")
    if hit.title.strip():
        screen.words(clipped(hit.title, 500), "bold cyan")
    screen.words(plain(hit.text[:_MOST_TEXT]) or "The passage has no text.")
    if (rest := len(hit.text) - _MOST_TEXT) > 0:
        screen.words(f"Cut here: {counted(rest, 'more character')} are not shown.", NOTE)
    screen.line()
    for label, said in _facts(inspection, hit):
        screen.words(Text(f"{label:<{_LABEL}} ") + said, hang=_LABEL + 1)
    screen.line()
    if hit.dropped is not None:
        screen.words(f"Dropped and not returned: its relevance, {exact(hit.dropped)}, is too low.")
    elif not hit.judged:
        without = "The ranker gives an order without scores."
        screen.words(without if inspection.unscored else "The passage was not scored.")
        return
    screen.line(f"Scores, 0 to {exact(inspection.top)}", "bold")
    for name in inspection.personas:
        screen.words(_judge(screen, inspection, hit, name), hang=_BAR + 12)
        for criterion, score in hit.criteria.get(name, {}).items():
            screen.words(f"{exact(score):>8}  {clipped(criterion, 200)}", NOTE, hang=10)
    if hit.rank_without and not inspection.leave_one_out_exact:
        screen.words("Ranks without a persona are by the remaining scores, combined alike.", NOTE)


def _facts(inspection: RankingRecord, hit: Hit) -> Iterator[tuple[str, Text]]:
    if hit.score is not None:
        yield "final score", Text(hit.formula or exact(hit.score), style="bold")
    if hit.relevance is not None:
        yield "relevance", Text(f"{hit.relevance:.3f}")
    first = place(hit.first_stage_rank, hit.first_stage_score)
    yield "first stage", Text(f"{first}; moved ") + moved(hit.moved)
    if hit.disagreement is not None:
        yield "disagreement", Text(f"{hit.disagreement:.3g}")
    if inspection.grades is not None:
        yield "judgement", Text(judgement(hit.grade, graded=True))
    if (other := inspection.other) is not None:
        at = place(hit.other.rank, hit.other.score) if hit.other else "does not have this passage"
        yield clipped(other.name, 40), Text(at)
    for name, why in hit.missing.items():
        imputed = f" ({hit.imputed[name]:.4g} is imputed)" if name in hit.imputed else ""
        yield "missing", Text(f"{clipped(name, 80)}{imputed}: {clipped(why, 1000)}", "yellow")


def _judge(screen: Screen, inspection: RankingRecord, hit: Hit, name: str) -> Text:
    """The persona's score and its effect on the rank."""
    score, line = hit.scores[name], Text()
    if score is None:
        said = "missing" if name in hit.missing else "not asked"
        line.append(f"{said:>9}{'':{_BAR + 1}}", style=NOTE)
    else:
        share = score / inspection.top
        line.append(f"{exact(score):>8} ", style=shade(screen, share))
        line.append(" ").append_text(screen.bar(share, _BAR))
    line.append(f"  {clipped(name, 200)}", style="cyan")
    if (without := hit.rank_without.get(name)) is not None:
        effect = hit.effects[name]
        did = f": raised it {effect}" if effect > 0 else f": sank it {-effect}" if effect else ""
        line.append(f"  rank {without} without{did}")
    return line
