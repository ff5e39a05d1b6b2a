"""The page of one ranked query: everything is on it, and nothing gets out of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcranker import DirectRanker, MCRanker, Ranking, ScriptedChat
from mcranker.llm.chat import ChatRequest
from personas.errors import SchemaError
from personas.report import formats, render_inspection
from personas.report.inspection_page import PAGE_LIMIT, TEXT_LIMIT

VOID = {"meta", "input", "rect", "link", "img", "br", "hr"}
LOADING = {"src", "srcset", "action", "formaction", "data", "poster", "background", "ping"}


class Page(HTMLParser):
    """A page taken apart; refuses tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.cells: list[str] = []
        self.raw: dict[str, list[str]] = {"style": [], "script": [], "title": []}
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        assert len(found) == len(attrs), f"an attribute twice in {tag}: {attrs}"
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> where {self.open[-1]!r} is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.raw:
            self.raw[self.open[-1]].append(data)
        else:
            self.words.append(data)
        if "td" in self.open:
            self.cells[-1] += data

    @property
    def text(self) -> str:
        return "".join(self.words)

    def attributes(self, name: str) -> list[str]:
        return [found[name] for _, found in self.tags if name in found]


def answers(request: ChatRequest) -> str:
    if request.tag.stage == "recruit":
        return '{"Identities": ["Virologist", "Worried parent"], "Reason": "Both would ask."}'
    if request.tag.stage == "criteria":
        criteria = [
            {"Criterion": "Right virus", "Explanation": "It is the virus asked for.", "Weight": 65},
            {"Criterion": "Evidence", "Explanation": "It names a study.", "Weight": 35},
        ]
        return json.dumps({"Criteria": criteria, "Reason": "Subject before proof."})
    if request.tag.stage == "assess":
        return '{"Final score": 4}' if request.tag.doc_id != "a" else "I cannot say"
    if request.tag.doc_id == "b" and request.tag.persona == "Virologist":
        return "I'd rather <b>not</b> say"
    place = len(request.tag.persona) + ord(request.tag.doc_id[0])
    if request.schema is not None and request.schema.name == "scores":
        return json.dumps({"Scores": {"1": place % 11, "2": place % 7}})
    return json.dumps({"Score": place % 11})


DOCS = [
    {"_id": "a", "title": "Masks", "text": "N95 masks seal."},
    {"_id": "b", "title": "", "text": "Cloth masks leak."},
    {"_id": "c", "title": "Soap", "text": "Soap is for hands."},
    {"_id": "d", "title": "Beards", "text": "Beards spoil the seal."},
]


def ranked(docs: Any = DOCS, **options: Any) -> Ranking:
    with MCRanker(model=ScriptedChat(answers), **options) as ranker:
        return ranker.rank("best masks", docs)


def data_of(**options: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(ranked(**options).to_json())
    return data


def test_the_page_stands_by_itself() -> None:
    text = render_inspection(data_of())
    page = Page(text)
    policies = [
        found["content"]
        for tag, found in page.tags
        if tag == "meta" and found.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    rules = dict(rule.strip().split(" ", 1) for rule in policies[0].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    for tag in ("style", "script"):
        digest = hashlib.sha256("".join(page.raw[tag]).encode()).digest()
        assert rules[f"{tag}-src"] == f"'sha256-{base64.b64encode(digest).decode()}'"
        assert [name for name, _ in page.tags].count(tag) == 1
    assert all(target.startswith("#") for target in page.attributes("href"))
    assert not LOADING & {name for _, found in page.tags for name in found}
    assert not {name for _, found in page.tags for name in found if name.startswith("on")}
    assert page.attributes("style") == []
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "@import" not in text


def test_every_link_leads_somewhere_and_every_id_is_there_once() -> None:
    page = Page(render_inspection(data_of()))
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert {target.removeprefix("#") for target in page.attributes("href")} <= set(ids)
    labels = [found["aria-labelledby"] for _, found in page.tags if "aria-labelledby" in found]
    assert set(labels) <= set(ids)


def test_every_score_is_on_the_page() -> None:
    ranking = ranked()
    page = Page(render_inspection(ranking.to_dict()))
    numbers = {float(cell) for cell in page.cells if re.fullmatch(r"\d+(\.\d+)?", cell)}
    for hit in ranking:
        assert hit.score is not None
        assert {each for each in hit.scores.values() if each is not None} <= numbers
        assert hit.score in numbers
        assert hit.passage.text in page.text
        assert hit.passage.title in page.text
        assert hit.doc_id in page.text
    assert any(cell.startswith("\N{EN DASH}missing") for cell in page.cells)
    assert len(ranking.missing) == 1


def test_the_team_is_introduced() -> None:
    page = Page(render_inspection(data_of()))
    for words in (
        "NLP scientist",
        "Virologist",
        "Worried parent",
        "Fixed by the method",
        "Recruited by the model",
        "Both would ask.",
        "It is the virus asked for.",
        "65%",
        "35%",
        "Subject before proof.",
    ):
        assert words in page.text
    widths = [found["width"] for tag, found in page.tags if found.get("class") == "fill"]
    assert widths == ["65.00%", "35.00%"] * 3


@pytest.mark.parametrize("origin", ["fixed", "recruited", "library", "human"])
def test_the_page_says_where_a_persona_comes_from(origin: str) -> None:
    data = data_of()
    for member in data["team"]["members"]:
        member["origin"] = origin
    page = Page(render_inspection(data))
    assert [
        found["class"] for tag, found in page.tags if "tag" in found.get("class", "").split()
    ] == [f"tag {origin}"] * 3


def test_a_missing_score_is_marked_and_explained() -> None:
    text = render_inspection(data_of())
    page = Page(text)
    titles = [each for each in page.attributes("title") if each.startswith("missing:")]
    assert titles
    assert all("not</b> say" in each for each in titles)
    assert "No score by Virologist." in page.text
    assert "1 score is missing" in page.text
    assert "<b>not" not in text


def test_the_assessors_missing_score_is_told_too() -> None:
    data = data_of(ensemble="assessor")
    page = Page(render_inspection(data))
    assert "No score by (assessor)." in page.text
    assert "2 scores are missing" in page.text
    assert "more than the scores combined" in page.text


def test_scores_by_criterion_stand_below_the_persona() -> None:
    data = data_of(scoring="per_criterion")
    page = Page(render_inspection(data))
    assert page.text.count("Right virus") == 3 + 11  # three cards; 4 x 3 scores, one missing
    assert "Judge" in page.text


def test_passages_beyond_depth_are_not_judged() -> None:
    page = Page(render_inspection(data_of(depth=2)))
    assert page.text.count("not judged") >= 2
    assert "2 judged" in page.text
    assert "Passages that were not judged follow" in page.text


def test_calls_tokens_and_cost() -> None:
    data = data_of()
    data["usage"].update(input_tokens=41_234, cost=None)
    data["usage"]["by_stage"][0].update(cost=0.0123, cached_input_tokens=5_678)
    data["seconds"] = {"score": 1.234, "total": 200.0}
    page = Page(render_inspection(data))
    for words in ("41,234", "5,678", "$0.0123", "price not known", "1.23 s", "3 min 20 s"):
        assert words in page.text
    for name, digest in data["prompt_hashes"].items():
        assert name in page.text
        assert digest in page.text


def test_a_ranking_without_passages() -> None:
    page = Page(render_inspection(ranked(docs=[]).to_dict()))
    assert "No passages were given" in page.text
    assert "No model was called." in page.text
    assert "table" not in {tag for tag, _ in page.tags}


def test_a_ranking_without_a_team() -> None:
    with DirectRanker(model=ScriptedChat(answers)) as ranker:
        ranking = ranker.rank("best masks", DOCS)
    page = Page(render_inspection(ranking.to_dict()))
    assert "DIRECT" in page.text
    assert "this ranker judges by itself" in page.text
    assert "Rank without" not in page.text
    assert "Dis\N{SOFT HYPHEN}agree" not in page.text


def test_the_same_data_give_the_same_bytes() -> None:
    data = data_of()
    assert render_inspection(data) == render_inspection(json.loads(json.dumps(data)))


def test_a_ranking_writes_its_page(tmp_path: Path) -> None:
    ranking = ranked()
    ranking.to_html(tmp_path / "why.html")
    written = (tmp_path / "why.html").read_bytes().decode()
    assert written == render_inspection(ranking.to_dict())


def test_what_is_no_ranking_is_refused() -> None:
    with pytest.raises(SchemaError):
        render_inspection({"version": 1})


def test_importing_the_report_does_not_import_the_template_engine() -> None:
    code = "import sys, personas.report; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


HOSTILE = [
    "<script>alert(1)</script>",
    "</style></script></title></bdi></div><img src=x onerror=alert(1)>",
    "\"' onmouseover='alert(1)' x=\"",
    "{{ 7 * 7 }}{% raise %}",
    "&lt;b&gt; &amp;amp; <!-- --> <![CDATA[ ]]>",
    "javascript:alert(1)",
    "\u202eright to left \u2067 and not back",
    "\u2069\u2069\u2069 early \u202c end",
    "عربي and עברית",
    "W" * 5000,
    "👩‍🚀🏳️‍🌈 family 👨‍👩‍👧‍👦",
    "null \x00 bell \x07 escape \x1b[31m",
    "half a pair \ud800 and \udfff",
    " \n\t ",
]


def infested(text: str) -> dict[str, Any]:
    """A ranking with `text` wherever text from outside can stand."""
    data = data_of(scoring="per_criterion")
    # A team refuses halves of surrogate pairs by itself.
    words = text.encode(errors="replace").decode()
    new = (words.strip() or "blank")[:200].strip()
    data["query"] = {"text": text, "id": text}
    data["ranker"] = text
    data["models"] = {text: text, "scoring": text}
    data["prompt_hashes"] = {text: text}
    data["config"][text] = [text]
    data["seconds"] = {text: 1.0}
    data["team"].update(name=words, description=words)
    member = data["team"]["members"][1]
    old = member["persona"]["name"]
    member["persona"].update(name=new, description=words, reason=words)
    member["rubric"]["criteria"][0].update(name=new, description=words)
    member["rubric"]["reason"] = words
    data["personas"] = [new if name == old else name for name in data["personas"]]
    for row in data["usage"]["by_stage"]:
        row.update(stage=text, persona=text, model=text)
    for place, hit in enumerate(data["hits"]):
        hit.update(doc_id=f"{text}{place}", title=text, text=text)
        for kind in ("scores", "missing", "criteria"):
            hit[kind] = {new if name == old else name: each for name, each in hit[kind].items()}
        hit["missing"] = dict.fromkeys([*hit["missing"], "(assessor)"], text)
    return data


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return data_of()


@pytest.fixture(scope="module")
def harmless() -> Page:
    return Page(render_inspection(infested("harmless")))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_text_from_outside_stays_text(text: str, harmless: Page) -> None:
    made = render_inspection(infested(text))
    made.encode()  # writes
    page = Page(made)
    # No text adds a tag, or an attribute of a kind that is not there anyway.
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in harmless.tags}
    assert {name for _, found in page.tags for name in found} <= {
        name for _, found in harmless.tags for name in found
    }
    assert all(re.fullmatch(r"#[a-z]+(-\d+)?", target) for target in page.attributes("href"))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)?(-\d+)?", each) for each in page.attributes("id"))
    assert page.raw["script"] == harmless.raw["script"]
    assert page.raw["style"] == harmless.raw["style"]
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", made)
    shown = formats.printable(formats.contained(text))
    if len(text) < 100 and shown.strip():
        assert shown in page.text


def test_tooltips_and_the_window_title_carry_no_marks_of_direction() -> None:
    page = Page(render_inspection(infested("\u202eevil\u2066 \u200ftext")))
    for text in (*page.attributes("title"), *page.raw["title"]):
        assert not re.search("[\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
        assert "evil text" in text or "missing" in text or "asked" in text


@settings(max_examples=30, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_gives_a_well_formed_page(found: dict[str, Any], text: str) -> None:
    data = {**found, "query": {"text": text, "id": text}}
    data["hits"] = [{**hit, "title": text, "text": text} for hit in found["hits"]]
    Page(render_inspection(data)).text.encode()


def test_a_long_passage_is_cut_with_a_note() -> None:
    data = data_of()
    data["hits"][0]["text"] = "x" * 1_000_000
    made = render_inspection(data)
    assert "x" * TEXT_LIMIT in made
    assert "x" * (TEXT_LIMIT + 1) not in made
    assert f"Cut here: {1_000_000 - TEXT_LIMIT:,} more characters" in made
    assert len(made) < 200_000


def test_many_long_passages_share_the_room() -> None:
    data = data_of()
    kinds = data["hits"]
    data["hits"] = [
        {
            **kinds[place % 4],
            "rank": place + 1,
            "first_stage_rank": place + 1,
            "text": "short" if place % 2 else "x" * 1_000_000,
        }
        for place in range(100)
    ]
    made = render_inspection(data)
    # 50 short ones leave 600,000 - 250 characters for the other 50.
    limit = (PAGE_LIMIT - 50 * len("short")) // 50
    assert limit < TEXT_LIMIT
    assert "x" * limit in made
    assert "x" * (limit + 1) not in made
    assert len(made.encode()) < 1_000_000
