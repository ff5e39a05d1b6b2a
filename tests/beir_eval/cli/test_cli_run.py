"""``beir-eval run`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from beir_eval.cli import cli
from beir_eval.experiment.run_folder import find_runs
from mcranker import ChatRequest, ServerFailed
from tests.support.beir_folder import GRADES, write_folder
from tests.support.cli_support import Connected, answer, scripted

SUITE = """\
title = "Scales"
datasets = ["tiny"]
depth = 12

[settings]
temperature = 0.5

[models]
judge = "openai:small"

[[rankers]]
label = "ten"
ranker = "direct"

[[rankers]]
label = "twenty"
ranker = "direct"
scale = 20
scoring_model = "judge"
"""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Connected:
    monkeypatch.chdir(tmp_path)
    return scripted(monkeypatch, tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny")


@pytest.fixture
def suite(folder: Path) -> Path:
    path = folder.parent / "scales.toml"
    path.write_text(SUITE, encoding="utf-8")
    return path


def invoke(*args: object) -> Result:
    return CliRunner().invoke(cli, ["run", *map(str, args)])


def envelope(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_suite(model: Connected, suite: Path, tmp_path: Path) -> None:
    result = invoke(suite, "--no-cache")
    assert result.exit_code == 0, result.stderr
    assert "For tables, significance and figures: beir-eval report runs/scales" in result.stdout
    assert "To see why: personas report runs/scales --out FOLDER" in result.stdout
    assert "   cost\n" in result.stdout  # the last column is whole
    assert "beir-eval: tiny, ten (1 of 2): nDCG@10 0." in result.stderr
    ten, twenty = find_runs([tmp_path / "runs" / "scales"])
    assert (ten.manifest.label, twenty.manifest.label) == ("ten", "twenty")
    assert (ten.manifest.config["scale"], twenty.manifest.config["scale"]) == (10, 20)
    assert ten.manifest.config["temperature"] == 0.5
    assert twenty.manifest.models["scoring"] == "openai:small"
    assert ten.manifest.suite is not None
    assert ten.manifest.suite.title == "Scales"
    assert ten.data().manifest.depth == 12


def test_flags_go_before_settings_and_not_before_what_a_ranker_sets(
    model: Connected, suite: Path, tmp_path: Path
) -> None:
    assert invoke(suite, "-o", "temperature=0", "--no-cache").exit_code == 0
    ten, _ = find_runs([tmp_path / "runs" / "scales"])
    assert ten.manifest.config["temperature"] == 0
    refused = invoke(suite, "-o", "scale=5")
    assert refused.exit_code == 2
    assert "scale is what the suite sets for 'twenty' itself; leave it out" in refused.stderr
    also = invoke(suite, "-o", "scoring_model=openai:other")
    assert also.exit_code == 2
    assert "--use names models" in also.stderr


def test_a_name_for_a_model(model: Connected, suite: Path, tmp_path: Path) -> None:
    assert invoke(suite, "--use", "judge=openai:large", "--no-cache").exit_code == 0
    _, twenty = find_runs([tmp_path / "runs" / "scales"])
    assert twenty.manifest.models["scoring"] == "openai:large"
    assert "write NAME=MODEL" in invoke(suite, "--use", "judge").stderr
    assert invoke(suite, "--use", "jugde=openai:x").exit_code == 1


def test_rankers_without_a_suite(model: Connected, folder: Path, tmp_path: Path) -> None:
    result = invoke(
        *("--dataset", folder, "--ranker", "direct", "--ranker", "mcranker"),
        *("--limit", 2, "--depth", 5, "-o", "scale=7", "--out", "here", "--no-cache"),
    )
    assert result.exit_code == 0, result.stderr
    runs = find_runs([tmp_path / "here"])
    assert [run.manifest.label for run in runs] == ["direct, scale 7", "MCRanker, scale 7"]
    assert all(run.manifest.suite is None for run in runs)
    data = runs[0].data()
    assert (data.manifest.queries, data.manifest.depth) == (2, 5)


def test_options_of_a_file(model: Connected, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "options.toml"
    file.write_text('ranker = ["direct", "mcranker"]\nscale = 7\nwith_criteria = false\n')
    args = ("--dataset", folder, "--limit", 1, "--no-cache", "--config", file, "-o", "scale=8")
    assert invoke(*args).exit_code == 0
    runs = find_runs([tmp_path / "runs"])
    # The command line goes before the file, and each ranker gets the options that it takes.
    assert [run.manifest.label for run in runs] == [
        "direct, scale 8, with criteria False",
        "MCRanker, scale 8",
    ]
    file.write_text('ranker = "direct"\nscael = 7\n')
    refused = invoke(*args)
    assert refused.exit_code == 2
    assert "the ranker 'direct' takes no option 'scael'; did you mean 'scale'?" in refused.stderr


def test_queries_by_name(model: Connected, folder: Path, tmp_path: Path) -> None:
    args = ("--dataset", folder, "--ranker", "direct", "--no-cache")
    assert invoke(*args, "--queries", "q3,q1", "--out", "a").exit_code == 0
    (run,) = find_runs([tmp_path / "a"])
    assert list(run.run()) == ["q3", "q1"]
    unknown = invoke(*args, "--queries", "q9", "--out", "c")
    assert unknown.exit_code == 1
    assert "tiny has no query 'q9'" in str(unknown.exception) + unknown.stderr


def test_the_envelope(model: Connected, suite: Path) -> None:
    found = envelope(invoke(suite, "--output", "json", "--only", "ten", "--no-cache", "-q"))
    assert (found["status"], found["exit_code"], found["errors"]) == ("ok", 0, [])
    (result,) = found["results"]
    assert (result["dataset"], result["label"]) == ("tiny", "ten")
    assert set(result["metrics"]["per_query"]["nDCG@10"]) == set(GRADES)
    assert result["calls"] > 0


def test_missing_scores(model: Connected, suite: Path, tmp_path: Path) -> None:
    def lost(request: ChatRequest) -> str:
        return "?" if request.tag.doc_id == "d8" else answer(request)

    model.answer = lost
    result = invoke(suite, "--only", "ten", "--no-cache")
    assert result.exit_code == 3
    found = find_runs([tmp_path / "runs"])[0].data().first_stage()
    times = sum(doc_id == "d8" for ranked in found.values() for doc_id, _ in ranked)
    assert f"beir-eval: warning: {times} scores missing; the report says why" in result.stderr


def test_failed_queries(model: Connected, suite: Path) -> None:
    def failing(request: ChatRequest) -> str:
        if request.tag.query_id == "q2":
            raise ServerFailed("out of order")
        return answer(request)

    model.answer = failing
    result = invoke(suite, "--only", "ten", "--no-cache")
    assert result.exit_code == 1
    assert "tiny, ten: 1 query not ranked; the first, 'q2': out of order" in result.stderr
    found = envelope(invoke(suite, "--only", "ten", "--no-cache", "--output", "json"))
    assert [error["code"] for error in found["errors"]] == ["QueriesFailed"]
    model.answer = answer
    assert invoke(suite, "--only", "ten", "--no-cache").exit_code == 0


def test_a_dry_run_writes_nothing(model: Connected, suite: Path, tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    result = invoke(suite, "--dry-run", "--no-cache")
    assert result.exit_code == 0, result.stderr
    assert "Nothing was sent." in result.stdout
    assert model.requests == []
    assert set(tmp_path.rglob("*")) == before
    found = envelope(invoke(suite, "--dry-run", "--no-cache", "--output", "json"))
    assert found["total"]["calls"] == sum(each["calls"] for each in found["estimates"])
    made = invoke(suite, "--no-cache", "--output", "json")
    assert sum(each["calls"] for each in envelope(made)["results"]) == found["total"]["calls"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "name a suite, or --ranker and --dataset"),
        (("--ranker", "direct"), "no data set is named"),
        (("scales.toml", "--ranker", "direct"), "--ranker does not go with a suite"),
        (("scales.toml", "--team", "x"), "a suite takes no option 'team'; it goes with mcranker"),
        (("--dataset", "tiny", "--use", "a=b", "--ranker", "direct"), "--use goes with a suite"),
        (("scales.toml", "--only", "five"), "has no 'five'; there are ten, twenty"),
        (("scale.toml",), "no suite 'scale.toml'"),
        (("scales.toml", "--dataset", "./nowhere"), "nowhere"),
        (("scales.toml", "--first-stage", "nowhere.trec"), "nowhere.trec"),
        (("scales.toml", "--measures", "NDGC@10"), "NDGC@10"),
        (("scales.toml", "--out", "scales.toml"), "scales.toml"),
        (("scales.toml", "--queries", ","), "names no query"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(
    model: Connected,
    suite: Path,
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    said: str,
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", *args])
    assert ended.value.code in (1, 2)
    assert model.requests == []
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert stderr.startswith("beir-eval: error: ")
    assert stderr.count("\n") == 1
    assert said in stderr
