"""The command's parts by themselves: text, numbers, progress, files, added verbs, reference."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcranker.cli import cli
from mcranker.cli.progress import Tracker
from mcranker.cli.reference import reference
from mcranker.config import RankerConfig
from mcranker.events import RankingStarted
from mcranker.rankers import RANKERS
from mcranker.rankers.keys import keys_of
from personas.ranking.usage import Usage, UsageTable
from tests.support.cli_support import invoke
from tests.support.plugins import OTHERS

PROJECT = Path(__file__).parents[3]


def test_calls_tokens_and_cost_so_far() -> None:
    usage = UsageTable()
    tracker = Tracker("starting", unit="")
    tracker.take(RankingStarted("", "q", 10, usage))
    assert tracker.used == ""
    # The table grows while the query is ranked; 1 and 2 million tokens at $0.25 and $2 each.
    usage.add("score", "a", "openai:gpt-5-mini", Usage(calls=1, input_tokens=1_000_000))
    assert tracker.used == "1 call, 1,000,000 tokens, $0.25"
    usage.add("score", "a", "openai:gpt-5-mini", Usage(calls=1, output_tokens=2_000_000))
    assert tracker.used == "2 calls, 3,000,000 tokens, $4.25"
    # A model without a price has no cost, and neither has a sum with it.
    usage.add("score", "b", "openai:gpt-5-mini", Usage(calls=1), reused=True)
    usage.add("score", "b", "openai:no-such-model", Usage(calls=1))
    assert tracker.used == "3 calls, 3,000,000 tokens, 1 from the ledger"
    run = Tracker(total=4)
    for each in (usage, None, usage):
        run.count(each)
    assert run.used == "6 calls, 6,000,000 tokens, 2 from the ledger"
    assert run.reached == "after 3 of 4 queries"


@pytest.mark.skipif(bool(OTHERS), reason=f"the help lists what is added by {OTHERS}")
def test_the_reference_is_in_step_with_the_help() -> None:
    assert (PROJECT / "docs" / "cli.md").read_text(encoding="utf-8") == reference(), (
        "run: python -m mcranker.cli.reference > docs/cli.md"
    )


def test_the_options_of_every_ranker_are_listed() -> None:
    for name in RANKERS.names:
        rows = json.loads(invoke("rank", "--options", name, "--output", "json").stdout)["options"]
        assert {row["key"] for row in rows} == keys_of(name).keys()
        assert all(row["values"] and row["help"] for row in rows)
    everything = invoke("rank", "--options").stdout
    assert all(
        f"  {name}=" in everything for name in (*RankerConfig.model_fields, "min_relevance_score")
    )
    assert "[default: 3; 1 to 20]" in everything


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that adds verbs; what the help says about all verbs, on one line."""
    (tmp_path / "hello_verb.py").write_text(
        "import click\n@click.command()\ndef command():\n    click.echo('hello')\n    return 3\n"
    )
    (tmp_path / "hello_verbs.py").write_text(
        "import click\nfrom mcranker.cli.group import LazyVerb\n"
        "HELLO = LazyVerb('hello_verb', 'Say hello.')\nLOST = LazyVerb('not_there', 'Get lost.')\n"
        "BYE = click.Command('bye', help='Say good-bye, and nothing else.')\n"
    )
    info = tmp_path / "hello-1.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(
        "[console_scripts]\nx = y:z\n\n[mcranker.commands]\nhello = hello_verbs:HELLO\n"
        "bye = hello_verbs:BYE\nlost = hello_verbs:LOST\nbroken = not_there_at_all:command\n"
        "odd = sys:path\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return " ".join(CliRunner().invoke(cli, ["--help"]).stdout.split())


def test_packages_add_verbs_with_their_help(added: str) -> None:
    assert "bye Say good-bye, and nothing else." in added
    assert "hello Say hello." in added
    assert "hello_verb" not in sys.modules
    result = CliRunner().invoke(cli, ["hello"])
    assert (result.exit_code, result.stdout) == (3, "hello\n")
    assert CliRunner().invoke(cli, ["x"]).exit_code == 2


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("broken", "the verb 'broken' cannot be loaded from 'not_there_at_all:command'"),
        ("lost", "the verb 'lost' cannot be loaded from 'not_there': No module named"),
        ("odd", "'sys:path' is no click command"),
    ],
)
def test_a_verb_that_cannot_be_used_says_why(added: str, verb: str, message: str) -> None:
    assert "broken Cannot be loaded from 'not_there_at_all:command': No module" in added
    result = CliRunner().invoke(cli, [verb])
    assert result.exit_code == 1
    assert message in result.stderr
