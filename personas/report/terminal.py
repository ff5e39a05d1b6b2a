"""Views for people at a terminal: a ranked query, one passage of it, and a team."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from textwrap import wrap
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from personas.console import letter, moved, print_page
from personas.errors import PersonasError
from personas.format import counted, decimals, dollars, exact, fixed, seconds, weight
from personas.origins import edited, origin
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
from personas.report.warnings import judgements, warnings
from personas.sanitize import plain
from personas.schema import Member, Persona, Rubric, Team

_RANK = re.compile("(?<!0)0*+[1-9][0-9]{0,8}")
MARKS = {
    "bad": ("x", "bold red"),
    "warn": ("!", "yellow"),
    "note": ("-", NOTE),
    "good": ("+", "green"),
}
_LONGEST_ID = 24
_LONGEST_NAME = 12  # columns of a persona's name above its scores
_EXCERPT = 400  # characters of a passage looked at
_LEAST_EXCERPT = 16  # columns
_ROOM_BESIDE_NAMES = 40  # columns for excerpts; with less, letters replace the personas
_REASONS = 5
_MOST_TEXT = 4000  # characters of a passage
_MOST_LINE = 1000  # characters of a query, or of a line about a member
_LABEL = 14
_BAR, _WEIGHT_BAR = 10, 16  # columns of a full bar of a score, and of a weight


def print_inspection(
    data: RankingRecord | Mapping[str, Any],
    *,
    top: int = 20,
    passage: int | str | None = None,
    grades: Mapping[str, int] | None = None,
    file: TextIO | None = None,
) -> None:
    """Print a ranking: in colour on a terminal, as plain text anywhere else."""
    ranking = RankingRecord.of(data).beside(grades=grades)
    hit = None if passage is None else find_hit(ranking, passage)
    print_page(
        lambda console: (
            show_ranking(console, ranking, ranking.hits, top)
            if hit is None
            else show_passage(console, ranking, hit)
        ),
        file,
    )


def find_hit(ranking: RankingRecord, passage: int | str) -> Hit:
    """The passage of that id, or of that rank if no passage has such an id."""
    hits, said = ranking.hits, f"no passage {passage!r}"
    if isinstance(passage, str):
        try:
            return ranking[passage]
        except KeyError as error:
            said = error.args[0]
    if _RANK.fullmatch(str(passage)) and int(passage) <= len(hits):
        return hits[int(passage) - 1]
    hint = f"; give an id, or a rank from 1 to {len(hits)}" if hits else ": no passages were ranked"
    raise PersonasError(said if said.endswith("?") else f"{said}{hint}")


def show_ranking(
    console: Console, ranking: RankingRecord, hits: RankingRecord | Sequence[Hit], top: int
) -> None:
    """Print the query, the team in short, the first `top` of the hits, warnings and calls."""
    screen = Screen(console)
    _show_head(screen, ranking)
    _show_judges(screen, ranking)
    screen.line()
    if shown := list(hits[: max(1, top)]):
        _show_table(screen, ranking, shown)
        if rest := len(hits) - len(shown):
            screen.words(f"{counted(rest, 'more passage')} below these", NOTE)
        _show_legend(screen, ranking)
    elif ranking.hits:
        screen.words("No passage is left.", NOTE)
    else:
        screen.words("No passages were given, so there was nothing to rank.", NOTE)
    screen.line()
    if (judged := judgements(ranking)) is not None:
        screen.words(judged.sentence)
    for each in warnings(ranking):
        mark, style = MARKS[each.kind]
        screen.words(f"{mark} {clipped(each.sentence, 800)}", style, hang=2)
    if (left_out := len(ranking.hits) - len(ranking.dropped) - len(hits)) > 0:
        limits = {name: ranking.config.get(name) for name in ("min_relevance", "top_n")}
        given = " and ".join(f"{k}={v:g}" for k, v in limits.items() if v is not None)
        screen.words(f"{counted(left_out, 'passage')} left out by {given}", NOTE)
    screen.words(_used(ranking), NOTE)
    _show_missing(screen, ranking)


def _show_head(screen: Screen, ranking: RankingRecord) -> None:
    """The query, and what ranked how many passages."""
    screen.words(clipped(ranking.query.text, _MOST_LINE), "bold")
    # Without scores there is no scheme of scoring, and no ensemble.
    settings = ["preset"] if ranking.comparisons else ["preset", "scoring", "ensemble"]
    parts = [f"query {clipped(ranking.query.id, 80)}"] if ranking.query.id else []
    parts += [
        counted(len(ranking.hits), "passage"),
        f"ranked by {clipped(ranking.ranker, 80)}",
        *(
            f"{name} {clipped(str(ranking.config[name]), 40)}"
            for name in settings
            if ranking.config.get(name)
        ),
    ]
    screen.words(", ".join(parts), NOTE)


def _show_judges(screen: Screen, ranking: RankingRecord) -> None:
    """Every member with its letter in the table, and its criteria."""
    if (team := ranking.team) is None:
        screen.words("No personas were asked: this ranker judges by itself.", NOTE)
        return
    if team.name or team.locked:
        named = Text(f"team {clipped(team.name, 200)}".rstrip())
        screen.words(named.append(", locked: used as it was" * team.locked, style="yellow"))
    for index, member in enumerate(team.members):
        text = Text(f"  {letter(index)}  ").append(clipped(member.name, 200), style="cyan")
        if member.name in team.shares:
            text.append(f" counts {weight(team.shares[member.name])}")
        if member.origin == "human" or edited(member):
            text.append(f", {origin(member)}", style="yellow")
        if why := member.persona.reason or member.persona.description:
            text.append(f": {clipped(why, _MOST_LINE)}", style=NOTE)
        screen.line(text)
        criteria = member.rubric.criteria if member.rubric else ()
        listed = (f"{clipped(each.name, 200)} {weight(each.weight)}" for each in criteria)
        screen.words(", ".join(listed) or "judges without written criteria", indent=5)


def _used(ranking: RankingRecord) -> str:
    usage, reused = ranking.usage, ranking.reused.calls
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    total = ranking.seconds.get("total")
    parts = [
        counted(usage.calls, "call"),
        f"{counted(reused, 'answer')} from the ledger" if reused else "",
        f"{counted(usage.input_tokens, 'token')} in{cached}",
        f"{usage.output_tokens:,} out",
        dollars(ranking.cost) if ranking.cost != 0 else "",
        seconds(total) if total is not None else "",
        *(clipped(name, 120) for name in islice(dict.fromkeys(ranking.models.values()), 20)),
    ]
    return ", ".join(filter(None, parts))


def _show_table(screen: Screen, ranking: RankingRecord, hits: Sequence[Hit]) -> None:
    """The heat map of these passages."""
    lead, rest = _lead(screen, hits), list(_rest(ranking, hits))
    gap = 2 if screen.width >= WIDE else 1
    for names, wanted in ((True, _ROOM_BESIDE_NAMES), (False, _LEAST_EXCERPT)):
        columns = [*lead, *_scores(screen, ranking, hits, names=names, gap=gap), *rest]
        if (room := screen.width - _width_of(columns, gap) - gap) >= wanted:
            columns.append(_excerpts(hits, room))
            break
    screen.cells(columns, gap)


def _width_of(columns: Sequence[Column], gap: int) -> int:
    return sum(column.width + gap for column in columns) - gap


def _lead(screen: Screen, hits: Sequence[Hit]) -> list[Column]:
    ids = [Text(clipped(hit.doc_id, _LONGEST_ID + 1)) for hit in hits]
    most = max(6, min(_LONGEST_ID, screen.width // 6))
    width = min(most, max(len("id"), *(each.cell_len for each in ids)))
    ranks = Column(("rank",), [Text(str(hit.rank)) for hit in hits])
    return [ranks, Column(("id",), ids, right=False, fixed_width=width)]


def _scores(
    screen: Screen, ranking: RankingRecord, hits: Sequence[Hit], *, names: bool, gap: int
) -> Iterator[Column]:
    """The final scores, and those of each persona below its name or letter."""
    if not ranking.unscored:
        yield _finals(hits)
    places = decimals([score for hit in hits for score in hit.known_scores])
    team = ranking.team.names if ranking.team else ()
    letters = {name: letter(place) for place, name in enumerate(team)}
    pad = " " * (gap - 1)
    for name in ranking.personas:
        heading = _broken(name) if names or name not in letters else (letters[name],)
        texts = [_score_text(ranking, hit, name, places) for hit in hits]
        width = max(3, *map(cell_len, [*texts, *heading]))
        cells = []
        for text, score in zip(texts, (hit.scores[name] for hit in hits), strict=True):
            style = "" if score is None else shade(screen, score / ranking.top)
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


def _score_text(ranking: RankingRecord, hit: Hit, persona: str, places: int) -> str:
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


def _rest(ranking: RankingRecord, hits: Sequence[Hit]) -> Iterator[Column]:
    """First-stage rank, disagreement and judgement."""
    moves = [moved(hit.moved) for hit in hits]
    longest = max(move.cell_len for move in moves)
    cells = [Text(f"{hit.first_stage_rank} ") + move for hit, move in zip(hits, moves, strict=True)]
    for cell, move in zip(cells, moves, strict=True):
        cell.pad_right(longest - move.cell_len)
    yield Column(("from",), cells)
    if len(ranking.personas) > 1:
        places = 2 if ranking.top > 1 else 3
        spreads = (hit.disagreement for hit in hits)
        texts = ["" if spread is None else fixed(spread, places) for spread in spreads]
        yield Column((SPREAD,), list(map(Text, texts)))
    if ranking.grades is not None:
        grades = [hit.grade for hit in hits]
        styles = ["bold green" if grade and grade > 0 else NOTE for grade in grades]
        texts = ["" if grade is None else str(grade) for grade in grades]
        yield Column(("grade",), list(map(Text, texts, styles)))


def _excerpts(hits: Sequence[Hit], room: int) -> Column:
    """Title and text, told apart without colour as well."""
    cells = []
    for hit in hits:
        title, text = clipped(hit.title, _EXCERPT), clipped(hit.text, _EXCERPT)
        cell = Text(title, style="bold") if title else Text(text)
        cells.append(cell.append(f" | {text}" if title and text else "", style="not bold"))
    return Column(("passage",), cells, right=False, fixed_width=room)


def _show_legend(screen: Screen, ranking: RankingRecord) -> None:
    """The columns and signs of the table, explained."""
    parts = [f"Scores go from 0 to {exact(ranking.top)}"] if ranking.personas else []
    parts.append("from: rank in the first stage, and how far the passage moved")
    if len(ranking.personas) > 1:
        parts.append(f"{SPREAD} disagreement, the standard deviation of the personas' scores")
    if ranking.grades is not None:
        parts.append("grade: the judgement, above 0 for relevant, blank where it is not judged")
    if ranking.dropped:
        parts.append(
            f"{counted(len(ranking.dropped), 'passage')} dropped for too low a relevance, "
            "without a final score, and not returned"
        )
    if ranking.missing:
        imputed = any(hit.imputed.keys() & ranking.personas for hit in ranking.hits)
        said = "(7.5) a missing score that was imputed" if imputed else f"{MISSING} a missing score"
        parts.append(said)
    screen.words("; ".join(parts) + ".", NOTE)


def _show_missing(screen: Screen, ranking: RankingRecord) -> None:
    """Count missing scores, with the reasons of the first ones."""
    if not (missing := len(ranking.missing)):
        return
    screen.line()
    screen.line(
        f"{missing:,} {'score is' if missing == 1 else 'scores are'} missing", "bold yellow"
    )
    lost = ((hit, name, why) for hit in ranking.hits for name, why in hit.missing.items())
    for hit, name, why in islice(lost, _REASONS):
        where = f"rank {hit.rank} ({clipped(hit.doc_id, 40)}), {clipped(name, 80)}"
        screen.words(f"{where}: {clipped(why, 300) or 'no reason is known'}", hang=2)
    if missing > _REASONS:
        rest = counted(missing - _REASONS, "score")
        screen.words(f"and {rest} more; a passage's own view shows why", NOTE)


def show_passage(console: Console, ranking: RankingRecord, hit: Hit) -> None:
    """Print a passage's text, cut if it is long, and everything that placed it."""
    screen = Screen(console)
    _show_head(screen, ranking)
    if ranking.judge_note:
        screen.words(clipped(ranking.judge_note, 300), "yellow")
    screen.line()
    screen.words(f"Rank {hit.rank} of {len(ranking.hits)}: {clipped(hit.doc_id, 200)}", "bold")
    if hit.title.strip():
        screen.words(clipped(hit.title, 500), "bold cyan")
    screen.words(plain(hit.text[:_MOST_TEXT]) or "The passage has no text.")
    if (rest := len(hit.text) - _MOST_TEXT) > 0:
        screen.words(f"Cut here: {counted(rest, 'more character')} are not shown.", NOTE)
    screen.line()
    for label, said in _facts(ranking, hit):
        screen.words(Text(f"{label:<{_LABEL}} ") + said, hang=_LABEL + 1)
    screen.line()
    if hit.dropped is not None:
        screen.words(f"Dropped and not returned: its relevance, {exact(hit.dropped)}, is too low.")
    elif not hit.judged:
        without = "The ranker gives an order without scores."
        screen.words(without if ranking.unscored else "The passage was not scored.")
        return
    screen.line(f"Scores, 0 to {exact(ranking.top)}", "bold")
    for name in ranking.personas:
        screen.words(_judge(screen, ranking, hit, name), hang=_BAR + 12)
        for criterion, score in hit.criteria.get(name, {}).items():
            screen.words(f"{exact(score):>8}  {clipped(criterion, 200)}", NOTE, hang=10)
    if hit.rank_without and not ranking.leave_one_out_exact:
        screen.words("Ranks without a persona are by the remaining scores, combined alike.", NOTE)


def _facts(ranking: RankingRecord, hit: Hit) -> Iterator[tuple[str, Text]]:
    if hit.score is not None:
        yield "final score", Text(hit.formula or exact(hit.score), style="bold")
    if hit.relevance is not None:
        yield "relevance", Text(f"{hit.relevance:.3f}")
    first = place(hit.first_stage_rank, hit.first_stage_score)
    yield "first stage", Text(f"{first}; moved ") + moved(hit.moved)
    if hit.disagreement is not None:
        yield "disagreement", Text(f"{hit.disagreement:.3g}")
    if ranking.grades is not None:
        yield "judgement", Text(judgement(hit.grade, graded=True))
    for name, why in hit.missing.items():
        imputed = f" ({hit.imputed[name]:.4g} is imputed)" if name in hit.imputed else ""
        yield "missing", Text(f"{clipped(name, 80)}{imputed}: {clipped(why, 1000)}", "yellow")


def _judge(screen: Screen, ranking: RankingRecord, hit: Hit, name: str) -> Text:
    """The persona's score and its effect on the rank."""
    score, line = hit.scores[name], Text()
    if score is None:
        said = "missing" if name in hit.missing else "not asked"
        line.append(f"{said:>9}{'':{_BAR + 1}}", style=NOTE)
    else:
        share = score / ranking.top
        line.append(f"{exact(score):>8} ", style=shade(screen, share))
        line.append(" ").append_text(screen.bar(share, _BAR))
    line.append(f"  {clipped(name, 200)}", style="cyan")
    if (without := hit.rank_without.get(name)) is not None:
        effect = hit.effects[name]
        did = f": raised it {effect}" if effect > 0 else f": sank it {-effect}" if effect else ""
        line.append(f"  rank {without} without{did}")
    return line


def show_record(console: Console, record: Team | Member | Persona | Rubric) -> None:
    """Print a team, member, persona or rubric in full."""
    screen = Screen(console)
    match record:
        case Team():
            for text in filter(None, (record.name, record.query)):
                screen.words(plain(text), "bold")
            if record.description:
                screen.words(plain(record.description))
            locked = ", locked: nothing is recruited or rewritten" if record.locked else ""
            members = counted(len(record.members), "member")
            screen.words(f"{members}, digest {record.digest}{locked}", NOTE)
            for member in record.members:
                screen.line()
                _show_member(screen, member, record.shares.get(member.name))
        case Member():
            _show_member(screen, record)
        case Persona():
            _show_persona(screen, record, Text(plain(record.name), style="bold cyan"))
        case Rubric():
            _show_rubric(screen, record)


def _show_member(screen: Screen, member: Member, share: float | None = None) -> None:
    title = Text(plain(member.name), style="bold cyan")
    if share is not None:
        title.append(f"  counts {weight(share)}", style="not bold")
    style = "not bold yellow" if edited(member) else "not bold dim"
    _show_persona(screen, member.persona, title.append(f"  {origin(member)}", style=style))
    if member.rubric is None:
        screen.line("no criteria", NOTE)
    else:
        _show_rubric(screen, member.rubric)


def _show_persona(screen: Screen, persona: Persona, title: Text) -> None:
    screen.words(title)
    topics = ", ".join(persona.topics)
    labelled = {"": persona.description, "why: ": persona.reason, "topics: ": topics}
    for label, said in labelled.items():
        if said:
            screen.words(Text(label, style=NOTE).append(plain(said), style="not dim"))


def _show_rubric(screen: Screen, rubric: Rubric) -> None:
    if rubric.reason:
        screen.words(plain(rubric.reason))
    for criterion in rubric.criteria:
        line = screen.bar(criterion.weight / 100, _WEIGHT_BAR)
        line.append(f" {weight(criterion.weight):>5}  ", style="not cyan")
        line.append(plain(criterion.name), style="bold not cyan")
        screen.words(line, hang=_WEIGHT_BAR + 8)
        if criterion.description:
            screen.words(plain(criterion.description), indent=_WEIGHT_BAR + 8)
