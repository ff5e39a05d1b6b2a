"""A process that ranks with a ledger, for tests that kill it or run two of it at once.

    python -m tests.support.ranking_process URL LEDGER QUERIES PASSAGES [backwards]

Prints a line when it is ready to go, and goes when its standard input has a line or ends.
Then prints a line of JSON as each score comes, ``[persona, doc_id]``, and after each query one
with its result: ``{"query": id, "hits": [[doc_id, score, {persona: score}], ...]}``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from mcranker import MCRanker, PassageScored, Query, Ranking, RankingDone
from tests.support.chaos import Chaos, chaos

CONCURRENCY = 16
TEAM = 3
ROOT = Path(__file__).parents[2]


def queries(count: int, *, passages: int) -> list[tuple[Query, dict[str, str]]]:
    """Queries, each with passages by which `tests.support.chaos` knows what to answer."""
    return [
        (
            Query(f"Which mask is best in case {number}?", f"q{number}"),
            {
                doc_id: f"[passage {doc_id}] Masks of kind {doc_id} were tried by nurses."
                for doc_id in (f"{number}-{place}" for place in range(passages))
            },
        )
        for number in range(count)
    ]


def result(ranking: Ranking) -> dict[str, Any]:
    """What two equal rankings have in common."""
    hits = [[hit.doc_id, hit.score, dict(hit.scores)] for hit in ranking]
    return {"query": ranking.query.id, "hits": hits}


def calls_of(count: int, *, passages: int) -> int:
    """Calls that an undisturbed run makes: a recruiter, the rubrics, and the scores."""
    return count * (1 + TEAM + TEAM * passages)


def start(server: Chaos, ledger: Path | str, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.ranking_process", server.url, ledger, *args]
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go(*processes: subprocess.Popen[str]) -> None:
    """Let processes begin at the same time."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == '"ready"\n'
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def told(lines: Iterable[str]) -> tuple[set[tuple[str, str]], list[dict[str, Any]]]:
    """The scores and the results that a process printed."""
    said = [json.loads(line) for line in lines]
    return (
        {(each[0], each[1]) for each in said if isinstance(each, list)},
        [each for each in said if isinstance(each, dict)],
    )


def undisturbed(count: int, *, passages: int) -> list[dict[str, Any]]:
    with (
        chaos({}) as server,
        MCRanker(
            team_size=TEAM, model="openai:test", base_url=server.url, concurrency=32
        ) as ranker,
    ):
        return [
            result(ranker.rank(query, docs)) for query, docs in queries(count, passages=passages)
        ]


async def main(url: str, ledger: str, count: str, passages: str, *order: str) -> None:
    work = queries(int(count), passages=int(passages))
    async with MCRanker(
        model="openai:test", base_url=url, ledger=ledger, concurrency=CONCURRENCY
    ) as ranker:
        _tell("ready")
        sys.stdin.readline()
        for query, docs in work[::-1] if order else work:
            async with ranker.astream(query, docs) as events:
                async for event in events:
                    if isinstance(event, PassageScored):
                        _tell([event.persona, event.doc_id])
                    elif isinstance(event, RankingDone):
                        _tell(result(event.ranking))


def _tell(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(partial(main, *sys.argv[1:]))
