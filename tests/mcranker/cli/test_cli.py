"""``mcranker rank`` and ``mcranker recruit`` in this process, with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path

from mcranker import ChatRequest, Ranking
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
    assert rows[1] == ["1", "bbbb", "12", "4", "4", "4", "2", "▲1", "0.00", "T", "|", "two"]
    assert rows[2] == ["2", "aa", "6", "2", "2", "2", "1", "▼1", "0.00", "one"]
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
