"""Input files in all their forms, and what is said of bad ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mcranker.cli.rank import read_corpus, read_passages, read_queries
from mcranker.errors import InputError
from personas.ranking.types import Passage, Query

Make = Callable[[str, str | bytes], str]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Write a file into the working folder; its name."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, content: str | bytes) -> str:
        raw = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(raw)
        return name

    return write


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "a.jsonl",
            '\ufeff{"_id": "x", "title": "t", "text": "é", "score": 2}\n\n"plain"\r\n',
            [Passage("x", "é", "t", 2.0), Passage("1", "plain")],
        ),
        ("a.json", '[{"id": 7, "text": "a"},\n "b"]', [Passage("7", "a"), Passage("1", "b")]),
        (
            "a.json",
            '{"x": "a", "y": {"text": "b", "title": "t"}}',
            [Passage("x", "a"), Passage("y", "b", "t")],
        ),
        ("a.tsv", "x\ta b\ny\t\n", [Passage("x", "a b"), Passage("y", "")]),
        ("a.tsv", "id\ttitle\ttext\tscore\nx\tt\ta\t1.5\n", [Passage("x", "a", "t", 1.5)]),
        ("a.txt", '{"not": "json"}\n  b \n', [Passage("0", '{"not": "json"}'), Passage("1", "b")]),
        ("a.csv", "PID,Passage\n7,a\n8,\n", [Passage("7", "a"), Passage("8", "")]),
        ("a.csv", '\ufeffid;text;score\nx;"a; b\n\nc";\n', [Passage("x", "a; b\n\nc")]),
        (
            "a.csv",
            '"title, or name"|title|text\nx|t|a\n',
            [Passage("0", "a", "t", metadata={"title, or name": "x"})],
        ),
        ("a.tab", 'docno\turl\tbody\nx\tu\t"a\n', [Passage("x", '"a', metadata={"url": "u"})]),
        ("a.md", "# Head\n\nbody\n", [Passage("a.md", "# Head\n\nbody\n", "Head")]),
        (
            "unnamed",
            '{\n"hits": {"hits": [{"_id": "x", "_source": {"body": "a"}}]}}',
            [Passage("x", "a")],
        ),
        ("unnamed", '{"id": "x", "text": "a"}', [Passage("x", "a")]),
        ("unnamed", "[1] a citation\nb", [Passage("0", "[1] a citation"), Passage("1", "b")]),
    ],
)
def test_passages(make: Make, name: str, content: str, expected: list[Passage]) -> None:
    assert read_passages(make(name, content)) == expected


def test_a_folder_has_a_passage_a_file_or_record(make: Make, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name, content in {"a.txt": "one\ntwo\n", "b.csv": "id,text\nx,three\n"}.items():
        make(f"folder/{name}", content)
    found = [(each.id, each.text) for each in read_passages("folder")]
    assert found == [("a.txt", "one\ntwo\n"), ("b.csv/x", "three")]


def test_the_format_can_be_said(make: Make) -> None:
    assert read_passages(make("b.txt", "id,text\nx,a"), "csv") == [Passage("x", "a")]
    assert read_passages(make("a.txt", "x\ta"), "tsv") == [Passage("x", "a")]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", "", "a.jsonl: there is no passage in it"),
        ("a.jsonl", '"a"\n\n{"id": 1,\n', "a.jsonl:3: not JSON: "),
        ("a.json", '[\n\n"a",\n}', "a.json:4: not JSON: "),
        ("a.jsonl", "[1]", "a.jsonl:1: the entry is a list; give a string"),
        ("a.jsonl", '{"id": " ", "text": "a"}', "a.jsonl:1: the id of the entry is empty"),
        ("a.jsonl", '{"id": "x", "text": "a", "score": "1st"}', "the score '1st'"),
        (
            "a.jsonl",
            '{"id": "x", "text": "a"}\n\n{"id": "x", "text": "b"}',
            "a.jsonl:3: the id 'x' is at a.jsonl:1 already; make ids unique",
        ),
        ("a.gz", b"\x1f\x8b\x08", "a.gz: damaged or incomplete"),
        ("a.tsv", "x\ta\tb", "a.tsv:1: 3 columns instead of 2; a first line"),
        ("a.tsv", "id\tlabel\nx\t1\n", "a.tsv:1: none of the columns 'id', 'label' is known"),
        ("a.docx", b"PK\3\4", "a.docx: no .docx that can be read"),
        ("a.html.gz", b"", "a.html.gz: '.gz' is compressed; unpack it first"),
        ("a.tsv", "id\ttext\tscore\nx\ta\tmuch", "a.tsv:2: the entry has the score 'much'"),
    ],
)
def test_bad_passages(make: Make, name: str, content: str | bytes, expected: str) -> None:
    source = make(name, content)
    with pytest.raises(InputError) as caught:
        read_passages(source)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "docs[" not in str(caught.value)


def test_queries(make: Make) -> None:
    expected = [Query("masks", "q1"), Query("gloves", "q2")]
    assert read_queries(make("q.tsv", "query-id\ttext\nq1\tmasks\nq2\tgloves\n")) == expected
    content = '{"_id": "q1", "text": "masks"}\n{"_id": "q2", "text": "gloves"}'
    assert read_queries(make("q.jsonl", content)) == expected
    assert read_queries(make("q.csv", "qid,query\nq1,masks\nq2,gloves\n")) == expected
    squad = '{"id": "q1", "question": "masks", "context": "text", "answers": {"text": ["a"]}}'
    assert read_queries(make("q.jsonl", squad)) == expected[:1]
    with pytest.raises(InputError, match="query 'q1' has no text"):
        read_queries(make("q.tsv", "q1\t \n"))
    with pytest.raises(InputError, match="there is no query in it"):
        read_queries(make("q.tsv", ""))
    with pytest.raises(InputError, match=r"q\.jsonl:1: the entry has no id; put it under one of"):
        read_queries(make("q.jsonl", '{"text": "masks"}'))


def test_of_a_corpus_only_what_is_wanted_is_kept(make: Make) -> None:
    source = make("c.tsv", "a\t1\nb\t2\nb\t3\nc\t4\n")
    assert list(read_corpus(source, {"c", "a"})) == ["a", "c"]
    with pytest.raises(InputError, match=r"c\.tsv:3: the id 'b' is at .*:2 already"):
        read_corpus(source, {"b"})
