"""Options by ``-o KEY=VALUE`` and ``--config FILE``: what counts, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcranker.rankers.keys import keys_of
from tests.support.cli_support import Connected, invoke, scripted


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


def test_values_are_read_by_the_kind_of_their_option(models: Connected) -> None:
    given = (
        "scale=20",
        "temperature=none",
        "nlp_scientist=false",
        "deadline=2.5",
        "lowercase-query=on",
    )
    found = config(*(part for text in given for part in ("-o", text)))
    assert (found["scale"], found["temperature"], found["deadline"]) == (20, None, 2.5)
    assert (found["nlp_scientist"], found["lowercase_query"]) == (False, True)


def test_a_repeated_key_makes_a_list_where_the_option_is_one(models: Connected) -> None:
    names = config(
        "-o", "require=Vet, retired", "-o", "require=Nurse", "-o", "seed=1", "-o", "seed=2"
    )
    assert (names["require"], names["seed"]) == (["Vet, retired", "Nurse"], 2)
    assert config("-o", "forbid=a,b")["forbid"] == ["a,b"]


def test_lists_have_commas() -> None:
    key = keys_of("mcranker")["labels"]
    assert key.read(key.joined(["No, Yes"])) == key.read(key.joined(["No", "Yes"])) == ("No", "Yes")


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
        (("-o", "zzzzz=3"), "see 'mcranker rank --options' for all"),
        (("-o", "api_key=x"), "set OPENAI_API_KEY or ANTHROPIC_API_KEY"),
        (("-o", "depth"), "write KEY=VALUE"),
        (("-o", "top_n=x"), "-o top_n=x: Input should be a valid integer"),
        (("-o", "top_n=0"), "Input should be greater than or equal to 1"),
        (("-o", "criteria=all"), "Input should be 'query', 'dataset', 'library' or 'none'"),
        (("-o", "batch=maybe"), "Input should be a valid boolean"),
        (("-o", "deadline=nan"), "Input should be a finite number"),
        (("-o", "labels=No,Yes", "-o", "scale=3", "--scoring", "expected"), "leave out either"),
        (("-o", "topic_field=desc"), "takes no option 'topic_field'"),
        (("-o", "format=xml"), "Input should be 'jsonl', 'json', 'csv', 'tsv' or 'text'"),
        (("--top-n", "3"), "there is no --top-n; give it as -o top_n=VALUE"),
        (
            ("--no-batch-criteria",),
            "there is no --no-batch-criteria; give it as -o batch_criteria=VALUE",
        ),
        (("--ranker", "rankgtp"), "did you mean 'rankgpt'?"),
        (("--config", "gone.toml"), "gone.toml: cannot be read"),
        (("--config", "bad.toml"), "bad.toml: not TOML"),
        (("--config", "odd.toml"), "odd.toml: the ranker 'mcranker' takes no option 'scael'; did"),
        (("--config", "value.toml"), "value.toml: scale = 0: Input should be greater"),
        (("--config", "five.toml"), "five.toml: ranker = 5: write the name of one"),
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


@pytest.mark.parametrize("verb", ["rank", "recruit", "serve", "ask"])
def test_every_verb_that_ranks_takes_the_same_options(models: Connected, verb: str) -> None:
    words = {"rank": ("q", "a"), "recruit": ("q",), "ask": ("q", "--index", ".")}.get(verb, ())
    for args in (("-o", "dept=3"), ("--config", "odd.toml")):
        Path("odd.toml").write_text("dept = 3\n")
        done = invoke(verb, *words, *args)
        assert done.exit_code == 2
        assert "did you mean 'depth'?" in done.stderr


def test_only_the_team_can_be_recruited(models: Connected) -> None:
    done = invoke("recruit", "q", "-o", "ranker=direct")
    assert (done.exit_code, "'direct' recruits no team" in done.stderr) == (2, True)
