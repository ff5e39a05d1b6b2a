"""From run folders to a folder of pages: what is in it, and that it is whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from beir_eval.errors import RunFolderError
from beir_eval.persona_report.build import PersonaReport, write_persona_report
from tests.support.persona_reports import (
    DIRECT,
    TEAM,
    change_manifest,
    content,
    links,
    metrics_of,
    runs,
    team_of,
    unfinish,
)

TEAM_RANKINGS, DIRECT_RANKINGS = "MC_2_recruits/rankings.jsonl", "DIRECT(0,10)/rankings.jsonl"
PASSAGES, QUERIES = "data/passages.jsonl", "data/queries.jsonl"


def report(paths: Path | list[Path], out: Path, **options: Any) -> PersonaReport:
    given = paths if isinstance(paths, list) else [paths]
    return write_persona_report(given, out, **options)


def broken_links(folder: Path) -> list[str]:
    """Links to files, or to places in files, that are not there."""
    folder, broken = folder.resolve(), []
    pages = {path: path.read_bytes() for path in folder.rglob("*.html")}
    places = {path: re.findall(r'\bid="([^"]*)"', page.decode()) for path, page in pages.items()}
    for path, page in pages.items():
        for link in links(page):
            name, _, place = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            # What has an equals sign is the state of a table, for the page's script.
            known = not place or "=" in place or place in places[target]
            there = target.is_relative_to(folder) and target.is_file()
            if not link.startswith("data:") and not (there and known):
                broken.append(f"{path} -> {link}")
    return broken


def rename_ids(out: Path, names: Mapping[str, str]) -> None:
    """Give queries and documents other ids, in all files that a report reads."""
    for path in (*out.rglob("*.jsonl"), *out.rglob("metrics.json")):
        text = path.read_text(encoding="utf-8")
        for name, new in names.items():
            text = text.replace(json.dumps(name), json.dumps(new, ensure_ascii=False))
        path.write_text(text, encoding="utf-8")
    for path in out.rglob("qrels.tsv"):
        rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        text = "".join("\t".join(names.get(each, each) for each in row) + "\n" for row in rows)
        path.write_text(text, encoding="utf-8")


def test_one_run_is_reported_in_the_folder_itself(tmp_path: Path) -> None:
    made = runs(tmp_path / "runs")

    written = report(team_of(made), tmp_path / "new" / "out")

    found = content(tmp_path / "new" / "out")
    queries = {name for name in found if name.startswith("query/")}
    assert queries == {f"query/00000{place}.html" for place in (1, 2, 3, 4)}
    assert orjson.loads(found["persona-report.json"]) == {"version": 1, "runs": 1}
    assert written.pages == sum(name.endswith(".html") for name in found)
    assert written.index == tmp_path / "new" / "out" / "index.html"
    (run,) = written.runs
    assert run.run.resolve() == team_of(made).resolve()
    assert run.index == written.index
    assert broken_links(tmp_path / "new" / "out") == []
    assert "query/000001.html" in links(found["index.html"])
    assert b"what is known about scifact-q1" in found["query/000001.html"]
    assert b"says of &lt;&amp;&gt; 100%" in found["query/000001.html"]


def test_judgements_of_a_model_are_said(tmp_path: Path) -> None:
    team = team_of(runs(tmp_path / "runs"))
    manifest = team.parent / "data" / "manifest.json"
    ours = orjson.loads((team / "manifest.json").read_bytes())["models"]["scoring"]
    for judge, own in (("openai:judge", False), (ours, True)):
        manifest.write_bytes(orjson.dumps(orjson.loads(manifest.read_bytes()) | {"judge": judge}))
        report(team, tmp_path / str(own))
        page = content(tmp_path / str(own))["index.html"].decode()
        assert f"udged by a model, {judge}" in page
        assert ("which is also the system" in page) is own


def test_figures_are_those_of_the_run(tmp_path: Path) -> None:
    made = runs(tmp_path / "runs", queries=7, passages=12)

    (run,) = report(team_of(made), tmp_path / "out").runs

    # ir-measures found the same when the folders were made.
    totals = run.survey.totals
    assert totals.ndcg == pytest.approx(metrics_of(team_of(made)), abs=1e-12)
    assert totals.other_ndcg == pytest.approx(metrics_of(team_of(made, DIRECT)), abs=1e-12)
    assert totals.first_stage_ndcg == pytest.approx(
        metrics_of(made / "scifact" / "data"), abs=1e-12
    )
    assert (totals.queries, totals.judged, totals.passages) == (7, 7, 7 * 12)
    assert (run.survey.title, run.survey.other, run.survey.first_stage) == (TEAM, DIRECT, "BM25")
    assert run.survey.dataset == "scifact: 7 of 300 queries, top 12 by BM25 (bm25s, k1 0.9, b 0.4)"
    assert run.survey.personas_in_all == 3
    assert run.survey.notes == (
        "7 queries, fewer than 20: intervals and tests are rough.",
        "scripted:by-chance answers by a program: these numbers say nothing about any language "
        "model.",
    )


def test_several_runs_are_listed_on_a_page(tmp_path: Path) -> None:
    made = runs(tmp_path / "runs", labels=[DIRECT, TEAM, "x"], datasets=("scifact", "news"))
    change_manifest(team_of(made, "x"), label="MC: <b>bold</b>")

    written = report(made, tmp_path / "out")

    found = content(tmp_path / "out")
    first = links(found["index.html"])
    # Two teams and DIRECT of each data set, teams first.
    assert first == [f"run-{number}/index.html" for number in range(1, 7)]
    assert broken_links(tmp_path / "out") == []
    assert [run.survey.title for run in written.runs[2::3]] == [DIRECT, DIRECT]
    assert written.pages == sum(name.endswith(".html") for name in found)
    assert b"<bdi>MC: &lt;b&gt;bold&lt;/b&gt;</bdi>" in found["index.html"]
    assert b"<b>bold" not in found["index.html"]
    # Each has its own queries.
    assert b"what is known about news-q1" in found["run-1/query/000001.html"]
    assert b"what is known about scifact-q1" in found["run-4/query/000001.html"]


def test_failed_queries_are_listed_without_a_page(tmp_path: Path) -> None:
    made = runs(tmp_path / "runs", faults=True, queries=5)

    (run,) = report(team_of(made), tmp_path / "out").runs

    found = content(tmp_path / "out")
    # The first query of five failed; the others keep their order.
    assert sorted(name for name in found if "query/" in name) == [
        f"query/00000{place}.html" for place in (1, 2, 3, 4)
    ]
    assert b"what is known about scifact-q2" in found["query/000001.html"]
    assert broken_links(tmp_path / "out") == []
    assert b"the model&#39;s answers could not be read" in found["index.html"]
    totals = run.survey.totals
    assert (totals.queries, totals.failed) == (5, 1)
    assert totals.ndcg == pytest.approx(metrics_of(team_of(made)), abs=1e-12)
    assert totals.other_ndcg == pytest.approx(metrics_of(team_of(made, DIRECT)), abs=1e-12)
    assert totals.first_stage_ndcg == pytest.approx(
        metrics_of(made / "scifact" / "data"), abs=1e-12
    )


def test_an_unfinished_run_is_reported_with_what_it_has(tmp_path: Path) -> None:
    made = runs(tmp_path / "runs", queries=5)
    unfinish(team_of(made), keep=3, torn=b'{"version":1,"query":{"te')

    (run,) = report(team_of(made), tmp_path / "out").runs

    assert (
        "The run is not finished: 3 of 5 queries have been ranked, and this report is about them "
        "alone. The last ranking was not written to its end and is left out."
    ) in run.survey.notes
    found = content(tmp_path / "out")
    # In the order of the data set, though the last query was ranked first.
    for place, number in ((1, 3), (2, 4), (3, 5)):
        text = f"what is known about scifact-q{number}".encode()
        assert text in found[f"query/00000{place}.html"]
    assert (run.survey.totals.queries, run.survey.totals.failed) == (3, 0)
    assert b"The run is not finished" in found["index.html"]


def test_nothing_that_comes_from_outside_names_a_file(tmp_path: Path) -> None:
    made = runs(tmp_path / "runs")
    rename_ids(
        made,
        {
            "scifact-q1": "../../etc/passwd",
            "scifact-q2": "a/b",
            "scifact-q3": "x" * 5000,
            "scifact-q4": "javascript:alert(1)",
            "scifact-q1-d1": "../../../d1",
            "scifact-q1-d2": "\u202e<script>alert(2)</script>",
        },
    )
    (made / "scifact").rename(made / "javascript:alert(3)")

    report(made, tmp_path / "out" / "pages")

    found = content(tmp_path / "out" / "pages")  # checks the names
    assert broken_links(tmp_path / "out" / "pages") == []
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["pages"]
    for page in found.values():
        assert b"<script>alert" not in page
        assert not any(":" in link.removeprefix("data:text/yaml") for link in links(page))


def spoiled(made: Path, path: str, place: int, fields: dict[str, Any] | None) -> None:
    """Replace fields of an entry of a file, from 0; without any, leave the entry out."""
    file = made / "scifact" / path
    lines = file.read_bytes().splitlines()
    lines[place : place + 1] = (
        [] if fields is None else [orjson.dumps({**orjson.loads(lines[place]), **fields})]
    )
    file.write_bytes(b"\n".join(lines) + b"\n")


@pytest.mark.parametrize(
    ("path", "place", "fields", "said"),
    [
        (TEAM_RANKINGS, 1, {"version": 7}, ":2: a ranking of version 7, and this program reads"),
        (TEAM_RANKINGS, 3, {"personas": "everybody"}, ":4: this is no ranking as Ranking.to_dict"),
        (DIRECT_RANKINGS, 1, {"hits": [{"rank": 0}]}, ":2: this is no ranking as Ranking.to_dict"),
        (PASSAGES, 19, None, "has no text of passage 'scifact-q4-d5', which "),
        (PASSAGES, 4, {"text": None}, ":5: no record: it needs texts under _id, title, text"),
        (QUERIES, 0, None, "ranks query 'scifact-q1', which "),
    ],
)
def test_damage_is_named_and_nothing_is_left(
    tmp_path: Path, path: str, place: int, fields: dict[str, Any] | None, said: str
) -> None:
    made = runs(tmp_path / "runs")
    spoiled(made, path, place, fields)

    with pytest.raises(RunFolderError) as error:
        report(team_of(made), tmp_path / "out")

    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
