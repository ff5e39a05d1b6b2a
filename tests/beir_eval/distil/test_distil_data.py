"""A team's scores as examples, agreement by hand, and the card; nothing here needs PyTorch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from beir_eval.cli.distil import command
from beir_eval.distil.agreement import agreement, judged, ndcg_by_scores, verdict
from beir_eval.distil.card import model_card
from beir_eval.distil.data import TaughtQuery, examples, read_taught
from beir_eval.errors import RunFolderError
from tests.support.run_folders import make_run_folders

TEAM = "MC: 2 recruits"


def query(key: str, *scores: float, text: str = "", **grades: int) -> TaughtQuery:
    names = tuple(f"d{place}" for place in range(1, len(scores) + 1))
    return TaughtQuery(
        key, text or f"query {key}", names, tuple(f"text of {n}" for n in names), scores, grades
    )


# --- runs


def test_scores_of_a_run_with_faults(tmp_path: Path) -> None:
    runs = make_run_folders(tmp_path, labels=(TEAM,), queries=6, passages=5, faults=True)
    taught = read_taught([str(runs)], dev=0.5)
    queries = [*taught.train, *taught.held_out]
    assert len(taught.train) == len(taught.held_out) == 2
    rankings = [
        json.loads(line) for line in next(runs.rglob("rankings.jsonl")).read_text().splitlines()
    ]
    whole = {
        (each["query"]["id"], hit["doc_id"]): hit["relevance"]
        for each in rankings
        for hit in each["hits"]
        if None not in hit["scores"].values()
    }
    found = {
        (each.key.removeprefix("1:"), doc_id): score
        for each in queries
        for doc_id, score in zip(each.documents, each.scores, strict=True)
    }
    assert found == whole
    assert len(whole) < 20
    # Of 6 queries the first was not ranked, and the last found nothing; 4 have 5 passages each.
    counts = dict(taught.left_out)
    assert counts.pop("query: not ranked") == counts.pop("query: no passage with a score") == 1
    assert list(counts.values()) == [20 - len(whole)]
    one = queries[0]
    assert one.passages[0].splitlines()[0] == f"Title {one.documents[0]}"
    assert one.text == f"what is known about {one.key[2:]}"
    assert set(one.grades) == {f"{one.key[2:]}-d{place}" for place in range(1, 6)}
    # In first-stage order, whatever the team's is.
    assert [*one.documents] == sorted(one.documents)


def test_two_teachers_or_one_twice_are_refused(tmp_path: Path) -> None:
    runs = make_run_folders(tmp_path / "a", labels=(TEAM, "DIRECT(0,10)"))
    with pytest.raises(RunFolderError, match="rank the same data"):
        read_taught([str(runs)])
    other = make_run_folders(tmp_path / "b", datasets=("news",), labels=("DIRECT(0,10)",))
    with pytest.raises(RunFolderError, match="of two teachers, with ranker 'mcranker' and 'dir"):
        read_taught([str(runs / "scifact" / "MC_2_recruits")], [str(other)])
    unfinished = make_run_folders(tmp_path / "c", labels=(TEAM,), unfinished=[("scifact", TEAM)])
    with pytest.raises(RunFolderError, match="not finished"):
        read_taught([str(unfinished)])


def test_queries_are_held_out_by_their_text(tmp_path: Path) -> None:
    runs = make_run_folders(tmp_path / "a", labels=(TEAM,), queries=10)
    data = runs / "scifact" / "data" / "queries.jsonl"
    lines = [json.loads(line) for line in data.read_text().splitlines()]
    for place, line in enumerate(lines):
        line["text"] = f"same {place // 2}"
    data.write_text("".join(f"{json.dumps(each)}\n" for each in lines))

    def drawn(seed: int) -> tuple[set[str], set[str]]:
        taught = read_taught([str(runs)], dev=0.4, seed=seed)
        # 5 texts, of which 2 are held out, two queries each.
        assert (len(taught.train), len(taught.held_out)) == (6, 4)
        return {each.text for each in taught.train}, {each.text for each in taught.held_out}

    assert not set.intersection(*drawn(0))
    assert drawn(0) == drawn(0)
    assert any(drawn(0) != drawn(seed) for seed in range(1, 4))
    # A run to evaluate on takes its texts from the training: "same 0", and 2 queries with it.
    other = make_run_folders(tmp_path / "b", datasets=("news",), labels=(TEAM,), queries=1)
    (other / "news" / "data" / "queries.jsonl").write_text('{"_id": "news-q1", "text": "same 0"}\n')
    taught = read_taught([str(runs)], [str(other)])
    assert ([each.key for each in taught.held_out], len(taught.train)) == (["2:news-q1"], 8)
    assert taught.left_out == {"query: held out as well": 2}
    assert [each["used"] for each in taught.data] == ["training", "held out"]


# --- examples


def test_examples_of_each_loss() -> None:
    queries = [query("1", 0.25, 0.75), query("2", 0.5, 0.5)]
    assert list(examples(queries[:1], "mse", 0)) == [
        {"query": "query 1", "passage": "text of d1", "label": 0.25},
        {"query": "query 1", "passage": "text of d2", "label": 0.75},
    ]
    # The one pair, from either side; query 2 has none with two scores.
    row = {"query": "query 1", "higher": "text of d2", "lower": "text of d1", "label": 0.5}
    assert list(examples(queries, "margin_mse", 0)) == [row, row]
    assert [row["labels"] for row in examples(queries, "lambda", 0)] == [[0.25, 0.75], [0.5, 0.5]]


# --- agreement


def test_agreement_by_hand() -> None:
    # The student swaps the first two. DCG = 0.5 / log2(2) + 1.0 / log2(3) = 1.130930, of the
    # teacher's order 1.0 + 0.5 / log2(3) = 1.315465: 0.859719.
    assert ndcg_by_scores([0.8, 0.9, 0.1], [1.0, 0.5, 0.0]) == pytest.approx(
        (0.5 + 1 / math.log2(3)) / (1 + 0.5 / math.log2(3))
    )
    assert ndcg_by_scores([1.0, 2.0], [0.0, 0.0]) is None
    assert ndcg_by_scores([0.0] * 11 + [1.0], [0.0] * 11 + [1.0]) == 1.0
    queries = [query("1", 1.0, 0.5, 0.0), query("2", 0.5, 0.5)]
    found: Any = agreement(queries, {"1": [0.8, 0.9, 0.1], "2": [0.1, 0.2]}, relevance=True)
    # One of three pairs is discordant: (2 - 1) / 3; of query 2 the teacher tells none apart.
    assert (found["tau"]["mean"], found["tau"]["queries"]) == (pytest.approx(1 / 3), 1)
    assert found["nDCG@10 by teacher"]["mean"] == pytest.approx((0.859719 + 1) / 2, abs=1e-6)
    # (0.04 + 0.16 + 0.01) / 3 = 0.07, and (0.16 + 0.09) / 2 = 0.125
    assert found["mse"]["mean"] == pytest.approx((0.07 + 0.125) / 2)
    # Deviations (0.5, 0, -0.5) and (0.2, 0.3, -0.5): 0.35 / sqrt(0.5 * 0.38)
    assert found["pearson"]["mean"] == pytest.approx(0.35 / math.sqrt(0.5 * 0.38))
    assert set(agreement(queries, {"1": [3, 2, 1], "2": [2, 1]}, relevance=False)) == {
        "tau",
        "nDCG@10 by teacher",
    }


def systems(**orders: list[list[float]]) -> dict[str, Mapping[str, list[float]]]:
    return {
        name.replace("_", " "): {str(n): scores for n, scores in enumerate(lists, 1)}
        for name, lists in orders.items()
    }


def test_judgements_by_hand() -> None:
    queries = [query(str(n), 0.9, 0.1, d1=1, d2=0) for n in range(1, 4)] + [query("4", 0.9, 0.1)]
    right, wrong = [1.0, 0.0], [0.0, 1.0]
    found = judged(
        queries,
        systems(
            student=[right, right, wrong, wrong],
            teacher=[right] * 4,
            first_stage=[wrong, right, wrong, wrong],
        ),
    )
    # The relevant one in second place is 1 / log2(3) = 0.63093; query 4 is not judged.
    low = 1 / math.log2(3)
    means = {name: each["mean"] for name, each in found["figures"].items()}
    assert means == pytest.approx(
        {"student": (2 + low) / 3, "teacher": 1.0, "first stage": (1 + 2 * low) / 3}
    )
    against = found["student_against"]
    assert against["teacher"]["difference"] == pytest.approx((low - 1) / 3)
    # d = 1 - low, 0, 0: t = mean / (sd / sqrt(3)) = 1, so p = 0.4226 of 2 degrees of freedom.
    assert against["first stage"]["p_value"] == pytest.approx(0.42265, abs=1e-5)
    assert against["first stage"]["p_adjusted"] == pytest.approx(0.84530, abs=1e-5)
    assert verdict(against["first stage"]) == "not better"
    assert judged(queries[3:], {}) == {}


# --- the card, and errors before any training


def record(**changed: Any) -> dict[str, Any]:
    number = {"mean": 0.5, "low": 0.4, "high": 0.6, "queries": 3}
    rows = {"tau": number, "nDCG@10 by teacher": number}
    ends = {"low": -0.1, "high": 0.3}
    test = {"difference": 0.1, "interval": ends, "p_adjusted": 0.2}
    data: dict[str, Any] = {
        "dataset": "news",
        "split": "test",
        "queries": 9,
        "first_stage": "BM25",
        "depth": 20,
    }
    data["used"] = "training"
    return {
        "teacher": {
            "label": "MC|x",
            "ranker": "mcranker",
            "models": {"scoring": "openai:m"},
            "prompt_hashes": {"score": "abc"},
            "settings": {"team_size": 3, "scale": None},
            "weak_judge": "",
        },
        "data": [data],
        "counts": {
            "queries": 7, "passages": 1400, "examples": 1400, "held_out_queries": 2,
            "held_out_passages": 40, "left_out": {"query: not ranked": 1},
        },
        "examples_sha256": "def",
        "training": {
            "model": "tiny: a", "parameters": 4386561, "loss": "mse", "steps": 88, "batch": 16,
            "learning_rate": 2e-5, "max_tokens": 256, "seed": 0, "seconds": 12.3,
        },
        "agreement": {
            "student": {**rows, "pearson": None, "mse": number}, "first stage": rows
        },
        "judgements": {
            "figures": {"student": number, "first stage": number},
            "student_against": {"first stage": test},
        },
        "bar_reached": False,
        **changed,
    }  # fmt: skip


def test_the_card_says_what_was_found() -> None:
    card = model_card(record(), "student")
    assert card.startswith("---\nlibrary_name: sentence-transformers\n")
    assert 'base_model: "tiny: a"' in card
    for part in (
        "4,386,561 parameters",
        "MC\\|x",
        "| SHA-256 of prompt score | abc |",
        "| news | test | 9 | BM25 | 20 | training |",
        "- Left out: 1, query: not ranked",
        "| student | 0.500 [0.400, 0.600] | 0.500 [0.400, 0.600] |  | 0.500 [0.400, 0.600] |",
        "**not reached**",
        "| first stage | +0.100 [-0.100, +0.300] | 0.200 |",
        "**It is not better than BM25**",
        "crossencoder:student",
    ):
        assert part in card
    test = {"difference": 0.1, "interval": {"low": 0.05, "high": 0.2}, "p_adjusted": 0.01}
    judgements = {"figures": {}, "student_against": {"first stage": test}}
    good = model_card(record(judgements=judgements, bar_reached=True), "student")
    assert "It ranks better than BM25" in good
    assert "**reached**" in good
    test["difference"] = -0.1
    assert "**It is worse than BM25**" in model_card(record(judgements=judgements), "s")
    assert "not known whether it ranks better than BM25" in model_card(record(judgements={}), "s")


def test_errors_come_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = make_run_folders(tmp_path / "runs", labels=(TEAM,))
    out = tmp_path / "out"

    def distil(*more: str) -> str:
        given = [str(runs), "--model", "m", "--out", str(out), *more]
        found = CliRunner().invoke(command, given, standalone_mode=False)
        return str(found.exception)

    monkeypatch.setitem(__import__("sys").modules, "accelerate", None)
    assert 'pip install "mcranker[train]"' in distil()
    assert "0 examples of 0 queries are left to train with" in distil("--dev", "0.999")
    assert not out.exists()
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    assert "holds something else" in distil()
    assert [each.name for each in out.iterdir()] == ["thesis.txt"]
