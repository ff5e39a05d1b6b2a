"""Text from outside on a terminal and in a log: it is shown, and does nothing else."""

from __future__ import annotations

import ast
import io
import json
import logging
import sys
from pathlib import Path

import pytest
from click.testing import Result
from rich.console import Console

from mcranker import ChatRequest, MCRanker, ScriptedChat
from mcranker.cli.progress import ProgressDisplay, Tracker
from personas import Member, Persona, Team
from tests.support.cli_support import Connected, scripted
from tests.support.commands import HOSTILE, call, unsafe, written

ROOT = Path(__file__).parent.parent.parent
ODD_ID = HOSTILE.replace("\u2028", "")  # which a TREC run would take for white space


named = pytest.mark.skipif(sys.platform == "win32", reason="no file can be called so")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Connected:
    """A model whose every text is hostile."""
    monkeypatch.chdir(tmp_path)
    connected = scripted(monkeypatch, tmp_path)

    def answer(request: ChatRequest) -> str:
        match request.tag.stage:
            case "recruit":
                return json.dumps({"Identities": [f"1{HOSTILE}", f"2{HOSTILE}"], "Reason": HOSTILE})
            case "criteria":
                criterion = {"Criterion": f"C{HOSTILE}", "Explanation": HOSTILE, "Weight": 100}
                return json.dumps({"Criteria": [criterion], "Reason": HOSTILE})
            case _:
                return HOSTILE if request.tag.doc_id.startswith("1") else '{"Score": 3}'

    connected.answer = answer
    return connected


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output and error are terminals, which know no colours."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    monkeypatch.setenv("TERM", "dumb")


def docs(tmp_path: Path) -> Path:
    entries = [
        {"id": f"{number}{ODD_ID}", "title": HOSTILE, "text": f"{number} {HOSTILE}"}
        for number in range(3)
    ]
    return written(tmp_path / "docs.jsonl", "".join(json.dumps(each) + "\n" for each in entries))


def harmless(command: str, *args: object) -> Result:
    """What a command prints when all goes well but for scores that do not come."""
    result = call(command, *args)
    assert result.exit_code in (0, 3), result.stderr
    assert not unsafe(result.stdout), ascii(result.stdout)
    assert not unsafe(result.stderr), ascii(result.stderr)
    return result


@pytest.mark.usefixtures("terminal")
def test_rankings_and_teams_on_a_terminal(model: Connected, tmp_path: Path) -> None:
    asked = ("rank", HOSTILE, "--docs", docs(tmp_path), "--ledger", "l.db")
    named = ("-o", f"query_id={ODD_ID}", "--model", f"openai:{HOSTILE}")
    for form in ("table", "json", "jsonl", "trec"):
        result = harmless("mcranker", *asked, *named, "--output", form, "--save", "saved.json")
        assert r"\x1b[31m" in result.stderr
        assert "31mred" in result.stdout
    harmless("mcranker", *asked, *named, "--dry-run")
    harmless("mcranker", "ledger", "--ledger", "l.db")
    for more in ([], ["--passage", "1"], ["--output", "json"]):
        harmless("mcranker", "inspect", "saved.json", *more)
    saved = json.loads(Path("saved.json").read_bytes())
    assert (saved["query"]["text"], saved["query"]["id"]) == (HOSTILE, ODD_ID)
    harmless("mcranker", "recruit", HOSTILE, "--out", "team.yaml")
    for more in ([], ["--output", "json"], ["--output", "yaml"]):
        assert "31mred" in harmless("personas", "show", "team.yaml", *more).stdout
    harmless("personas", "show", "--check", "team.yaml")


def test_the_live_display_takes_a_label_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like rich's markup would change colours, or end the run by an error."""
    shown_there = io.StringIO()
    console = Console(file=shown_there, force_terminal=True, width=100)
    monkeypatch.setattr("mcranker.cli.progress.Console", lambda **_: console)
    with ProgressDisplay(Tracker("data, [/b] [red]label", unit=""), wanted=True) as live:
        live.update()
    assert "data, [/b] [red]label" in shown_there.getvalue()


def test_warnings_of_the_library_steer_no_terminal() -> None:
    """Without a handler Python writes them to standard error as they are."""
    team = Team(members=(Member(persona=Persona(name=f"P{HOSTILE}")),))
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger("mcranker").addHandler(handler)
    try:
        model = ScriptedChat(lambda _: HOSTILE)
        with MCRanker(model=model, ledger=None, team=team, criteria="none") as ranker:
            ranker.rank("q", {f"d{HOSTILE}": "text"})
    finally:
        logging.getLogger("mcranker").removeHandler(handler)
    assert "scores are missing" in log.getvalue()
    assert not unsafe(log.getvalue()), ascii(log.getvalue())


def test_every_logger_of_the_packages_is_safe() -> None:
    """`logging.getLogger` is only for loggers of others, and for the handler of the commands."""
    allowed = {
        "mcranker/logs.py",
        "mcranker/cli/invocation.py",
        "mcranker/cli/serve.py",
        "beir_eval/data/ir_source.py",
        "mcranker/retrieval/bm25.py",
    }
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("mcranker", "personas", "beir_eval")
        for path in (ROOT / package).rglob("*.py")
        if "getLogger" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr == "getLogger"
    }
    assert found == allowed
