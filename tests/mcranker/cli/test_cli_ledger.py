"""``mcranker ledger`` in this process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcranker.llm.ledger import rows as ledger_rows
from mcranker.llm.ledger import sqlite_store
from mcranker.llm.ledger.ledger import Ledger
from tests.support.cli_support import invoke
from tests.support.ledger_support import MODEL, keep, key, reply, sql
from tests.support.scripted import answers

VERBS: tuple[list[str], ...] = ([], ["--copy", "out"], ["--remove", "--all"], ["--check"])
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
    out = path.with_name("out.sqlite")
    result = invoke("ledger", "--copy", out)
    assert (result.exit_code, left(out)) == (1, 8)
    assert f"the ledger {str(path)!r} is damaged: 8 answers copied" in result.stderr
