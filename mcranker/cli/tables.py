"""Rankings as people read them in a terminal.

All foreign text (queries, passages, model output) goes through `plain` and into `Text`
objects, which know no markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mcranker.cli.teams_view import line
from personas.console import letter, moved
from personas.plain import plain
from personas.words import counted, dollars, score_column, seconds, weight

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.ranking import Ranking
    from personas import Member
    from personas.ranking.record import Hit

ROOM_FOR_PASSAGE = 24  # columns; with less, the personas' headings are letters
EXCERPT = 400  # characters of a passage looked at
LONGEST_ID = 24  # columns
SCORE_WIDTH = 5  # columns of a persona's score, at least
OTHER_COLUMNS = 24  # columns of rank, score, moved, and what stands between
REASONS = 3  # missing scores explained below a table
SKIPPED = "·"  # in place of a score that was not asked for; "-" is one that is missing


def show_ranking(console: Console, ranking: Ranking, top: int) -> None:
    """The team, the first `top` hits, and what it took."""
    line(console, Text(plain(ranking.query.text), style="bold"))
    for place, member in enumerate(ranking.team.members if ranking.team else ()):
        _member_lines(console, letter(place), member)
    hits = ranking[:top]
    if hits:
        console.print(_hit_table(console, ranking, hits))
    else:
        console.print("no passages", style="dim")
    rest = len(ranking) - len(hits)
    if rest:
        line(console, Text(f"{rest:,} more; --top {len(ranking)} shows all", style="dim"))
    if len(ranking) + len(ranking.dropped) < len(ranking.passages):
        line(console, Text(_left_out_line(ranking), style="dim"))
    if ranking.skipped:
        line(console, Text(_skipped_line(ranking), style="dim"), wrap=True)
    if ranking.dropped:
        line(console, Text(_dropped_line(ranking), style="dim"), wrap=True)
    if ranking.cut:
        line(console, Text(_cut_line(ranking), style="dim"))
    line(console, Text(_summary(ranking), style="dim"), wrap=True)
    if ranking.judge_note:
        line(console, Text(plain(ranking.judge_note), style="yellow"), wrap=True)
    if ranking.orders is not None:
        line(console, Text("A persona's column has its ranks.", style="dim"))
    for text in _missing_lines(ranking):
        line(console, Text(text, style="yellow"))


def _member_lines(console: Console, mark: str, member: Member) -> None:
    text = Text(f"  {mark}  ")
    text.append(plain(member.name), style="cyan")
    why = plain(member.persona.reason or member.persona.description)
    if why:
        text.append(f": {why}", style="dim")
    line(console, text)
    if member.rubric is not None:
        criteria = member.rubric.criteria
        listed = ", ".join(f"{plain(each.name)} {weight(each.weight)}" for each in criteria)
        console.print(Padding(Text(listed), (0, 0, 0, 5)))


def _hit_table(console: Console, ranking: Ranking, hits: list[Hit]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, expand=True)
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("id", no_wrap=True, overflow="ellipsis", max_width=LONGEST_ID)
    scored = ranking.comparisons is None or any(hit.score is not None for hit in hits)
    if scored:
        table.add_column("score", justify="right", no_wrap=True, style="bold")
    for heading in _headings(console, ranking, hits):
        width = max(_longest_word(heading), SCORE_WIDTH)
        table.add_column(Text(heading), justify="right", width=width)
    table.add_column("moved", justify="right", no_wrap=True)
    table.add_column("passage", no_wrap=True, overflow="ellipsis", ratio=1)
    finals = score_column([hit.score if hit.at_most is None else hit.at_most for hit in hits])
    judges = ranking.orders.personas if ranking.orders else ranking.personas
    columns = [
        [str(hit.ranks.get(name, "")) for hit in hits]
        if ranking.orders
        else score_column([hit.scores[name] for hit in hits])
        for name in judges
    ]
    for row, hit in enumerate(hits):
        beyond = hit.score is None and hit.at_most is None
        scores = {name: column[row] for name, column in zip(judges, columns, strict=True)}
        scores |= dict.fromkeys(hit.skipped, SKIPPED)
        scores |= {name: f"({hit.imputed[name]:.4g})" for name in scores if name in hit.imputed}
        table.add_row(
            str(hit.rank),
            Text(plain(hit.doc_id)),
            *(["" if beyond else _final(hit, finals[row])] if scored else []),
            *("" if beyond and not hit.missing else score for score in scores.values()),
            moved(hit.moved),
            _excerpt(hit),
            style="dim" if hit.score is None else None,
        )
    return table


def _final(hit: Hit, text: str) -> str:
    return text if hit.at_most is None else f"≤{text}"


def _excerpt(hit: Hit) -> Text:
    """Title and text, told apart without colour as well."""
    title, text = plain(hit.passage.title, EXCERPT), plain(hit.passage.text, EXCERPT)
    if not title:
        return Text(text)
    shown = Text(title, style="bold")
    return shown.append(f" | {text}", style="not bold") if text else shown


def _headings(console: Console, ranking: Ranking, hits: list[Hit]) -> list[str]:
    """The personas' names, broken at blanks, or letters where these take too much room."""
    judges = ranking.orders.personas if ranking.orders else ranking.personas
    names = [plain(name) for name in judges]
    id_width = min(LONGEST_ID, max(len(plain(hit.doc_id)) for hit in hits))
    columns = sum(max(_longest_word(name), SCORE_WIDTH) + 2 for name in names)
    taken = columns + id_width + OTHER_COLUMNS
    if console.width - taken >= ROOM_FOR_PASSAGE or ranking.team is None:
        return names
    return [letter(place) for place in range(len(names))]


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=1)


def _summary(ranking: Ranking) -> str:
    usage = ranking.usage
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    parts = [counted(usage.calls, "call")]
    if ranking.reused.calls:
        parts.append(f"{counted(ranking.reused.calls, 'answer')} from the ledger")
    parts += [
        f"{counted(usage.input_tokens, 'token')} in{cached}",
        f"{usage.output_tokens:,} out",
    ]
    if ranking.cost != 0:
        parts.append(dollars(ranking.cost))
    parts.append(seconds(ranking.seconds["total"]))
    parts += dict.fromkeys(plain(name) for name in ranking.models.values())
    return ", ".join(parts)


def _left_out_line(ranking: Ranking) -> str:
    limits = " and ".join(
        f"--{name.replace('_', '-')} {ranking.config[name]:g}"
        for name in ("min_relevance", "top_n")
        if ranking.config.get(name) is not None
    )
    left_out = len(ranking.passages) - len(ranking.dropped) - len(ranking)
    return f"{counted(left_out, 'passage')} left out by {limits}"


def _cut_line(ranking: Ranking) -> str:
    limits = " and ".join(
        f"{ranking.config[f'max_passage_{unit}']} {unit}"
        for unit in ("words", "tokens")
        if ranking.config.get(f"max_passage_{unit}") is not None
    )
    return f"{counted(len(ranking.cut), 'passage')} cut to {limits} for the model"


def _dropped_line(ranking: Ranking) -> str:
    return (
        f"{counted(len(ranking.dropped), 'passage')} dropped, and left out: relevance below "
        f"{ranking.config['drop_below']}"
    )


def _skipped_line(ranking: Ranking) -> str:
    return (
        f"{counted(ranking.skipped, 'score')} not asked for ({SKIPPED}): "
        f"those passages could not reach rank {ranking.config['top_k']}"
    )


def _missing_lines(ranking: Ranking) -> list[str]:
    missing = ranking.missing
    if not missing:
        return []
    brackets = "; in brackets what was imputed" if any(hit.imputed for hit in ranking) else ""
    lines = [f"{counted(len(missing), 'score')} missing{brackets}:"]
    lines += [
        f"  {plain(each.persona)} of {plain(each.doc_id)}: {plain(each.reason)}"
        for each in missing[:REASONS]
    ]
    if len(missing) > REASONS:
        lines.append(f"  and {len(missing) - REASONS:,} more; --output json lists all")
    return lines
