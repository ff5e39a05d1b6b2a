"""``beir-eval fuse``: the file it writes, and bad usage."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from beir_eval import read_trec, write_trec
from beir_eval.cli.first_stage import FUSE

# To compile for milliseconds would take a minute; numba must know before bm25s imports it.
if "numba" not in sys.modules:
    os.environ.setdefault("NUMBA_DISABLE_JIT", "1")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_trec({"q": [("a", 3.0), ("b", 2.0), ("c", 1.0)]}, "one.trec", "one")
    write_trec({"p": [("x", 1.0)], "q": [("c", 5.0), ("d", 4.0)]}, "two.trec", "two")


def fuse(*arguments: str) -> Result:
    return CliRunner().invoke(FUSE, ["one.trec", "two.trec", *arguments])


def test_a_fused_run() -> None:
    # k = 60: c 1 / 63 + 1 / 61, a 1 / 61, then b and d; two documents of q are kept, and x of p.
    pytest.importorskip("ranx")
    result = fuse("--out", "fused.trec", "--depth", "2")

    assert (result.exit_code, result.stdout) == (0, "fused.trec: 2 queries, 3 documents\n")
    assert "ranx starts" in result.stderr
    assert "1 query not in every run, e.g. 'p'" in result.stderr
    fused = read_trec("fused.trec")["q"]
    assert [doc_id for doc_id, _ in fused] == ["c", "a"]
    assert [score for _, score in fused] == pytest.approx([1 / 63 + 1 / 61, 1 / 61])
    assert Path("fused.trec").read_text().splitlines()[0].endswith(" rrf")


def test_weights_parameters_and_json() -> None:
    # Between 0 and 1: a 1, b 0.5, c 0; and c 1, d 0. With 0.25 and 0.75: c 0.75, a 0.25.
    pytest.importorskip("ranx")
    named = ("--method", "wsum", "--param", "weights=0.25,0.75")
    weighted = fuse("--out", "f.trec", *named)
    rbc = fuse("--out", "g.trec", "--method", "rbc", "--param", "phi=0.5", "-q", "--output", "json")

    assert weighted.exit_code == 0
    assert read_trec("f.trec")["q"][:2] == [("c", 0.75), ("a", 0.25)]
    # phi = 0.5: c 0.5 x 0.25 + 0.5 x 1 = 0.625.
    assert read_trec("g.trec")["q"][0] == ("c", 0.625)
    assert rbc.stderr == ""
    assert json.loads(rbc.stdout) == {
        "status": "ok",
        "exit_code": 0,
        "fusion": {"out": "g.trec", "queries": 2, "documents": 5, "partial_queries": ["p"]},
        "errors": [],
    }


def test_ranks_are_those_of_the_list() -> None:
    pytest.importorskip("ranx")
    tied = [f"q Q0 {name} {rank} 1 t\n" for rank, name in enumerate("dcba")]
    Path("two.trec").write_text("".join(tied))
    assert fuse("--out", "f.trec").exit_code == 0
    # a 1/61 + 1/64, b 1/62 + 1/63, c 1/63 + 1/62, d 1/61: a, then b before c by the first run.
    assert [name for name, _ in read_trec("f.trec")["q"]] == list("abcd")


def test_without_ranx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ranx", None)
    result = fuse("--out", "f.trec")
    assert result.exit_code != 0
    assert "ranx" in str(result.exception or result.output)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["one.trec", "--out", "f"], "fusion takes two or more runs"),
        (["one.trec", "two.trec"], "Missing option '--out'"),
        (
            ["one.trec", "two.trec", "--out", "f", "--param", "w=a,b"],
            "--param 'w=a,b' is no number",
        ),
        (["one.trec", "two.trec", "--out", "f", "--param", "k"], "--param 'k' is no number"),
        (["one.trec", "two.trec", "--out", "f", "--method", "probfuse"], "'probfuse' is not one"),
        (["one.trec", "two.trec", "--out", "f", "--depth", "0"], "--depth"),
    ],
)
def test_bad_usage(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(FUSE, arguments)

    assert result.exit_code == 2
    assert complaint in result.stderr
    assert not Path("f").exists()
