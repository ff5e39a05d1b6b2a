"""``mcranker rank`` and ``mcranker recruit`` in this process, with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcranker import ChatRequest, Ranking
from mcranker.config import RankerConfig
from mcranker.errors import AuthenticationFailed, ConnectionFailed
from tests.support.cli_support import Connected, Run, answer


def lossy(request: ChatRequest) -> str:
    lost = request.tag.stage == "score" and request.tag.doc_id == "aa"
    return "no idea" if lost else answer(request)


def test_rank_prints_team_scores_and_movement(run: Run, docs: Path) -> None:
    result = run("rank", "best masks", "--docs", docs)
    assert result.exit_code == 0, result.output
    page = result.stdout.splitlines()
    assert page[0] == "best masks"
    assert "Efficacy 60%, Safety 40%" in result.stdout
    assert "Worried [bold]parent: they ask" in result.stdout
    rows = [line.split() for line in page if line.strip()[:1].isdigit()]
    # Three personas, each giving the length of the id: 3 * 4 and 3 * 2.
    assert rows[0] == ["1", "bbbb", "12", "4", "4", "4", "2", "▲1", "0.00", "T", "|", "two"]
    assert rows[1] == ["2", "aa", "6", "2", "2", "2", "1", "▼1", "0.00", "one"]
    assert ["10", "calls,"] in [row[:2] for row in rows]
    assert result.stderr == (
        "mcranker: for a page that shows why, rank again with --report why.html; answers are kept\n"
    )
    assert "\x1b" not in result.stdout


def test_rank_takes_passages_as_arguments_and_from_standard_input(run: Run) -> None:
    for args, stdin in [
        (("a", "b"), None),
        ((), "a\n\nb\n"),
        (("--docs", "-"), '{"id": 0, "text": "a"}\n{"id": 1, "text": "b"}\n'),
        (("-",), '["a", "b"]'),
    ]:
        result = run("rank", "q", *args, "--output", "jsonl", input=stdin)
        assert result.exit_code == 0, result.output
        hits = [json.loads(line) for line in result.stdout.splitlines()]
        assert [(hit["doc_id"], hit["text"]) for hit in hits] == [("0", "a"), ("1", "b")]


def test_the_end_says_where_the_page_is(run: Run, tmp_path: Path) -> None:
    saved, page = tmp_path / "m1.json", tmp_path / "why.html"
    said = f"mcranker: for a page that shows why: mcranker inspect {saved} --html why.html\n"
    assert run("rank", "q", "a", "--save", saved).stderr == said
    result = run("rank", "q", "a", "--report", page)
    assert result.stderr == f"mcranker: the page that shows why is {page}\n"
    assert run("rank", "q", "a", "--quiet").stderr == ""
    assert run("rank", "q", "a", "--output", "json").stderr == ""


def test_a_saved_team_and_a_saved_ranking_judge_again(
    run: Run, models: Connected, tmp_path: Path
) -> None:
    saved, team = tmp_path / "m1.json", tmp_path / "team.yaml"
    assert run("rank", "q", "a", "--save", saved).exit_code == 0
    models.requests.clear()
    assert run("recruit", "q", "--team", saved, "--out", team).exit_code == 0
    assert models.requests == []
    for source in (saved, team):
        models.requests.clear()
        assert run("rank", "q", "a", "--team", source, "--quiet").exit_code == 0
        # Nobody is recruited, no criteria are written, and the same three judge.
        assert {request.tag.stage for request in models.requests} == {"score"}
        assert [request.tag.persona for request in models.requests] == [
            "NLP scientist",
            "Virologist",
            "Worried [bold]parent",
        ]


def test_json_is_one_object_with_the_whole_ranking(run: Run, docs: Path, tmp_path: Path) -> None:
    saved = tmp_path / "kept.json"
    result = run("rank", "q", "--docs", docs, "--output", "json", "--save", saved)
    whole = json.loads(result.stdout)
    assert (whole["status"], whole["exit_code"], whole["errors"]) == ("ok", 0, [])
    ranking = Ranking.from_dict(whole["ranking"])
    assert ranking.ids == ["bbbb", "aa"]
    assert json.loads(saved.read_text()) == whole["ranking"]


def with_reasons(request: ChatRequest) -> str:
    if request.tag.stage != "explain":
        return answer(request)
    return json.dumps({"Passages": {"1": {"Quote": "two", "Reason": "It says so."}}})


def test_reasons_are_asked_for_after_the_ranking(run: Run, models: Connected, docs: Path) -> None:
    models.answer = with_reasons
    asked = ["rank", "q", "--docs", docs, "--reasons", "1", "--output", "json"]
    planned = json.loads(run(*asked, "--dry-run").stdout)["estimate"]["by_stage"]
    assert sum(row["calls"] for row in planned if row["stage"] == "explain") == 3
    first, second = json.loads(run(*asked).stdout)["ranking"]["hits"]
    assert first["reasons"] == {
        name: {"text": "It says so.", "quote": "two", "kind": "said"} for name in first["scores"]
    }
    assert "reasons" not in second
    assert sum(request.tag.stage == "explain" for request in models.requests) == 3


def test_many_queries_with_reasons_and_a_budget_that_ends_them(
    run: Run, models: Connected, many: list[str | Path], docs: Path
) -> None:
    models.answer = with_reasons
    flags = ["--reasons", "1", "--output", "json", "--ranker", "direct"]
    found = json.loads(run(*many, *flags).stdout)["rankings"]
    assert [list(each["hits"][0]["reasons"]) for each in found] == [["DIRECT"]] * 2
    # Two scores, and no call for reasons: the ranking is written all the same.
    one = run(
        *("rank", "q", "--docs", docs, *flags), *("-o", "cache_variant=1", "-o", "max_calls=2")
    )
    assert one.exit_code == 0
    assert "there are no reasons" in one.stderr
    assert "reasons" not in json.loads(one.stdout)["ranking"]["hits"][0]
    refused = run("rank", "q", "--docs", docs, "--ranker", "qg", "--reasons", "1")
    assert refused.exit_code != 0


def test_trec_goes_to_a_file_and_names_the_query(run: Run, docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "team.trec"
    result = run("rank", "q", "--docs", docs, "--output", "trec", "--out", out)
    assert (result.exit_code, result.stdout) == (0, "")
    assert out.read_text() == "1 Q0 bbbb 1 12.0 mcranker\n1 Q0 aa 2 6.0 mcranker\n"
    result = run("rank", "q", "--docs", docs, "--output", "trec", "-o", "query_id=q7")
    assert result.stdout.startswith("q7 Q0 bbbb 1 ")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_id_that_a_run_cannot_hold_is_found_before_any_call(
    run: Run, models: Connected, tmp_path: Path
) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"_id": "a b", "text": "x"}')
    result = run("rank", "q", "--docs", path, "--output", "trec")
    assert result.exit_code == 1
    assert "'a b' holds white space" in result.stderr
    assert models.requests == []


def test_missing_scores_are_exit_code_3(run: Run, models: Connected, docs: Path) -> None:
    models.answer = lossy
    result = run("rank", "q", "--docs", docs)
    assert result.exit_code == 3
    assert result.stderr.startswith("mcranker: warning: 3 of 6 scores are missing")
    assert "3 scores are missing" in result.stdout
    assert "(aa), NLP scientist:" in result.stdout
    whole = json.loads(run("rank", "q", "--docs", docs, "--output", "json").stdout)
    assert (whole["status"], whole["exit_code"]) == ("missing_scores", 3)
    (entry,) = whole["errors"]
    assert (entry["code"], entry["retryable"]) == ("MissingScores", True)


def test_many_queries_come_out_in_the_order_of_their_file(
    run: Run, many: list[str | Path], tmp_path: Path
) -> None:
    result = run(*many, "--output", "trec", "--save", tmp_path / "kept.jsonl")
    assert result.exit_code == 0, result.output
    lines = [line.split()[:4] for line in result.stdout.splitlines()]
    assert lines == [
        ["q1", "Q0", "dd", "1"],
        ["q1", "Q0", "d", "2"],
        ["q2", "Q0", "dddd", "1"],
        ["q2", "Q0", "ddd", "2"],
    ]
    kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert [each["query"]["id"] for each in kept] == ["q1", "q2"]
    assert [hit["first_stage_score"] for hit in kept[0]["hits"]] == [9.0, 1.0]


def test_a_query_that_fails_is_reported_and_the_others_go_on(
    run: Run, models: Connected, many: list[str | Path]
) -> None:
    def failing(request: ChatRequest) -> str:
        if request.tag.query_id == "q1":
            raise ConnectionFailed("the line is down", model="openai:test")
        return answer(request)

    models.answer = failing
    result = run(*many, "--output", "json")
    assert result.exit_code == 1
    whole = json.loads(result.stdout)
    assert [each["query"]["id"] for each in whole["rankings"]] == ["q2"]
    (entry,) = whole["errors"]
    assert entry == {
        "code": "ConnectionFailed",
        "message": "the line is down",
        "retryable": True,
        "query_id": "q1",
    }
    assert "mcranker: error: 1 of 2 queries not ranked; the first, 'q1': the line" in result.stderr


def test_a_wrong_key_stops_all_queries(run: Run, models: Connected, many: list[str | Path]) -> None:
    def refusing(request: ChatRequest) -> str:
        raise AuthenticationFailed("wrong key", model="openai:test")

    models.answer = refusing
    names = [f"q{number}" for number in range(1, 9)]
    Path(many[3]).write_text("".join(f"{name}\tmasks\n" for name in names))
    Path(many[1]).write_text("".join(f"{name} Q0 d 1 1 x\n" for name in names))
    result = run(*many, "-o", "query_concurrency=1")
    assert result.exit_code == 1
    # The next one may have begun by the time the error is seen.
    assert len({request.tag.query_id for request in models.requests}) <= 2
    assert "8 of 8 queries not ranked; the first, 'q1': wrong key" in result.stderr


def test_only_given_flags_reach_the_configuration(run: Run, models: Connected) -> None:
    def config(*args: str) -> dict[str, Any]:
        result = run("rank", "q", "a", *args, "--output", "json")
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)["ranking"]["config"]
        return found

    assert config() == RankerConfig().recorded()
    assert config("-o", "preset=reference") == RankerConfig(preset="reference").recorded()
    changed = config(
        "-o", "preset=reference", "--depth", "none", "-o", "scale=20", "-o", "repair_attempts=2"
    )
    assert (changed["depth"], changed["scale"], changed["repair_attempts"]) == (None, 20, 2)
    assert changed["missing_policy"] == "constant"
    assert config("-o", "nlp_scientist=false", "-o", "temperature=none")["temperature"] is None


def test_a_ranker_that_compares(run: Run, models: Connected) -> None:
    models.answer = lambda _: "[3] > [3] > [9] > [1]"
    args = ("rank", "q", "a", "b", "c", "--ranker", "rankgpt", "-o", "window=5", "-o", "step=2")
    result = run(*args, "--output", "json")
    assert result.exit_code == 0, result.output
    ranking = json.loads(result.stdout)["ranking"]
    assert [hit["text"] for hit in ranking["hits"]] == ["c", "a", "b"]
    assert (ranking["config"]["window"], ranking["config"]["step"]) == (5, 2)
    counts = {"asked": 1, "odd": 1, "missing": 1, "repeated": 1, "unknown": 1}
    none = dict.fromkeys(("as_shown", "failed"), 0)
    assert ranking["comparisons"] == counts | none | {"reason": ""}
    assert result.stderr.count("\n") == 1
    assert "Of 1 comparison: 1 odd in form, 1 left out, 1 named twice, 1 named" in result.stderr
    assert "1 call" in run(*args, "--dry-run").stdout


def test_comparisons_that_fail_are_exit_code_3(run: Run, models: Connected) -> None:
    asked = iter(["A", *["A or B"] * 2, *["A"] * 9])
    models.answer = lambda _: next(asked)
    args = ("rank", "q", "a", "b", "c", "--ranker", "setwise", "-o", "children=1")
    result = run(*args, "--output", "json")
    assert result.exit_code == 3, result.output
    assert "failed, and their passages kept their order: " in result.stderr
    (error,) = json.loads(result.stdout)["errors"]
    assert error["code"] == "FailedComparisons"
    models.answer = lambda _: "A"
    alike = run(*args[:5], "d", *args[5:], "-o", "ranks=1")
    assert alike.exit_code == 0
    assert alike.stderr.count("warning") == 0
    assert "All 3 replies keep the order in which passages were shown" in alike.stdout
    refused = run("rank", "q", "a", "--ranker", "setwise", "-o", "window=5")
    assert refused.exit_code == 2
    assert "'setwise' takes no option 'window'; it goes with rankgpt, rebel" in refused.stderr


def test_a_ranker_of_windows(run: Run, models: Connected) -> None:
    """b is dropped; the sum of a is 9, not 4; the entry 7 is of nothing; at 0 b stays."""
    scores = {"1": {"Relevance": 4, "Final": 4}, "2": {"Relevance": 2}, "7": {"Relevance": 1}}
    scores = {name: {**dict.fromkeys(["P1", "P2"], 5), **each} for name, each in scores.items()}
    first = {"Relevance": "x", "Properties": [{"Property": "A"}, {"Property": "B"}]}
    models.answer = lambda request: json.dumps(
        {"Passages": scores} if request.tag.stage == "score" else first
    )
    args = ("rank", "q", "a", "b", "--ranker", "rebel", "-o", "variant=two_turn", "-o", "window=2")
    result = run(*args, "--output", "json")
    assert result.exit_code == 0, result.output
    ranking = json.loads(result.stdout)["ranking"]
    assert [(hit["text"], hit["score"]) for hit in ranking["hits"]] == [("a", 9.0)]
    assert ranking["windows"]["differing"] == 1
    assert "1 passage dropped: relevance below 3\n" in result.stderr
    assert "1 named that were not shown" in result.stderr
    assert "1 of 1 sum by the model are not what its scores add up to" in result.stderr
    table = run(*args)
    assert "1 passage was dropped for too little relevance." in table.stdout
    assert "left out by" not in table.stdout
    kept = json.loads(run(*args, "-o", "min_relevance_score=0", "--output", "json").stdout)[
        "ranking"
    ]
    assert [hit["score"] for hit in kept["hits"]] == [9.0, 7.0]
    assert "2 calls" in run(*args, "--dry-run").stdout


def test_a_persona_that_gives_no_order_is_left_out(run: Run, models: Connected) -> None:
    def compare(request: ChatRequest) -> str:
        if request.tag.stage != "score":
            return answer(request)
        return "I would rather not" if "parent" in request.tag.persona else "[3] > [1] > [2]"

    models.answer = compare
    args = ("rank", "q", "a", "b", "c", "--ranker", "rankgpt", "--team-size", "3")
    result = run(*args, "--output", "json")
    whole = json.loads(result.stdout)
    assert result.exit_code == 3
    assert [hit["text"] for hit in whole["ranking"]["hits"]] == ["c", "a", "b"]
    assert [error["code"] for error in whole["errors"]] == ["FailedComparisons", "LeftOut"]
