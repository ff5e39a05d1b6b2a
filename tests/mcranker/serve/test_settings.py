"""The configuration file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcranker import ConfigError
from mcranker.serve import Limits, hash_key
from mcranker.serve.settings import load_settings
from tests.support.serving import KEY


def _file(folder: Path, text: str) -> Path:
    path = folder / "serve.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_file_of_the_guide_is_read_and_shows_the_default_limits(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "serve.md").read_text("utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    found = load_settings(_file(tmp_path, text.replace("sha256:...", hash_key(KEY))))
    assert found.limits == Limits()
    assert set(re.findall(r"^(\w+) =", text, re.MULTILINE)) >= Limits.model_fields.keys()
    assert [ranker.name for ranker in found.rankers] == ["default", "quick"]


def test_a_file_is_read_and_its_files_are_found_beside_it(tmp_path: Path) -> None:
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    path = _file(
        tmp_path,
        f"""
        [server]
        port = 9000
        hosts = ["rerank.example.com"]

        [limits]
        rankings = 4
        deadline = 10

        [keys]
        search = "{hash_key(KEY)}"

        [rankers.default]
        model = "local:small.gguf"
        scoring_model = "openai:gpt-5-mini"
        team = "team.yaml"
        ledger = "answers.sqlite"
        temperature = "none"
        criteria = "none"
        names = ["rerank-*"]
        per_request = ["depth", "team"]

        [rankers.quick]
        ranker = "direct"
        ledger = "none"
        """,
    )
    found = load_settings(path)
    assert (found.host, found.port, found.hosts) == ("127.0.0.1", 9000, ("rerank.example.com",))
    assert found.limits == Limits(rankings=4, deadline=10.0)
    first, second = found.rankers
    assert first.options == {
        "model": f"local:{tmp_path / 'small.gguf'}",
        "scoring_model": "openai:gpt-5-mini",
        "team": str(tmp_path / "team.yaml"),
        "ledger": str(tmp_path / "answers.sqlite"),
        "temperature": None,
        "criteria": "none",
    }
    assert (first.names, first.per_request) == (("rerank-*",), ("depth", "team"))
    assert (second.ranker, second.options) == ("direct", {"ledger": None})


def test_without_rankers_there_is_one_for_every_name(tmp_path: Path) -> None:
    (ranker,) = load_settings(_file(tmp_path, "")).rankers
    assert (ranker.name, ranker.names) == ("mcranker", ("*",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server", "not TOML"),
        ("[sever]\nport = 1", "there is no key 'sever'"),
        ("[server]\nport = 'high'", "port must be a whole number, not 'high'"),
        ("[limits]\nrankings = 0", "rankings must be at least 1"),
        ("[limits]\nrankings = true", "rankings must be a whole number"),
        ("[limits]\ndeadline = -1", "deadline must be above 0"),
        ("[keys]\na = 'sha256:00'", "no hash of a key"),
        ("[keys]\na = 3", "no hash of a key"),
        ("[rankers.a]\nranker = 'best'", "there is no ranker 'best'"),
        ("[rankers.a]\nscorin = 'x'", "did you mean 'scoring'"),
        ("[rankers.a]\napi_key = 'x'", "OPENAI_API_KEY"),
        ("[rankers.a]\nper_request = ['model']", "'model' is no option"),
        ("[rankers.a]\nper_request = ['prompts']", "operator's to choose"),
        ("[rankers.a]\nnames = 'x'", "[rankers.a]: names must be a list"),
        ("[rankers.a.options]\nmax_cost = 1.0", "'options'"),
        ("[rankers.a]\nfail_open = 1.5", "fail_open must be at most 1, not 1.5"),
        ("[rankers.a]\nfail_open = 1\nunscored = 'null'", "leave out one"),
        ("[rankers.a]\nunscored = 'zero'", "unscored must be 'falling'"),
        ("[rankers.'a b']", "a name has"),
        ("[rankers.a]\n[rankers.b]\nnames = ['a']", "two rankers"),
    ],
)
def test_what_cannot_be_is_said_with_the_files_name(tmp_path: Path, text: str, said: str) -> None:
    path = _file(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_settings(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
