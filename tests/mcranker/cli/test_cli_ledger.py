"""``mcranker ledger`` in this process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from mcranker.llm.ledger import rows as ledger_rows
from mcranker.llm.ledger import sqlite_store
from mcranker.llm.ledger.ledger import Ledger
from tests.support.cli_support import invoke
from tests.support.ledger_support import MODEL, keep, key, reply, size, sql
from tests.support.typed_answers import answers

VERBS: tuple[list[str], ...] = ([], ["--export", "out"], ["--remove", "--all"], ["--check"])
LOCAL = "local:qwen"


async def fill(path: Path, clock: pytest.MonkeyPatch) -> None:
    ledger = Ledger(path)
    clock.setattr(ledger_rows, "time", SimpleNamespace(time=lambda: 1_700_000_000.5))
    for number in range(2):
        await keep(ledger, number)
    clock.undo()
    for number in range(2, 6):
        await keep(ledger, number)
    await keep(ledger, 6, stage="criteria")
    await keep(ledger, 7, model=LOCAL)
    await ledger.keep(
        key(8), reply("\ud800", answers=answers(None, 1.5)), model="x:y", stage="score"
    )
    await ledger.store.mark_unusable(key(1))
    await ledger.store.mark_unusable(key(6))
    await ledger.aclose()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("MCRANKER_LEDGER", str(path))
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.MonkeyPatch.context() as clock:
        asyncio.run(fill(path, clock))
    return path


def left(path: Path) -> int:
    return int(sql(path, "SELECT count(*) FROM replies")[0][0])


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_makes_a_ledger(
    verb: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "none.sqlite"
    result = invoke("ledger", *verb, "--ledger", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"error: there is no ledger {str(path)!r}" in result.stderr
    assert not path.exists()
    result = invoke("ledger", *verb)
    assert result.exit_code == 2
    assert "MCRANKER_LEDGER says to keep no ledger; name one by --ledger" in result.stderr


def test_stats(path: Path) -> None:
    result = invoke("ledger")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == str(path)
    assert lines[1].startswith("9 answers, ")
    assert "price not known, 2023-11-14 to 20" in lines[1]
    rows = {tuple(line.split()) for line in lines[2:] if line}
    # gpt-5-mini: 200 new tokens at 0.25, 600 cached at 0.025 and 9 out at 2 dollars a million
    # make 0.000083 dollars a call.
    assert (MODEL, "score", "6", "1", "4,800", "3,600", "54", "$0.00050") in rows
    assert (MODEL, "criteria", "1", "1", "800", "600", "9", "$0.000083") in rows
    assert (LOCAL, "score", "1", "0", "800", "600", "9", "$0") in rows
    assert ("x:y", "score", "1", "0", "800", "600", "9", "?") in rows


def test_stats_as_json(path: Path) -> None:
    whole = json.loads(invoke("ledger", "--output", "json").stdout)
    assert (whole["status"], whole["errors"]) == ("ok", [])
    found = whole["ledger"]
    assert found["path"] == str(path)
    assert found["bytes"] == path.stat().st_size
    assert (found["answers"], found["unusable"], found["cost"]) == (9, 2, None)
    assert found["oldest"] == "2023-11-14T22:13:20+00:00" < found["newest"]
    mine = found["by_model_and_stage"][2]
    assert (mine["model"], mine["stage"], mine["answers"]) == (MODEL, "score", 6)
    assert mine["cost"] == pytest.approx(6 * 0.000083)
    assert mine["seconds"] == 6 * 0.25


def test_a_link_to_a_ledger_has_its_size(path: Path) -> None:
    link = path.with_name("link.sqlite")
    link.symlink_to(path)
    ledger = Ledger(path)
    asyncio.run(keep(ledger, 9))  # in the log beside the file, while it is open
    whole = json.loads(invoke("ledger", "--output", "json", "--ledger", link).stdout)
    assert (
        whole["ledger"]["bytes"] == size(path) - path.with_name("ledger.sqlite-shm").stat().st_size
    )
    asyncio.run(ledger.aclose())


def test_export(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "_PIECE", 2)
    out = tmp_path / "answers.jsonl"
    assert invoke("ledger", "--ledger", path, "--export", out).exit_code == 0
    answers = [json.loads(line) for line in out.read_text().splitlines()]
    assert [each["key"] for each in answers] == [key(number).hex() for number in range(9)]
    assert answers[1] == {
        "key": key(1).hex(),
        "model": MODEL,
        "stage": "score",
        "created": "2023-11-14T22:13:20+00:00",
        "unusable": True,
        "reply": {
            "text": "1",
            "model": "gpt-5-mini-2026-08-07",
            "finish_reason": "stop",
            "label_logprobs": None,
            "continuation_logprobs": None,
            "answers": None,
        },
        "usage": {
            "calls": 1,
            "input_tokens": 800,
            "cached_input_tokens": 600,
            "output_tokens": 9,
            "seconds": 0.25,
        },
    }
    assert answers[8]["reply"]["text"] == "\ud800"
    assert answers[8]["reply"]["answers"] == [None, 1.5]


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        (["--unusable"], 2),
        (["--unusable", "--stage", "criteria"], 1),
        (["--model", LOCAL], 1),
        (["--model", MODEL, "--stage", "score"], 6),
        (["--older-than", "30"], 2),
        (["--older-than", "100000"], 0),
        (["--all"], 9),
    ],
)
def test_prune(path: Path, chosen: list[str], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "_PIECE", 2)
    noun = "answer" if count == 1 else "answers"
    result = invoke("ledger", "--remove", *chosen, "--dry-run")
    assert result.stdout == f"{count} {noun} would be removed\n"
    assert left(path) == 9
    assert invoke("ledger", "--remove", *chosen).stdout == f"{count} {noun} removed\n"
    assert left(path) == 9 - count
    whole = json.loads(invoke("ledger", "--remove", *chosen, "--output", "json").stdout)
    assert (whole["removed"], whole["dry_run"]) == (0, False)


def test_prune_wants_to_know_what(path: Path) -> None:
    for arguments in ([], ["--dry-run"], ["--all", "--unusable"]):
        result = invoke("ledger", "--remove", *arguments)
        assert result.exit_code == 2
        assert "say which answers to remove, or --all for all of them" in result.stderr
    assert left(path) == 9


def test_prune_makes_the_file_smaller_while_others_use_it(path: Path) -> None:
    async def use() -> None:
        ledger = Ledger(path)
        for number in range(20, 220):
            await keep(ledger, number, "long " * 1000)
        assert size(path) > 1_000_000
        pruned = await anyio.to_thread.run_sync(invoke, "ledger", "--remove", "--stage", "score")
        assert pruned.exit_code == 0
        assert size(path) < 100_000
        assert await ledger.find(key(20)) is None
        assert await ledger.find(key(6)) is not None
        await keep(ledger, 20)
        assert await ledger.find(key(20)) is not None
        await ledger.aclose()

    asyncio.run(use())


def test_verify(path: Path) -> None:
    result = invoke("ledger", "--check")
    assert (result.exit_code, result.stdout) == (0, "9 answers, all whole\n")
    sql(path, "UPDATE replies SET input_tokens = 1 WHERE key = ?", key(3))
    result = invoke("ledger", "--check")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"the answer for the key {key(3).hex()} is damaged" in result.stderr
    assert "asked for again" in result.stderr
    whole = json.loads(invoke("ledger", "--check", "--output", "json").stdout)
    assert (whole["status"], whole["exit_code"], whole["answers"]) == ("error", 1, 9)
    assert whole["problems"][0] == "8 answers are whole, 1 are not"
    assert (len(whole["problems"]), len(whole["errors"])) == (2, 1)
    out = path.with_name("out")
    result = invoke("ledger", "--export", out)
    assert (result.exit_code, len(out.read_text().splitlines())) == (1, 8)
    assert f"the ledger {str(path)!r} is damaged: 8 answers saved, 1 lost" in result.stderr


def test_answers_before_the_damage_are_exported(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def more() -> None:
        for number in range(20, 220):
            await keep(Ledger(path), number, "long " * 100)
        await Ledger(path).aclose()

    asyncio.run(more())
    monkeypatch.setattr(sqlite_store, "_PIECE", 10)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :] = b"\xff" * (len(content) - len(content) // 2)
    path.write_bytes(content)
    result = invoke("ledger", "--export", tmp_path / "saved")
    saved = len((tmp_path / "saved").read_text().splitlines())
    assert 20 < saved < 200
    assert result.exit_code == 1
    assert f"is damaged: {saved} answers saved, 0 lost, and the rest cannot" in result.stderr


@pytest.mark.parametrize("verb", ["--check", "--export=out"])
def test_a_file_whose_first_page_is_damaged_is_left_alone(path: Path, verb: str) -> None:
    content = bytearray(path.read_bytes())
    content[:60] = b"\xa5" * 60
    path.write_bytes(content)
    result = invoke("ledger", verb)
    assert (result.exit_code, result.stdout) == (1, "")
    assert repr(str(path)) in result.stderr
    assert ".recover" in result.stderr
    assert path.read_bytes() == content
