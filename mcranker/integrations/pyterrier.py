"""Transformers for PyTerrier; needs ``pip install 'mcranker[pyterrier]'``, and no Java."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mcranker.integrations.reranking import (
    KEY,
    RankerSource,
    explanation,
    limits_of,
    not_installed,
)
from mcranker.rankers.base import Ranker
from mcranker.ranking import Ranking
from personas.ranking.types import Passage, Query

try:
    import pyterrier as pt
except ModuleNotFoundError as error:
    raise not_installed(__name__, "pyterrier", error) from error

if TYPE_CHECKING:
    from pandas import DataFrame


class MCRankerTransformer(pt.Transformer):
    """Reranks the results of a retriever, for example in a ``pt.Experiment``."""

    def __init__(
        self,
        ranker: Ranker | None = None,
        *,
        options: dict[str, Any] | None = None,
        top_n: int | None = None,
        min_relevance: float | None = None,
        deadline: float | None = None,
        text: str = "text",
        title: str | None = None,
        on_ranking: Callable[[Ranking], object] | None = None,
    ) -> None:
        super().__init__()
        self._limits = limits_of(top_n, min_relevance, deadline)
        self._source = RankerSource(ranker, options)
        self.text = text
        self.title = title
        self.on_ranking = on_ranking

    def transform(self, inp: DataFrame) -> DataFrame:
        """Return the rows of each query, best first; queries in the order of the input."""
        import pandas as pd

        columns = ["query", self.text, *([] if self.title is None else [self.title])]
        pt.validate.result_frame(inp, extra_columns=columns, context=self)
        groups = [_in_order(rows) for _, rows in inp.groupby("qid", sort=False)]
        ranked: dict[int, DataFrame] = {}
        if groups:
            for done in self._source.get().rank_many(map(self._work, groups), **self._limits):
                ranking = done.result()
                if self.on_ranking is not None:
                    self.on_ranking(ranking)
                ranked[done.place] = _ranked(groups[done.place], ranking)
        if not ranked:
            kept = inp.drop(columns=["score", "rank"], errors="ignore").iloc[:0]
            return kept.assign(score=0.0, rank=0, relevance=math.nan, **{KEY: None})
        return pd.concat([ranked[place] for place in sorted(ranked)], ignore_index=True)

    def close(self) -> None:
        """Close the ranker that was made of options."""
        self._source.close()

    def _work(self, rows: DataFrame) -> tuple[Query, list[Passage]]:
        query = Query(str(rows["query"].iloc[0]), str(rows["qid"].iloc[0]))
        return query, list(self._passages(rows))

    def _passages(self, rows: DataFrame) -> Iterator[Passage]:
        titles = rows[self.title] if self.title else [""] * len(rows)
        scores = rows["score"] if "score" in rows else [None] * len(rows)
        for docno, text, title, score in zip(
            rows["docno"], rows[self.text], titles, scores, strict=True
        ):
            known = None if score is None or math.isnan(score) else float(score)
            yield Passage(str(docno), text, title, known)


def _in_order(rows: DataFrame) -> DataFrame:
    """One query's rows as the first stage ranked them."""
    if "rank" in rows:
        return rows.sort_values("rank", kind="stable")
    if "score" in rows:
        return rows.sort_values("score", ascending=False, kind="stable")
    return rows


def _ranked(rows: DataFrame, ranking: Ranking) -> DataFrame:
    hits = list(ranking)
    scores = [float(line.split(" ")[4]) for line in ranking.to_trec().splitlines()]
    kept = rows.iloc[[hit.index for hit in hits]].drop(columns=["score", "rank"], errors="ignore")
    return kept.assign(
        score=scores,
        rank=range(len(hits)),
        relevance=[math.nan if hit.relevance is None else hit.relevance for hit in hits],
        **{KEY: [explanation(ranking, hit) for hit in hits]},
    )
