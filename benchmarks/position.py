"""Effect of a passage's place among others in one call on its score.

    python benchmarks/position.py local:PATH.gguf --queries 10 --together 5

Asks a model of typed questions about the first passages of BM25 for queries of the mini
collection, all of a query in one state, once for each turn of their order. Prints the mean
difference of a score from the passage's mean over all places, by place, on a scale of 0 to 1,
beside what remains: the mean difference of the scores of two passages in the same place.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Sequence

import anyio
import numpy as np

import beir_eval
from mcranker import ChatModel, ChatRequest, Message, Option, Question, State, connect
from mcranker.llm.chat import Tag
from personas import PromptSet


async def scores(model: ChatModel, query: str, texts: Sequence[str], turn: int) -> list[float]:
    """Scores of the texts, in their own order, when the one at `turn` stands first."""
    prompts = PromptSet.load("paper")
    order = [(turn + place) % len(texts) for place in range(len(texts))]
    names = [f"passage_{number}" for number in range(1, len(texts) + 1)]
    levels = prompts["typed_levels"].render({})[0].text.splitlines()
    questions = tuple(
        Question(
            name,
            prompts["typed_direct"].render({"passage": name, "criteria": ""})[0].text.strip(),
            options=tuple(map(Option, levels)),
            passage=name,
        )
        for name in names
    )
    task = Message("user", prompts["typed_task"].render({})[0].text)
    state = State(query, {name: texts[row] for name, row in zip(names, order, strict=True)})
    request = ChatRequest((task,), Tag("score"), questions=questions, state=state)
    found = [0.0] * len(texts)
    for row, answer in zip(order, (await model.complete(request)).answers or (), strict=True):
        if answer.value is None:
            raise SystemExit(f"no score: {answer.problem}")
        found[row] = answer.value
    return found


async def measure(name: str, queries: int, together: int) -> None:
    dataset = beir_eval.load("mini")
    run = beir_eval.retrieve(dataset, together)
    model = connect(name)
    by_place: list[list[float]] = [[] for _ in range(together)]
    between = []
    for query_id, text in itertools.islice(dataset.queries.items(), queries):
        texts = [dataset.corpus[doc_id].text for doc_id, _ in run[query_id]][:together]
        # Row: which passage was first; column: the passage.
        table = np.array([await scores(model, text, texts, turn) for turn in range(together)])
        for turn, passage in np.ndindex(table.shape):
            place = (passage - turn) % together
            by_place[place].append(float(table[turn, passage] - table[:, passage].mean()))
        means = table.mean(axis=0)
        between += [abs(float(a - b)) for a, b in itertools.combinations(means, 2)]
    await model.aclose()
    print(f"{name}: {queries} queries, {together} passages in one state, every turn of the order")
    for place, differences in enumerate(by_place, start=1):
        print(f"place {place}: {statistics.fmean(differences):+.3f}")
    print(f"between two passages: {statistics.fmean(between):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", help="a model of typed questions, as MCRanker takes it")
    parser.add_argument("--queries", type=int, default=10)
    parser.add_argument("--together", type=int, default=5)
    given = parser.parse_args()
    anyio.run(measure, given.model, given.queries, given.together)
