"""The ledger: what is kept is found again, whoever writes; other files are left alone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.errors import LedgerError
from mcranker.llm.chat import Answer, ChatReply
from mcranker.llm.ledger import writer as ledger_writer
from mcranker.llm.ledger.ledger import Ledger, default_ledger_path
from mcranker.llm.ledger.rows import reply_of, row_of
from personas.ranking.usage import Usage
from tests.support.ledger_support import MODEL, keep, key, reply, size, sql

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    ledger = Ledger(path)
    yield ledger
    ledger.close()


async def test_what_is_kept_is_found(ledger: Ledger, path: Path) -> None:
    assert not path.parent.exists()  # nothing is made before it is used
    assert ledger.find(key(1)) is None
    await keep(ledger, 1, "one")
    found = ledger.find(key(1))
    assert found == reply("one", reused=True)
    assert found is not None
    assert found.usage.seconds == 0.25
    assert ledger.find(key(2)) is None
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path.parent, path)] == [0o700, 0o600]


async def test_the_first_answer_stays(ledger: Ledger) -> None:
    await keep(ledger, 1, "first")
    await keep(ledger, 1, "second")
    assert ledger.find(key(1)) == reply("first", reused=True)


async def test_a_closed_ledger_opens_again(ledger: Ledger, path: Path) -> None:
    ledger.close()
    await keep(ledger, 1)
    ledger.close()
    ledger.close()
    assert [each.name for each in path.parent.iterdir()] == ["ledger.sqlite"]
    assert ledger.find(key(1)) is not None


numbers = st.floats(allow_nan=False)
typed = st.builds(
    Answer,
    st.none() | numbers,
    st.none() | numbers,
    st.none() | st.lists(numbers, max_size=3).map(tuple),
    st.text(st.characters(codec=None)),
)
replies = st.builds(
    ChatReply,
    text=st.text(st.characters(codec=None)),
    usage=st.builds(Usage, *[st.integers(0, 2**53)] * 4, st.floats(0, 1e9)),
    model=st.text(st.characters(codec=None)),
    finish_reason=st.sampled_from(["stop", "length"]),
    label_logprobs=st.none() | st.dictionaries(st.text(max_size=3), numbers, max_size=3),
    continuation_logprobs=st.none() | st.lists(numbers, max_size=3).map(tuple),
    answers=st.none() | st.lists(typed, max_size=3).map(tuple),
    reused=st.just(True),
)


@given(replies)
def test_an_answer_comes_back_whole(given: ChatReply) -> None:
    row = row_of(key(1), given, model=MODEL, stage="score")
    database = sqlite3.connect(":memory:")
    database.text_factory = bytes
    found = reply_of(database.execute(f"SELECT {', '.join('?' * 11)}", row).fetchone())
    database.close()
    assert found == given
    assert found.usage.seconds == given.usage.seconds


async def test_numbers_that_json_has_no_words_for(ledger: Ledger) -> None:
    await ledger.keep(
        key(1), reply("\ud800", label_logprobs={"a": -math.inf}), model="m\ud800", stage="score"
    )
    found = ledger.find(key(1))
    assert found is not None
    assert (found.text, found.label_logprobs) == ("\ud800", {"a": -math.inf})


async def test_writes_of_one_moment_are_one_transaction(ledger: Ledger, path: Path) -> None:
    await keep(ledger, 0)
    before = size(path)
    async with anyio.create_task_group() as group:
        for number in range(1, 17):
            group.start_soon(keep, ledger, number)
    frames = (size(path) - before) / 4120
    assert frames < 8  # 16 transactions write at least two pages each
    assert all(ledger.find(key(number)) for number in range(17))


async def test_a_write_goes_on_when_nobody_waits_for_it(ledger: Ledger) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await keep(ledger, 1)
    assert scope.cancelled_caught
    await keep(ledger, 2)
    assert ledger.find(key(1)) is not None


async def test_a_forgotten_ledger_writes_what_waits(path: Path) -> None:
    ledger = Ledger(path)
    kept = ledger.keep(key(1), reply("1"), model=MODEL, stage="score")
    del ledger
    gc.collect()
    assert sql(path, "SELECT count(*) FROM replies") == [(1,)]
    await kept


def test_threads_and_event_loops_share_a_ledger(ledger: Ledger) -> None:
    async def write(start: int) -> None:
        async with anyio.create_task_group() as group:
            for number in range(start, start + 300):
                group.start_soon(keep, ledger, number)
        assert all(ledger.find(key(number)) for number in range(start, start + 300))

    threads = [
        threading.Thread(target=asyncio.run, args=(write(start),)) for start in (0, 200, 400)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(ledger.find(key(number)) is not None for number in range(800)) == 700


class Locked:
    """Another program that holds the file's write lock."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("BEGIN IMMEDIATE")

    def release(self) -> None:
        self._connection.execute("ROLLBACK")
        self._connection.close()


async def test_a_locked_file_does_not_stop_the_event_loop(ledger: Ledger, path: Path) -> None:
    await keep(ledger, 0)
    other = Locked(path)
    async with anyio.create_task_group() as group:
        for number in range(1, 4):
            group.start_soon(keep, ledger, number)
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
        assert ledger.find(key(0)) is not None  # readers do not wait
        assert ledger.find(key(1)) is None
        other.release()
    assert all(ledger.find(key(number)) for number in range(4))


async def test_a_file_that_stays_locked_is_an_error(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_writer, "PATIENCE", 0.02)
    await keep(ledger, 0)
    other = Locked(path)
    with pytest.raises(LedgerError, match="locked by another program"):
        await keep(ledger, 1)
    other.release()
    await keep(ledger, 2)
    assert [ledger.find(key(number)) is not None for number in range(3)] == [True, False, True]


async def test_the_write_ahead_log_begins_anew(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_writer, "_CHECKPOINT_AFTER", 20)
    for number in range(400):
        await keep(ledger, number)
    assert size(path) < 1_500_000  # else over 3 MB
    assert all(ledger.find(key(number)) for number in range(400))


async def test_a_damaged_answer_is_asked_for_again(
    ledger: Ledger, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(4):
        await keep(ledger, number)
    sql(path, "UPDATE replies SET reply = '{}' WHERE key = ?", key(1))
    sql(path, "UPDATE replies SET output_tokens = 10 WHERE key = ?", key(2))
    sql(
        path,
        "UPDATE replies SET seconds = x'ff', reply = cast(x'ff' AS TEXT) WHERE key = ?",
        key(3),
    )
    with caplog.at_level(logging.WARNING, "mcranker"):
        found = [ledger.find(key(number)) is not None for number in range(4)]
    assert found == [True, False, False, False]
    assert len(caplog.records) == 1
    assert "mcranker ledger verify" in caplog.text
    await keep(ledger, 1, "new")
    assert ledger.find(key(1)) == reply("new", reused=True)


async def test_marked_answers_are_still_found(ledger: Ledger, path: Path) -> None:
    await keep(ledger, 1)
    await ledger.mark_unusable(key(1))
    await ledger.mark_unusable(key(2))
    assert ledger.find(key(1)) is not None
    assert sql(path, "SELECT unusable FROM replies") == [(1,)]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("", "cache/ledger.sqlite"),
        ("  ", "cache/ledger.sqlite"),
        ("~/mine.sqlite", "home/mine.sqlite"),
        ("none", None),
        ("Off", None),
    ],
)
async def test_the_default_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, expected: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MCRANKER_LEDGER", named)
    assert default_ledger_path() == (None if expected is None else tmp_path / expected)
    monkeypatch.delenv("MCRANKER_CACHE")
    monkeypatch.delenv("MCRANKER_LEDGER")
    by_default = default_ledger_path()
    assert by_default is not None
    assert by_default.parts[-2:] == ("mcranker", "ledger.sqlite")


def another_database(path: Path) -> None:
    sql(path, "CREATE TABLE theirs (x)")


def another_application(path: Path) -> None:
    sql(path, "PRAGMA application_id = 1")


def another_version(path: Path) -> None:
    ledger = Ledger(path)
    ledger.find(key(1))
    ledger.close()
    sql(path, "PRAGMA user_version = 2")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (another_database, "another program's SQLite file"),
        (another_application, "another program's SQLite file"),
        (another_version, "has schema version 2, and this MCRanker reads version 1"),
        (lambda path: path.write_bytes(b"hello"), "is no SQLite file"),
        (lambda path: path.write_text("long text\n" * 1000), "is no SQLite file"),
        (Path.mkdir, "is a folder; name a file in it"),
    ],
)
async def test_a_file_that_is_no_ledger_of_ours(tmp_path: Path, make: Any, says: str) -> None:
    path = tmp_path / "odd name?#%.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    ledger = Ledger(path)
    with pytest.raises(LedgerError, match=says) as caught:
        ledger.find(key(1))
    assert repr(str(path)) in str(caught.value)
    with pytest.raises(LedgerError, match=says):
        await keep(ledger, 1)
    ledger.close()
    assert path.is_dir() or path.read_bytes() == before


async def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch(0o644)
    ledger = Ledger(path)
    await keep(ledger, 1)
    ledger.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_place_where_no_file_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in ("file/ledger.sqlite", "file/folder/ledger.sqlite"):
        with pytest.raises(LedgerError, match=r"should be its folder is a file; .* ledger="):
            Ledger(tmp_path / place).find(key(1))


@pytest.fixture
def anybody() -> Iterator[Path]:
    """A folder that anybody may read and nobody may write, this process least of all."""
    with tempfile.TemporaryDirectory() as folder:
        user = os.geteuid()
        Path(folder).chmod(0o555)
        os.seteuid(user or 65534)  # an administrator may write everywhere
        try:
            yield Path(folder)
        finally:
            os.seteuid(user)
            Path(folder).chmod(0o755)


@contextlib.contextmanager
def owner_of(folder: Path) -> Iterator[None]:
    user = os.geteuid()
    os.seteuid(os.getuid())
    folder.chmod(0o755)
    try:
        yield
    finally:
        folder.chmod(0o555)
        os.seteuid(user)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_a_folder_that_may_not_be_written(anybody: Path) -> None:
    with owner_of(anybody):
        (anybody / "closed").mkdir(0o000)
    for place in ("ledger.sqlite", "folder/ledger.sqlite", "closed/ledger.sqlite"):
        with pytest.raises(LedgerError, match="cannot be opened or made: Permission denied"):
            Ledger(anybody / place).find(key(1))
    with owner_of(anybody):
        (anybody / "closed").rmdir()


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
async def test_a_file_that_may_not_be_written(anybody: Path) -> None:
    path = anybody / "ledger.sqlite"
    with owner_of(anybody):
        ledger = Ledger(path)
        await keep(ledger, 1)
        ledger.close()
        path.chmod(0o444)
    with pytest.raises(LedgerError, match=r"allow reading and writing|may not be written"):
        await keep(Ledger(path), 2)
    with owner_of(anybody):
        assert sql(path, "SELECT count(*) FROM replies") == [(1,)]


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)


async def test_a_damaged_file_is_an_error(path: Path) -> None:
    ledger = Ledger(path)
    for number in range(200):
        await keep(ledger, number)
    ledger.close()
    damage(path)
    with pytest.raises(LedgerError, match="is damaged; 'mcranker ledger verify'"):
        ledger.find(key(1))
    with pytest.raises(LedgerError, match="is damaged"):
        await keep(ledger, 1)
    ledger.close()
