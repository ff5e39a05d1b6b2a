"""``beir-eval fuse``: the file it writes, and bad usage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from beir_eval import read_trec, write_trec
from beir_eval.cli.fuse import command
from tests.support.ranx_support import start_ranx


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_trec({"q": [("a", 3.0), ("b", 2.0), ("c", 1.0)]}, "one.trec", "one")
    write_trec({"p": [("x", 1.0)], "q": [("c", 5.0), ("d", 4.0)]}, "two.trec", "two")


def fuse(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["one.trec", "two.trec", *arguments])


def test_a_fused_run() -> None:
    # As in test_fusion: c, a, then b and d; two documents of q are kept, and x of p.
    result = fuse("--out", "fused.trec", "--depth", "2")

    assert (result.exit_code, result.stdout) == (0, "fused.trec: 2 queries, 3 documents\n")
    assert "ranx starts" not in result.stderr
    assert "1 query not in every run, e.g. 'p'" in result.stderr
    fused = read_trec("fused.trec")["q"]
    assert [doc_id for doc_id, _ in fused] == ["c", "a"]
    assert [score for _, score in fused] == pytest.approx([1 / 63 + 1 / 61, 1 / 61])
    assert Path("fused.trec").read_text().splitlines()[0].endswith(" rrf")


def test_weights_parameters_and_json() -> None:
    start_ranx()

    weighted = fuse("--out", "f.trec", "--method", "wsum", "--weights", "0.25,0.75", "--tag", "mix")
    told = fuse("--out", "h.trec", "--method", "sum")
    rbc = fuse("--out", "g.trec", "--method", "rbc", "--param", "phi=0.5", "-q", "--output", "json")

    assert weighted.exit_code == 0
    assert read_trec("f.trec")["q"][:2] == [("c", 0.75), ("a", 0.25)]
    assert Path("f.trec").read_text().splitlines()[0].endswith(" mix")
    # phi = 0.5: c 0.5 x 0.25 + 0.5 x 1 = 0.625.
    assert read_trec("g.trec")["q"][0] == ("c", 0.625)
    assert rbc.stderr == ""
    assert "ranx starts" in told.stderr
    assert json.loads(rbc.stdout) == {
        "status": "ok",
        "exit_code": 0,
        "fusion": {"out": "g.trec", "queries": 2, "documents": 5, "partial_queries": ["p"]},
        "errors": [],
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["one.trec", "--out", "f"], "fusion takes two or more runs"),
        (["one.trec", "two.trec"], "Missing option '--out'"),
        (["one.trec", "two.trec", "--out", "f", "--weights", "a,b"], "--weights 'a,b': 'a' is no"),
        (["one.trec", "two.trec", "--out", "f", "--param", "k"], "--param 'k': '' is no number"),
        (["one.trec", "two.trec", "--out", "f", "--method", "probfuse"], "'probfuse' is not one"),
        (["one.trec", "two.trec", "--out", "f", "--depth", "0"], "--depth"),
    ],
)
def test_bad_usage(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(command, arguments)

    assert result.exit_code == 2
    assert complaint in result.stderr
    assert not Path("f").exists()
