"""Rank very many passages with a scripted model: memory, tasks and CPU time a call.

    python tests/support/memory_of_a_query.py --passages 100000 --concurrency 16

Prints one JSON object. Memory is the growth of the process's peak resident set while
ranking, so it leaves out the passages themselves, which exist before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time

from mcranker import ChatRequest, MCRanker, Passage, ScriptedChat

KIB = 1024 if sys.platform != "darwin" else 1


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


async def measure(passages: int, concurrency: int) -> dict[str, float]:
    most_tasks = 0

    def answer(request: ChatRequest) -> str:
        nonlocal most_tasks
        if request.tag.stage == "criteria":
            return '{"Criteria": [{"Criterion": "Same topic", "Weight": 100}], "Reason": ""}'
        most_tasks = max(most_tasks, len(asyncio.all_tasks()))
        return '{"Score": 5}'

    ranker = MCRanker(team_size=1, model=ScriptedChat(answer), concurrency=concurrency)
    docs = [Passage(f"d{number}", f"passage {number}") for number in range(passages)]
    await ranker.arank("warm up", docs[:100])
    before, cpu, wall = peak_bytes(), time.process_time(), time.perf_counter()
    ranking = await ranker.arank("query", docs)
    if len(ranking) != passages or ranking.missing:
        raise SystemExit("not every passage was ranked")
    return {
        "passages": passages,
        "concurrency": concurrency,
        "most_tasks": most_tasks,
        "added_bytes_a_passage": (peak_bytes() - before) / passages,
        "cpu_ms_a_call": (time.process_time() - cpu) / passages * 1e3,
        "wall_s": time.perf_counter() - wall,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--concurrency", type=int, default=16)
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(measure(arguments.passages, arguments.concurrency))))


if __name__ == "__main__":
    main()
