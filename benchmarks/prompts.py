"""Requests sent to models: every kind of request of one query, as text.

    python benchmarks/prompts.py
    python benchmarks/prompts.py --preset reference --prompts my_prompts

One query of three passages, a made-up model that names the same team each time, and a section for
each ranker of the paper's tables: of equal kinds of request (a stage and a persona) the first one,
with what is sent besides the messages. To be read beside the paper's appendix D.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from mcranker import ChatRequest, DirectRanker, MCRanker, Ranker, ScriptedChat
from mcranker.config import PRESETS

QUERY = "What are the best masks for preventing infection by COVID-19?"
DOCS = [
    {"_id": "p1", "title": "Masks", "text": 'N95 "respirators" filter at least 95% of particles.'},
    {"_id": "p2", "title": "Gloves", "text": "Gloves do little against droplets."},
    {"_id": "p3", "title": "Cloth", "text": "Cloth masks let most small particles through."},
]
DATASET = "Scientific articles on COVID-19, and questions of the public and of doctors."
RANKERS: dict[str, tuple[type[Ranker], dict[str, Any]]] = {
    "MCRanker, with an assessor (tables 1 and 4)": (MCRanker, {"ensemble": "assessor"}),
    "MCRanker without criteria (table 2)": (MCRanker, {"criteria": "none"}),
    "DIRECT (tables 1 to 3)": (DirectRanker, {}),
    "DIRECT with criteria (table 2)": (DirectRanker, {"with_criteria": True}),
    "MCRanker-DBC (table 3)": (MCRanker, {"criteria": "dataset", "dataset": DATASET}),
}
TEAM = {"Identities": ["Health Professional", "Concerned Citizen"], "Reason": "They differ."}
SCORES = {"NLP scientist": 7, "Health Professional": 9, "Concerned Citizen": 6}


def answer(request: ChatRequest) -> str:
    """A reply of the right form."""
    tag = request.tag
    if tag.stage == "recruit":
        return json.dumps(TEAM)
    if tag.stage == "criteria":
        criteria = [
            {"Criterion": f"{tag.persona} {place}", "Explanation": "It says so.", "Weight": weight}
            for place, weight in enumerate((60, 40), start=1)
        ]
        return json.dumps({"Criteria": criteria, "Reason": "These matter."})
    key = "Final score" if tag.stage == "assess" else "Score"
    return json.dumps({key: SCORES.get(tag.persona, 5)})


def requests(ranker: str, **options: Any) -> Iterator[ChatRequest]:
    """Of each stage and persona the first request."""
    make, own = RANKERS[ranker]
    asked: dict[tuple[str, str], ChatRequest] = {}

    def note(request: ChatRequest) -> str:
        asked.setdefault((request.tag.stage, request.tag.persona), request)
        return answer(request)

    settings = {"model": ScriptedChat(note), "ledger": None, **own, **options}
    with make(**settings) as made:
        made.rank(QUERY, DOCS)
    order = ("recruit", "criteria", "score", "assess")
    yield from sorted(asked.values(), key=lambda each: order.index(each.tag.stage))


def shown(request: ChatRequest) -> str:
    """The request for people to read."""
    tag, schema = request.tag, request.schema
    keys = "free text" if schema is None else ", ".join(schema.schema.get("properties", ()))
    about = [each for each in (tag.stage, tag.persona, tag.doc_id) if each]
    head = f"--- {' / '.join(about)} (reply: {keys}; temperature: {request.temperature})"
    return "\n".join([head, *(f"[{turn.role}]\n{turn.content}" for turn in request.messages)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--preset", action="append", choices=PRESETS, help="both without it")
    parser.add_argument("--prompts", default="paper", help="a shipped set, or a folder")
    given = parser.parse_args()
    for preset in given.preset or PRESETS:
        for ranker in RANKERS:
            print(f"\n===== {preset}: {ranker}\n")
            for request in requests(ranker, preset=preset, prompts=given.prompts):
                print(f"{shown(request)}\n")


if __name__ == "__main__":
    main()
