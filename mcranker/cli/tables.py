"""A ranking as the commands print it: the terminal view's table, with the team in short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from personas.console import letter
from personas.format import counted, dollars, seconds, weight
from personas.report.screen import NOTE, Screen, clipped
from personas.report.terminal import show_warnings
from personas.report.terminal_passages import show_legend, show_missing, show_table

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.ranking import Ranking
    from personas import Member

_MOST = 2000  # characters of a query, or of a line about a member


def show_ranking(console: Console, ranking: Ranking, top: int) -> None:
    """The team, the first `top` hits, warnings, and what it took."""
    screen = Screen(console)
    screen.words(clipped(ranking.query.text, _MOST), "bold")
    for place, member in enumerate(ranking.team.members if ranking.team else ()):
        _show_member(screen, letter(place), member, ranking.team.shares if ranking.team else {})
    screen.line()
    hits = ranking[:top]
    if hits:
        show_table(screen, ranking, hits)
    else:
        screen.words("no passages", NOTE)
    rest = len(ranking) - len(hits)
    if rest:
        screen.words(f"{rest:,} more; --top {len(ranking)} shows all", NOTE)
    if hits:
        show_legend(screen, ranking)
    screen.line()
    show_warnings(screen, ranking)
    if len(ranking) + len(ranking.dropped) < len(ranking.passages):
        screen.words(_left_out(ranking), NOTE)
    screen.words(_summary(ranking), NOTE)
    show_missing(screen, ranking)


def _show_member(screen: Screen, mark: str, member: Member, shares: Mapping[str, float]) -> None:
    text = Text(f"  {mark}  ").append(clipped(member.name, _MOST), style="cyan")
    if member.name in shares:
        text.append(f" counts {weight(shares[member.name])}")
    if why := member.persona.reason or member.persona.description:
        text.append(f": {clipped(why, _MOST)}", style=NOTE)
    screen.line(text)
    if member.rubric is not None:
        criteria = member.rubric.criteria
        listed = ", ".join(f"{clipped(each.name, 200)} {weight(each.weight)}" for each in criteria)
        screen.words(listed, indent=5)


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
    parts += dict.fromkeys(clipped(name, 200) for name in ranking.models.values())
    return ", ".join(parts)


def _left_out(ranking: Ranking) -> str:
    limits = " and ".join(
        f"{name}={ranking.config[name]:g}"
        for name in ("min_relevance", "top_n")
        if ranking.config.get(name) is not None
    )
    left_out = len(ranking.passages) - len(ranking.dropped) - len(ranking)
    return f"{counted(left_out, 'passage')} left out by {limits}"
