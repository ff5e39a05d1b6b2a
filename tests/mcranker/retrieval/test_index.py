"""An index on disk: built, added to, searched, interrupted, opened by others."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from mcranker.encoders.vectors import vectors_in
from mcranker.errors import ConfigError, InputError
from mcranker.retrieval import index as index_module
from mcranker.retrieval.embedders import Embedder
from mcranker.retrieval.index import Added, Index
from mcranker.retrieval.readers import Document, Skipped
from personas.ranking.usage import UsageTable
from tests.mcranker.retrieval.words_embedder import WordsEmbedder
from tests.support.cli_support import invoke

PETS = [
    Document("cats", "cats sleep all day"),
    Document("dogs", "dogs bark at night"),
    Document("fish", "fish swim in cold water", title="Aquaria"),
]


@pytest.fixture(autouse=True)
def _by_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches end by their size alone, on however slow a machine."""
    monkeypatch.setattr(index_module, "SECONDS", 1e9)


def make(folder: Path, embedder: Embedder | None = None, **options: object) -> Index:
    return Index.create(
        folder,
        embedder=embedder or WordsEmbedder(),
        **{"chunks": "words", **options},  # type: ignore[arg-type]  # of each test
    )


async def ids(index: Index, query: str, by: str, k: int = 2) -> list[str]:
    (found,) = await index.search([query], k, by)  # type: ignore[arg-type]  # a name of the table
    return [name for name, _ in found]


@pytest.mark.parametrize("by", ["bm25", "dense", "hybrid"])
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
    assert reopened.retrieve({"q": "cats sleep"}, 1)["q"][0][0] == "cats#1"
    index.close()


async def test_scores_are_cosines_and_equal_ones_keep_the_order_of_the_index(
    tmp_path: Path,
) -> None:
    index = make(tmp_path / "i")
    await index.add([Document("b", "red car"), Document("a", "red car"), Document("c", "red")])
    (found,) = await index.search(["red car"], 3, "dense")
    # |red car| = sqrt(2), so that its cosine with "red" is 1 / sqrt(2).
    assert [name for name, _ in found] == ["b#1", "a#1", "c#1"]
    assert [score for _, score in found] == pytest.approx([1, 1, 2**-0.5], abs=1e-3)
    assert index.vectors(["c#1"]) @ index.vectors(["b#1"]).T == pytest.approx(2**-0.5, abs=1e-3)


async def test_hybrid_scores_sum_reciprocal_ranks(tmp_path: Path) -> None:
    index = make(tmp_path / "i")
    await index.add([Document("a", "red car"), Document("b", "blue sky"), Document("c", "red")])
    (found,) = await index.search(["red car"], 3, "hybrid")
    # "a" is first and "c" second in both; "b" has no word of the query, and is third by cosine.
    expected = [("a#1", 2 / 61), ("c#1", 2 / 62), ("b#1", 1 / 63)]
    assert [name for name, _ in found] == [name for name, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected])


@pytest.mark.parametrize("by", ["bm25", "dense"])
async def test_a_document_with_another_text_is_replaced(tmp_path: Path, by: str) -> None:
    index = make(tmp_path / "i")
    await index.add(PETS)
    assert "cats#1" in await ids(index, "cats sleep", by, 1)
    changed = [Document("cats", "felines purr"), *PETS[1:]]
    assert await index.add(changed) == Added(replaced=1, unchanged=2, chunks=1)
    for each in (index, Index.open(tmp_path / "i", WordsEmbedder())):
        assert len(each) == 3
        assert await ids(each, "felines purr", by, 1) == ["cats#1"]
        assert "cats sleep all day" not in {each.chunk(f"{pet.id}#1").text for pet in PETS}


async def test_an_id_that_comes_twice_is_replaced_as_well(tmp_path: Path) -> None:
    index = make(tmp_path / "i")
    twice = [Document("a", "one two"), Document("b", "x"), Document("a", "three four")]
    assert await index.add(twice) == Added(added=2, replaced=1, chunks=3)
    assert index.chunk("a#1").text == "three four"
    assert len(index) == 2


async def test_many_small_additions_leave_few_shards_and_every_chunk(tmp_path: Path) -> None:
    index = make(tmp_path / "i")
    for number in range(40):
        await index.add([Document(f"d{number}", f"text number{number}")])
    # 40 files of vectors: twice 16 became one.
    assert len(list((tmp_path / "i/vectors").rglob("*.npy"))) == 10
    reopened = Index.open(tmp_path / "i", WordsEmbedder())
    assert {reopened.chunk(f"d{n}#1").text for n in range(40)} == {
        f"text number{n}" for n in range(40)
    }
    assert await ids(reopened, "number17", "bm25") == ["d17#1"]


async def test_a_text_is_embedded_once_however_often_it_comes(tmp_path: Path) -> None:
    embedder = WordsEmbedder()
    index = make(tmp_path / "i", embedder)
    await index.add([Document("a", "red car"), Document("b", "red car"), Document("c", "sky")])
    await index.add([Document("a", "sky"), Document("d", "red car")])
    assert embedder.texts == ["red car", "sky"]
    assert [name for name, _ in (await index.search(["sky"], 2, "dense"))[0]] == ["c#1", "a#1"]


async def test_vectors_are_kept_in_the_index_and_not_in_the_cache_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCRANKER_VECTORS", str(tmp_path / "cache"))
    with Index.create(tmp_path / "i", embedder="local:minilm") as index:
        await index.add(PETS)
    for embedder in (None, "local:minilm"):
        with Index.open(tmp_path / "i", embedder) as index:
            assert await ids(index, "cold water", "dense", 1) == ["fish#1"]
    assert vectors_in(tmp_path / "i/vectors") == 3
    with anyio.fail_after(10):  # a thread writes them
        while not ((tmp_path / "cache").exists() and vectors_in(tmp_path / "cache")):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert vectors_in(tmp_path / "cache") == 1  # the query


async def test_an_encoder_reads_every_token_of_its_passages(tmp_path: Path) -> None:
    text = " ".join(f"{n * 7919} §{n}." for n in range(400))  # a token has two characters or so
    with Index.create(tmp_path / "i", embedder="local:minilm") as index:
        usage = UsageTable()
        await index.add([text], usage=usage)
        ids_ = [index.chunk(f"0#{n}") for n in range(1, len(index) + 1)]
        path = index.connect().tokenizer  # type: ignore[attr-defined]  # of a TextEmbedder
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokens = [len(tokenizer.encode(each.text).ids) for each in ids_]
    assert max(tokens) <= 256
    assert usage.total.input_tokens == sum(tokens)


@pytest.mark.parametrize("damage", ["cut", "gone"])
async def test_vectors_that_are_lost_are_made_again(tmp_path: Path, damage: str) -> None:
    await make(tmp_path / "i").add(PETS)
    (path,) = (tmp_path / "i/vectors").rglob("*.npy")
    path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes()[:-100])
    reader = Index.open(tmp_path / "i", WordsEmbedder())
    for look in (partial(reader.search, ["cats"], 1, "dense"), partial(_vector, reader, "cats#1")):
        with pytest.raises(InputError, match=r"vectors? of \d passages?: a file is damaged"):
            await look()
    assert await ids(reader, "cats", "bm25", 1) == ["cats#1"]
    embedder = WordsEmbedder()
    assert (await make(tmp_path / "i", embedder).add(PETS)).unchanged == 3
    assert len(embedder.texts) == 3
    assert await ids(reader, "cats sleep", "dense", 1) == ["cats#1"]


async def _vector(index: Index, chunk: str) -> None:
    index.vectors([chunk])


async def test_texts_that_were_replaced_go_once_they_are_the_greater_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "BATCH", 2)
    index = make(tmp_path / "i")
    await index.add([*PETS, Document("same", "stays")])
    reader = Index.open(tmp_path / "i", WordsEmbedder())
    await ids(reader, "cats", "dense")
    for turn in range(3):  # 3, 6 and 9 dead ones to 4: twice more than 4
        await index.add([Document(pet.id, f"turn{turn} {pet.text}") for pet in PETS])
    (folder,) = (tmp_path / "i").glob("chunks-*")
    # After the second turn 4 chunks are left; the third one adds 3 to them.
    assert len((folder / "chunks.jsonl").read_text().splitlines()) == 7
    assert vectors_in(tmp_path / "i/vectors") == 7
    for each in (index, Index.open(tmp_path / "i", WordsEmbedder())):
        assert await ids(each, "turn2 cats sleep", "dense", 1) == ["cats#1"]
        assert each.chunk("dogs#1").text == "turn2 dogs bark at night"
        assert await ids(each, "stays", "bm25") == ["same#1"]
        assert len(each) == 4
    assert reader.chunk("cats#1").text == PETS[0].text  # of files that are gone
    assert await ids(reader, "cats sleep", "dense", 1) == ["cats#1"]


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
        await index.add([Document("x", "another")])
    assert len(index) == 3


async def test_a_build_that_fails_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "BATCH", 2)
    documents = [Document(f"d{n}", f"word{n}") for n in range(7)]
    with pytest.raises(RuntimeError, match="enough"):
        await make(tmp_path / "i", WordsEmbedder(fails_after=4)).add(documents)
    embedder = WordsEmbedder()
    index = make(tmp_path / "i", embedder)
    assert len(index) == 4
    done = await index.add(documents)
    assert (done.added, done.unchanged) == (3, 4)
    assert embedder.texts == ["word4", "word5", "word6"]
    assert [await ids(index, f"word{n}", "bm25", 1) for n in range(7)] == [
        [f"d{n}#1"] for n in range(7)
    ]


def test_a_killed_build_goes_on_and_leaves_nothing_behind(tmp_path: Path) -> None:
    script = """
        import anyio, os, sys
        from mcranker.retrieval import index
        from mcranker.retrieval.readers import Document
        from tests.mcranker.retrieval.words_embedder import WordsEmbedder
        index.BATCH, index.SECONDS = 2, 1e9
        seen, write = [], index.write_whole
        def die(path, content):
            seen.append(path)
            if len(seen) == 4:  # made, then the third batch, written and not yet counted
                os.kill(os.getpid(), 9)
            write(path, content)
        index.write_whole = die
        built = index.Index.create(sys.argv[1], embedder=WordsEmbedder(), chunks="words")
        anyio.run(built.add, [Document(f"d{n}", f"word{n}") for n in range(9)])
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "i")]
    assert subprocess.run(command, check=False).returncode == -9
    embedder = WordsEmbedder()
    index = make(tmp_path / "i", embedder)
    assert len(index) == 4
    done = anyio.run(index.add, [Document(f"d{n}", f"word{n}") for n in range(9)])
    assert embedder.texts == ["word6", "word7", "word8"]  # the vectors of 4 and 5 were kept
    assert (done.added, done.unchanged, len(index)) == (5, 4, 9)
    lines = next((tmp_path / "i").glob("chunks-*")) / "chunks.jsonl"
    assert [json.loads(line)[1] for line in lines.read_text().splitlines()] == [
        f"d{n}" for n in range(9)
    ]


@pytest.mark.parametrize("room", [0, 60, 200, 400])
async def test_a_full_disk_says_so_and_loses_nothing(tmp_path: Path, room: int) -> None:
    index = make(tmp_path / "i")
    await index.add(PETS[:2])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))  # of any file, in bytes
    try:
        with pytest.raises(OSError, match=r"File too large.*2 documents kept") as caught:
            await index.add([Document("cats", "new text"), PETS[2]])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(caught.value.filename).startswith(str(tmp_path / "i"))
    for each in (index, Index.open(tmp_path / "i", WordsEmbedder())):
        assert await ids(each, "cats sleep", "dense", 1) == ["cats#1"]
        assert each.chunk("cats#1").text == PETS[0].text
    assert (await index.add(PETS)) == Added(added=1, unchanged=2, chunks=1)


async def test_a_reader_keeps_what_it_opened_while_another_adds(tmp_path: Path) -> None:
    writer = make(tmp_path / "i")
    await writer.add(PETS[:1])
    reader = Index.open(tmp_path / "i", WordsEmbedder())
    await writer.add(PETS[1:])
    assert await ids(reader, "cats sleep", "dense") == ["cats#1"]
    assert reader.chunk("cats#1").text == PETS[0].text


async def test_one_process_adds_at_a_time(tmp_path: Path) -> None:
    first, second = make(tmp_path / "i"), make(tmp_path / "i")

    async def meanwhile(_: Added) -> None:
        with pytest.raises(ConfigError, match="another process adds"):
            await second.add(PETS)

    with first._writing():
        await meanwhile(Added())
    await second.add(PETS)
    assert (await first.add(PETS)).unchanged == 3  # sees what the other has added


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


async def test_what_is_no_index_or_is_damaged_is_an_error_and_stays(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no index"):
        Index.open(tmp_path / "none")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="is no folder"):
        make(tmp_path / "mine/thesis.txt")
    with pytest.raises(ConfigError, match="something else"):
        make(tmp_path / "mine")
    await make(tmp_path / "i").add(PETS)
    (folder,) = (tmp_path / "i").glob("chunks-*")
    for name in ("chunks.jsonl", "rows.bin", "documents.jsonl"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InputError, match="damaged"):
            Index.open(tmp_path / "i")
        (folder / name).write_bytes(whole)
    for content, match in (
        ('{"version": 3}', "version 3"),
        ('{"version": 2}', "damaged: 'embedder'"),
        ("[2]", "damaged"),
        ("", "damaged"),
    ):
        (tmp_path / "i/index.json").write_text(content)
        with pytest.raises(InputError, match=match):
            Index.open(tmp_path / "i")


async def test_unknown_chunks_and_no_documents(tmp_path: Path) -> None:
    index = make(tmp_path / "i")
    assert await index.search(["x"], 3, "hybrid") == [[]]
    skipped: list[Skipped] = []
    assert await index.add(["", "fine"], on_skip=skipped.append) == Added(1, 0, 0, 1, 1)
    assert skipped == [("0", "there is no text in it")]
    for name in ("1#2", "1#0", "1", "none#1", "1#x"):
        with pytest.raises(InputError, match="no chunk"):
            index.chunk(name)
    assert index.chunk("1#1").text == "fine"
    with pytest.raises(ConfigError, match="k=0"):
        await index.search(["x"], 0, "dense")


async def test_a_memory_index_leaves_no_folder() -> None:
    with Index.in_memory(embedder=WordsEmbedder(), chunks="words") as index:
        await index.add(PETS)
        folder = index.folder
        assert index.describe()["documents"] == 3
        assert folder.is_dir()
    assert not folder.exists()


async def test_bm25_is_kept_until_the_shards_change(tmp_path: Path) -> None:
    index = make(tmp_path / "i")
    for count in (1, 2):
        await index.add(PETS[:count])
        await ids(index, "cats", "bm25")
        assert len(list((tmp_path / "i/derived/bm25").iterdir())) == 1
    await ids(Index.open(tmp_path / "i"), "cats", "bm25")
    assert len(list((tmp_path / "i/derived/bm25").iterdir())) == 1


async def test_hnsw_finds_what_exact_search_finds(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    words = np.random.default_rng(7).integers(0, 400, (300, 6))
    documents = [Document(f"d{n}", " ".join(f"w{w}" for w in row)) for n, row in enumerate(words)]
    exact = make(tmp_path / "i")
    await exact.add(documents)
    await exact.add([Document("d5", "gone")])  # a replaced vector is not found
    for _ in range(2):  # built, then loaded
        near = Index.open(tmp_path / "i", WordsEmbedder(), hnsw=True)
        queries = [document.text for document in documents[:50]]
        first = [found[0][0] for found in await near.search(queries, 3, "dense")]
        assert first[:5] + first[6:] == [f"d{n}#1" for n in range(50) if n != 5]
        (best,) = await near.search([documents[5].text], 1, "dense")
        assert best == (await exact.search([documents[5].text], 1, "dense"))[0]


async def test_progress_counts_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "BATCH", 2)
    seen: list[int] = []

    def documents() -> Iterator[Document]:
        yield from (Document(str(n), f"text {n}") for n in range(5))

    await make(tmp_path / "i").add(documents(), progress=lambda done: seen.append(done.added))
    assert seen == [2, 4, 5]


# The command


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("mcranker.cli.index.connect_embedder", lambda *_, **__: WordsEmbedder())
    monkeypatch.setattr("mcranker.cli.index.fetch_models", lambda *_, **__: None)
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "cats.txt").write_text("Cats sleep all day.")
    (folder / "dogs.md").write_text("# Dogs\n\nDogs bark.")
    (folder / "fish.txt").write_bytes(b"Fish \xff swim.")
    return folder


def test_the_command_adds_what_is_new_and_names_what_it_leaves_out(papers: Path) -> None:
    out = papers.with_name("papers.index")
    first = invoke("index", papers, "--out", out)
    assert (first.exit_code, first.stdout.splitlines()[0]) == (
        0, "documents: 2 added, 0 replaced, 0 unchanged, 1 left out",
    )  # fmt: skip
    assert "fish.txt:1: not UTF-8 (byte 6 of the line)" in first.stderr
    (papers / "fish.txt").write_text("Fish swim.")
    (papers / "cats.txt").write_text("Cats sleep.")
    body = json.loads(invoke("index", papers, "--out", out, "--output", "json").stdout)
    assert {key: body["index"][key] for key in ("added", "replaced", "unchanged", "skipped")} == {
        "added": 1, "replaced": 1, "unchanged": 1, "skipped": 0,
    }  # fmt: skip
    assert (body["index"]["documents"], body["skipped"]) == (3, [])
    assert (body["index"]["chunks"], body["index"]["new_passages"]) == ("sentences", 2)


def test_a_source_that_is_not_there_leaves_no_index_behind(tmp_path: Path) -> None:
    result = invoke("index", tmp_path / "papers", "--out", tmp_path / "papers.index")
    assert (result.exit_code, (tmp_path / "papers.index").exists()) == (1, False)
    assert "there is no file or folder" in result.stderr


def test_a_source_without_a_text_is_an_error(papers: Path) -> None:
    result = invoke("index", papers / "fish.txt", "--out", papers.with_name("papers.index"))
    assert result.exit_code == 1
    assert result.stderr.endswith("fish.txt' holds no document with a text\n")
