"""Documents from every kind of file, and files that try to do harm."""

from __future__ import annotations

import gzip
import os
import re
import zipfile
from pathlib import Path

import pytest

from mcranker.errors import InputError
from mcranker.retrieval import extract
from mcranker.retrieval.readers import Skipped, read_documents
from personas.ranking.types import Passage

PDF = Path(__file__).parent / "two_pages.pdf"


def read(source: object) -> tuple[dict[str, str], dict[str, str]]:
    """Id -> text of what is read, and path -> reason of what is left out."""
    skipped: list[Skipped] = []
    found = {each.id: each.text for each in read_documents(source, on_skip=skipped.append)}  # type: ignore[arg-type]  # all that users may give
    return found, dict(skipped)


def unexpected(skipped: Skipped) -> None:
    pytest.fail(str(skipped))


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.txt", b"\xef\xbb\xbfcaf\xc3\xa9", {"a.txt": "café"}),
        ("a.md", b"intro\n# Head #\nbody", {"a.md": "intro\n# Head #\nbody"}),
        ("a.jsonl", b'{"_id": "x", "text": "one"}\n\n"two"\n', {"x": "one", "1": "two"}),
        ("a.jsonl.gz", gzip.compress(b'{"id": 5, "contents": "one"}', mtime=0), {"5": "one"}),
        ("a.json", b'["one", {"id": "x", "body": "two"}]', {"0": "one", "x": "two"}),
        ("a.json", b'{"x": "one", "y": {"text": "two"}}', {"x": "one", "y": "two"}),
        ("a.csv", b'ID,Text\nx,"one, and\ntwo"\n', {"x": "one, and\ntwo"}),
        ("a.csv", b"pid;passage_text;is_selected\n7;one, two;1\n", {"7": "one, two"}),
        ("a.txt.gz", gzip.compress(b"one\ntwo", mtime=0), {"a.txt.gz": "one\ntwo"}),
        ("a.tsv", b'x\tone "quoted\ny\ttwo\n', {"x": 'one "quoted', "y": "two"}),
        ("a.tsv", b"text\tid\none\tx\n", {"x": "one"}),
        ("a.txt", b"caf\xe9", {"a.txt": "café"}),
        ("a.txt", "Привет, это проверка.".encode("cp1251"), {"a.txt": "Привет, это проверка."}),
        ("a.csv", b"text;price\nLe caf\xe9 d\xe9j\xe0 vu;2\n", {"0": "Le café déjà vu"}),
        ("a.csv", b"sep=|\nid|text\nx|one, two\n", {"x": "one, two"}),
        ("a.csv", b"id,text\nx," + b"a" * 140_000, {"x": "a" * 140_000}),
    ],
)
def test_a_file_is_read_by_its_suffix(
    tmp_path: Path, name: str, content: bytes, found: dict[str, str]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert read(tmp_path / name) == (found, {})


PAGES = {
    b"<title>T</title><style>p{}</style><h1>Head</h1><p>one <b>two</b>\nthree"
    b"<script>alert('<p>no</p>')</script><p>&lt;four": "Head\none\ntwo\nthree\n<four",
    b"<meta charset=windows-1252><p>caf\xe9": "café",
    "<meta charset=gb2312><p>纸币镕".encode("gb18030"): "纸币镕",
    b"<meta charset=utf-8><p>caf\xe9": "café",
    b"<meta charset=unicode_escape><p>a\\u0041": "a\\u0041",
    b"<meta charset=utf-7><p>a +ADw- b": "a +ADw- b",
    b"<meta " * 20_000 + b"><p>end": "end",
    b"<title>Masks</title><nav><ul><li>Home<li>Shop</ul></nav><article><h1>Masks</h1><p>"
    + b"An N95 mask filters small particles. " * 9
    + b"</p></article><footer>(c) Us</footer>": "Masks\n"
    + ("An N95 mask filters small particles. " * 9).strip(),
}


def test_the_text_of_a_page_is_read_without_menus_by_what_it_declares(tmp_path: Path) -> None:
    for place, page in enumerate(PAGES):
        (tmp_path / f"{place}.html").write_bytes(page)
    found, skipped = read(tmp_path)
    assert skipped == {}
    assert list(found.values()) == list(PAGES.values())


def test_titles_come_from_what_a_document_says(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Head #\nbody")
    (tmp_path / "b.html").write_text("<title>T &amp; U</title>body")
    (tmp_path / "c.jsonl").write_text('{"title": "C", "text": "body", "year": 2024}')
    found = list(read_documents(tmp_path, on_skip=unexpected))
    assert [each.title for each in found] == ["Head", "T & U", "C"]
    assert found[2] == Passage("c.jsonl/0", "body", "C", None, {"year": 2024})


def test_a_beir_folder_is_its_corpus_alone(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "title": "", "text": "one"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "what?"}\n')
    assert read(tmp_path) == ({"d1": "one"}, {})


def test_records_and_texts_are_documents_too() -> None:
    assert read(["one", {"text": "two"}, Passage("x", "three")])[0] == {
        "0": "one",
        "1": "two",
        "x": "three",
    }
    assert read({"a": "one", "b": {"text": "two"}})[0] == {"a": "one", "b": "two"}
    assert read(["one", 5, " "]) == (
        {"0": "one"},
        {
            "docs[1]": "the entry is a int; give a string, a record, a Passage, or a document "
            "with page_content, content or text",
            "2": "there is no text in it",
        },
    )
    for source in (7, None):
        with pytest.raises(InputError, match="give a path"):
            read(source)
    with pytest.raises(InputError, match="no file or folder"):
        read("no such thing")


def test_a_pdf_is_read_with_words_whole() -> None:
    (found,) = read_documents(PDF, on_skip=unexpected)
    assert found == Passage("two_pages.pdf", "First page\nSecond page", "Two pages")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.jsonl", b'"caf\xe9"', r"not UTF-8 \(byte 5 of the line\)"),
        ("a.docx", b"PK\3\4\0\0", "no .docx that can be read"),
        ("a.doc", b"\xd0\xcf", "'.doc' files are not read"),
        ("a.zip", b"PK", "'.zip' is compressed; unpack it"),
        ("a.txt", b"a\0", "zero byte"),
        ("a.txt", b" \n", "no text"),
        ("a.json", b"[" * 100_000, "JSON"),
        ("a.csv", b"id,text\ny\n", "1 column instead of 2"),
        ("a.csv", b"name,price\nLamp,20\n", "'name', 'price'"),
        ("a.csv", b'id,text\nx,"one', "unexpected end of data"),
        ("a.pdf", PDF.read_bytes()[:300], "no PDF that can be read"),
    ],
)
def test_what_cannot_be_read_is_reported_and_the_next_file_is_read(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "z.txt").write_text("fine")
    skipped: list[Skipped] = []
    found = list(read_documents(tmp_path, on_skip=skipped.append))
    assert [each.id for each in found] == ["z.txt"]
    ((path, why),) = skipped
    assert name in path
    assert re.search(reason, why)


def test_a_bad_line_is_left_out_and_its_neighbours_are_not(tmp_path: Path) -> None:
    lines = [b'{"text": "one"}', b"{", b'"caf\xe9"', b"[1]", b'{"no": null}', b'{"text": "six"}']
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    found, skipped = read(tmp_path / "a.jsonl")
    assert list(found.values()) == ["one", "six"]
    assert [path.rpartition(":")[2] for path in skipped] == ["2", "3", "4", "5"]


def test_links_pipes_indexes_and_files_that_vanish_are_reported(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "up").symlink_to(root)
    (root / "self").symlink_to(root / "self")
    (root / "gone").symlink_to(root / "nothing")
    os.mkfifo(root / "pipe")
    (tmp_path / "secret.txt").write_text("of somebody else")
    (root / "out").symlink_to(tmp_path / "secret.txt")
    (root / "within.txt").symlink_to("a.txt")
    (root / "a.txt").write_text("one")
    (root / "z.txt").write_text("vanishes")
    skipped: list[Skipped] = []
    documents = read_documents(root, on_skip=skipped.append)
    assert next(documents).id == "a.txt"
    (root / "z.txt").unlink()
    assert list(documents) == [Passage("within.txt", "one")]
    reasons = {Path(path).name: reason for path, reason in skipped}
    assert reasons.keys() == {"up", "self", "gone", "pipe", "out", "z.txt"}
    assert "link to a folder" in reasons["up"]
    assert "no regular file" in reasons["pipe"]
    assert "outside of the folder" in reasons["out"]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    for name in ("a.txt", "b.pdf", "c.html"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(501_000_000)  # takes no room
    found, skipped = read(tmp_path)
    assert found == {}
    assert [reason.split(";")[0] for reason in skipped.values()] == [
        "the line is longer than 64 MB",
        "501 MB",
        "501 MB",
    ]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The reading process has little time and memory."""
    source = Path(extract.__file__).read_text()
    assert "SECONDS = 60 " in source
    copy = tmp_path / "impatient_extract.py"
    copy.write_text(
        source.replace("SECONDS = 60 ", "SECONDS = 4 ")
        .replace("content = path.read_bytes()", "content = path.read_bytes()\n    hang(content)")
        .replace(
            "class _Unreadable",
            "def hang(content):\n"
            "    while b'hang' in content: pass\n"
            "    if b'full' in content: bytearray(3_000_000_000)\n"
            "    if b'crash' in content: os.abort()\n\n\nclass _Unreadable",
            1,
        )
    )
    monkeypatch.setattr(extract, "__file__", str(copy))


def test_a_file_that_hangs_fills_the_memory_or_crashes_its_reader_is_left_out(
    tmp_path: Path, impatient: None
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("hang", "full", "crash", "plain"):
        (folder / f"{name}.html").write_text(name)
    found, skipped = read(folder)
    assert found == {"plain.html": "plain"}
    assert sorted(Path(path).name for path in skipped) == ["crash.html", "full.html", "hang.html"]


def test_office_files_and_books_are_read(tmp_path: Path) -> None:
    pytest.importorskip("markitdown")
    for ending in ("docx", "xlsx"):
        _office_file(tmp_path / f"a.{ending}")
    found, skipped = read(tmp_path)
    assert (len(found), skipped) == (2, {})
    assert all("Cloth masks help" in text for text in found.values())


def _office_file(path: Path) -> None:
    text = "Cloth masks help a little."
    if path.suffix == ".xlsx":
        book = pytest.importorskip("openpyxl").Workbook()
        book.active.append([text])
        book.save(path)
    else:
        _packed(path, {
            "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/'
            'content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-'
            'package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="'
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
            '"/></Types>',
            "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
            'relationships"><Relationship Id="r" Target="word/document.xml" Type="http://schemas.'
            'openxmlformats.org/officeDocument/2006/relationships/officeDocument"/></Relationships>',
            "word/document.xml": '<w:document xmlns:w="http://schemas.openxmlformats.org/'
            f'wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>'
            "</w:document>",
        })  # fmt: skip


def _packed(path: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
