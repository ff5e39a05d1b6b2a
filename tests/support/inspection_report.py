"""Rankings to make report pages of, and the pages taken apart."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

from mcranker import MCRanker, Ranking, ScriptedChat
from mcranker.llm.chat import ChatRequest

VOID = {"meta", "input", "link", "img", "br", "hr"}


class Page(HTMLParser):
    """A page taken apart; refuses tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.cells: list[str] = []
        self.raw: dict[str, list[str]] = {"style": [], "script": [], "title": []}
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self.tables: list[list[list[str]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        assert len(found) == len(attrs), f"an attribute twice in {tag}: {attrs}"
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.rows.append([])
            if self.tables:
                self.tables[-1].append(self.rows[-1])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "td":
            self.cells.append("")
        if found.get("class") in ("id", "snippet"):
            self.rows[-1][-1] += "\n"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

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
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data

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
    # Fixtures of whole modules come before the one that sets the ledger aside.
    with MCRanker(model=ScriptedChat(answers), **{"ledger": None, **options}) as ranker:
        return ranker.rank("best masks", docs)


def data_of(**options: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(ranked(**options).to_json())
    return data


def infested(text: str) -> dict[str, Any]:
    """A ranking with `text` wherever text from outside can stand."""
    data = data_of(scoring="per_criterion")
    # A team refuses halves of surrogate pairs by itself, and more than 20,000 characters.
    words = text.encode(errors="replace").decode()[:20_000]
    new = (words.strip() or "blank")[:200].strip()
    data["query"] = {"text": text, "id": text}
    data["ranker"] = text
    data["models"] = {text: text, "scoring": text}
    data["prompt_hashes"] = {text: text}
    data["config"][text] = [text]
    data["seconds"] = {text: 1.0}
    data["team"].update(name=words, description=words)
    member = data["team"]["members"][1]
    old, first = member["persona"]["name"], member["rubric"]["criteria"][0]["name"]
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
        if new in hit["criteria"]:
            hit["criteria"][new] = {
                new if name == first else name: each for name, each in hit["criteria"][new].items()
            }
        hit["missing"] = dict.fromkeys([*hit["missing"], "(assessor)"], text)
    return data
