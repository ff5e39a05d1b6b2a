"""``mcranker demo``: a team at work, from a recording, before and after a person's edit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from shutil import copyfile

import click
from rich.console import Console
from rich.text import Text

from mcranker.cli.flags import Verb, Writes, flag
from mcranker.cli.invocation import run_loop, say
from mcranker.cli.output import DONE
from mcranker.comparing import compare
from mcranker.demo import QUERY, WISH, rankings, recorded
from mcranker.llm.recording import RECORDED
from personas.console import print_page
from personas.report.comparison import show_comparison
from personas.report.terminal import show_ranking

_FIRST = """\
A recording: a large model, asked as a team of three, judged eight passages. Nothing is asked now.
The recruiter named two people who would ask this; each wrote criteria and scored every passage."""
_THEN = """
A person then gave the second judge one more criterion, with half of the weight:
"{wish}". The new scores are recorded too. What moved:"""
_NEXT = """
With a model of yours:  mcranker rank "{query}" --docs FILE --model openai:NAME
How good a ranker is:   beir-eval run smoke"""


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
