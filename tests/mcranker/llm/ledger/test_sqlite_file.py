"""The file of a ledger: of an earlier version, another program's, locked, damaged, gone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcranker import MCRanker
from mcranker.cli.group import cli
from mcranker.errors import ConfigError, LedgerError
from mcranker.llm.chat import ChatReply, ChatRequest
from mcranker.llm.ledger.ledger import Ledger, Ledgered, default_ledger_path, place_of, store_of
from mcranker.llm.ledger.sqlite_store import SQLiteStore
from mcranker.llm.scripted import ScriptedChat
from mcranker.rankers.keys import located
from tests.support.ledger_support import MODEL, keep, key, reply, request, sql

pytestmark = pytest.mark.anyio

ANSWERS = 300  # of a ledger that is to be damaged


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    ledger = Ledger(path)
    yield ledger
    asyncio.run(ledger.aclose())


class Asked:
    """A model with a ledger that counts its calls."""

    def __init__(self, ledger: Ledger) -> None:
        self.calls = 0
        self.chat = Ledgered(ScriptedChat(self._answer, name=MODEL), ledger)

    def _answer(self, _: ChatRequest) -> str:
        self.calls += 1
        return "here"

    async def ask(self, text: str = "How good?") -> ChatReply:
        return await self.chat.complete(request(text))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a ledger in use, of which the second half of the answers is in the log."""
    path = tmp_path_factory.mktemp("whole") / "ledger.sqlite"
    folder = path.parent.with_name("copy of whole")

    async def fill() -> None:
        for half in (range(ANSWERS // 2), range(ANSWERS // 2, ANSWERS)):
            ledger = Ledger(path)
            for number in half:
                await keep(ledger, number)
            if half[0]:
                shutil.copytree(path.parent, folder)
            await ledger.aclose()

    asyncio.run(fill())
    (folder / "ledger.sqlite-shm").unlink()
    return folder / path.name


async def test_a_damaged_answer_is_asked_for_again(
    ledger: Ledger, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(4):
        await keep(ledger, number)
    sql(path, "UPDATE replies SET reply = '{}' WHERE key = ?", key(1))
    sql(path, "UPDATE replies SET output_tokens = 10 WHERE key = ?", key(2))
    sql(path, "UPDATE replies SET seconds = x'ff', reply = x'ff', created = -1e300 WHERE id = 4")
    with caplog.at_level(logging.WARNING, "mcranker"):
        found = [await ledger.find(key(number)) is not None for number in range(4)]
    assert found == [True, False, False, False]
    assert [each.getMessage().count("--check") for each in caplog.records] == [1]
    answers, problems = await ledger.store.verify()
    assert (answers, problems[0], len(problems)) == (4, "1 answers are whole, 3 are not", 4)
    await keep(ledger, 1, "new")
    assert await ledger.store.claim_many([key(2)]) == {key(2)}
    assert await ledger.find(key(1)) == reply("new", reused=True)


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("", "cache/ledger.sqlite"),
        ("~/mine.sqlite", "home/mine.sqlite"),
        ("none", None),
        ("default", "cache/ledger.sqlite"),
    ],
)
def test_the_default_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, expected: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MCRANKER_LEDGER", named)
    assert default_ledger_path() == (None if expected is None else tmp_path / expected)
    monkeypatch.delenv("MCRANKER_CACHE")
    monkeypatch.delenv("MCRANKER_LEDGER")
    by_default = default_ledger_path()
    assert isinstance(by_default, Path)
    assert by_default.parts[-2:] == ("mcranker", "ledger.sqlite")


NO_ADDRESSES = [
    *(":memory:", "file:l.sqlite", "sqlite:///l", "postgresql+asyncpg://me:secret@h/db"),
    *("postgresql://me:secret#x@h/db", "postgresql:/me:secret@h/db", "postgres:me:secret@h/db"),
    *("postgresql://me:secret℀@h", "me:secret@h/db", "host=h user=me password=secret"),
]


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_an_address_of_no_known_kind_is_refused_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCRANKER_LEDGER", address)
    suite = partial(located, "ledger", address, tmp_path)
    python = partial(MCRanker, model=ScriptedChat(lambda _: "7"), ledger=address)
    path = partial(Ledger, Path(address)) if "//" in address else suite  # it has one slash then
    for given in (default_ledger_path, suite, python, path, partial(store_of, address)):
        with pytest.raises(ConfigError) as caught:
            given()
        assert "secret" not in str(caught.value)
    for args in (
        ["ledger"],
        ["ledger", "--ledger", "new.sqlite", "--copy", address],
        ["rank", "q", "a", "--model", "openai:x", "-o", f"ledger={address}"],
    ):
        result = CliRunner().invoke(cli, args)
        assert result.exit_code in (1, 2), result.output
        assert "secret" not in result.output
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("C:\\a\\b.sqlite", Path("C:\\a\\b.sqlite")),
        ("C:/me@work/l", Path("C:/me@work/l")),
        ("/a:b@c/l", Path("/a:b@c/l")),
        ("ledger-10:30.sqlite", Path("ledger-10:30.sqlite")),
        ("OFF", None),
        (" Postgres://me:p%40@h1:1,[::1]:2/db?a=b\n", "postgres://me:p%40@h1:1,[::1]:2/db?a=b"),
        ("postgresql:///db?host=/run", "postgresql:///db?host=/run"),
    ],
)
def test_addresses(address: str, place: Path | str | None) -> None:
    assert place_of(address) == place


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: sql(path, "CREATE TABLE theirs (x)"), "another program's SQLite file"),
        (
            lambda path: (
                sql(path, "PRAGMA application_id = 0x4D43524C")
                + sql(path, "PRAGMA user_version = 2")
            ),
            "has schema version 2, and this MCRanker reads version 1",
        ),
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
        await ledger.find(key(1))
    assert repr(str(path)) in str(caught.value)
    with pytest.raises(LedgerError, match=says):
        await keep(ledger, 1)
    await ledger.aclose()
    assert path.is_dir() or path.read_bytes() == before


@contextlib.contextmanager
def read_only(*paths: Path) -> Iterator[None]:
    """Files and folders that no user may write, an administrator neither."""
    user = os.geteuid()
    modes = [each.stat().st_mode for each in paths]
    for each in paths:
        each.chmod(0o555)
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)
        for each, mode in zip(paths, modes, strict=True):
            each.chmod(mode)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
@pytest.mark.parametrize("whole_folder", [True, False])
async def test_nothing_is_paid_where_nothing_may_be_written(whole_folder: bool) -> None:
    # Not in pytest's own folders, which are for their owner alone.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger.sqlite")
        os.chmod(folder, 0o777)  # noqa: PTH101 - blocks as little as can be
        await keep(Ledger(path), 1)
        await Ledger(path).aclose()
        asked = Asked(Ledger(path))
        with read_only(path, *[Path(folder)] * whole_folder):
            for _ in range(2):
                with pytest.raises(LedgerError, match=r"allow reading and writing|not be written"):
                    await asked.ask()
            if whole_folder:
                with pytest.raises(LedgerError, match="Permission denied"):
                    await Ledger(Path(folder, "another.sqlite")).find(key(1))
        assert not asked.calls
        assert sql(path, "SELECT count(*) FROM replies") == [(1,)]


async def test_a_second_name_of_a_ledger(path: Path, ledger: Ledger) -> None:
    await keep(ledger, 1)
    other = path.with_name("other.sqlite")
    other.hardlink_to(path)
    with pytest.raises(LedgerError, match=r"has 2 names \(hard links\).* symbolic links"):
        await Ledger(other).find(key(1))
    await keep(ledger, 2)  # the one that had it open goes on
    other.unlink()
    other.symlink_to(path)
    linked = Ledger(other)
    assert await linked.find(key(1)) is not None
    assert linked.in_flight is ledger.in_flight


@pytest.mark.parametrize(
    "go",
    [
        Path.unlink,
        lambda path: path.with_name(f"{path.name}-wal").unlink(),
        lambda path: shutil.copyfile(path, path.with_name("new")).replace(path),
    ],
)
async def test_a_file_that_goes_while_it_is_in_use_is_an_error_before_a_call(
    path: Path, go: Callable[[Path], object]
) -> None:
    ledger = Ledger(path)
    await keep(ledger, 1)
    await ledger.aclose()
    asked = Asked(ledger)
    await asked.ask("before")
    go(path)
    with pytest.raises(LedgerError, match="was deleted or replaced while it was in use"):
        await asked.ask("after")
    assert asked.calls == 1
    await asked.ask("after")  # with the file that is there now
    assert (await asked.ask("after")).reused
    assert asked.calls == 2
    await ledger.aclose()
    assert (await ledger.store.verify())[1] == []


def copied(whole: Path, folder: Path, *, log: bool) -> Path:
    """A copy of the files; without a log, all is in the database."""
    shutil.copytree(whole.parent, folder)
    path = folder / whole.name
    if not log:
        sql(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def damaged(content: bytes, luck: random.Random) -> bytes:
    spoilt = bytearray(content)
    match luck.choice(["bytes", "pages", "zeros", "cut"]):
        case "bytes":
            for _ in range(luck.choice([1, 10, 100])):
                spoilt[luck.randrange(len(spoilt))] = luck.randrange(256)
        case "cut":
            del spoilt[luck.randrange(len(spoilt)) :]
        case kind:
            first = luck.randrange(len(spoilt) // 4096) * 4096
            spoilt[first : first + 4096] = luck.randbytes(4096) if kind == "pages" else bytes(4096)
    return bytes(spoilt)


async def test_a_damaged_file_gives_right_answers_or_an_error(whole: Path, tmp_path: Path) -> None:
    luck = random.Random(4)
    outcomes = {"goes on": 0, "says so": 0}
    for attempt in range(12):
        path = copied(whole, tmp_path / f"copy {attempt}", log=attempt % 2 == 0)
        spoilt = path.with_name(f"{path.name}-wal") if attempt % 4 == 0 else path
        spoilt.write_bytes(damaged(spoilt.read_bytes(), luck))
        ledger = Ledger(path)
        asked = Asked(ledger)
        try:
            for number in luck.sample(range(ANSWERS), 40):
                found = await ledger.find(key(number))
                assert found is None or found.text == str(number)
                await asked.ask(str(number))
        except LedgerError:
            outcomes["says so"] += 1
            calls = asked.calls
            with pytest.raises(LedgerError):
                await asked.ask("another")
            calls -= asked.calls
            assert not calls  # nothing is paid any more
        else:
            outcomes["goes on"] += 1
        await ledger.aclose()
        with contextlib.suppress(LedgerError):
            await SQLiteStore(path).verify()
    assert min(outcomes.values()) > 1
