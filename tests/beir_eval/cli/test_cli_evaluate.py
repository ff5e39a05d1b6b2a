"""``beir-eval evaluate``: means, comparisons, missing queries, and bad usage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from beir_eval import write_trec
from beir_eval.cli.evaluate import command
from beir_eval.experiment.run_folder import Metrics
from beir_eval.report.tables import NOTHING
from tests.support.report_runs import change
from tests.support.run_folders import folder_of, make_run_folders

QRELS = "query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\ta\t1\nq3\ta\t1\nq4\ta\t1\n"
# Places of the only relevant document: nDCG@10 is 1, 1 / log2(3) = 0.6309, 1 / log2(4) = 0.5.
FIRST = {"q1": "ba", "q2": "ab", "q3": "bca"}
SECOND = {"q1": "ab", "q2": "ab", "q3": "ab", "q4": "ba"}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("qrels.tsv").write_text(QRELS)
    for name, places in (("first", FIRST), ("second", SECOND)):
        run = {
            query_id: [(doc_id, float(-place)) for place, doc_id in enumerate(order)]
            for query_id, order in places.items()
        }
        write_trec(run, f"{name}.trec", name)
    return tmp_path


def evaluate(*arguments: str) -> Result:
    return CliRunner().invoke(command, [*arguments, "--qrels", "qrels.tsv"])


def evaluated(*arguments: str) -> Any:
    result = evaluate(*arguments, "--output", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    envelope = json.loads(result.stdout)
    assert (envelope["status"], envelope["errors"]) == ("ok", [])
    return envelope["evaluation"]


def test_means_and_missing_queries() -> None:
    # First: (0.6309 + 1 + 0.5 + 0) / 4 = 0.5327. Second: (1 + 1 + 1 + 0.6309) / 4 = 0.9077.
    result = evaluate("first.trec", "second.trec", "--measures", "nDCG@10, R@1")

    assert (result.exit_code, result.stderr) == (0, "")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["nDCG@10", "first", "0.5327", "0.5327"] in [row[:4] for row in rows]
    assert ["R@1", "second", "0.7500", "0.7500"] in [row[:4] for row in rows]
    assert "Over 4 judged queries." in result.stdout
    assert "first: 1 judged query has no results (taken as an empty list): q4" in result.stdout


def test_a_run_folder_is_its_run() -> None:
    Path("folder").mkdir()
    Path("first.trec").rename("folder/run.trec")
    means = {each["run"]: each["means"] for each in evaluated("folder", "second.trec")["runs"]}
    assert means["folder"]["nDCG@10"] == pytest.approx(0.5327, abs=1e-4)


def test_json_has_everything() -> None:
    found = evaluated("first.trec", "second.trec", "--compare")

    first, second = found.pop("runs")
    assert found == {
        "measures": ["nDCG@10"],
        "judged_queries": 4,
        "baseline": "first",
        "level": 0.95,
    }
    assert first["missing_queries"] == ["q4"]
    assert first["per_query"]["nDCG@10"]["q3"] == pytest.approx(0.5)
    assert "compared" not in first
    # Better by 0.3691, 0, 0.5 and 0.6309: mean 0.375.
    compared = second["compared"]["nDCG@10"]
    assert compared["difference"] == pytest.approx(0.375, abs=1e-4)
    assert (compared["wins"], compared["ties"], compared["losses"]) == (3, 1, 0)
    # Nothing is tested below six queries.
    assert (compared["p_value"], compared["decision"]) == (None, "")
    interval = second["intervals"]["nDCG@10"]
    # Of 1, 1, 1 and 0.63093: mean 0.90773, sd 0.18454; t(3, 0.975) = 3.18245: +- 0.29364.
    assert (interval["low"], interval["high"]) == pytest.approx((0.61409, 1.20138), abs=1e-4)


def test_a_table_of_comparisons() -> None:
    result = evaluate("first.trec", "second.trec", "--compare")

    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    found = f"0.614 to 1.201 +0.3750 {NOTHING} {NOTHING} 3 / 1 / 0"
    assert f"nDCG@10 second 0.9077 0.9077 {found}" in rows


def test_a_data_set_instead_of_a_file() -> None:
    Path("mini.trec").write_text("unjudged Q0 x 1 1.0 tag\n")

    result = CliRunner().invoke(command, ["mini.trec", "--dataset", "mini", "--output", "json"])

    found = json.loads(result.stdout)["evaluation"]
    assert found["judged_queries"] == len(found["runs"][0]["missing_queries"]) > 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["first.trec"], "say what to measure by: --qrels FILE or --dataset NAME"),
        (["first.trec", "--qrels", "x", "--dataset", "mini"], "--qrels FILE or --dataset NAME"),
        (["first.trec", "--qrels", "x", "--split", "dev"], "--split goes with --dataset"),
        (["first.trec", "--qrels", "x", "--compare"], "--compare takes two or more runs"),
        (["a", "a", "--qrels", "qrels.tsv"], "the run 'a' is given twice"),
        ([], "Missing argument 'RUN...'"),
    ],
)
def test_bad_usage(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(command, arguments)

    assert result.exit_code == 2
    assert complaint in result.stderr


def test_a_run_that_has_nothing_to_do_with_the_judgements_is_told() -> None:
    Path("strange.trec").write_text("other Q0 x 1 1.0 tag\n")
    result = evaluate("strange.trec")
    assert result.exit_code == 0
    assert "strange: none of its queries has a judgement" in " ".join(result.stderr.split())
    assert "'other'" in result.stderr
    Path("strange.trec").write_text("q1 Q0 nothing 1 1.0 tag\n")
    assert "none of its documents has a judgement; one of the run is 'nothing'" in " ".join(
        evaluate("strange.trec").stderr.split()
    )
    Path("strange.trec").write_text("")
    assert "warning: strange: there is no line of a run" in evaluate("strange.trec").stderr
    assert "warning" not in evaluate("first.trec").stderr


def test_ties_depth_and_a_judging_model_are_said() -> None:
    """A run whose scores are all equal owes its order to the file; one that is shorter says so."""
    ids = [f"q{n}" for n in range(8)]
    Path("qrels.tsv").write_text("".join(f"{each}\t0\ta\t1\n" for each in ids))
    write_trec({each: [("a", 1.0), ("b", 1.0), ("c", 1.0)] for each in ids}, "equal.trec", "e")
    write_trec({each: [("b", 2.0), ("a", 1.0)] for each in ids}, "short.trec", "s")
    Path("qrels.tsv.judge.json").write_text('{"model": "openai:j"}\n')

    result = evaluate("short.trec", "equal.trec", "--compare")

    said = " ".join(result.stdout.split())
    # As ranked 1; by lot near (1 + 0.6309 + 0.5) / 3 = 0.7103, against 0.6309.
    assert "equal 1.0000 0.7" in said
    assert "judged by a model, openai:j, and not by people" in said
    assert "equal against short: lists of up to 3 passages against 2." in said
    found = json.loads(evaluate("short.trec", "equal.trec", "--compare", "--output", "json").stdout)
    equal = found["evaluation"]["runs"][1]
    assert equal["means"]["nDCG@10"] == 1.0
    assert equal["by_lot"]["nDCG@10"] == pytest.approx(0.7103, abs=0.05)
    assert equal["compared"]["nDCG@10"]["difference"] == pytest.approx(0.0794, abs=0.05)
    assert [each["kind"] for each in equal["flaws"]] == ["model", "few"]


def test_a_run_folder_says_which_queries_failed(tmp_path: Path) -> None:
    out = make_run_folders(tmp_path / "runs", queries=8, labels=["DIRECT(0,10)"])
    path = folder_of(out, "scifact", "DIRECT(0,10)")
    change(path / "metrics.json", Metrics, failed={"scifact-q1": "no reply"})
    qrels = str(folder_of(out, "scifact", "first stage") / "qrels.tsv")
    args = [str(path), "--qrels", qrels, "--output", "json"]
    found = json.loads(CliRunner().invoke(command, args).stdout)["evaluation"]["runs"][0]
    assert [each["kind"] for each in found["flaws"]] == ["failed", "few"]
