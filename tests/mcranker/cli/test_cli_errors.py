"""What goes wrong: one line, an exit code, and an envelope for scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcranker import ChatRequest
from mcranker.cli.output import as_flags
from mcranker.errors import ConnectionFailed
from tests.support.cli_support import Connected, Run


@pytest.mark.parametrize(
    ("args", "code", "expected"),
    [
        (["rank"], 2, "Missing argument 'QUERY'"),
        (["rank", "q", "a", "--docs", "x"], 2, "not both"),
        (["rank", "q", "a", __file__], 2, "is a file; rank the passages in it with --docs /"),
        (["rank", "q", "/dev/null"], 2, "is a file; rank the passages in it with --docs /dev"),
        (["rank-run", "x", "--queries", "x"], 2, "Missing option '--corpus'"),
        (
            ["rank-run", "x", "--queries", "-", "--corpus", "-"],
            2,
            "--queries and --corpus cannot both be standard input; see",
        ),
        (["rank", "q", "a", "--team-size", "99"], 2, "--team-size 99: Input should be"),
        (["rank", "q", "a", "--scoring", "maybe"], 2, "there is no scoring 'maybe'"),
        (["rank", "q", "a", "-o", "labels=No,Yes"], 2, "labels go with --scoring expected"),
        (["rank", "q", "a", "--scroing", "x"], 2, "'--scoring'"),
        (
            ["rank", "q", "a", "--ranker", "direct", "-o", "assessor_model=x"],
            2,
            "takes no option 'assessor_model'",
        ),
        (["rank", "q", "a", "--top", "0"], 2, "0 is not in the range"),
        (["rank", "", "a"], 1, "the query is empty"),
        (["rank", "q", "--docs", "absent.jsonl"], 1, "absent.jsonl: cannot be read: No such file"),
        (["rank", "q", "--docs", "."], 1, ".: there is no passage in it"),
        (["rank", "q", "--docs", "-"], 1, "standard input: there is no passage in it"),
        (["rank", "q", "a", "--out", "."], 1, "'.': is a folder"),
        (["rank", "q", "a", "--out", "absent/x"], 1, "its folder does not exist"),
        (["rank", "q", "a", "--out", "x", "--save", "./x"], 2, "and --save './x' are one file"),
        (["rank", "q", "a", "--team", "absent.yaml"], 1, "absent.yaml: cannot be read"),
        (["rank", "q", "a", "--team", "nobody"], 1, "'nobody'"),
        (["rank", "q", "a", "-o", "prompts=absent"], 1, "'absent'"),
        (["rank", "q", "a", "--scoring", "expected"], 1, "use --scoring integer"),
        (["recruit", "q", "--out", "team.txt"], 2, "must end in .yaml"),
        (["recruit"], 2, "Missing argument 'QUERY'"),
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


def test_a_model_that_fails(run: Run, models: Connected) -> None:
    def failing(request: ChatRequest) -> str:
        raise ConnectionFailed("nobody there", model="openai:test")

    models.answer = failing
    result = run("rank", "q", "a", "--output", "json")
    assert result.exit_code == 1
    assert result.stderr == "mcranker: error: nobody there\n"
    assert json.loads(result.stdout)["errors"][0]["retryable"] is True


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
