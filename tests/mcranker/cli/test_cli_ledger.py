"""``mcranker ledger`` in this process."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcranker.llm.chat import ChatReply
from mcranker.llm.ledger import reading as ledger_reading
from mcranker.llm.ledger import rows as ledger_rows
from mcranker.llm.ledger import upkeep as ledger_upkeep
from mcranker.llm.ledger.ledger import Ledger
from personas.ranking.usage import Usage
from tests.support.cli_support import invoke
from tests.support.ledger_support import MODEL, keep, key, reply, size, sql
from tests.support.typed_answers import answers

VERBS = (["stats"], ["export"], ["prune", "--all"], ["verify"])
LOCAL = "local:qwen"
REAL = shutil.which("sqlite3")


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
    await ledger.mark_unusable(key(1))
    await ledger.mark_unusable(key(6))
    ledger.close()


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


@pytest.mark.parametrize("verb", VERBS)
def test_a_ledger_with_hard_links_is_left_alone(verb: list[str], path: Path) -> None:
    other = path.with_name("other.sqlite")
    other.hardlink_to(path)
    result = invoke("ledger", *verb, "--ledger", other)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"the ledger {str(other)!r} has 2 names (hard links)" in result.stderr
    other.unlink()
    assert invoke("ledger", *verb).exit_code == 0


def test_stats(path: Path) -> None:
    result = invoke("ledger", "stats")
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
    whole = json.loads(invoke("ledger", "stats", "--output", "json").stdout)
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
    whole = json.loads(invoke("ledger", "stats", "--output", "json", "--ledger", link).stdout)
    assert (
        whole["ledger"]["bytes"] == size(path) - path.with_name("ledger.sqlite-shm").stat().st_size
    )
    ledger.close()


def test_stats_of_a_ledger_without_answers(path: Path) -> None:
    assert invoke("ledger", "prune", "--all").exit_code == 0
    assert "0 answers, " in invoke("ledger", "stats").stdout
    empty = json.loads(invoke("ledger", "stats", "--output", "json").stdout)["ledger"]
    assert (empty["answers"], empty["oldest"], empty["cost"]) == (0, None, 0.0)


def test_export(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_reading, "_PIECE", 2)
    result = invoke("ledger", "export")
    assert result.exit_code == 0, result.output
    answers = [json.loads(line) for line in result.stdout.splitlines()]
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
    out = tmp_path / "answers.jsonl"
    assert invoke("ledger", "export", "--ledger", path, "--out", out).stdout == ""
    assert out.read_text() == result.stdout


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
    monkeypatch.setattr(ledger_upkeep, "_PIECE", 2)
    noun = "answer" if count == 1 else "answers"
    result = invoke("ledger", "prune", *chosen, "--dry-run")
    assert result.stdout == f"{count} {noun} would be removed\n"
    assert left(path) == 9
    assert invoke("ledger", "prune", *chosen).stdout == f"{count} {noun} removed\n"
    assert left(path) == 9 - count
    whole = json.loads(invoke("ledger", "prune", *chosen, "--output", "json").stdout)
    assert (whole["removed"], whole["dry_run"]) == (0, False)


def test_prune_wants_to_know_what(path: Path) -> None:
    for arguments in ([], ["--dry-run"], ["--all", "--unusable"]):
        result = invoke("ledger", "prune", *arguments)
        assert result.exit_code == 2
        assert "say which answers to remove, or --all for all of them" in result.stderr
    assert left(path) == 9


def test_prune_makes_the_file_smaller_while_others_use_it(path: Path) -> None:
    async def use() -> None:
        ledger = Ledger(path)
        for number in range(20, 220):
            await keep(ledger, number, "long " * 1000)
        assert size(path) > 1_000_000
        assert invoke("ledger", "prune", "--stage", "score").exit_code == 0
        assert size(path) < 100_000
        assert ledger.find(key(20)) is None
        assert ledger.find(key(6)) is not None
        await keep(ledger, 20)
        assert ledger.find(key(20)) is not None
        ledger.close()

    asyncio.run(use())


def test_verify(path: Path) -> None:
    result = invoke("ledger", "verify")
    assert (result.exit_code, result.stdout) == (0, "9 answers, all whole\n")
    sql(path, "UPDATE replies SET input_tokens = 1 WHERE key = ?", key(3))
    result = invoke("ledger", "verify")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"the answer for the key {key(3).hex()} is damaged" in result.stderr
    assert "asked for again" in result.stderr
    whole = json.loads(invoke("ledger", "verify", "--output", "json").stdout)
    assert (whole["status"], whole["exit_code"], whole["answers"]) == ("error", 1, 9)
    assert whole["problems"][0] == "8 answers can be read, 1 cannot"
    assert (len(whole["problems"]), len(whole["errors"])) == (2, 1)
    result = invoke("ledger", "export")
    assert (result.exit_code, len(result.stdout.splitlines())) == (1, 8)
    assert f"the ledger {str(path)!r} is damaged: 8 answers saved, 1 lost" in result.stderr


def test_verify_of_a_broken_file(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[8192:] = bytes(len(content) - 8192)
    path.write_bytes(content)
    for output in ("table", "json"):
        result = invoke("ledger", "verify", "--output", output)
        assert result.exit_code == 1
        assert "damaged" in result.stderr


# What the recovery of SQLite finds: records as they are in a file, where 2.0 is an integer.
FOUND = """
SELECT 'INSERT INTO lost_and_found VALUES(4,4,13,' || id || ',NULL,' || quote(key) || ','
    || quote(model) || ',' || quote(stage) || ',' || created || ',' || calls || ','
    || input_tokens || ',' || cached_input_tokens || ',' || output_tokens || ','
    || iif(seconds = round(seconds), CAST(seconds AS INTEGER), seconds) || ','
    || quote(reply) || ',' || checksum || ',' || unusable || ');' FROM replies
"""
RECOVERY = """#!{python}
import sqlite3, sys
if sys.argv[2:] == [".recover"]:
    assert open(sys.argv[1], "rb").read(4096) == bytes(4096)
    print(open({found!r}).read())
else:
    sqlite3.connect(sys.argv[1]).executescript(sys.stdin.read())
"""


def spoil_start(content: bytearray) -> None:
    content[:60] = b"\xa5" * 60


def spoil_tree(content: bytearray) -> None:
    content[100:160] = bytes(60)


def spoil_schema(content: bytearray) -> None:
    first = content.index(b"CREATE TABLE")
    content[first : first + 60] = b"?" * 60


@pytest.fixture
def programs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs are looked for: a folder without any."""

    async def add() -> None:
        ledger = Ledger(path)
        slow = ChatReply("slow", Usage(seconds=2.0), model="m")
        await ledger.keep(key(9), slow, model="x:y", stage="score")
        ledger.close()

    asyncio.run(add())
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def _recovery(path: Path) -> bytes:
    assert REAL
    return subprocess.run([REAL, path, ".recover"], check=False, stdout=subprocess.PIPE).stdout


def exported(path: Path) -> tuple[int, list[str], str]:
    result = invoke("ledger", "export", "--ledger", path)
    return result.exit_code, sorted(result.stdout.splitlines()), result.stderr


def spoil_root(content: bytearray) -> None:
    """Of the table; the second page is a map of pages, and the fourth the index of keys."""
    content[2 * 4096 : 2 * 4096 + 60] = b"?" * 60


@pytest.mark.parametrize("spoil", [spoil_start, spoil_tree, spoil_schema])
@pytest.mark.parametrize("program", ["stand-in", "real"])
def test_a_damaged_first_page_is_recovered(
    path: Path, programs: Path, program: str, spoil: Callable[[bytearray], None]
) -> None:
    _, whole, _ = exported(path)
    assert len(whole) == 10
    if program == "stand-in":
        found = programs / "found.sql"
        numbers = ", ".join(f"c{number}" for number in range(13))
        lines = [f"CREATE TABLE lost_and_found (rootpgno, pgno, nfield, id, {numbers});"]
        found.write_text("\n".join(lines + [line for (line,) in sql(path, FOUND)]))
        script = programs / "sqlite3"
        script.write_text(RECOVERY.format(python=sys.executable, found=str(found)))
        script.chmod(0o755)
    elif REAL and b"INSERT" in _recovery(path):
        (programs / "sqlite3").symlink_to(REAL)
    else:
        pytest.skip("there is no sqlite3 program with .recover")
    content = bytearray(path.read_bytes())
    spoil(content)
    path.write_bytes(content)
    code, saved, errors = exported(path)
    assert (code, saved) == (1, whole)
    assert f"the ledger {str(path)!r} is damaged: 10 answers saved, at least 0 lost" in errors
    assert path.read_bytes() == content


@pytest.mark.parametrize("spoil", [spoil_start, spoil_tree, spoil_schema, spoil_root])
def test_a_damaged_first_page_is_named_with_the_way_to_recover_it(
    path: Path, programs: Path, spoil: Callable[[bytearray], None]
) -> None:
    content = bytearray(path.read_bytes())
    spoil(content)
    path.write_bytes(content)
    command = f"sqlite3 {path} .recover | sqlite3 {path}.recovered; "
    result = invoke("ledger", "verify")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"the ledger {str(path)!r} is damaged where all its pages are listed" in result.stderr
    assert command in result.stderr
    code, saved, errors = exported(path)
    assert (code, saved) == (1, [])
    assert command in errors
    assert "there is no sqlite3 program here" in errors
    without = programs / "sqlite3"
    without.write_text("#!/bin/sh\necho 'unknown command: recover' >&2\n")
    without.chmod(0o755)
    code, saved, errors = exported(path)
    assert (code, saved) == (1, [])
    assert f"{without} .recover says 'unknown command: recover" in errors


def test_help_says_what_each_verb_does() -> None:
    result = invoke("ledger", "--help")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[-4:]] == [
        "export",
        "prune",
        "stats",
        "verify",
    ]
