"""`mcranker inspect`: rankings out of files, and every way that can go wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from beir_eval.cli.group import INSPECT
from mcranker import MCRanker
from mcranker.cli.group import VERBS, Verbs
from mcranker.llm.recording import RECORDED
from tests.personas.ranking.test_inspection import FOUR, stored
from tests.support.cli_support import Connected, invoke, scripted

TOOL = Verbs("mcranker", {**VERBS, "inspect": INSPECT})
NO_RANKING = "this is no ranking as Ranking.to_dict() makes it"
FORM = "give what 'mcranker rank --save FILE' or '--output json' wrote"


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Connected:
    return scripted(monkeypatch, tmp_path)


def inspect(*args: str | Path, **more: Any) -> Result:
    return CliRunner().invoke(TOOL, ["inspect", *map(str, args)], **more)


def shown(*args: str | Path, **more: Any) -> list[str]:
    """The lines on standard output, of a run that goes well."""
    result = inspect(*args, **more)
    assert (result.exit_code, result.stderr) == (0, "")
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def refused(*args: str | Path, code: int = 1, **more: Any) -> str:
    """The one line on standard error, of a run that fails; nothing else is printed."""
    result = inspect(*args, **more)
    assert (result.exit_code, result.stdout) == (code, "")
    (line,) = result.stderr.splitlines()
    return line.removeprefix("mcranker: error: ")


def as_json(*args: str | Path) -> dict[str, Any]:
    result = inspect(*args, "--output", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert (found.pop("status"), found.pop("exit_code"), found.pop("errors")) == ("ok", 0, [])
    assert isinstance(found, dict)
    return found


def ranking(query_id: str = "q1", text: str = "best masks", **more: Any) -> dict[str, Any]:
    return stored(FOUR, query={"text": text, "id": query_id}, **more)


def written(path: Path, *values: object) -> Path:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return path


@pytest.fixture
def many(tmp_path: Path) -> Path:
    return written(
        tmp_path / "many.jsonl", ranking("q1"), ranking("2", "second"), ranking("q3", "third")
    )


def test_what_rank_saves_and_prints_can_be_inspected(connected: Connected, tmp_path: Path) -> None:
    saved = tmp_path / "ranking.json"
    ask = ("rank", "masks", "N95 masks.", "Cloth.", "--quiet", "-o", "query_id=q1")
    printed = invoke(*ask, "--save", saved, "--output", "json")
    assert printed.exit_code == 0
    envelope = tmp_path / "envelope.json"
    envelope.write_text(printed.stdout, encoding="utf-8")
    pretty = tmp_path / "pretty.json"
    pretty.write_text(json.dumps(json.loads(printed.stdout), indent=2), encoding="utf-8")
    lines = shown(saved)
    assert lines[0] == "masks"
    assert any(line.startswith("1 0 ") for line in lines)
    assert shown(envelope) == shown(pretty) == lines
    assert shown("-", input=saved.read_text(encoding="utf-8")) == lines


def test_several_are_listed(many: Path, tmp_path: Path) -> None:
    lines = shown(many)
    assert {"number id query", "1 q1 best masks", "2 2 second", "3 q3 third"} <= {*lines}
    assert "3 queries; pick one by id or number, e.g. --query 1" in lines
    assert as_json(many)["queries"][1] == {
        "number": 2,
        "query_id": "2",
        "text": "second",
        "passages": 4,
        "ndcg": None,
    }
    # FOUR's order is d2, d3, d1, d4: d3 second, so 1/log2(3) = 0.631.
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text("q3\td3\t1\n", encoding="utf-8")
    assert "3 q3 0.631 third" in shown(many, "--qrels", qrels)


def test_one_of_several_is_picked_by_id_before_number(many: Path) -> None:
    assert shown(many, "--query", "q3")[0] == "third"
    assert shown(many, "--query", "3")[0] == "third"
    assert shown(many, "--query", "2")[0] == "second"
    envelope = json.dumps({"status": "ok", "errors": [], "rankings": [ranking(), ranking("7")]})
    assert shown("-", "--query", "7", input=envelope)[1].startswith("query 7,")


def test_a_query_that_is_not_there(many: Path) -> None:
    assert refused(many, "--query", "q33") == "no query 'q33'; did you mean 'q3'?"
    assert refused(many, "--query", "4") == (
        "no query '4'; there are 3; give an id or a number, or leave --query out"
    )


def test_what_needs_one_query_says_so(many: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for flag, value in (("--passage", "1"), ("--html", page)):
        assert refused(many, flag, value, code=2) == (
            "there are 3 queries in it; pick one with --query ID; see 'mcranker inspect --help'"
        )
    assert not page.exists()


def test_one_passage(many: Path) -> None:
    by_rank = shown(many, "--query", "q3", "--passage", "2")
    assert by_rank == shown(many, "--query", "q3", "--passage", "d3")
    assert "Rank 2 of 4: d3" in by_rank
    assert refused(many, "--query", "q3", "--passage", "d9") == (
        "no passage 'd9'; give an id, or a rank from 1 to 4"
    )


def test_judgements(many: Path, tmp_path: Path) -> None:
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text("query-id\tcorpus-id\tscore\nq1\td3\t2\n", encoding="utf-8")
    picked = (many, "--qrels", qrels, "--query")
    found = "+ It ranks better than the first stage: nDCG@10 is 0.631, the first stage's 0.500."
    assert found in shown(*picked, "q1")
    assert refused(*picked, "q3") == f"{qrels}: no judgement of query 'q3'"
    assert "gone: cannot be read: No such file" in refused(many, "--qrels", tmp_path / "gone")


def test_json_holds_what_is_worked_out(many: Path, tmp_path: Path) -> None:
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text("q1\td3\t2\n", encoding="utf-8")
    found = as_json(many, "--query", "q1", "--qrels", qrels)["inspection"]
    assert [each["doc_id"] for each in found["hits"]] == ["d2", "d3", "d1", "d4"]
    second = found["hits"][1]
    assert second["rank_without"] == {"Virologist": 1, "Parent": 3, "Editor": 3}
    assert second["raised_most_by"] == ["Parent", "Editor"]
    assert (second["grade"], second["moved"], second["other"]) == (2, 1, None)
    # mean 16/3; the variance of 1, 8, 7 is 258/27
    assert second["disagreement"] == pytest.approx((258 / 27) ** 0.5)
    assert found["ndcg@10"]["ranking"] == pytest.approx(0.6309, abs=1e-4)
    (only,) = as_json(many, "--query", "q1", "--passage", "d4")["inspection"]["hits"]
    assert only["missing"] == {"Parent": "no number in the answer"}


def test_the_page(many: Path, tmp_path: Path) -> None:
    page = tmp_path / "why.html"
    assert shown(many, "--query", "q3", "--html", page) == []
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "third" in text
    used = ("--query", "q3", "--html", page)
    assert "leave --passage out" in refused(many, *used, "--passage", "1", code=2)
    assert "its folder does not exist" in refused(many, "--html", tmp_path / "no" / "a.html")
    result = inspect(many, *used, "--output", "json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["status"] == "error"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", f": there is nothing in it; {FORM}"),
        (b"\x7fELF\0\0", ":1: holds a zero byte, so it is no text file"),
        (b'{\n "version": 1,\n "hits": [}\n', ":3: not JSON: "),
        (b"7", f":1: no ranking but a number; {FORM}"),
        (b'{"a": 1}', f":1: an object, but no ranking; {FORM}"),
        (b'{"version": 2, "hits": []}', ":1: a ranking of version 2, and this program reads vers"),
        (b'{"version": 1, "hits": []}', f":1: {NO_RANKING}, version 1; query is missing"),
        (b'{"query_id": "q", "doc_id": "d", "rank": 1}', ":1: a passage of 'mcranker rank --outp"),
        (b'{"status": "ok", "errors": [], "ranking": 1}', ":1: the envelope holds something"),
        (b'{"version": 1, "hits": 3, "query": {"id": "", "text": "t"}}', f":1: {NO_RANKING}"),
    ],
)
def test_files_that_hold_no_ranking(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    assert refused(path).startswith(f"{path}{message}")
    assert refused("-", input=content).startswith(f"standard input{message}")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert f"'personas report {tmp_path} --out FOLDER' makes a page" in refused(tmp_path)


def test_prompts_and_replies_are_on_the_page(tmp_path: Path) -> None:
    examples = Path(__file__).parents[3] / "examples"
    saved, page = tmp_path / "ranking.json", tmp_path / "why.html"
    docs = [json.loads(line) for line in (examples / "masks.jsonl").read_text().splitlines()]
    place: dict[str, Any] = {
        "model": RECORDED,
        "ledger": examples / "masks.ledger",
        "offline": True,
    }
    with MCRanker(**place) as ranker:
        saved.write_text(ranker.rank("best masks against covid", docs).to_json())
    assert shown(saved, "--html", page, "--ledger", examples / "masks.ledger") == []
    # A prompt and a reply for each of 8 passages by each of 3 personas.
    assert page.read_text().count("<summary>Prompt and reply: ") == 24
    assert "&#34;Score&#34;: 9}" in page.read_text()
    assert "there is no ledger" in refused(
        saved, "--html", page, "--ledger", tmp_path / "none", code=2
    )
    assert "goes with --html" in refused(saved, "--ledger", tmp_path / "none", code=2)
