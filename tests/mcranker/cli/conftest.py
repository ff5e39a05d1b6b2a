"""Files and a scripted model for the command's tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli_support import Connected, Run, invoke, scripted


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Connected:
    return scripted(monkeypatch, tmp_path)


@pytest.fixture
def run(models: Connected) -> Run:
    """Runs the command with a scripted model."""
    return invoke


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    path = tmp_path / "docs.jsonl"
    lines = [{"_id": "aa", "text": "one"}, {"_id": "bbbb", "title": "T", "text": "two"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def many(tmp_path: Path) -> list[str | Path]:
    """Arguments for two queries with two passages each, out of order in the run."""
    (tmp_path / "q.tsv").write_text("_id\ttext\nq1\tmasks\nq2\tgloves\nq3\tnot in the run\n")
    (tmp_path / "c.jsonl").write_text(
        "".join(json.dumps({"_id": "d" * n, "text": f"text {n}"}) + "\n" for n in range(1, 6))
    )
    (tmp_path / "bm25.trec").write_text(
        "q2 Q0 ddd 1 2.5 x\nq1 Q0 d 2 1 x\nq1 Q0 dd 1 9 x\nq2 Q0 dddd 2 1e0 x\n"
    )
    queries, corpus = tmp_path / "q.tsv", tmp_path / "c.jsonl"
    return ["rank-run", tmp_path / "bm25.trec", "--queries", queries, "--corpus", corpus]
