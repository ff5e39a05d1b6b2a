"""Time and size of the page of one query within a report.

    python benchmarks/pages.py --passages 100 --personas 3 --open

Makes up a stored ranking with judgements and another ranker's places, and reports the least
processor time, in milliseconds, of reading it, of making its page, and of both together, as a
report does for each of its queries. With ``--open`` also the least time, by the clock, until
Chromium paints the page from a file, with its first row in the window.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from personas import library  # noqa: E402
from personas.ranking.record import OtherPlace, OtherRanking, RankingRecord  # noqa: E402
from personas.report.inspection import inspection_page  # noqa: E402
from personas.report.page import PageContext  # noqa: E402

PAINTED = """() => new Promise((done) => {
  const told = (list) =>
    list.getEntriesByName("first-contentful-paint").forEach((each) => done(each.startTime));
  new PerformanceObserver(told).observe({ type: "paint", buffered: true });
})"""
NOTHING = {"calls": 0, "input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "cost": 0.0}
WORDS = (
    "the",
    "virus",
    "of",
    "a",
    "mask's",
    "seal",
    "in",
    "patients",
    "and",
    "children",
    "β-cells",
)


def made_up(*, passages: int, personas: int, words: int, seed: int = 7) -> dict[str, Any]:
    """A stored ranking; the same seed gives the same one."""
    draw = random.Random(seed)
    member = library.nlp_scientist().model_dump(mode="json")
    members = [
        {**member, "persona": {**member["persona"], "name": f"Persona {number}"}}
        for number in range(personas)
    ]
    names = [each["persona"]["name"] for each in members]
    first_stage = draw.sample(range(1, passages + 1), passages)
    hits: list[dict[str, Any]] = []
    for place in range(passages):
        scores = {name: round(draw.uniform(0, 10), 3) for name in names}
        hits.append(
            {
                "rank": place + 1,
                "doc_id": f"doc{place}",
                "score": sum(scores.values()),
                "scores": scores,
                "missing": {},
                "criteria": {},
                "first_stage_rank": first_stage[place],
                "first_stage_score": round(draw.uniform(5, 30), 4),
                "title": " ".join(draw.choices(WORDS, k=12)),
                "text": " ".join(draw.choices(WORDS, k=words)),
            }
        )
    return {
        "version": 1,
        "query": {"text": "how to fit a respirator", "id": "q1"},
        "ranker": "mcranker",
        "team": {"members": members},
        "personas": names,
        "hits": [
            {**hit, "rank": rank}
            for rank, hit in enumerate(
                sorted(hits, key=lambda hit: (-hit["score"], hit["first_stage_rank"])), start=1
            )
        ],
        "config": {"scale": 10, "ensemble": "sum", "missing_policy": "mean_of_team"},
        "models": {"scoring": "made:up"},
        "prompt_hashes": {},
        "usage": {**NOTHING, "by_stage": []},
        "seconds": {"total": 1.0},
        "absolute": True,
    }


def least(work: Callable[[], object], times: int) -> float:
    """The least processor time of the work, in milliseconds."""
    found = []
    for _ in range(times):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return round(1000 * min(found), 2)


def until_painted(page: str, times: int) -> float:
    """The least time until Chromium paints the page, in milliseconds."""
    from playwright.sync_api import sync_playwright

    found = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        path.write_text(page, encoding="utf-8")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for _ in range(times):
            window = browser.new_page(viewport={"width": 1440, "height": 900})
            window.goto(path.as_uri())
            box = window.locator("#passage-1 > tr > .name").bounding_box()
            assert box is not None
            assert box["y"] < 900
            found.append(window.evaluate(PAINTED))
            window.close()
        browser.close()
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of one query's page within a report.")
    parser.add_argument("--passages", type=int, default=100)
    parser.add_argument("--personas", type=int, default=3)
    parser.add_argument("--words", type=int, default=250)
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--open", action="store_true", help="in Chromium, too")
    given = parser.parse_args()
    data = made_up(passages=given.passages, personas=given.personas, words=given.words)
    grades = {f"doc{place}": place % 3 for place in range(0, given.passages, 4)}
    places = {f"doc{place}": OtherPlace(place + 1, 1.0) for place in range(given.passages)}
    other, around = OtherRanking("DIRECT", 10.0, places), PageContext("A run", 2, 3)

    def read() -> RankingRecord:
        return RankingRecord.of(data).beside(grades=grades, other=other)

    inspection = read()
    page = inspection_page(inspection, around)
    result: dict[str, Any] = {
        "passages": given.passages,
        "personas": given.personas,
        "read_ms": least(read, given.times),
        "page_ms": least(lambda: inspection_page(inspection, around), given.times),
        "both_ms": least(lambda: inspection_page(read(), around), given.times),
        "page_bytes": len(page.encode()),
    }
    if given.open:
        result["painted_ms"] = until_painted(page, 10)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
