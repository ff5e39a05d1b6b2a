"""Fusion: reciprocal ranks and weighted sums by hand, ties, and queries that a run lacks."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from beir_eval import ExtraMissing, RunError, SettingError
from beir_eval.measures.fusion import METHODS, NORMS, fuse
from tests.support.ranx_support import start_ranx

ONE = {"q": [("a", 3.0), ("b", 2.0), ("c", 1.0)]}
TWO = {"q": [("c", 5.0), ("d", 4.0)]}


@pytest.fixture
def ranx() -> Any:
    return start_ranx()


@pytest.mark.usefixtures("ranx")
def test_reciprocal_ranks_by_hand() -> None:
    # k = 60: c 1 / 63 + 1 / 61, a 1 / 61, b and d 1 / 62; b is first, as the first run has it.
    fused = fuse([ONE, TWO])["q"]
    assert [doc_id for doc_id, _ in fused] == ["c", "a", "b", "d"]
    expected = [1 / 63 + 1 / 61, 1 / 61, 1 / 62, 1 / 62]
    assert [score for _, score in fused] == pytest.approx(expected, abs=1e-12)


@pytest.mark.usefixtures("ranx")
def test_k_and_depth() -> None:
    # k = 0: c 1 / 3 + 1 / 1, a 1 / 1; the rest is cut off.
    assert fuse([ONE, TWO], params={"k": 0}, depth=2) == {
        "q": [("c", pytest.approx(4 / 3)), ("a", 1.0)]
    }


@pytest.mark.usefixtures("ranx")
def test_weighted_sum_of_min_max_by_hand() -> None:
    # Between 0 and 1: a 1, b 0.5, c 0; and c 1, d 0. With 0.25 and 0.75:
    # c 0.75, a 0.25, b 0.125, d 0.
    fused = fuse([ONE, TWO], method="wsum", weights=[0.25, 0.75])
    assert fused == {"q": [("c", 0.75), ("a", 0.25), ("b", 0.125), ("d", 0.0)]}


@pytest.mark.usefixtures("ranx")
@pytest.mark.parametrize("method", ["rrf", "isr", "bordafuse"])
def test_ranks_are_those_of_the_list(method: str) -> None:
    # Equal scores, and scores that rise: the order of the list holds all the same.
    odd = {
        "q": [(doc_id, score) for doc_id, score in zip("dcba", [1.0, 1.0, 2.0, 9.0], strict=True)]
    }
    falling = {"q": [(doc_id, float(-place)) for place, doc_id in enumerate("dcba")]}
    assert fuse([odd, TWO], method=method) == fuse([falling, TWO], method=method)


@pytest.mark.usefixtures("ranx")
@pytest.mark.parametrize("norm", NORMS)
def test_equal_scores_are_told_apart_by_rank_only(norm: str) -> None:
    # "rank" of the first run: y 1, x 1 - 1/2; "borda" the same, over 2 candidates.
    tied = {"q": [("y", 2.0), ("x", 2.0)]}
    scores = dict(fuse([tied, tied], method="sum", norm=norm)["q"])
    assert list(scores) == ["y", "x"]
    assert (scores["y"] == scores["x"]) == (norm not in ("rank", "borda"))


@pytest.mark.usefixtures("ranx")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("norm", ["min-max", "zmuv"])
def test_a_query_that_only_one_run_has(method: str, norm: str) -> None:
    chosen = METHODS[method]
    params = {name: 0.5 for name, param in chosen.params.items() if param.default is None}
    weights = [1.0, 1.0] if chosen.weighted else None
    lone = {"p": [("x", 2.0), ("y", 1.0)], "empty": []}
    fused = fuse(
        [{**ONE, **lone}, {"z": [("v", 1.0)], **TWO}],
        method=method,
        norm=norm,
        weights=weights,
        params=params,
    )
    assert list(fused) == ["q", "p", "empty", "z"]
    assert [doc_id for doc_id, _ in fused["p"]] == ["x", "y"]
    assert (fused["empty"], fused["z"][0][0]) == ([], "v")
    assert {doc_id for doc_id, _ in fused["q"]} == set("abcd")


@pytest.mark.usefixtures("ranx")
def test_zero_mean_and_unit_variance_by_hand() -> None:
    # One: mean 2, deviation sqrt(2/3): a sqrt(1.5), b 0, c -sqrt(1.5). Two: c 1, d -1.
    fused = dict(fuse([ONE, TWO], method="sum", norm="zmuv")["q"])
    root = 1.5**0.5
    assert fused == pytest.approx({"a": root, "b": 0.0, "c": 1 - root, "d": -1.0}, abs=1e-9)


@pytest.mark.parametrize(("norm", "documents"), [("zmuv", 1), ("min-max", 0)])
def test_compiled_zmuv_is_given_no_empty_query(
    norm: str, documents: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With its compiler on, ranx loses the results of such a query.
    tables: list[dict[str, dict[str, float]]] = []

    def fuse_nothing(runs: list[Any], **_: object) -> SimpleNamespace:
        return SimpleNamespace(run=runs[0])

    def as_it_is(table: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        tables.append(table)
        return table

    fake = SimpleNamespace(Run=as_it_is, fuse=fuse_nothing)
    monkeypatch.setitem(sys.modules, "ranx", fake)
    assert fuse([{"p": [("x", 2.0)]}, {"p": []}], method="sum", norm=norm) == {"p": [("x", 2.0)]}
    assert [len(table["p"]) for table in tables] == [1, documents]


def test_the_usual_methods_need_no_ranx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ranx", None)
    assert [doc_id for doc_id, _ in fuse([ONE, TWO])["q"]] == ["c", "a", "b", "d"]
    assert fuse([ONE, TWO], method="wsum", norm="none", weights=[1, 2])["q"][0] == ("c", 11.0)
    with pytest.raises(ExtraMissing):
        fuse([ONE, TWO], method="wsum", norm="zmuv", weights=[1, 2])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"method": "probfuse"}, r"method='probfuse' is unknown, or needs training; give one of"),
        ({"norm": "l2"}, r"norm='l2' is unknown; give one of min-max"),
        ({"method": "wsum"}, r"method 'wsum' needs weights, one for each of the 2 runs"),
        ({"weights": [1.0, 1.0]}, r"'rrf' takes no weights; those that do: w_bordafuse, wsum"),
        ({"method": "rbc", "params": {"phi": 1.5}}, r"phi=1\.5 is out of range; .* from 0 to 1"),
        ({"params": {"k": 0.5}}, r"k=0\.5 is out of range; give a whole number"),
        ({"depth": 0}, r"depth=0 is out of range"),
    ],
)
def test_bad_settings(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        fuse([ONE, TWO], **options)


def test_bad_runs() -> None:
    with pytest.raises(SettingError, match="1 runs given; fusion takes two or more"):
        fuse([ONE])
    with pytest.raises(RunError, match="run 2, query 'q': document 'a' appears twice"):
        fuse([ONE, {"q": [("a", 2.0), ("a", 1.0)]}])
    with pytest.raises(RunError, match="run 1, query 'q': score inf is not finite"):
        fuse([{"q": [("a", float("inf"))]}, ONE], method="sum")
