"""Folders with topics for queries, and judgements as TREC writes them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from beir_eval import DatasetError, load

TOPICS = """
<top>
<num> Number: 1
<title> cats
<desc> Description:
what do cats eat
</top>
<top>
<num> Number: 2
<title> dogs
<desc> Description:
do dogs bark
</top>
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "pets"
    (home / "qrels").mkdir(parents=True)
    corpus = [{"_id": "d1", "text": "what cats eat: fish"}, {"_id": "d2", "text": "dogs bark"}]
    lines = "".join(json.dumps(each) + "\n" for each in corpus)
    (home / "corpus.jsonl").write_text(lines, encoding="utf-8")
    (home / "topics.txt").write_text(TOPICS, encoding="utf-8")
    (home / "qrels" / "test.qrels").write_text("1 0 d1 1\n2 0 d2 2\n2 0 d1 0\n", encoding="utf-8")
    return home


def test_topics_are_queries(folder: Path) -> None:
    found = load(folder)
    assert found.queries == {"1": "cats", "2": "dogs"}
    assert found.qrels == {"1": {"d1": 1}, "2": {"d2": 2, "d1": 0}}
    by_description = load(folder, topic_field="desc")
    assert by_description.queries == {"1": "what do cats eat", "2": "do dogs bark"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("queries.tsv", "qid\tquery\n1\tcats\n2\tdogs\n"),
        (
            "topics.xml",
            "<topics><topic number='1'><query>cats</query></topic>\n"
            "<topic number='2'><query>dogs</query></topic></topics>",
        ),
        ("topics.sgml", TOPICS),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_other_files(folder: Path, name: str, content: str, packed: bool) -> None:
    (folder / "topics.txt").unlink()
    data = content.encode()
    file = folder / (f"{name}.gz" if packed else name)
    file.write_bytes(gzip.compress(data) if packed else data)
    assert load(folder).queries == {"1": "cats", "2": "dogs"}


def test_the_usual_files_go_first(folder: Path) -> None:
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": "usual"}\n', encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text("1\td1\t3\n", encoding="utf-8")
    found = load(folder)
    assert (found.queries, found.qrels) == ({"1": "usual"}, {"1": {"d1": 3}})


def test_what_is_wrong_is_named(folder: Path) -> None:
    with pytest.raises(DatasetError, match=r"topics\.txt:2: topic '1' has no text for the field"):
        load(folder, topic_field="narr")
    with pytest.raises(DatasetError, match=r"no judgements of split 'dev'; there is 'test'"):
        load(folder, split="dev")
    (folder / "topics.tsv").write_text("1\tcats\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"twice, as topics\.tsv and as topics\.txt; keep"):
        load(folder)
    (folder / "topics.txt").unlink()
    (folder / "topics.tsv").unlink()
    with pytest.raises(DatasetError, match=r"queries\.jsonl: cannot be read: No such file"):
        load(folder)
    (folder / "topics.txt").write_bytes(TOPICS.encode().replace(b"cats", b"caf\xe9"))
    with pytest.raises(DatasetError, match=r"topics\.txt:4: not UTF-8 \(byte 12"):
        load(folder)
