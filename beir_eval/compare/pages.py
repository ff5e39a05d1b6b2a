"""Two runs as a page: the queries that changed most, each with its ranks before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beir_eval.compare.text import notes, run_lines, verdict
from beir_eval.errors import RunFolderError
from personas.ranking.comparison import RankingComparison, compare_rankings
from personas.report.compare.page import ComparedRuns, QueryRow

if TYPE_CHECKING:
    from beir_eval.compare.model import RunComparison
    from beir_eval.compare.sources import Pair


def compared_runs(
    pair: Pair, found: RunComparison, *, query: str | None = None
) -> tuple[list[RankingComparison], ComparedRuns]:
    """The queries that changed most, to be explained, and what stands above them.

    A run that holds an order and no scores, such as a TREC file, is compared by its ranks.

    Args:
        pair: the runs.
        found: what `beir_eval.compare.pair.compare_pair` made of them.
        query: id of the one query to explain instead.

    Raises:
        RunFolderError: `query` is not in both runs.
        RunError: a file of a run cannot be read.
    """
    changed = sorted((*found.losses, *found.gains), key=lambda each: -abs(each.difference))
    ids = [each.query_id for each in changed] if query is None else [query]
    if query is not None and query not in pair.common:
        raise RunFolderError(
            f"no query {query[:80]!r} is in both runs with the same judgements; "
            f"the first is {pair.common[0]!r}"
        )
    stored = [run.rankings(ids) for run in (pair.a, pair.b)]
    wanted = {hit.doc_id for side in stored for each in side.values() for hit in each.hits}
    texts = {**dict.fromkeys(wanted, ("", "")), **pair.texts(wanted)}
    comparisons = [
        compare_rankings(
            stored[0][each].with_texts(texts),
            stored[1][each].with_texts(texts),
            grades=pair.basis.qrels.get(each, {}),
        )
        for each in ids
        if each in stored[0] and each in stored[1]
    ]
    warned = [
        f"{letter}: {warning}."
        for letter, side in (("A", found.a), ("B", found.b))
        for warning in side.warnings
    ]
    values = {each.query_id: (each.a.value, each.b.value) for each in changed}
    return comparisons, ComparedRuns(
        title=f"{found.dataset}: {found.a.label} and {found.b.label}",
        facts=[
            (f"{run.letter}, {when}: {run.label}", f"{found.measure} {run.mean}")
            for run, when in zip(run_lines(found), ("before", "after"), strict=True)
        ],
        notes=warned,
        verdict=[verdict(found), *(line for line in notes(found) if line not in warned)],
        measure=found.measure,
        rows=[_row(each, values[each.after.query.id]) for each in comparisons]
        if query is None
        else (),
    )


def _row(each: RankingComparison, values: tuple[float, float]) -> QueryRow:
    return QueryRow(
        query_id=each.after.query.id,
        text=each.after.query.text,
        moved=len(each.movers),
        passages=len(each.passages),
        shared=each.shared_top(),
        before=values[0],
        after=values[1],
    )
