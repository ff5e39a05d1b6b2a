"""A page of a team with what it would cost, to be signed off before it judges."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcranker.errors import ConfigError, UnsupportedCapability
from mcranker.llm.chat import ChatModel
from mcranker.llm.scripted import ScriptedChat
from mcranker.method.team_plan import as_team
from mcranker.options import TeamSpec
from mcranker.rankers.mcranker import MCRanker
from personas.errors import PersonasError
from personas.files import weight_notes
from personas.ranking.types import Passage

if TYPE_CHECKING:
    from personas import Team
    from personas.report.team_page import TeamCosts

MOST_PASSAGES = 10_000
_WORD = "passage "  # of the made-up passages; some eight bytes, as words of running text have


def team_to_html(
    team: TeamSpec,
    path: str | os.PathLike[str],
    *,
    passages: int = 100,
    words: int = 150,
    model: str | ChatModel | None = None,
) -> None:
    """Write the page of a team: who, why, by what criteria, who wrote them, and cost.

    The file needs nothing else, and appears whole or not at all. No model is called.

    >>> team_to_html("team.yaml", "team.html", model="openai:gpt-5-mini")

    Args:
        team: as `MCRanker` takes it; a file, or a saved ranking for the team that judged it.
        path: of the page; one that is there is replaced.
        passages: of a query, for which the cost is estimated, 1 to 10,000.
        words: of a passage, 1 to 10,000.
        model: whose prices are taken; without, calls and tokens are estimated and no cost.

    Raises:
        PersonasError: the team cannot be used.
        ConfigError: a number is out of range, or there is no such model.
        OSError: the file cannot be written.
    """
    from personas.io.atomic import write_whole

    found = as_team(team)
    source = os.fspath(team) if isinstance(team, str | os.PathLike) else ""
    page = render_team_page(found, passages=passages, words=words, model=model, source=source)
    write_whole(path, page)


def render_team_page(
    team: Team,
    *,
    passages: int = 100,
    words: int = 150,
    model: str | ChatModel | None = None,
    source: str = "",
    date: str = "",
    command: str = "",
) -> str:
    """The page that `team_to_html` writes."""
    from mcranker import __version__
    from personas.report.site import ReportFooter
    from personas.report.team_page import render_team

    costs, why_not = None, ""
    try:
        costs = team_costs(team, passages=passages, words=words, model=model)
    except UnsupportedCapability as error:
        why_not = str(error)
    notes = [f"{note[0].upper()}{note[1:]}." for _, note in weight_notes(source)] if source else ()
    footer = ReportFooter(__version__, date, command)
    return render_team(
        team, costs=costs, no_costs=why_not, notes=notes, source=source, footer=footer
    )


def team_costs(
    team: Team, *, passages: int = 100, words: int = 150, model: str | ChatModel | None = None
) -> TeamCosts:
    """Estimate the team's effort for one query, as `mcranker.Estimate` does; nothing is sent."""
    from personas.report.team_page import MemberCost, TeamCosts

    for name, number in (("passages", passages), ("words", words)):
        if not 1 <= number <= MOST_PASSAGES:
            raise ConfigError(f"{name}={number!r}; give a number from 1 to {MOST_PASSAGES:,}")
    text = _WORD * words
    # Each has an end of its own: equal passages are judged once.
    docs = [Passage(str(place), f"{text}{place}") for place in range(passages)]
    asked = ScriptedChat(lambda _: "") if model is None else model
    try:
        with MCRanker(team=team, model=asked, ledger=None) as ranker:
            estimate = ranker.estimate(team.query or "a query of some words", docs)
    except PersonasError as error:
        raise ConfigError(str(error)) from error
    from mcranker.llm.prices import cost

    members: dict[str, MemberCost] = {}
    for (_, persona, name), usage in estimate.table.items():
        price = None if model is None else cost(name, usage)
        known = members.get(persona, MemberCost(persona, 0, 0, 0, 0.0))
        members[persona] = MemberCost(
            persona,
            usage.calls + known.calls,
            usage.input_tokens + known.input_tokens,
            usage.output_tokens + known.output_tokens,
            None if price is None or known.cost is None else price + known.cost,
        )
    order = {name: place for place, name in enumerate(team.names)}
    listed = sorted(members.values(), key=lambda each: order.get(each.persona, len(order)))
    name = "" if model is None else ranker.models.scoring.name
    return TeamCosts(passages, words, name, tuple(listed))
