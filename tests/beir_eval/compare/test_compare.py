"""Two runs, query by query: differences, effects of passages, and who pulled them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import orjson
import pytest

from beir_eval.compare.model import MovedPassage, PersonaScore, RunComparison
from beir_eval.compare.pair import compare_pair
from beir_eval.compare.sources import open_pair
from beir_eval.errors import MeasureError, SettingError
from tests.support.compare_support import (
    PARENT_5,
    QUERIES,
    SCORES_A,
    SCORES_B,
    TEXTS,
    Scores,
    write_both,
    write_data,
    write_run,
)

THIRD = 1 / math.log2(3)  # discount of rank 2


def near(value: Any) -> Any:
    return pytest.approx(value, rel=0, abs=1e-12)


def compared(folder: Path, *, top: int = 5, passages: int = 4) -> RunComparison:
    a, b = write_both(folder)
    return compare_pair(open_pair(a, b), top=top, passages=passages)


def ids(passages: tuple[MovedPassage, ...]) -> list[str]:
    return [passage.doc_id for passage in passages]


def test_the_head_says_how_much_the_runs_differ(tmp_path: Path) -> None:
    found = compared(tmp_path / "tiny")
    # q1: ideal 2 + 1/log2(3); A has d1 at 1 and d4 at 3, B has d4 at 3 and d1 at 4.
    ideal = 2 + THIRD
    a1, b1 = (2 + 1 / 2) / ideal, (1 / 2 + 2 / math.log2(5)) / ideal
    # q2: d2 at rank 2 in both. q3: d3 at rank 3 in A and 1 in B.
    assert found.a.mean == near((a1 + THIRD + 1 / 2) / 3)
    assert found.b.mean == near((b1 + THIRD + 1) / 3)
    each = found.comparison
    assert each.difference == near(found.b.mean - found.a.mean)
    assert (each.wins, each.ties, each.losses) == (1, 1, 1)
    assert (found.dataset, found.first_stage) == ("tiny", "BM25")
    assert (found.queries, found.left_out, found.settings) == (3, 0, ())
    assert (found.a.label, found.b.label) == ("A", "B")
    assert (found.a.models, found.a.note) == ("scripted:function", "")


def test_losses_and_gains_stand_apart(tmp_path: Path) -> None:
    found = compared(tmp_path / "tiny")
    (loss,), (gain,) = found.losses, found.gains
    assert (loss.query_id, loss.text) == ("q1", QUERIES["q1"])
    assert loss.difference == near(loss.b.value - loss.a.value)
    assert gain.query_id == "q3"
    assert (gain.a.value, gain.b.value, gain.difference) == near((0.5, 1.0, 0.5))


def test_the_greatest_change_comes_first_and_top_counts_both_ways(tmp_path: Path) -> None:
    found = compared(tmp_path / "tiny", top=1)
    assert found.losses == ()
    assert [each.query_id for each in found.gains] == ["q3"]  # 0.5 against 0.43


def test_only_gains_or_only_losses(tmp_path: Path) -> None:
    pair = open_pair(*write_both(tmp_path / "tiny"))
    gains = compare_pair(pair, direction="gains")
    losses = compare_pair(pair, direction="losses")
    assert (len(gains.gains), len(gains.losses)) == (1, 0)
    assert (len(losses.gains), len(losses.losses)) == (0, 1)


def test_effects_add_up_to_the_difference(tmp_path: Path) -> None:
    found = compared(tmp_path / "tiny", passages=10)
    for query in (*found.losses, *found.gains):
        effects = math.fsum(passage.effect for passage in query.passages)
        assert effects == near(query.difference)
    first = found.losses[0].passages[0]
    # d1, grade 2, from rank 1 to rank 4.
    assert first.effect == near((2 / math.log2(5) - 2) / (2 + THIRD))


def test_passages_that_took_the_room_follow(tmp_path: Path) -> None:
    found = compared(tmp_path / "tiny")
    loss, gain = found.losses[0], found.gains[0]
    # d4 is relevant and stayed at 3. Of the others, d2 took 1 - 0.631, d3 0.631 - 0.431.
    assert ids(loss.passages) == ["d1", "d2", "d3"]
    # d1 left 1 - 0.631 and d2 0.631 - 0.5; d4 stayed.
    assert ids(gain.passages) == ["d3", "d1", "d2"]
    assert [passage.effect for passage in loss.passages[1:]] == [0, 0]
    assert [passage.grade for passage in loss.passages] == [2, 0, None]
    assert [passage.first_stage_rank for passage in loss.passages] == [1, 2, 3]
    assert (loss.passages[0].title, loss.passages[0].text) == TEXTS["d1"]


@pytest.mark.parametrize(
    ("limit", "expected"), [(1, ["d1"]), (2, ["d1", "d2"]), (3, ["d1", "d2", "d3"])]
)
def test_the_number_of_passages_is_kept(limit: int, expected: list[str], tmp_path: Path) -> None:
    assert ids(compared(tmp_path / "tiny", passages=limit).losses[0].passages) == expected


def test_a_third_of_the_passages_are_others_where_many_relevant_ones_moved(tmp_path: Path) -> None:
    docs = [f"d{number}" for number in range(1, 9)]
    texts = {doc_id: ("", f"text of {doc_id}") for doc_id in docs}
    qrels = {"q1": dict.fromkeys(docs[:5], 1)}
    queries = {"q1": "q"}
    folder = tmp_path / "tiny"
    write_data(folder, queries=queries, qrels=qrels, texts=texts)
    forward = {doc_id: 8 - place for place, doc_id in enumerate(docs)}
    backward = {doc_id: place for place, doc_id in enumerate(docs)}
    same = dict.fromkeys(docs, 5)
    names = []
    for name, scores in (("A", forward), ("B", backward)):
        by_persona = {"q1": {"Virologist": scores, "Worried parent": same}}
        names.append(
            write_run(folder / name, by_persona, queries=queries, qrels=qrels, texts=texts)
        )
    found = compare_pair(open_pair(*names), passages=4)
    # Ranks turn around: d1 lost 1 - 1/log2(9), d2 and d3 less; d8 took as much as d1 lost.
    # d5 is relevant and went from 5 to 4, d4 from 4 to 5.
    assert ids(found.losses[0].passages) == ["d1", "d2", "d3", "d8"]


def test_places_hold_ranks_scores_and_pulls(tmp_path: Path) -> None:
    passage = compared(tmp_path / "tiny").losses[0].passages[0]
    a, b = passage.a, passage.b
    assert (a.rank, a.score, a.tied) == (1, 14, 0)
    assert (b.rank, b.score, b.tied) == (4, 6, 0)
    # Means of the Virologist's scores: (9 + 5 + 1 + 3) / 4 and (2 + 9 + 6 + 5) / 4; of the
    # parent's in B: (4 + 5 + 5 + 5) / 4.
    assert a.scores == (
        PersonaScore("Virologist", 9, "", 4.5, {}),
        PersonaScore("Worried parent", 5, "", 5.0, {}),
    )
    assert b.scores == (
        PersonaScore("Virologist", 2, "", 5.5, {}),
        PersonaScore("Worried parent", 4, "", 4.75, {}),
    )
    # The Virologist's 2 is 3.5 from its mean, the parent's 4 only 0.75.
    assert a.pull == a.scores[0]
    assert b.pull == b.scores[0]


def test_ties_are_counted_and_equal_scores_pull_nobody(tmp_path: Path) -> None:
    first = compared(tmp_path / "tiny").gains[0].passages[0]
    # In A all four passages have the sum 5.
    assert (first.a.score, first.a.tied, first.a.pull) == (5, 3, None)
    assert (first.b.score, first.b.tied) == (14, 0)


def test_teams_come_with_their_criteria(tmp_path: Path) -> None:
    team = compared(tmp_path / "tiny").losses[0].a.team
    assert [member.persona for member in team] == ["Virologist", "Worried parent"]
    assert team[0].criteria == {"Answers the question": 75, "Names a source": 25}


def test_missing_skipped_and_unjudged_scores_are_told_apart(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    a, _ = write_both(folder)
    unread: Scores = {**SCORES_B["q1"], "Worried parent": {**PARENT_5, "d1": "well"}}
    broken = {**SCORES_B, "q1": unread}
    b = write_run(folder / "broken", broken, depth=3)
    passages = compare_pair(open_pair(a, b)).losses[0].passages
    # The Virologist's 2 stands in for the missing score, so that d1 has 4 and comes third; d4 is
    # beyond the depth and comes last.
    assert ids(passages) == ["d1", "d4", "d2", "d3"]
    virologist, parent = passages[0].b.scores
    assert (virologist.score, virologist.absent) == (2, "")
    assert parent.score is None
    assert parent.absent.startswith("missing: scripted:function gave an unusable answer")
    c = write_run(folder / "depth", SCORES_B, depth=1)
    moved = compare_pair(open_pair(b, c), passages=10)
    shown = next(each for each in moved.gains[0].passages if each.doc_id == "d2")
    assert [each.absent for each in shown.b.scores] == ["not judged", "not judged"]
    assert shown.b.score is None


def test_skipped_scores_come_with_the_highest_score_possible(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    a, _ = write_both(folder)
    # d4, beyond the passages that all score, can reach 10 after a first 0; the others have 15.
    scores: Scores = {
        "Virologist": {**dict.fromkeys(TEXTS, 10), "d4": 0},
        "Worried parent": {**PARENT_5, "d4": 0},
    }
    low = {**SCORES_B, "q1": scores}
    b = write_run(folder / "top", low, top_k=1, concurrency=1)
    first, *_ = compare_pair(open_pair(a, b)).losses[0].passages
    skipped = [each for each in first.b.scores if each.absent == "skipped"]
    assert first.doc_id == "d4"
    assert len(skipped) == 1
    assert (first.b.score, first.b.at_most) == (None, 10)


def test_scores_by_criterion_come_along(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    write_both(folder)
    path = folder / "B" / "rankings.jsonl"
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    hit = next(hit for hit in lines[0]["hits"] if hit["doc_id"] == "d1")
    hit["criteria"] = {"Virologist": {"Answers the question": 3.0, "Names a source": 0.0}}
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    pair = open_pair(str(folder / "A"), str(folder / "B"))
    pull = compare_pair(pair).losses[0].passages[0].b.pull
    assert pull is not None
    assert pull.criteria == {"Answers the question": 3.0, "Names a source": 0.0}


def test_a_query_that_was_not_ranked_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    a, _ = write_both(folder)
    b = write_run(folder / "failed", SCORES_A, failed={"q2": "the model is gone"})
    found = compare_pair(open_pair(a, b))
    (loss,) = found.losses
    assert (loss.query_id, loss.b.failed, loss.a.failed) == ("q2", "the model is gone", "")
    assert (loss.a.value, loss.b.value) == near((THIRD, 0))
    (passage,) = loss.passages
    assert (passage.doc_id, passage.a.rank, passage.b.rank) == ("d2", 2, None)
    assert passage.b.scores == ()


def test_another_measure_is_computed_from_the_runs(tmp_path: Path) -> None:
    pair = open_pair(*write_both(tmp_path / "tiny"))
    found = compare_pair(pair, measure="RR")
    # First relevant passage of q1: d1 at 1 in A, d4 at 3 in B.
    assert found.losses[0].difference == near(1 / 3 - 1)
    assert found.effect_measure == "nDCG"
    # With a cutoff of 2, d1 falls from 1 to nothing: all of its gain of 2.
    cut = compare_pair(pair, measure="nDCG@2")
    first = cut.losses[0].passages[0]
    assert cut.effect_measure == "nDCG@2"
    assert first.effect == near(-2 / (2 + THIRD))
    assert first.effect == near(cut.losses[0].difference)
    # The last rank that counts counts: d3 of q3 is at 3 in A, where its gain is halved.
    third = compare_pair(pair, measure="nDCG@3").gains[0].passages[0]
    assert (third.doc_id, third.effect) == ("d3", near(1 - 1 / 2))
    # The ideal order is cut as well: of the first rank alone, d1 is all there is.
    assert compare_pair(pair, measure="nDCG@1").losses[0].passages[0].effect == near(-1)


def test_impossible_options_are_refused(tmp_path: Path) -> None:
    pair = open_pair(*write_both(tmp_path / "tiny"))
    with pytest.raises(SettingError, match="top=0 is below 1"):
        compare_pair(pair, top=0)
    with pytest.raises(SettingError, match="passages=-1 is below 1"):
        compare_pair(pair, passages=-1)
    with pytest.raises(MeasureError, match="no-such"):
        compare_pair(pair, measure="no-such")


def test_a_run_compared_with_itself_has_nothing_to_show(tmp_path: Path) -> None:
    a, _ = write_both(tmp_path / "tiny")
    found = compare_pair(open_pair(a, a))
    assert (found.losses, found.gains) == ((), ())
    assert (found.comparison.ties, found.comparison.p_value) == (len(QUERIES), 1)
