"""Seconds of a query with one late rubric, and the times of its scores.

One JSON object on standard output: wall seconds, when the scores of the personas with a rubric
were in, and how the scores of the passages came: the mean time between a passage's first and last
score. The model is scripted: every call takes ``--latency`` seconds, the rubric of the persona
recruited last ``--late`` seconds more.

    python benchmarks/late_rubric.py
    python benchmarks/late_rubric.py --ensemble assessor --concurrency 16
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import anyio

from mcranker import ChatRequest, MCRanker, PassageScored, ScriptedChat

RUBRIC = json.dumps({"Criteria": [{"Criterion": "Fits", "Weight": 100}], "Reason": ""})
LATE = "Worried parent"


def model(latency: float, late: float) -> ScriptedChat:
    async def answer(request: ChatRequest) -> str:
        stage, persona = request.tag.stage, request.tag.persona
        await anyio.sleep(latency + (late if (stage, persona) == ("criteria", LATE) else 0.0))
        match stage:
            case "recruit":
                return json.dumps({"Identities": ["Virologist", LATE], "Reason": ""})
            case "criteria":
                return RUBRIC
            case "assess":
                return '{"Final score": 5}'
            case _:
                return '{"Score": 5}'

    return ScriptedChat(answer)


async def measure(
    passages: int, concurrency: int, ensemble: str, chat: ScriptedChat
) -> dict[str, object]:
    docs = {f"d{number}": f"text {number}" for number in range(passages)}
    began = time.perf_counter()
    scored: dict[str, list[float]] = {}
    on_time = last_score = last = 0.0
    async with MCRanker(model=chat, concurrency=concurrency, ensemble=ensemble) as ranker:
        async for event in ranker.astream("query", docs):
            last = time.perf_counter() - began
            if isinstance(event, PassageScored):
                scored.setdefault(event.doc_id, []).append(last)
                last_score = last
                if event.persona != LATE:
                    on_time = last
    return {
        "passages": passages,
        "concurrency": concurrency,
        "ensemble": ensemble,
        "wall_s": round(last, 3),
        "scores_of_the_others_in_s": round(on_time, 3),
        "last_score_s": round(last_score, 3),
        "first_to_last_score_of_a_passage_s": round(
            statistics.fmean(times[-1] - times[0] for times in scored.values()), 3
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=20)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.3, help="seconds a call")
    parser.add_argument("--late", type=float, default=5.0, help="seconds more for one rubric")
    parser.add_argument("--ensemble", default="sum")
    args = parser.parse_args()
    chat = model(args.latency, args.late)
    print(json.dumps(anyio.run(measure, args.passages, args.concurrency, args.ensemble, chat)))


if __name__ == "__main__":
    main()
