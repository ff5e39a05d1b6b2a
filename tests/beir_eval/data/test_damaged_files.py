"""Files of data sets, judgements and runs that are cut, garbled, huge or made to fill a memory."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from beir_eval import DatasetError, load
from beir_eval.data.datasets import read_qrels
from beir_eval.errors import BeirEvalError
from beir_eval.experiment.suite import load_suite
from mcranker import InputError
from mcranker.cli.rank import read_corpus, read_passages, read_queries
from mcranker.errors import RunError
from mcranker.inputs.trec import read_trec, write_trec
from personas.io.lines import LONGEST_LINE, read_lines, read_texts
from tests.support.beir_folder import write_folder
from tests.support.commands import written
from tests.support.scale import scaled

HUGE = "1" + 22 * "0"
CORPUS = b"".join(
    json.dumps({"_id": f"d{number}", "title": "T\u00fcr", "text": "two words"}).encode() + b"\n"
    for number in range(5)
)
QUERIES = b'{"_id": "q1", "text": "mask"}\n{"_id": "q2", "text": "caf\xc3\xa9"}\n'
QRELS = b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\nq2\td3\t2\n"
TREC_QRELS = b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\n"
RUN = b"q1 Q0 d1 1 2.5 x\nq1 Q0 d2 2 1e-3 x\nq2 Q0 d3 1 -4 x\n"
TSV = b"id\ttitle\ttext\nd1\tT\ttwo words\nd2\t\tcaf\xc3\xa9\n"
SUITE = b'title = "T"\ndatasets = ["mini"]\n[[rankers]]\nlabel = "a"\nranker = "direct"\n'
PIECES = (
    *(b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\n", b"\r", b"\r\n", b"\t"),
    *(b" ", b"\x0b", b"\xe2\x80\xa8", b"\xc2\xa0", b'"', b"{", b"[", b"}", b"]", b",", b"\\u0000"),
    *(b"\\ud800", b"nan", b"inf", b"-1", b"1e999", HUGE.encode(), b"9" * 5000, b"[" * 3000, b"1_0"),
    *(b"null", b"true", b'{"_id": 1}', b'"_id": "d1"', b"\xd9\xa3", b"x" * 3000, b""),
)


def garbled(content: bytes, chance: random.Random) -> bytes:
    """The content cut, with bytes flipped, with pieces put in, or with lines twice."""
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(content) + 1)
        match chance.randrange(5):
            case 0:
                content = content[:at]
            case 1:
                flipped = bytearray(content)
                if flipped:
                    flipped[at % len(flipped)] ^= 1 << chance.randrange(8)
                content = bytes(flipped)
            case 2:
                content = content[:at] + chance.choice(PIECES) + content[at:]
            case 3:
                until = chance.randrange(len(content) + 1)
                content = content[: min(at, until)] + content[max(at, until) :]
            case _:
                lines = content.splitlines(keepends=True)
                content += chance.choice(lines) if lines else b""
    return content


def folder_of(corpus: bytes, queries: bytes, qrels: bytes, folder: Path) -> Path:
    written(folder / "corpus.jsonl", corpus)
    written(folder / "queries.jsonl", queries)
    written(folder / "qrels" / "test.tsv", qrels)
    return folder


def _dataset(part: str) -> Callable[[Path, bytes], object]:
    def read(path: Path, content: bytes) -> object:
        parts = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS, part: content}
        return load(folder_of(**parts, folder=path.with_name("data")))

    return read


def _file(read: Callable[[Path], object], name: str) -> Callable[[Path, bytes], object]:
    return lambda folder, content: read(written(folder.with_name(name), content))


def _passages(path: Path) -> object:
    return read_passages(str(path))


READERS: dict[str, tuple[Callable[[Path, bytes], object], bytes]] = {
    "corpus of a folder": (_dataset("corpus"), CORPUS),
    "queries of a folder": (_dataset("queries"), QUERIES),
    "qrels of a folder": (_dataset("qrels"), QRELS),
    "qrels of BEIR": (_file(read_qrels, "q.tsv"), QRELS),
    "qrels of TREC": (_file(read_qrels, "q.qrels"), TREC_QRELS),
    "run": (_file(read_trec, "r.trec"), RUN),
    "JSONL": (_file(_passages, "p.jsonl"), CORPUS),
    "JSON": (_file(_passages, "p.json"), b"[" + CORPUS.strip().replace(b"\n", b",") + b"]"),
    "TSV": (_file(_passages, "p.tsv"), TSV),
    "text": (_file(_passages, "p.txt"), b"one passage\nanother\n"),
    "no suffix": (_file(_passages, "p"), CORPUS),
    "queries": (_file(lambda path: read_queries(str(path)), "q.jsonl"), QUERIES),
    "corpus": (_file(lambda path: read_corpus(str(path), {"d1", "d4"}), "c.jsonl"), CORPUS),
    "suite": (_file(load_suite, "s.toml"), SUITE),
    "packed": (
        _file(lambda path: list(read_texts(path, DatasetError)), "c.jsonl.gz"),
        gzip.compress(CORPUS, mtime=0),
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_know_what_is_wrong(name: str, tmp_path: Path) -> None:
    """A file is read, or refused by an error of this project in one line that names it."""
    read, content = READERS[name]
    chance = random.Random(name)
    read(tmp_path / "x", content)
    refusals = []
    for _ in range(scaled(200)):
        given = garbled(content, chance)
        try:
            read(tmp_path / "x", given)
        except (BeirEvalError, InputError) as error:
            refusals.append((str(error), given))
    for said, given in refusals:
        assert str(tmp_path) in said, given
    assert len(refusals) > scaled(200) / 10


def test_a_zero_byte_is_in_no_id(tmp_path: Path) -> None:
    """Tools in C would take two ids that differ after it for one."""
    with pytest.raises(RunError, match="a zero byte"):
        read_trec(written(tmp_path / "r.trec", b"q Q0 d\0a 1 2 x\nq Q0 d\0b 2 1 x\n"))
    with pytest.raises(RunError, match="zero byte"):
        write_trec({"q": [("d\0a", 1.0)]}, tmp_path / "w.trec", "x")
    corpus = b'{"_id": "d\\u0000a", "text": "x"}\n'
    with pytest.raises(DatasetError, match=r"corpus\.jsonl:1: _id 'd\\x00a' .* a zero byte"):
        load(folder_of(corpus, QUERIES, QRELS, tmp_path / "data"))


# --- lines without end, and archives that unpack without end --------------------------------


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, 1_500_000_000))
from pathlib import Path
from beir_eval import load
from beir_eval.errors import BeirEvalError
from beir_eval.data.datasets import read_qrels
from mcranker.inputs.trec import read_trec
from beir_eval.experiment.suite import load_suite
from mcranker import InputError
from mcranker.cli.rank import read_corpus, read_passages, read_queries
source, data = sys.argv[1], Path(sys.argv[2])
readers = (
    lambda: read_passages(source), lambda: read_passages(source, "tsv"),
    lambda: read_queries(source), lambda: read_corpus(source, ()),
    lambda: read_qrels(source), lambda: read_trec(source), lambda: load(data),
    lambda: load_suite(source),
)
for read in readers:
    try:
        read()
    except (BeirEvalError, InputError) as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of memory, and devices")
def test_a_line_without_end_takes_no_more_memory_than_is_said(tmp_path: Path) -> None:
    source = "/dev/zero"
    data = write_folder(tmp_path / "data")
    (data / "corpus.jsonl").unlink()
    (data / "corpus.jsonl").symlink_to(source)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, source, str(data)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[3],
    )
    *lines, suite = done.stdout.splitlines()
    assert len(lines) == 7, done
    assert all(":1: the line is longer than 64 MB" in line for line in lines), done.stdout
    assert "no suite" in suite or "longer than 4 MB; name the TOML file" in suite


def packed(path: Path, lines: int, line: bytes) -> Path:
    with gzip.open(path, "wb", 9) as file:
        for _ in range(lines):
            file.write(line)
    return path


def test_what_unpacks_too_far_is_refused(tmp_path: Path) -> None:
    """70 MB out of 0.2 MB; the same lines that were unpacked by hand are read."""
    line = json.dumps({"_id": "d", "text": " " * 1000}).encode() + b"\n"
    bomb = packed(tmp_path / "corpus.jsonl.gz", 70_000, line)
    with pytest.raises(DatasetError, match=r"over 100 times as much; .* unpack it with gunzip"):
        list(read_lines(bomb, DatasetError))
    plain = tmp_path / "corpus.jsonl"
    with gzip.open(bomb) as file, plain.open("wb") as target:
        target.write(file.read())
    assert plain.stat().st_size > LONGEST_LINE
    assert sum(1 for _ in read_lines(plain, DatasetError)) == 70_000
