"""An index: built, added to, searched, interrupted, opened by others."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray

from mcranker.errors import ConfigError, InputError
from mcranker.retrieval import index as index_module
from mcranker.retrieval.embedders import Embedder
from mcranker.retrieval.index import Added, Index, cached_index
from mcranker.retrieval.readers import Skipped
from personas.ranking.types import Passage
from tests.mcranker.retrieval.words_embedder import WordsEmbedder
from tests.support.cli_support import invoke

PETS = [
    Passage("cats", "cats sleep all day"),
    Passage("dogs", "dogs bark at night"),
    Passage("fish", "fish swim in cold water", title="Aquaria"),
]


@pytest.fixture(autouse=True)
def _by_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches end by their size alone, on however slow a machine."""
    monkeypatch.setattr(index_module, "SECONDS", 1e9)


def make(path: Path, embedder: Embedder | None = None, **options: object) -> Index:
    return Index.create(
        path,
        embedder=embedder or WordsEmbedder(),
        **{"chunks": "words", **options},  # type: ignore[arg-type]  # of each test
    )


async def ids(index: Index, query: str, by: str, k: int = 2) -> list[str]:
    (found,) = await index.search([query], k, by)  # type: ignore[arg-type]  # a name of the table
    return [name for name, _ in found]


@pytest.mark.parametrize("by", ["bm25", "dense"])
async def test_search_finds_the_chunk_with_the_words(tmp_path: Path, by: str) -> None:
    index = make(tmp_path / "i")
    assert await index.add(PETS) == Added(added=3, chunks=3)
    assert (await ids(index, "dogs bark", by))[0] == "dogs#1"
    reopened = Index.open(tmp_path / "i", WordsEmbedder())
    assert len(reopened) == 3
    assert await reopened.search(["cold water", "sleep"], 2, by) == await index.search(  # type: ignore[arg-type]
        ["cold water", "sleep"],
        2,
        by,  # type: ignore[arg-type]
    )
    assert reopened.chunk("fish#1").text == "fish swim in cold water"
    index.close()


async def test_scores_are_cosines_and_equal_ones_keep_the_order_of_the_index(
    tmp_path: Path,
) -> None:
    index = make(tmp_path / "i")
    await index.add([Passage("b", "red car"), Passage("a", "red car"), Passage("c", "red")])
    (found,) = await index.search(["red car"], 3, "dense")
    # |red car| = sqrt(2), so that its cosine with "red" is 1 / sqrt(2).
    assert [name for name, _ in found] == ["b#1", "a#1", "c#1"]
    assert [score for _, score in found] == pytest.approx([1, 1, 2**-0.5], abs=1e-3)
    assert index.vectors(["c#1"]) @ index.vectors(["b#1"]).T == pytest.approx(2**-0.5, abs=1e-3)


@pytest.mark.parametrize("by", ["bm25", "dense"])
async def test_a_document_with_another_text_is_replaced(tmp_path: Path, by: str) -> None:
    index = make(tmp_path / "i")
    await index.add(PETS)
    assert "cats#1" in await ids(index, "cats sleep", by, 1)
    changed = [Passage("cats", "felines purr"), *PETS[1:]]
    assert await index.add(changed) == Added(replaced=1, unchanged=2, chunks=1)
    for each in (index, Index.open(tmp_path / "i", WordsEmbedder())):
        assert len(each) == 3
        assert await ids(each, "felines purr", by, 1) == ["cats#1"]
        assert "cats sleep all day" not in {each.chunk(f"{pet.id}#1").text for pet in PETS}


@pytest.mark.parametrize(
    "rows", [np.ones((1, 64)), np.full((1, 64), np.nan), np.ones((1, 3)) / 3**0.5]
)
async def test_vectors_that_cannot_be_are_refused(
    tmp_path: Path, rows: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = WordsEmbedder()
    index = make(tmp_path / "i", embedder)
    await index.add(PETS)

    async def wrong(texts: object, usage: object = None) -> NDArray[np.float32]:
        return rows

    monkeypatch.setattr(embedder, "embed_passages", wrong)
    with pytest.raises(ConfigError, match=r"gave vectors of shape \(1, .*another embedder"):
        await index.add([Passage("x", "another")])
    assert len(index) == 3


BUILD = """
    import os, signal, sys
    import anyio
    from mcranker.retrieval import index
    from personas.ranking.types import Passage
    from tests.mcranker.retrieval.words_embedder import WordsEmbedder
    index.BATCH, index.SECONDS = 2, 1e9
    path, first, last, die = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    built = index.Index.create(path, embedder=WordsEmbedder(), chunks="words")
    written = 0
    def trace(statement):
        global written
        written += statement.startswith("INSERT INTO words")
        if die and written == 5:  # in the middle of the third batch
            os.kill(os.getpid(), signal.SIGKILL)
    built._db.set_trace_callback(trace)
    anyio.run(built.add, [Passage(f"d{n}", f"word{n} all") for n in range(first, last)])
"""


def build(path: Path, first: int, last: int, *die: str) -> subprocess.Popen[bytes]:
    script = textwrap.dedent(BUILD)
    return subprocess.Popen([sys.executable, "-c", script, path, str(first), str(last), *die])


async def test_a_build_that_is_killed_is_rolled_back_and_goes_on(tmp_path: Path) -> None:
    assert build(tmp_path / "i", 0, 9, "die").wait() == -signal.SIGKILL
    embedder = WordsEmbedder()
    index = make(tmp_path / "i", embedder)
    assert len(index) == 4
    assert sorted(await ids(index, "all", "bm25", 9)) == [f"d{n}#1" for n in range(4)]
    done = await index.add([Passage(f"d{n}", f"word{n} all") for n in range(9)])
    assert (done.added, done.unchanged, len(index), len(embedder.texts)) == (5, 4, 9, 5)
    assert await ids(index, "word8", "bm25", 1) == ["d8#1"]


async def test_two_processes_add_while_a_third_searches_and_copies(tmp_path: Path) -> None:
    writers = [build(tmp_path / "i", 0, 60), build(tmp_path / "i", 30, 90)]
    seen = [0]
    index = make(tmp_path / "i")  # a third that makes it at the same time
    while any(each.poll() is None for each in writers):
        seen += [len(await ids(index, "all", by, 100)) for by in ("bm25", "dense")]
    assert [each.returncode for each in writers] == [0, 0]
    assert all(before <= after for before, after in pairwise(seen))
    assert all(count % 2 == 0 for count in seen)  # whole batches
    shutil.copy(tmp_path / "i", tmp_path / "copy")
    for each in (index, Index.open(tmp_path / "copy", WordsEmbedder())):
        for by in ("bm25", "dense"):
            assert sorted(await ids(each, "all", by, 100)) == sorted(f"d{n}#1" for n in range(90))
    assert {path.name for path in sorted(tmp_path.iterdir())} == {"i", "copy"}  # noqa: ASYNC240
    assert str(tmp_path).encode() not in (tmp_path / "i").read_bytes()


async def test_a_full_disk_says_so_and_loses_nothing(tmp_path: Path) -> None:
    index = make(tmp_path / "i")
    await index.add(PETS[:2])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    room = (tmp_path / "i").stat().st_size  # bytes of any file
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(OSError, match="what was added is kept") as caught:
            await index.add([Passage(f"x{n}", f"text {n} " * 500) for n in range(40)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(tmp_path / "i")
    for each in (index, Index.open(tmp_path / "i", WordsEmbedder())):
        assert (len(each), await ids(each, "cats sleep", "dense", 1)) == (2, ["cats#1"])
    assert await index.add(PETS) == Added(added=1, unchanged=2, chunks=1)


async def test_another_embedder_or_kind_of_chunks_is_refused(tmp_path: Path) -> None:
    await make(tmp_path / "i").add(PETS)
    for opened in (Index.open, make):
        with pytest.raises(ConfigError, match=r"'words 1'.*'other 1'"):
            opened(tmp_path / "i", WordsEmbedder("other"))
    with pytest.raises(ConfigError, match="chunks='words', not 'whole'"):
        make(tmp_path / "i", chunks="whole")
    with pytest.raises(ConfigError, match="one of sentences, tokens"):
        make(tmp_path / "j", chunks="pages")
    without = Index.open(tmp_path / "i")
    assert await ids(without, "dogs", "bm25") == ["dogs#1"]
    with pytest.raises(ConfigError, match=r"vectors of 'words'.*names no embedder"):
        await without.search(["dogs"], 1, "dense")


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine (text)")


def newer(path: Path) -> None:
    make(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")


def cut(path: Path) -> None:
    anyio.run(make(path).add, PETS)
    path.write_bytes(path.read_bytes()[:-5000])


def overwritten(path: Path) -> None:
    anyio.run(make(path).add, PETS)
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"x" * (len(content) - 4096))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_text("years of work" * 99), "is no index"),
        (foreign, "is no index"),
        (newer, "the form 99, .*update mcranker"),
        (cut, "is damaged"),
        (overwritten, "is damaged"),
    ],
)
def test_what_is_no_index_or_is_damaged_is_an_error_and_stays(
    tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    spoil(path := tmp_path / "i")
    before = path.read_bytes()

    def use(opened: Callable[[Path], Index]) -> None:
        with opened(path) as index:
            anyio.run(index.search, ["cats"], 1, "bm25")

    for opened in (Index.open, make):
        with pytest.raises(InputError, match=said):
            use(opened)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["i"]


@pytest.mark.parametrize(
    "query",
    ['"', "fish\"", "NEAR(fish, 2)", "fish*", "text : fish", "-fish", "fish AND NOT", "((fish",
     "\0", "☃", "fish's", "the", "fish " * 3_000, " ".join(f"fish{n}" for n in range(3_000))],
)  # fmt: skip
async def test_any_query_can_be_searched(tmp_path: Path, query: str) -> None:
    index = make(tmp_path / "i")
    await index.add(PETS)
    found = await ids(index, query, "bm25")
    assert found == (["fish#1"] if re.search(r"fish(?!\d)", query) else [])


async def test_scripts_without_spaces_are_found_by_their_words(tmp_path: Path) -> None:
    index = make(tmp_path / "i")
    texts = {
        "zh": "我们今天测试口罩的效果",
        "ja": "マスクの効果を調べます。",
        "th": "หน้ากากอนามัยป้องกันไวรัส",
        "ko": "마스크는 효과가 있다",
        "hi": "मास्क वायरस से बचाता है",
        "fr": "Les masques protègent",
    }
    await index.add([Passage(*each) for each in texts.items()])
    queries = {"口罩": "zh", "マスク": "ja", "ไวรัส": "th", "효과가": "ko", "वायरस": "hi"}
    queries |= {"protegent": "fr", "masque": "fr"}
    for query, name in queries.items():
        assert await ids(index, query, "bm25", 1) == [f"{name}#1"]
    await index.add([Passage("th", "ไม่มี")])  # forgets what was there
    assert await ids(index, "ไวรัส", "bm25") == []


async def test_unknown_chunks_and_no_documents(tmp_path: Path) -> None:
    index = make(tmp_path / "i")
    assert await index.search(["x"], 3, "dense") == [[]]
    skipped: list[Skipped] = []
    assert await index.add(["", "fine"], on_skip=skipped.append) == Added(1, 0, 0, 1, 1)
    assert skipped == [("0", "there is no text in it")]
    for name in ("1#2", "1#0", "1", "none#1", "1#x"):
        with pytest.raises(InputError, match="no chunk"):
            index.chunk(name)
    assert index.chunk("1#1").text == "fine"
    with pytest.raises(ConfigError, match="k=0"):
        await index.search(["x"], 0, "dense")


def test_indexes_that_are_old_or_too_many_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path))
    monkeypatch.setattr(index_module, "BYTES", 250)
    shelf = tmp_path / "indexes"
    shelf.mkdir()
    days = {"used": 31.0, "new": 0.1, "third": 0.5, "many": 2.0, "old": 31.0}
    for name, age in days.items():
        path = shelf / f"{name}.sqlite"
        path.write_bytes(bytes(100))
        os.utime(path, (time.time() - age * 86_400,) * 2)
    (shelf / "old.sqlite-journal").touch()
    assert cached_index("used") == shelf / "used.sqlite"
    assert {each.stem for each in shelf.iterdir()} == {"used", "new", "third"}


# The command


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("mcranker.cli.documents.connect_embedder", lambda *_, **__: WordsEmbedder())
    monkeypatch.setattr("mcranker.cli.documents.fetch_models", lambda *_, **__: None)
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "cats.txt").write_text("Cats sleep all day.")
    (folder / "dogs.md").write_text("# Dogs\n\nDogs bark.")
    (folder / "fish.txt").write_bytes(b"Fish \0 swim.")
    return folder


def test_the_command_adds_what_is_new_and_names_what_it_leaves_out(papers: Path) -> None:
    out = papers.with_name("papers.index")
    first = invoke("index", papers, "--out", out)
    assert (first.exit_code, first.stdout.splitlines()[0]) == (
        0, "documents: 2 added, 0 replaced, 0 unchanged, 1 left out",
    )  # fmt: skip
    assert "fish.txt:1: holds a zero byte" in first.stderr
    (papers / "fish.txt").write_text("Fish swim.")
    (papers / "cats.txt").write_text("Cats sleep.")
    body = json.loads(invoke("index", papers, "--out", out, "--output", "json").stdout)
    assert {key: body["index"][key] for key in ("added", "replaced", "unchanged", "skipped")} == {
        "added": 1, "replaced": 1, "unchanged": 1, "skipped": 0,
    }  # fmt: skip
    assert (body["index"]["documents"], body["skipped"]) == (3, [])
    assert (body["index"]["chunks"], body["index"]["new_passages"]) == ("sentences", 2)
