"""Experiments: what they measure, what they keep, and that nothing is asked twice."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beir_eval import evaluate, load
from beir_eval.cell import Cell
from beir_eval.errors import DatasetError, RunFolderError, SettingError
from beir_eval.experiment import CellResult, Experiment, Plan, run_suite
from beir_eval.first_stage import FirstStage
from beir_eval.prepare import chosen_queries
from beir_eval.run_folder import DataFolder, RunFolder, find_runs, with_texts
from beir_eval.suite import DatasetSpec, RankerSpec, Suite
from mcranker import AuthenticationFailed, ChatRequest, Ranking, ScriptedChat, ServerFailed
from tests.beir_folder import GRADES, QUERIES, judging, knowing, write_folder

MEASURE = "nDCG@10"
RANKERS: dict[str, tuple[str, dict[str, Any]]] = {
    "DIRECT": ("direct", {}),
    "DIRECT with criteria": ("direct", {"with_criteria": True}),
    "scientist": ("mcranker", {"team_size": 1}),
    "sum": ("mcranker", {}),
    "reciprocal rank": ("mcranker", {"ensemble": "reciprocal_rank"}),
    "assessor": ("mcranker", {"ensemble": "assessor"}),
    "no criteria": ("mcranker", {"criteria": "none"}),
    "data set's criteria": ("mcranker", {"criteria": "dataset"}),
    "top 10": ("mcranker", {"top_k": 10}),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny")


def suite(folder: Path, *labels: str) -> Suite:
    rankers = tuple(
        RankerSpec(label, *RANKERS[label], note=None, own=frozenset(RANKERS[label][1]))
        for label in labels or RANKERS
    )
    datasets = (DatasetSpec(str(folder), about="Notes on masks and filters."),)
    return Suite("made", "Made up", "", datasets, rankers, depth=20)


def plan(out: Path, model: object, **fields: Any) -> Plan:
    options = {"model": model, "ledger": None, **fields.pop("options", {})}
    return Plan(out=out, options=options, cache=False, **fields)


def constant(score: int) -> ScriptedChat:
    def answer(request: ChatRequest) -> str:
        key = "Final score" if request.tag.stage == "assess" else "Score"
        return json.dumps({key: score})

    return judging(answer, name="scripted:constant")


def by_label(results: list[CellResult]) -> Iterator[tuple[str, float, float]]:
    for result in results:
        assert result.metrics is not None, result
        yield result.label, result.metrics.means[MEASURE], result.first_stage.means[MEASURE]


def test_true_judgements_give_the_ideal_order(folder: Path, tmp_path: Path) -> None:
    dataset = load(folder)
    data = run_suite(suite(folder), plan(tmp_path / "out", knowing()))
    found = DataFolder.open(tmp_path / "out" / "tiny" / "data").first_stage()
    ideal = {
        query_id: sorted(ranked, key=lambda hit: -GRADES[query_id].get(hit[0], 0))
        for query_id, ranked in found.items()
    }
    best = evaluate(ideal, dataset.qrels).means[MEASURE]
    values = {label: (value, first) for label, value, first in by_label(data)}
    assert set(values) == set(RANKERS)
    for label, (value, first) in values.items():
        assert value == pytest.approx(best, abs=1e-12), label
        assert first < best


def test_constant_scores_leave_the_first_stage(folder: Path, tmp_path: Path) -> None:
    results = run_suite(suite(folder), plan(tmp_path / "out", constant(5)))
    for label, value, first in by_label(results):
        assert value == first, label
    for result in results:
        assert result.metrics is not None
        ties, value = result.metrics.ties[MEASURE], result.metrics.means[MEASURE]
        if result.label == "reciprocal rank":
            # Each persona's ranks are by first-stage order where scores tie: none are left.
            assert ties.worst == value == ties.best
        else:
            assert ties.worst < value < ties.best, result.label


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
    ranking = Ranking.from_dict(with_texts(next(run.rankings()), texts))
    assert [hit.doc_id for hit in ranking] == [doc_id for doc_id, _ in run.run()["q1"]]
    assert (ranking[0].passage.title, ranking[0].passage.text) == texts[ranking[0].doc_id]


def test_a_second_run_ranks_nothing_again(folder: Path, tmp_path: Path) -> None:
    asked: list[ChatRequest] = []

    def counted(request: ChatRequest) -> str:
        asked.append(request)
        return '{"Score": 1}'

    first = run_suite(suite(folder, "DIRECT"), plan(tmp_path / "out", judging(counted)))
    before = len(asked)
    again = run_suite(suite(folder, "DIRECT"), plan(tmp_path / "out", judging(counted)))
    assert before > 0
    assert len(asked) == before
    assert again[0].metrics == first[0].metrics
    assert (again[0].calls, again[0].reused) == (0, 0)


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
    ranked = [ranking["query"]["id"] for ranking in RunFolder.open(whole.path).rankings()]
    assert ranked == ["q1", "q2", "q3", "q4"]


def test_rankings_that_vanish_meanwhile_are_missed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Cell.keep

    def keep(cell: Cell, ranking: Ranking) -> None:
        real(cell, ranking)
        if ranking.query.id == "q2":
            (cell.path / "rankings.jsonl").unlink()

    monkeypatch.setattr(Cell, "keep", keep)
    one = plan(tmp_path / "out", knowing(), options={"query_concurrency": 1})
    with pytest.raises(RunFolderError, match=r"2 rankings .* are gone, e\.g\. of query 'q1'"):
        run_suite(suite(folder, "DIRECT"), one)
    monkeypatch.setattr(Cell, "keep", real)
    (result,) = run_suite(suite(folder, "DIRECT"), one)
    assert result.metrics is not None
    assert not result.metrics.missing_queries


def test_a_torn_last_line_is_made_again(folder: Path, tmp_path: Path) -> None:
    run_suite(suite(folder, "DIRECT"), plan(tmp_path / "out", knowing()))
    path = tmp_path / "out" / "tiny" / "direct" / "rankings.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    (result,) = run_suite(suite(folder, "DIRECT"), plan(tmp_path / "out", knowing()))
    assert result.metrics is not None
    assert [json.loads(line)["query"]["id"] for line in path.read_bytes().splitlines()] == [
        "q1",
        "q2",
        "q3",
        "q4",
    ]


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
        ({"options": {"prompts": "compact"}}, "prompts was 'paper' and is 'compact'"),
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


def test_how_calls_are_made_may_change(folder: Path, tmp_path: Path) -> None:
    run_suite(suite(folder, "DIRECT"), plan(tmp_path / "out", knowing()))
    other = plan(tmp_path / "out", knowing(), options={"concurrency": 3, "max_calls": 500})
    (result,) = run_suite(suite(folder, "DIRECT"), other)
    assert result.metrics is not None


def test_the_budget_is_of_the_whole_experiment(folder: Path, tmp_path: Path) -> None:
    labels = ("DIRECT", "scientist")
    free = run_suite(suite(folder, *labels), plan(tmp_path / "free", knowing()))
    most = free[0].calls + 10
    limited = plan(tmp_path / "out", knowing(), options={"max_calls": most})
    first, second = run_suite(suite(folder, *labels), limited)
    assert first.stopped is None
    assert second.metrics is None
    assert "max_calls" in str(second.stopped)
    # The scientist writes a rubric for each query and scores as many passages as DIRECT.
    assert second.calls <= 10
    assert not RunFolder.open(second.path).manifest.finished


def test_what_fails_every_query_stops_the_run(folder: Path, tmp_path: Path) -> None:
    asked: list[str] = []

    def refused(request: ChatRequest) -> str:
        asked.append(request.tag.query_id)
        raise AuthenticationFailed("wrong key")

    one = plan(tmp_path / "out", judging(refused), options={"query_concurrency": 1})
    results = run_suite(suite(folder, "DIRECT", "scientist"), one)
    assert [result.label for result in results] == ["DIRECT"]
    assert isinstance(results[0].stopped, AuthenticationFailed)
    assert set(asked) == {"q1"}


def test_a_model_out_of_reach_is_given_up(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def down(request: ChatRequest) -> str:
        if request.tag.query_id not in asked:
            asked.append(request.tag.query_id)
        raise ServerFailed("no answer")

    monkeypatch.setattr("beir_eval.experiment.GIVE_UP", 3)
    one = plan(tmp_path / "out", judging(down), options={"query_concurrency": 1})
    results = run_suite(suite(folder, "DIRECT", "scientist"), one)
    assert [(result.label, str(result.stopped)) for result in results] == [("DIRECT", "no answer")]
    assert results[0].metrics is None
    assert asked == ["q1", "q2", "q3"]


def test_a_run_of_failures_alone_is_not_finished(folder: Path, tmp_path: Path) -> None:
    def down(request: ChatRequest) -> str:
        raise ServerFailed("no answer")

    (result,) = run_suite(suite(folder, "DIRECT"), plan(tmp_path / "out", judging(down)))
    assert (result.metrics, str(result.stopped)) == (None, "no answer")
    # Nothing was ranked, so that other choices do no harm.
    other = plan(tmp_path / "out", knowing(), limit=3)
    (again,) = run_suite(suite(folder, "DIRECT"), other)
    assert again.metrics is not None
    assert not again.metrics.failed
    assert len(again.metrics.per_query[MEASURE]) == 3


def test_missing_scores_are_counted(folder: Path, tmp_path: Path) -> None:
    def lost(request: ChatRequest) -> str:
        return "?" if request.tag.doc_id == "d8" else '{"Score": 3}'

    (result,) = run_suite(suite(folder, "DIRECT"), plan(tmp_path / "out", judging(lost)))
    assert result.metrics is not None
    scores = result.metrics.scores
    assert scores is not None
    found = DataFolder.open(tmp_path / "out" / "tiny" / "data").first_stage()
    times = sum(doc_id == "d8" for ranked in found.values() for doc_id, _ in ranked)
    assert times > 0
    assert scores.missing == times
    assert sum(scores.reasons.values()) == times
    # Each is asked for once more, and neither reply can be read.
    assert scores.unreadable == 2 * times


def test_ensembles_of_the_same_scores_cost_one(folder: Path, tmp_path: Path) -> None:
    labels = ("sum", "reciprocal rank", "assessor")
    options = {"ledger": tmp_path / "ledger.sqlite"}
    results = run_suite(suite(folder, *labels), plan(tmp_path / "out", knowing(), options=options))
    calls = {result.label: result.calls for result in results}
    taken = {
        result.label: result.metrics.taken.calls
        for result in results
        if result.metrics is not None and result.metrics.taken is not None
    }
    assert calls["reciprocal rank"] == 0
    assert taken["reciprocal rank"] == taken["sum"] == calls["sum"]
    # The assessor is asked once a distinct passage; a team of three scores each thrice.
    assert calls["assessor"] == taken["assessor"] - taken["sum"] > 0


def test_the_estimate_tells_the_calls(folder: Path, tmp_path: Path) -> None:
    labels = ("DIRECT", "sum", "reciprocal rank", "assessor")
    options = {"ledger": tmp_path / "ledger.sqlite"}
    one = plan(tmp_path / "out", knowing(), options=options)
    told = {
        label: estimate.calls
        for _, label, estimate in Experiment(suite(folder, *labels), one).estimate()
    }
    assert not (tmp_path / "out").exists()
    made = {result.label: result.calls for result in run_suite(suite(folder, *labels), one)}
    assert told == made
    assert told["reciprocal rank"] == 0


def test_a_run_file_as_first_stage(folder: Path, tmp_path: Path) -> None:
    lines = [f"{query_id} Q0 d{n} {n + 1} {9 - n} x" for query_id in QUERIES for n in range(5)]
    (tmp_path / "mine.trec").write_text("\n".join(lines) + "\n", encoding="utf-8")
    stage = FirstStage(engine="file", run=tmp_path / "mine.trec")
    one = plan(tmp_path / "out", constant(1), first_stage=stage, depth=4)
    (result,) = run_suite(suite(folder, "DIRECT"), one)
    ranked = RunFolder.open(result.path).run()
    assert {query_id: [doc_id for doc_id, _ in hits] for query_id, hits in ranked.items()} == {
        query_id: ["d0", "d1", "d2", "d3"] for query_id in QUERIES
    }


def test_criteria_of_the_data_set_need_words(folder: Path, tmp_path: Path) -> None:
    bare = suite(folder, "data set's criteria")
    speechless = Suite("made", "", "", (DatasetSpec(str(folder)),), bare.rankers)
    with pytest.raises(SettingError, match="--about"):
        run_suite(speechless, plan(tmp_path / "out", knowing()))


def test_chosen_queries(folder: Path) -> None:
    dataset = load(folder, judged_only=False)
    assert list(chosen_queries(dataset).queries) == ["q1", "q2", "q3", "q4"]
    assert list(chosen_queries(dataset, queries=("q3", "q1")).queries) == ["q3", "q1"]
    some = chosen_queries(dataset, queries=("q3", "q1"), limit=1)
    assert list(some.queries) == list(some.qrels) == ["q3"]
    for queries, said in [
        (("q9",), "no query 'q9'"),
        (("q1", "q1"), "named twice"),
        (("q5",), "no judgements"),
    ]:
        with pytest.raises(DatasetError, match=said):
            chosen_queries(dataset, queries=queries)


def test_an_experiment_wants_what_the_suite_has(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no ranker 'DIRECTT'"):
        Experiment(suite(folder), plan(tmp_path, knowing(), rankers=("DIRECTT",)))
    empty = Suite("made", "", "", (), suite(folder).rankers)
    with pytest.raises(SettingError, match="no data set"):
        Experiment(empty, plan(tmp_path, knowing()))


def test_a_query_that_the_first_stage_finds_nothing_for(folder: Path, tmp_path: Path) -> None:
    lines = [f"{query_id} Q0 d1 1 9 x" for query_id in ("q1", "q2", "q3")]
    (tmp_path / "mine.trec").write_text("\n".join(lines) + "\n", encoding="utf-8")
    stage = FirstStage(engine="file", run=tmp_path / "mine.trec")
    one = plan(tmp_path / "out", constant(1), first_stage=stage)
    (result,) = run_suite(suite(folder, "DIRECT"), one)
    assert result.metrics is not None
    assert result.metrics.missing_queries == ("q4",)
    assert not result.metrics.failed


def test_cells_are_one_folder_each(folder: Path, tmp_path: Path) -> None:
    experiment = Experiment(suite(folder), plan(tmp_path, knowing()))
    prepared = experiment.prepared(experiment.datasets[0])
    cells: list[Cell] = list(experiment.cells(prepared))
    assert len({cell.path for cell in cells}) == len(experiment) == len(RANKERS)
