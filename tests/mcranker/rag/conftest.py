"""A pipeline by rote behind the command and the service."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcranker.rag.fake_pipeline import FakePipeline
from tests.support.cli_support import scripted_but_for_encoders


@pytest.fixture
def pipelines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[FakePipeline]:
    """Takes the place of `RAGPipeline`; the pipelines that are made from now on."""
    scripted_but_for_encoders(monkeypatch, tmp_path)
    made: list[FakePipeline] = []
    monkeypatch.setattr(FakePipeline, "made", made, raising=False)
    monkeypatch.setattr("mcranker.rag.pipeline.RAGPipeline", FakePipeline)
    monkeypatch.setattr("mcranker.retrieval.index.Index.open", lambda folder: f"index {folder}")
    return made
