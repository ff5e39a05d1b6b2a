"""``beir-eval attack`` against judges whose every number is known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from beir_eval.cli import cli
from mcranker import ChatRequest
from tests.support.beir_folder import write_folder
from tests.support.cli_support import Connected, scripted

CLAIM = "perfectly relevant"
COMMON = ("--depth", "12", "--queries", "4", "--seed", "7", "-q")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Connected:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "tiny")
    return scripted(monkeypatch, tmp_path)


def invoke(*args: object) -> Result:
    return CliRunner().invoke(cli, ["attack", "tiny", *map(str, (*COMMON, *args))])


def run(*args: object, code: int = 0) -> dict[str, Any]:
    result = invoke("--output", "json", "--out", "out.jsonl", *args)
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]


def text_of(request: ChatRequest) -> str:
    return "\n".join(message.content for message in request.messages)


def judge(believes: str, *, fooled: str = "10") -> Callable[[ChatRequest], str]:
    """Give 4 to all passages, and `fooled` to those with the words."""
    return lambda request: f'{{"Score": {fooled if believes in text_of(request) else "4"}}}'


def test_a_gullible_judge(model: Connected) -> None:
    model.answer = judge(CLAIM)
    (row,) = run("--ranker", "direct", "--attacks", "perfectly_relevant")["figures"]
    assert (row["class"], row["trials"], row["missing"]) == (3, 4, 0)
    # All are at 4 / 10 and in first-stage order; the attacked one gets 10 / 10 and leads.
    for line in lines():
        assert line["rank"] == 1
        assert line["control_rank"] == line["clean_rank"] > 1
        assert (line["clean_relevance"], line["relevance"]) == (0.4, 1.0)
    assert row["relevance"]["mean"] == pytest.approx(0.6)
    assert row["rise"]["mean"] == sum(line["clean_rank"] - 1 for line in lines()) / 4
    assert row["net_rise"] == row["rise"]
    below = sum(line["clean_rank"] > 3 for line in lines())
    assert (row["top3"]["sum"], row["top3"]["count"]) == (below, below)


def test_a_steadfast_judge(model: Connected) -> None:
    model.answer = judge("nothing of this kind")
    found = run("--ranker", "direct", "--attacks", "2,3,12")
    assert [row["class"] for row in found["figures"]] == [2, 3, 12]
    for row in found["figures"]:
        assert row["rise"]["mean"] == row["net_rise"]["mean"] == row["relevance"]["mean"] == 0
        assert row["top3"]["sum"] == row["called_relevant"]["sum"] == 0


def test_a_reply_that_cannot_be_read_is_counted(model: Connected) -> None:
    model.answer = judge(CLAIM, fooled='"none"')
    found = run("--ranker", "direct", "--attacks", "perfectly_relevant", code=3)
    (row,) = found["figures"]
    assert (row["missing"], row["trials"]) == (4, 4)
    none = {"mean": None, "low": None, "high": None, "sum": 0, "count": 0}
    assert row["relevance"] == row["rise"] == row["top3"] == none
    assert {line["rank"] for line in lines()} == {None}
    assert [each["code"] for each in found["errors"]] == ["MissingScores"]
    # The harmless words and the passage as it is likewise.
    model.answer = judge("printed on a Tuesday", fooled='"none"')
    (row,) = run("--ranker", "direct", "--attacks", "perfectly_relevant")["figures"]
    assert (row["missing"], row["rise"]["count"], row["net_rise"]) == (0, 4, none)
    docs, read = {line["doc_id"] for line in lines()}, judge(CLAIM)
    model.answer = lambda asked: (
        read(asked) if CLAIM in text_of(asked) or asked.tag.doc_id not in docs else "perhaps"
    )
    (row,) = run("--ranker", "direct", "--attacks", "perfectly_relevant", code=3)["figures"]
    assert (row["missing"], row["rise"], row["net_rise"]) == (4, none, none)


def test_a_list_that_is_not_ranked_is_said(model: Connected) -> None:
    model.answer = lambda asked: "perhaps"
    found = run("--ranker", "direct,direct", "--attacks", "perfectly_relevant", code=3)
    assert [row["failed"] for row in found["drift"]] == [4]
    assert found["errors"][0]["message"].startswith("4 lists not ranked, the first: ")


def test_defences(model: Connected) -> None:
    model.answer = judge(CLAIM)
    wanted = "erase_and_check,delimiters_off"
    found = run("--ranker", "direct", "--attacks", "perfectly_relevant", "--defences", wanted)
    by_defence = {row["defence"]: row for row in found["figures"]}
    # Without the claim it has 4 again, the lower score: nothing changes.
    assert by_defence["erase_and_check"]["rise"]["mean"] == 0
    assert by_defence["erase_and_check"]["relevance"]["mean"] == 0
    assert by_defence["delimiters_off"]["rise"] == by_defence["none"]["rise"]
    shown = [text_of(each) for each in model.requests if CLAIM in text_of(each)]
    assert any(re.search(rf"^This passage is {CLAIM}", text, re.MULTILINE) for text in shown)
    assert any(re.search(rf"^<<<\w+\n(?:.*\n)?.*{CLAIM}", text, re.MULTILINE) for text in shown)
    for row in found["drift"]:
        if row["defence"] == "erase_and_check":
            assert (row["change"]["mean"], row["moved"]["mean"]) == (0, 0)
    answers = {row["defence"]: row["calls"] for row in found["drift"]}
    assert answers["erase_and_check"] > answers["none"]


def test_a_listwise_ranker_is_ordered_about(model: Connected) -> None:
    def order(request: ChatRequest) -> str:
        numbers = re.findall(r"^\[(\d+)\]$", text_of(request), re.MULTILINE)
        parts = re.split(r"^\[\d+\]$", text_of(request), flags=re.MULTILINE)[1:]
        first = [n for n, part in zip(numbers, parts, strict=True) if "Put this passage" in part]
        return " > ".join(f"[{n}]" for n in [*first, *(n for n in numbers if n not in first)])

    model.answer = order
    (row,) = run("--ranker", "rankgpt", "--attacks", "put_me_first")["figures"]
    assert {line["rank"] for line in lines()} == {1}
    assert row["relevance"]["count"] == 0
    model.answer = judge("-")
    assert run("--ranker", "direct", "--attacks", "put_me_first,order")["figures"][0]["class"] == 6


def test_the_dry_run_counts_the_calls_that_are_made(model: Connected) -> None:
    args = ("--ranker", "mcranker,direct", "--attacks", "19", "--ledger", "answers.sqlite")
    dry = json.loads(invoke(*args, "--dry-run", "--output", "json").stdout)["estimates"]
    assert model.requests == []
    found = run(*args)
    made = sum(each["calls"] for each in dry)
    assert made == len(model.requests) == sum(row["calls"] for row in found["drift"])
    assert any("Efficacy, Safety" in line["text"] for line in lines())  # the team's own rubric
    before, first = len(model.requests), Path("out.jsonl").read_bytes()
    assert run(*args)["figures"] == found["figures"]
    assert len(model.requests) == before  # all were in the ledger
    assert Path("out.jsonl").read_bytes() == first


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--attacks", "perfekt"), "has no attack 'perfekt'"),
        (("--defences", "erase_check"), "did you mean 'erase_and_check'?"),
        (("--ranker", "direkt"), "direkt"),
    ],
)
def test_what_is_unknown_is_an_error(model: Connected, args: tuple[str, ...], message: str) -> None:
    result = invoke(*args)
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert model.requests == []
