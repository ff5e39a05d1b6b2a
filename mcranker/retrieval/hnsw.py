"""Approximate search of vectors by HNSW, for more of them than exact search is quick with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcranker.errors import ConfigError

LINKS = 16
"""Of a vector to its neighbours."""

BUILD_DEPTH, SEARCH_DEPTH = 128, 64
"""Candidates while it is built, and of a search, at least."""


class HNSW:
    """An HNSW graph of faiss, all in memory: 4 bytes a number, and some 150 a vector."""

    def __init__(self, graph: Any, rows: NDArray[np.int64]) -> None:
        self._graph = graph
        self._rows = rows

    @classmethod
    def of(
        cls, blocks: Iterable[tuple[NDArray[np.float32], NDArray[np.bool_]]], dimensions: int
    ) -> HNSW:
        """Build the graph of blocks: vectors of length 1 with, of each, whether it may be found."""
        faiss = _faiss()
        graph = faiss.IndexHNSWFlat(dimensions, LINKS, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = BUILD_DEPTH
        rows, first = [np.empty(0, np.int64)], 0
        for vectors, alive in blocks:
            graph.add(np.ascontiguousarray(vectors[alive]))
            rows.append(first + np.flatnonzero(alive))
            first += len(alive)
        return cls(graph, np.concatenate(rows))

    @staticmethod
    def settings() -> dict[str, Any]:
        """All that the graph depends on besides the vectors."""
        return {"faiss": _faiss().__version__, "links": LINKS, "depth": BUILD_DEPTH}

    @classmethod
    def load(cls, folder: Path) -> HNSW:
        """The graph that `save` wrote there."""
        graph = _faiss().read_index(str(folder / "graph.faiss"))
        return cls(graph, np.load(folder / "rows.npy", allow_pickle=False))

    def save(self, folder: Path) -> None:
        """Write the graph to files in `folder`, which must be there."""
        try:
            _faiss().write_index(self._graph, str(folder / "graph.faiss"))
        except RuntimeError as error:
            raise OSError(str(error)) from error
        np.save(folder / "rows.npy", self._rows, allow_pickle=False)

    def search(
        self, vectors: NDArray[np.float32], k: int
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Rows and cosines of up to `k` neighbours of each vector, best first."""
        depth = _faiss().SearchParametersHNSW(efSearch=max(SEARCH_DEPTH, 2 * k))
        scores, places = self._graph.search(np.ascontiguousarray(vectors), k, params=depth)
        return [
            (self._rows[place[place >= 0]], score[place >= 0])
            for score, place in zip(scores, places, strict=True)
        ]


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as missing:
        raise ConfigError(
            "HNSW needs faiss-cpu; run: pip install 'mcranker[faiss]', or leave hnsw out"
        ) from missing
    return faiss
