"""Rankings in the form in which they are stored, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, cast

from mcranker.errors import InputError
from mcranker.hit import Hit
from mcranker.types import (
    Comparisons,
    MemberRanking,
    Orders,
    Passage,
    Query,
    ScoreMatrix,
    UsageTable,
    WindowCounts,
)
from personas.errors import SchemaError
from personas.inspection.stored import (
    ASSESSOR,
    StoredCalls,
    StoredHit,
    StoredOrder,
    StoredRanking,
    plain_values,
)

if TYPE_CHECKING:
    from mcranker.llm.chat import Stage, Usage


def fields_of(data: StoredRanking | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the ranking that was stored.

    Raises:
        InputError: it is of another version, or is not a ranking.
    """
    import numpy as np

    try:
        stored = StoredRanking.read(data)
    except SchemaError as error:
        raise InputError(str(error)) from error
    hits = sorted(stored.hits, key=lambda hit: hit.first_stage_rank)
    matrix = ScoreMatrix.empty(len(hits), len(stored.personas))
    for row, hit in enumerate(hits):
        for column, name in enumerate(stored.personas):
            score = hit.scores[name]
            matrix.values[row, column] = math.nan if score is None else score
            if name in hit.missing:
                matrix.reasons[row, column] = hit.missing[name]
            if name in hit.confidence:
                matrix.confidence[row, column] = hit.confidence[name]
            if name in hit.probabilities:
                matrix.probabilities[row, column] = hit.probabilities[name]
            if given := hit.criteria.get(name):
                names = stored.criteria_of(name)
                if set(given) != set(names):
                    raise InputError(
                        f"this is no complete ranking: the hit of rank {hit.rank} has scores "
                        f"of other criteria than {name!r} has"
                    )
                matrix.criteria[row, column] = tuple(given[each] for each in names)
    calls = UsageTable()
    for reused, rows in ((False, stored.usage.by_stage), (True, stored.usage.reused)):
        for each in rows:
            calls.add(*used_by(each), reused=reused)
    return {
        "query": Query(stored.query.text, stored.query.id),
        "passages": tuple(_passage(hit) for hit in hits),
        "order": np.argsort([hit.rank for hit in hits]).astype(np.intp),
        "final": np.array([hit.score for hit in hits], dtype=np.float64),
        "matrix": matrix,
        "personas": tuple(stored.personas),
        "team": stored.team,
        "ranker": stored.ranker,
        "config": stored.config,
        "models": stored.models,
        "prompt_hashes": stored.prompt_hashes,
        "calls": calls,
        "seconds": stored.seconds,
        "assessor_reasons": {
            row: hit.missing[ASSESSOR]
            for row, hit in enumerate(hits)
            if ASSESSOR in hit.missing and ASSESSOR not in stored.personas
        },
        "bounds": {row: hit.at_most for row, hit in enumerate(hits) if hit.at_most is not None},
        "absolute": bool(stored.absolute),
        "relevances": {
            row: hit.relevance for row, hit in enumerate(hits) if hit.relevance is not None
        },
        "partial": stored.partial,
        "failure": stored.failure,
        "cut": {row: hit.cut for row, hit in enumerate(hits) if hit.cut},
        "comparisons": Comparisons(**dict(stored.comparisons)) if stored.comparisons else None,
        "dropped": {row: hit.dropped for row, hit in enumerate(hits) if hit.dropped is not None},
        "windows": WindowCounts(**dict(stored.windows)) if stored.windows else None,
        "members": tuple(MemberRanking(**dict(each)) for each in stored.members),
        "orders": _orders(stored, hits) if stored.orders else None,
        "undecided": tuple(stored.undecided),
        "weak_judge": stored.weak_judge,
    }


def used_by(row: StoredCalls) -> tuple[Stage, str, str, Usage]:
    """Stage, persona, model, and what they took."""
    from mcranker.llm.chat import Usage

    counts = {each.name: getattr(row, each.name) for each in fields(Usage)}
    return cast("Stage", row.stage), row.persona, row.model, Usage(**counts)


def stored_calls(table: UsageTable) -> list[StoredCalls]:
    """A row for each stage, persona and model."""
    from mcranker.llm.prices import cost

    return [
        StoredCalls(
            stage=stage, persona=persona, model=model, **asdict(usage), cost=cost(model, usage)
        )
        for (stage, persona, model), usage in table.items()
    ]


def stored_orders(orders: Orders) -> dict[str, StoredOrder]:
    """What came of each persona's comparisons, by its name; hits have the ranks."""
    return {
        name: StoredOrder(
            **asdict(orders.comparisons[name]), left_out=orders.left_out.get(name, "")
        )
        for name in orders.personas
    }


def _orders(stored: StoredRanking, hits: Sequence[StoredHit]) -> Orders:
    """The orders of a stored ranking; `hits` in first-stage order."""
    import numpy as np

    names = tuple(stored.orders)
    rows = [[hit.ranks.get(name, math.nan) for name in names] for hit in hits]
    return Orders(
        personas=names,
        ranks=np.array(rows, dtype=np.float64).reshape(len(hits), len(names)),
        comparisons={
            name: Comparisons(**each.model_dump(exclude={"left_out"}))
            for name, each in stored.orders.items()
        },
        left_out={name: each.left_out for name, each in stored.orders.items() if each.left_out},
    )


def stored_hit(hit: Hit) -> StoredHit:
    """A hit with its passage."""
    passage = hit.passage
    return StoredHit(
        rank=hit.rank,
        doc_id=hit.doc_id,
        score=hit.score,
        scores=dict(hit.scores),
        missing=dict(hit.missing),
        imputed=dict(hit.imputed),
        skipped=hit.skipped,
        at_most=hit.at_most,
        relevance=hit.relevance,
        cut=hit.cut,
        dropped=hit.dropped,
        criteria={name: dict(each) for name, each in hit.criteria.items()},
        confidence=dict(hit.confidence),
        probabilities=dict(hit.probabilities),
        ranks=dict(hit.ranks),
        first_stage_rank=hit.first_stage_rank,
        first_stage_score=passage.score,
        title=passage.title,
        text=passage.text,
        metadata=plain_values(passage.metadata),
    )


def _passage(hit: StoredHit) -> Passage:
    if hit.title is None or hit.text is None:
        raise InputError(
            f"the passage {hit.doc_id!r} has no text, as run folders keep rankings; add the texts "
            "that the folder 'data' beside it holds"
        )
    return Passage(hit.doc_id, hit.text, hit.title, hit.first_stage_score, hit.metadata)
