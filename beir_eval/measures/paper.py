"""The paper's numbers, shown beside one's own and always labelled as the paper's.

"Generating Diverse Criteria On-the-Fly to Improve Pointwise LLM Rankers", arXiv 2404.11960.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any

import orjson

from beir_eval.errors import SuiteError

DATASETS = (
    "trec-covid",
    "touche",
    "news",
    "signal",
    "dbpedia",
    "scifact",
    "robust04",
    "nfcorpus",
)
"""The data sets, in the order of the columns of table 5."""

DEPTH = 100
"""Passages a query that the paper reranks."""

FIRST_STAGE_ROW = "BM25"
"""The first stage's row, in the tables that have it."""

_WORDS, _QUERIES, _SOURCE = "figures_only_in_words", "queries_in_the_authors_loop", "source"


def paper_tables() -> dict[str, tuple[str, ...]]:
    """Table -> its rows, in the paper's order."""
    return {name: tuple(rows) for name, rows in _tables().items()}


def paper_figures() -> tuple[str, ...]:
    """Return the figures that the paper describes in words."""
    return tuple(_numbers()[_WORDS])


def paper_value(table: str, row: str, column: str) -> float | None:
    """nDCG@10, 0 to 1, to four decimals; None where that row or column is not in the table."""
    tables = _tables()
    if table not in tables:
        known = ", ".join(tables)
        raise SuiteError(f"paper_table {table!r}: the paper's tables here are {known}")
    value = tables[table].get(row, {}).get(column)
    # Divided and rounded, so that 67.89 is 0.6789 and not a neighbour of it.
    return None if value is None else round(value / 100, 4)


def paper_words(figure: str) -> str:
    """Return the paper's statement about one of its figures, whose numbers it does not print."""
    words: dict[str, str] = _numbers()[_WORDS]
    if figure not in words:
        known = ", ".join(words)
        raise SuiteError(f"figure {figure!r}: the paper's figures here are {known}")
    return words[figure]


def paper_queries(column: str) -> int | None:
    """Queries of a data set in the authors' experiments; None if it is none of theirs."""
    queries: dict[str, int] = _numbers()[_QUERIES]
    return queries.get(column)


def paper_source() -> str:
    """Return the source of all numbers in a line: measure, first stage, model and settings."""
    return str(_numbers()[_SOURCE])


def _tables() -> dict[str, dict[str, dict[str, float]]]:
    numbers = _numbers()
    return {name: numbers[name] for name in numbers if name.startswith("table_")}


@lru_cache(maxsize=1)
def _numbers() -> dict[str, Any]:
    numbers: dict[str, Any] = orjson.loads(
        (resources.files("beir_eval") / "paper_numbers.json").read_bytes()
    )
    return numbers
