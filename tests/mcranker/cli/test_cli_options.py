"""Options, and what is refused: one line, an exit code, and an envelope for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcranker import ChatRequest
from mcranker.cli.output import as_flags
from tests.support.cli_support import Connected, Run, invoke, scripted


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connected:
    monkeypatch.chdir(tmp_path)
    return scripted(monkeypatch, tmp_path)


def config(*args: str) -> dict[str, Any]:
    """The recorded configuration of a ranking made with these arguments."""
    done = invoke("rank", "q", "a", "--output", "json", *args)
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["ranking"]["config"]
    return found


def test_a_file_holds_options_and_the_command_line_wins(models: Connected, tmp_path: Path) -> None:
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / "mine.toml").write_text(
        'team-size = 2\nscale = 20\nseed = 5\nrequire = ["Nurse"]\ntemperature = "none"\n'
        'criteria_model = "openai:large"\nledger = "answers.sqlite"\n'
    )
    found = config("--config", "settings/mine.toml", "--team-size", "3", "-o", "seed=6")
    assert (found["team_size"], found["scale"], found["seed"]) == (3, 20, 6)
    assert (found["require"], found["temperature"]) == (["Nurse"], None)
    assert ("openai:large", None) in models.asked
    assert (folder / "answers.sqlite").exists()  # beside the file


def test_a_file_chooses_the_ranker(models: Connected, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('ranker = "setwise"\nchildren = 1\nformat = "jsonl"\n')
    args = ("rank", "q", "--config", "r.toml", "--output", "json")
    found = json.loads(invoke(*args, input='{"id": "x", "text": "a"}\n').stdout)["ranking"]
    assert (found["ranker"], found["hits"][0]["doc_id"]) == ("setwise", "x")
    direct = invoke(*args, "--ranker", "direct")
    assert (direct.exit_code, "'children'; it goes with setwise" in direct.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("-o", "dept=3"), "takes no option 'dept'; did you mean 'depth'?"),
        (("-o", "window=3"), "it goes with rankgpt, rebel"),
        (("-o", "api_key=x"), "set OPENAI_API_KEY or ANTHROPIC_API_KEY"),
        (("-o", "depth"), "write KEY=VALUE"),
        (("-o", "top_n=x"), "top_n must be a whole number, not 'x'"),
        (("-o", "labels=No,Yes", "-o", "scale=3", "--scoring", "expected"), "leave out either"),
        (("-o", "topic_field=desc"), "takes no option 'topic_field'"),
        (("-o", "format=xml"), "format must be 'jsonl', 'json', 'csv', 'tsv' or 'text'"),
        (("--top-n", "3"), "there is no --top-n; give it as -o top_n=VALUE"),
        (
            ("--no-single-quotes",),
            "there is no --no-single-quotes; give it as -o single_quotes=VALUE",
        ),
        (("--ranker", "rankgtp"), "did you mean 'rankgpt'?"),
        (("--config", "bad.toml"), "bad.toml: not TOML"),
        (("--config", "odd.toml"), "odd.toml: the ranker 'mcranker' takes no option 'scael'; did"),
        (("--config", "value.toml"), "value.toml: scale must be at least 1, not 0"),
        (("--config", "two.toml"), "ranker=['direct', 'setwise']: name one"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(
    models: Connected, tmp_path: Path, args: tuple[str, ...], said: str
) -> None:
    (tmp_path / "bad.toml").write_text("a = \n")
    (tmp_path / "odd.toml").write_text("scael = 3\n")
    (tmp_path / "value.toml").write_text("scale = 0\n")
    (tmp_path / "five.toml").write_text("ranker = 5\n")
    (tmp_path / "two.toml").write_text('ranker = ["direct", "setwise"]\n')
    done = invoke("rank", "q", "a", *args)
    assert (done.exit_code, models.asked) == (2, [])
    assert said in done.stderr


@pytest.mark.parametrize(
    ("args", "code", "expected"),
    [
        (["rank"], 2, "Missing argument 'QUERY'"),
        (["rank", "q", "a", "--docs", "x"], 2, "not both"),
        (["rank", "q", "a", __file__], 2, "is a file; rank the passages in it with --docs /"),
        (["rank-run", "x", "--queries", "x"], 2, "Missing option '--corpus'"),
        (
            ["rank-run", "x", "--queries", "-", "--corpus", "-"],
            2,
            "--queries and --corpus cannot both be standard input; see",
        ),
        (["rank", "q", "a", "--scoring", "maybe"], 2, "there is no scoring 'maybe'"),
        (["rank", "q", "a", "--scroing", "x"], 2, "'--scoring'"),
        (
            ["rank", "q", "a", "--ranker", "direct", "-o", "assessor_model=x"],
            2,
            "takes no option 'assessor_model'",
        ),
        (["rank", "", "a"], 1, "the query is empty"),
        (["rank", "q", "--docs", "absent.jsonl"], 1, "absent.jsonl: cannot be read: No such file"),
        (["rank", "q", "--docs", "."], 1, ".: there is no passage in it"),
        (["rank", "q", "a", "--out", "x", "--save", "./x"], 2, "and --save './x' are one file"),
        (["rank", "q", "a", "--team", "nobody"], 1, "'nobody'"),
        (["rank", "q", "a", "--scoring", "expected"], 1, "use --scoring integer"),
        (["recruit", "q", "--out", "team.txt"], 2, "must end in .yaml"),
        (["recruit", "q", "-o", "ranker=direct"], 2, "'direct' recruits no team"),
        (["models", "--model", "x"], 2, "--model goes with --check"),
        (["ask", "q", "--presets", "nothing"], 2, "there is no preset 'nothing'"),
        (["serve", "--mcp", "stdio", "--allow-no-keys"], 2, "--allow-no-keys does not go with"),
        (["rnak", "q"], 2, "Did you mean 'rank'"),
        (["models", "--download", "smolm2-135m"], 1, "smollm2-135m"),
    ],
)
def test_what_is_wrong_is_one_line(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    code: int,
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*args)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("mcranker: error: ")
    assert result.stderr.count("\n") == 1
    assert expected in result.stderr


def test_errors_are_an_envelope_too_when_json_is_asked_for(run: Run) -> None:
    for args, code, name in [
        (["rank", "q", "--docs", "absent", "--output", "json"], 1, "InputError"),
        (["rank", "q", "a", "--output=json", "-o", "scale=0"], 2, "ConfigError"),
        (["recruit", "--output", "json"], 2, "MissingParameter"),
    ]:
        result = run(*args)
        whole = json.loads(result.stdout)
        assert (result.exit_code, whole["exit_code"], whole["status"]) == (code, code, "error")
        (entry,) = whole["errors"]
        assert (entry["code"], entry["retryable"]) == (name, False)
        assert entry["message"] in result.stderr


def test_a_traceback_only_with_debug(run: Run, models: Connected) -> None:
    def failing(request: ChatRequest) -> str:
        raise ZeroDivisionError("a\nb")

    models.answer = failing
    plain = run("rank", "q", "a")
    assert plain.exit_code == 1
    assert plain.stderr.startswith("mcranker: error: unexpected ZeroDivisionError: a; b; --debug")
    for args in (["--debug", "rank", "q", "a"], ["rank", "q", "a", "--debug"]):
        assert "Traceback (most recent call last)" in run(*args).stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('labels go with scoring="expected", not', "labels go with --scoring expected, not"),
        ("team_size=3, but", "--team-size 3, but"),
        ("or use ledger=None", "or use --ledger none"),
        ("(with base_url= for", "(with --base-url for"),
        ("use model='local:PATH.gguf'", "use --model local:PATH.gguf"),
        (
            'criteria="dataset" needs dataset=: say',
            "-o criteria=dataset needs -o dataset=VALUE: say",
        ),
        ("http://host/?model=3&seed=1 x=1", "http://host/?model=3&seed=1 x=1"),
        ("labels=('a',): too few", "labels=('a',): too few"),
    ],
)
def test_messages_name_flags(text: str, expected: str) -> None:
    assert as_flags(text) == expected
