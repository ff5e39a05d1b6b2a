"""Savings from prompts with a common beginning: tokens evaluated and seconds.

    python benchmarks/prefix.py --model local:smollm2-135m --passages 20

One query, a team of three from the library, both shipped prompt sets; each as shipped, with
the passage last, and with the passage moved to the front and not a character changed
otherwise. Prints a Markdown table, then the same as one JSON object. The engine runs in this
process, so its processor time tells the effort on a busy machine too.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import beir_eval
from mcranker import MCRanker, Passage, Usage
from personas import PromptSet, library
from personas.templates import BUILTIN_SETS

TEAM = "health_questions"
PASSAGE = re.compile(r"^\w+:\n\{\{passage\}\}\n\n", re.MULTILINE)
"""The passage in a scoring prompt, with its heading and the empty line after it."""


@contextmanager
def passage_first(prompts: str) -> Iterator[str]:
    """A folder with a shipped set whose scoring prompt begins with the passage."""
    with tempfile.TemporaryDirectory() as folder:
        PromptSet.load(prompts).save(folder)
        path = Path(folder, "score.txt")
        text = path.read_text(encoding="utf-8")
        found = PASSAGE.search(text)
        if found is None:
            raise SystemExit(f"{prompts}/score.txt: no passage under a heading of its own")
        path.write_text(found.group() + PASSAGE.sub("", text), encoding="utf-8")
        yield folder


def measure(model: str, prompts: str, docs: list[Passage], query: str) -> dict[str, Any]:
    """Rank once, with the engine loaded and nothing of the query evaluated before."""
    team = library.team(TEAM)
    with MCRanker(model=model, team=team, prompts=prompts, ledger=None) as ranker:
        ranker.rank("Is it warm?", ["It is warm."])
        processor = time.process_time()
        ranking = ranker.rank(query, docs)
        processor = time.process_time() - processor
    by_persona = {persona: usage for (_, persona, _), usage in ranking.calls.items()}
    return {
        "calls": ranking.usage.calls,
        "input_tokens": ranking.usage.input_tokens,
        "evaluated": evaluated(ranking.usage),
        "by_first_persona": evaluated(by_persona[ranking.personas[0]]),
        "seconds": round(ranking.seconds["score"], 1),
        "CPU_seconds": round(processor, 1),
    }


def evaluated(usage: Usage) -> int:
    return usage.input_tokens - usage.cached_input_tokens


def table(results: list[dict[str, Any]]) -> str:
    rows = [[name.replace("_", " ") for name in results[0]], ["---"] * len(results[0])]
    rows += [
        [f"{value:,}" if isinstance(value, int) else str(value) for value in each.values()]
        for each in results
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Tokens evaluated, with the passage last or first")
    parser.add_argument("--model", default="local:smollm2-135m")
    parser.add_argument("--passages", type=int, default=20)
    arguments = parser.parse_args()

    dataset = beir_eval.load("mini")
    query = next(iter(dataset.queries.values()))
    found = list(dataset.corpus.items())[: arguments.passages]
    docs = [Passage(doc_id, document.text, document.title) for doc_id, document in found]
    results = []
    for prompts in BUILTIN_SETS:
        shipped = measure(arguments.model, prompts, docs, query)
        with passage_first(prompts) as folder:
            moved = measure(arguments.model, folder, docs, query)
        results.append({"prompts": prompts, "passage": "last"} | shipped)
        results.append({"prompts": prompts, "passage": "first"} | moved)
    print(table(results))
    print(json.dumps({"model": arguments.model, "passages": len(docs), "results": results}))


if __name__ == "__main__":
    main()
