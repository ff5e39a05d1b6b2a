"""ir_datasets itself: archives on disk, downloads, and what it raises, as lines."""

from __future__ import annotations

import errno
import gc
import io
import json
import logging
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from beir_eval import DatasetError, Document, ExtraMissing, load
from beir_eval.data.ir_source import StoredCorpus, home, plainly

CORPUS = [
    {"_id": "d3", "title": "Fish", "text": "Fish swim.", "metadata": {}},
    {"_id": "d1", "title": "", "text": ""},
    {"_id": "d2", "title": "Caf\u00e9", "text": " Two  blanks stay. "},
]
QUERIES = [{"_id": "q2", "text": "fish?"}, {"_id": "q1", "text": "a"}, {"_id": "q0", "text": "b"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td3\t2\nq2\td9\t0\n"


def _names() -> list[str]:
    return [name for name in sys.modules if name.split(".")[0] == "ir_datasets"]


@pytest.fixture(scope="module", autouse=True)
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """ir_datasets imported anew, with a home of its own, which it looks up when it is imported."""
    kept = {name: sys.modules.pop(name) for name in _names()}
    logger = logging.getLogger("ir_datasets")
    handlers = list(logger.handlers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IR_DATASETS_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("IR_DATASETS_TMP", str(tmp_path_factory.mktemp("tmp")))
        patch.setenv("IR_DATASETS_DL_TRIES", "1")
        patch.setenv("IR_DATASETS_DL_403_TRIES", "1")
        yield import_module("ir_datasets")
    for name in _names():
        del sys.modules[name]
    sys.modules.update(kept)
    logger.handlers = handlers


def archive(name: str, files: Mapping[str, str] | None = None) -> bytes:
    """A zip as BEIR gives them out."""
    if files is None:
        files = {
            "corpus.jsonl": _lines(CORPUS),
            "queries.jsonl": _lines(QUERIES),
            "qrels/test.tsv": QRELS,
            "qrels/train.tsv": "query-id\tcorpus-id\tscore\nq0\td2\t1\n",
        }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as target:
        for path, text in files.items():
            target.writestr(f"{name}/{path}", text)
    return content.getvalue()


def _lines(entries: Sequence[object]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def place(name: str, content: bytes) -> Path:
    path = home() / "beir" / name / "source.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def unclosed() -> Iterator[None]:
    """For tests in which ir_datasets leaves an archive open, as it does after an error in one."""
    yield
    gc.collect()


def test_an_archive_gives_what_the_folder_gives(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    content = archive("scifact")
    place("scifact", content)
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)

    with caplog.at_level(logging.INFO, logger="mcranker.beir_eval.datasets"):
        stored = load("SciFact")

    folder = load(tmp_path / "scifact")
    assert isinstance(stored.corpus, StoredCorpus)
    assert list(stored.corpus.items()) == list(folder.corpus.items())
    assert list(stored.queries.items()) == [("q2", "fish?"), ("q1", "a")]
    assert stored.queries == folder.queries
    assert stored.qrels == folder.qrels == {"q1": {"d1": 1}, "q2": {"d3": 2, "d9": 0}}
    assert len(stored.corpus) == 3
    assert stored.corpus["d2"] == Document("d2", "Caf\u00e9", " Two  blanks stay. ")
    assert "d2x" not in stored.corpus
    assert (stored.name, stored.paper, stored.about) == ("scifact", "scifact", folder.about)
    assert [record.getMessage() for record in caplog.records] == [
        f"SciFact: storing its documents in {home()}",
        "scifact: 1 judgements are of documents outside the corpus",
        f"{tmp_path / 'scifact'} is called like the paper's SciFact, but has 3 documents and 2 "
        "judged queries, not 5183 and 300: it is not taken for it",
        "scifact: 1 judgements are of documents outside the corpus",
    ]
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "docs_iter" in captured.err  # the progress bar
    assert "INFO" not in captured.err

    assert load("scifact", split="train").qrels == {"q0": {"d2": 1}}
    assert list(load("scifact").corpus) == ["d3", "d1", "d2"]
    assert capfd.readouterr() == ("", "")  # all is there, so there is nothing to tell


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("nq", b"", "BadZipFile: File is not a zip file"),
        (
            "quora",
            archive(
                "quora",
                {
                    "qrels/test.tsv": QRELS,
                    "queries.jsonl": _lines(QUERIES),
                    "corpus.jsonl": '{"_id": "d1", "ti',
                },
            ),
            "JSONDecodeError: ",
        ),
        ("fever", archive("fever", {"qrels/test.tsv": ""}), "generator raised StopIteration"),
    ],
)
@pytest.mark.usefixtures("unclosed")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_damaged_archive_is_named(name: str, content: bytes, complaint: str) -> None:
    path = place(name, content)
    with pytest.raises(DatasetError) as caught:
        load(f"beir/{name}/test" if name in {"quora", "fever"} else f"beir/{name}")
    said = str(caught.value)
    assert "a file is damaged or incomplete" in said
    assert complaint in said
    assert said.endswith(f"; delete '{path.parent}' and load the data set again")
    assert "\n" not in said


class Answering(BaseHTTPRequestHandler):
    """A proxy that answers by itself, as a log-in page of a network does."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"<html>please log in</html>")

    def do_CONNECT(self) -> None:
        self.send_error(502)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    """All connections end here."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        for variable in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{server.server_port}")
            monkeypatch.setenv(variable.upper(), f"http://127.0.0.1:{server.server_port}")
        for variable in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(variable, raising=False)
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("proxy")
def test_without_a_network(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        DatasetError,
        match=r"^'nfcorpus' is not on this machine .* downloaded from public\.ukp\..* try",
    ):
        load("nfcorpus")
    assert not list((home() / "beir" / "nfcorpus").glob("*.zip*"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("failure", "complaint"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "/x/beir"),
            r"^'pets': '/x/beir': Permission denied; mend that, or set IR_DATASETS_HOME to another",
        ),
        (
            ValueError("Insufficient disk space: /x\nrequires 2GB"),
            "'pets': '.*home0': Insufficient disk space: /x requires 2GB; mend that, or set",
        ),
        (
            FileNotFoundError(Path("/x/corpus")),
            "'pets' needs '/x/corpus', which is not there; see http",
        ),
        (EOFError(), "damaged or incomplete, .*EOFError: no message.; delete '.*pets' and load"),
    ],
)
def test_what_is_raised_becomes_a_line(failure: Exception, complaint: str) -> None:
    with pytest.raises(DatasetError, match=complaint) as caught, plainly("pets", "pets/test"):
        raise failure

    assert caught.value.__cause__ is failure
    assert "\n" not in str(caught.value)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)

    with pytest.raises(ExtraMissing, match=r"the data set 'scifact' needs the package 'ir_datas"):
        load("scifact")
