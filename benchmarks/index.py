"""An index of synthetic documents: to build, add to, search and open again.

    python benchmarks/index.py                          # 10,000 documents of 384 numbers
    python benchmarks/index.py --documents 100000       # half a minute

Vectors are random around 1,000 random centres, and texts random words: times are the index's own,
without an embedder's.
"""

from __future__ import annotations

import argparse
import re
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import get_args

import anyio
import numpy as np
from numpy.typing import NDArray

from mcranker.retrieval.index import By, Index
from mcranker.retrieval.readers import Document
from personas.ranking.usage import UsageTable

DIMENSIONS, CENTRES, WORDS, QUERIES, ADDED = 384, 1_000, 60, 200, 1_000


class Embedder:
    """Gives a text that begins with a number the vector of that number."""

    name = mark = "random"
    dimensions, max_tokens = DIMENSIONS, 512

    def __init__(self) -> None:
        self._centres = np.random.default_rng(0).standard_normal((CENTRES, DIMENSIONS), np.float32)

    async def embed_passages(
        self, texts: Sequence[str], usage: UsageTable | None = None
    ) -> NDArray[np.float32]:
        numbers = [int(text.split(" ", 1)[0]) for text in texts]
        noise = np.random.default_rng(numbers[0] + 1).standard_normal(
            (len(texts), DIMENSIONS), np.float32
        )
        vectors = self._centres[np.array(numbers) % CENTRES] + noise
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    embed_queries = embed_passages

    async def aclose(self) -> None:
        pass


def documents(first: int, number: int) -> Iterator[Document]:
    chooses = np.random.default_rng(first)
    for start in range(first, first + number, 1_000):
        rows = chooses.zipf(1.3, (min(1_000, first + number - start), WORDS)) % 50_000
        for place, row in enumerate(rows.tolist(), start):
            yield Document(f"d{place}", f"{place} {' '.join(f'w{word}' for word in row)}")


async def measure(number: int, folder: Path) -> None:
    embedder = Embedder()
    rows: list[tuple[str, str]] = []

    async def timed(name: str, work: Callable[[], object]) -> object:
        started = time.perf_counter()
        found = work()
        if hasattr(found, "__await__"):
            found = await found
        rows.append((name, shown(time.perf_counter() - started)))
        return found

    with Index.create(folder / "i", embedder=embedder, chunks="whole") as index:
        await timed(f"build, {number:,} documents", lambda: index.add(documents(0, number)))
        await timed(f"add {ADDED:,}", lambda: index.add(documents(number, ADDED)))
        await timed("go through all again, unchanged", lambda: index.add(documents(0, number)))
    opened = await timed("open", lambda: Index.open(folder / "i", embedder))
    assert isinstance(opened, Index)
    queries = [f"{3 * number + n} w{n % 97 + 1} w{n % 89 + 5}" for n in range(QUERIES)]
    for by in get_args(By):
        await timed(f"{by}: first query", partial(opened.search, queries[:1], 10, by))
        times: list[float] = []
        for query in queries:
            started = time.perf_counter()
            await opened.search([query], 10, by)
            times.append(time.perf_counter() - started)
        rows.append((f"{by}: a query, median of {QUERIES}", shown(median(times))))
    rows.append(("on disk", f"{opened.describe()['bytes'] / 1e6:,.0f} MB"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    rows.append(("highest memory of the process", f"{peak:,.0f} MB"))
    print(f"| {number:,} x {DIMENSIONS} | |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")


def shown(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=re.sub(r"\n", " ", __doc__ or ""))
    parser.add_argument("--documents", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mcranker-benchmark-") as folder:
        anyio.run(measure, arguments.documents, Path(folder))


if __name__ == "__main__":
    main()
