"""Run folders of experiments: their contents, and that nothing is ranked twice."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from beir_eval.data.first_stage import FirstStage
from beir_eval.errors import RunFolderError
from beir_eval.experiment.run import run_suite
from beir_eval.experiment.run_folder import RunFolder, find_runs
from mcranker import ChatRequest, ServerFailed
from tests.support.beir_folder import GRADES, QUERIES, judging, knowing, write_folder
from tests.support.experiment_support import MEASURE, plan, suite


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny")


def test_a_run_folder_has_everything(folder: Path, tmp_path: Path) -> None:
    run_suite(suite(folder, "sum"), plan(tmp_path / "out", knowing(), limit=2))
    (run,) = find_runs([tmp_path / "out"])
    assert run.path == tmp_path / "out" / "tiny" / "sum"
    manifest, data = run.manifest, run.data()
    assert (manifest.label, manifest.ranker, manifest.finished) == ("sum", "mcranker", True)
    assert manifest.models["scoring"] == "scripted:truth"
    assert manifest.options["model"] == "scripted:truth"
    assert "concurrency" not in manifest.config
    assert (data.manifest.queries, data.manifest.queries_in_full) == (2, 4)
    assert data.manifest.first_stage.name == "BM25"
    assert data.queries() == {each: QUERIES[each] for each in ("q1", "q2")}
    assert data.qrels() == {each: GRADES[each] for each in ("q1", "q2")}
    metrics = run.metrics()
    assert metrics.scores is not None
    assert metrics.taken is not None
    passages = sum(map(len, data.first_stage().values()))
    # Two queries: a recruiter, three rubrics, and each passage thrice; equal texts once.
    distinct = sum(
        len({data.passages()[doc_id] for doc_id, _ in ranked})
        for ranked in data.first_stage().values()
    )
    assert metrics.taken.calls == 2 * (1 + 3) + 3 * distinct
    assert metrics.scores.asked == 3 * passages
    assert list(run.run()) == ["q1", "q2"]
    texts = data.passages()
    ranking = next(run.rankings()).with_texts(texts)
    assert [hit.doc_id for hit in ranking] == [doc_id for doc_id, _ in run.run()["q1"]]
    assert (ranking[0].passage.title, ranking[0].passage.text) == texts[ranking[0].doc_id]


def test_what_was_ranked_before_a_stop_is_kept(folder: Path, tmp_path: Path) -> None:
    """After two queries the server fails; the second run asks only for the other two."""
    asked: list[str] = []

    def failing(request: ChatRequest) -> str:
        if request.tag.query_id in ("q3", "q4"):
            raise ServerFailed("out of order")
        return '{"Score": 1}'

    def counted(request: ChatRequest) -> str:
        asked.append(request.tag.query_id)
        return '{"Score": 1}'

    one = plan(tmp_path / "out", judging(failing))
    (broken,) = run_suite(suite(folder, "DIRECT"), one)
    assert broken.metrics is not None
    assert dict(broken.metrics.failed) == {"q3": "out of order", "q4": "out of order"}
    assert broken.metrics.missing_queries == ("q3", "q4")
    assert broken.metrics.per_query[MEASURE]["q3"] == 0
    (whole,) = run_suite(suite(folder, "DIRECT"), plan(tmp_path / "out", judging(counted)))
    assert set(asked) == {"q3", "q4"}
    assert whole.metrics is not None
    assert not whole.metrics.failed
    ranked = [ranking.query.id for ranking in RunFolder.open(whole.path).rankings()]
    assert ranked == ["q1", "q2", "q3", "q4"]


def test_a_full_disk_is_named_and_loses_nothing_else(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, taken = Path.open, []

    def full(path: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if mode == "ab":
            taken.append(path)
            if len(taken) == 3:
                with real(path, mode) as file:
                    file.write(b'{"query": {"id": "q')
                raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", full)
    one = plan(tmp_path / "out", knowing(), options={"query_concurrency": 1})
    with pytest.raises(OSError, match="No space left") as caught:
        run_suite(suite(folder, "DIRECT"), one)
    assert caught.value.filename == str(tmp_path / "out" / "tiny" / "direct" / "rankings.jsonl")
    monkeypatch.setattr(Path, "open", real)
    (result,) = run_suite(suite(folder, "DIRECT"), one)
    assert result.metrics is not None
    assert len(list(RunFolder.open(result.path).rankings())) == len(QUERIES)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"options": {"scale": 20}}, "scale was 10 and is 20"),
        ({"limit": 3}, "queries 4, now 3"),
        ({"depth": 5}, "depth 20, now 5"),
        ({"first_stage": FirstStage(k1=1.2)}, "first stage"),
    ],
)
def test_other_choices_want_another_folder(
    folder: Path, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    run_suite(suite(folder, "DIRECT"), plan(tmp_path / "out", knowing()))
    with pytest.raises(RunFolderError, match=said) as caught:
        run_suite(suite(folder, "DIRECT"), plan(tmp_path / "out", knowing(), **change))
    assert "--out" in str(caught.value)
