"""``mcranker demo``: a team at work, from a recording, before and after a person's edit."""

from __future__ import annotations

import json
import tempfile
from importlib import resources
from pathlib import Path
from shutil import copyfile
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from mcranker import MCRanker
from mcranker.cli.flags import Verb, Writes, flag
from mcranker.cli.invocation import run_loop, say
from mcranker.cli.output import DONE
from mcranker.comparing import compare
from mcranker.llm.chat import ChatModel
from mcranker.llm.recording import RECORDED
from mcranker.ranking import Ranking
from personas import Criterion, Rubric, Team
from personas.console import print_page
from personas.report.comparison import show_comparison
from personas.report.terminal import show_ranking

QUERY = "best masks against covid"
WISH = "Figures from a study back it up"
_FIRST = """\
A recording: a large model, asked as a team of three, judged eight passages. Nothing is asked now.
The recruiter named two people who would ask this; each wrote criteria and scored every passage."""
_THEN = """
A person then gave the second judge one more criterion, with half of the weight:
"{wish}". The new scores are recorded too. What moved:"""
_NEXT = """
With a model of yours:  mcranker rank "{query}" --docs examples/masks.jsonl --model openai:NAME
How good a ranker is:   beir-eval run smoke"""


def recorded(name: str) -> Path:
    """A file of the example: the package's, or the checkout's."""
    packaged = Path(str(resources.files("mcranker"))) / "demo" / name
    return packaged if packaged.exists() else Path(__file__).parents[2] / "examples" / name


def passages() -> list[dict[str, Any]]:
    """The passages of the example."""
    lines = recorded("masks.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def edited(team: Team) -> Team:
    """The team with one more criterion of its second persona, written by a person."""
    first, second, *others = team.members
    assert second.rubric is not None, "it was written with the team"
    kept = [each.model_copy(update={"weight": each.weight / 2}) for each in second.rubric.criteria]
    rubric = Rubric(criteria=(*kept, Criterion(name=WISH, weight=50)), reason=second.rubric.reason)
    second = second.model_copy(update={"rubric": rubric})
    return team.model_copy(update={"members": (first, second, *others)})


async def rankings(model: str | ChatModel, ledger: Path) -> tuple[Ranking, Ranking]:
    """The ranking by the team that is recruited and the one by the edited team, with reasons."""

    async def ranked(**options: Any) -> Ranking:
        async with MCRanker(model=model, ledger=ledger, **options) as ranker:
            ranking = await ranker.arank(QUERY, passages())
            return await ranker.aexplain(ranking, len(ranking))

    before = await ranked(team_size=3)
    assert before.team is not None
    return before, await ranked(team=edited(before.team))


def _demo(ctx: click.Context) -> int:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "masks.ledger"  # the package may not be written
        copyfile(recorded("masks.ledger"), ledger)
        before, after = run_loop(lambda: rankings(RECORDED, ledger))
    if (path := ctx.params["html"]) is not None:
        after.to_html(path)
        say(f"Wrote {path}")
        return DONE

    def show(console: Console) -> None:
        console.print(Text(_FIRST))
        show_ranking(console, before, before, top=len(before))
        for hit in before[:2]:
            for persona, reason in hit.reasons.items():
                console.print(Text(f"{hit.doc_id}, {persona}: {reason.text}"), soft_wrap=True)
        console.print(Text(_THEN.format(wish=WISH)))
        show_comparison(console, compare(before, after), top=4)
        console.print(Text(_NEXT.format(query=QUERY)))

    print_page(show)
    return DONE


command = Verb(
    "demo",
    _demo,
    params=[
        flag("--html", "Write the page of the edited team's ranking instead.", type=Writes()),
    ],
    help="""Show a team at work: who judged, by which criteria, why, and what an edit moves.

    The answers are recorded: those of a large model, word for word as they came. No key, no
    download, no call.
    """,
)
