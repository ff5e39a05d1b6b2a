"""A ranking as it is stored: the one form that is written, read and checked, version 1.

`Ranking.to_dict` makes it; ``mcranker rank --save``, run folders and reports hold it. Keys that
are not known are no error: a newer ranking may say more. What passes can be shown, summed up and
written again: numbers are finite and not too great for sums and squares, and nothing nests too
deep.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from personas.errors import SchemaError, shown
from personas.ranking.types import (
    ASSESSOR,
    Comparisons,
    Count,
    Number,
    Orders,
    Passage,
    Query,
    Rank,
    Reason,
    ScoreMatrix,
    WindowCounts,
)
from personas.ranking.usage import Calls, Stage, Usage, UsageTable
from personas.ranking.weak_judges import WeakJudge
from personas.sanitize import plain
from personas.schema import Team

if TYPE_CHECKING:
    pass

_FORM = "this is no ranking as Ranking.to_dict() makes it, version 1"
_MOST_PROBLEMS = 5
_LONGEST_NAME = 40
_LARGEST = 2**63 - 1
_DEEPEST = 20  # lists and mappings in one another in a configuration
_LONGEST_ERROR = 1000
_SAME = (
    *("query", "ranker", "team", "config", "models", "prompt_hashes", "seconds", "partial"),
    *("failure", "comparisons", "windows", "weak_judge", "false_quotes"),
)
"""Fields of a record that are stored as they are."""
_OF_HIT = (
    *("rank", "doc_id", "score", "scores", "missing", "relevance", "cut"),
    *("criteria", "first_stage_rank", "first_stage_score"),
)
_IF_KNOWN = ("imputed", "confidence", "ranks", "dropped")
_USAGE = tuple(each.name for each in fields(Usage))

_Share = Annotated[float, Field(ge=0, le=1)]


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class StoredHit(_Stored):
    """One passage, as `Hit` explains its fields."""

    rank: Rank
    doc_id: str
    score: Number | None
    scores: dict[str, Number | None]
    missing: dict[str, str]
    relevance: _Share | None = None
    cut: Count = 0
    criteria: dict[str, dict[str, Number]]
    confidence: dict[str, _Share] = Field(default_factory=dict)
    probabilities: dict[str, Annotated[tuple[_Share, ...], Field(strict=False)]] = Field(
        default_factory=dict
    )
    reasons: dict[str, Reason] = Field(default_factory=dict)
    dropped: Number | None = None
    ranks: dict[str, Rank] = Field(default_factory=dict)
    first_stage_rank: Rank
    first_stage_score: Number | None
    title: str | None = None
    text: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class StoredCalls(_Stored):
    """Calls of one stage by one persona (empty where there is none) to one model."""

    stage: str
    persona: str
    model: str
    calls: Count
    input_tokens: Count
    cached_input_tokens: Count
    output_tokens: Count
    seconds: Number = 0.0
    unreadable: Count = 0
    cost: Number | None


class StoredUsage(StoredCalls):
    """Calls of the ranking: all together and one by one; answers of the ledger apart."""

    stage: str = ""
    persona: str = ""
    model: str = ""
    by_stage: list[StoredCalls]
    reused: list[StoredCalls] = []


@dataclass(frozen=True)
class StoredOrder(Comparisons):
    """Counts of a persona's replies; `left_out` says why its order does not count, if so."""

    left_out: str = ""


class StoredHead(_Stored):
    """The query of a ranking; read in passing over a file of many."""

    version: Literal[1]
    query: Query

    @classmethod
    def read(cls, data: object) -> Self:
        """The ranking in JSON text, or in what `Ranking.to_dict` made; else a `SchemaError`."""
        try:
            if isinstance(data, str | bytes):
                return cls.model_validate_json(data)
            return cls.model_validate(data)
        except ValidationError as error:
            raise SchemaError(explain(error, "a ranking", _FORM)) from error
        except RecursionError as error:
            raise SchemaError(f"{_FORM}; its values nest too deep") from error


class StoredRanking(StoredHead):
    """One ranked query."""

    ranker: str
    team: Team | None
    personas: list[str]
    hits: list[StoredHit]
    config: dict[str, Any]
    models: dict[str, str]
    prompt_hashes: dict[str, str]
    usage: StoredUsage
    seconds: dict[str, Number]
    absolute: bool
    partial: bool = False
    failure: str = ""
    comparisons: Comparisons | None = None
    windows: WindowCounts | None = None
    orders: dict[str, StoredOrder] = {}
    undecided: list[Annotated[tuple[int, int], Field(strict=False)]] = []
    weak_judge: WeakJudge = ""
    false_quotes: Count = 0

    @field_validator("config")
    @classmethod
    def _plain_config(cls, config: dict[str, Any]) -> dict[str, Any]:
        check_plain(config)
        return config

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = set(self.personas)
        if len(names) < len(self.personas):
            raise ValueError("two score columns have the same name")
        places = set(range(1, len(self.hits) + 1))
        for kind in ("rank", "first_stage_rank"):
            if {getattr(hit, kind) for hit in self.hits} != places:
                limits = [name for name in ("top_n", "min_relevance") if self.config.get(name)]
                left_out = f"; {' and '.join(limits)} left out hits: keep all with --save FILE"
                raise ValueError(
                    f"the hits' {kind} must be 1 to {len(self.hits)}, each once"
                    f"{left_out if limits else ''}"
                )
        for hit in self.hits:
            if hit.scores.keys() != names:
                raise ValueError(f"the hit of rank {hit.rank} must have one score a persona")
        ends = [rank for first_and_last in self.undecided for rank in first_and_last]
        if ends != sorted(set(ends)) or not places.issuperset(ends):
            raise ValueError(f"undecided: the ranks must rise, from 1 to {len(self.hits)}")
        by = {name for name, order in self.orders.items() if not order.left_out}
        for hit in self.hits:
            if hit.ranks and hit.ranks.keys() != by:
                raise ValueError(
                    f"the hit of rank {hit.rank} must have one rank a persona, or none"
                )
            if max(hit.ranks.values(), default=0) > len(self.hits):
                raise ValueError(f"the hit of rank {hit.rank} has a rank beyond {len(self.hits)}")
        return self


def read_fields(data: object) -> dict[str, Any]:
    """The fields of the `RankingRecord` that was stored; takes and raises what `read` does."""
    import numpy as np

    form = StoredRanking.read(data)
    hits = sorted(form.hits, key=lambda hit: hit.first_stage_rank)
    matrix = _matrix(form, hits)
    final = np.array([hit.score for hit in hits], dtype=np.float64)

    def of_rows(name: str) -> dict[int, Any]:
        given = ((row, getattr(hit, name)) for row, hit in enumerate(hits))
        return {row: value for row, value in given if value is not None}

    return {
        **{name: getattr(form, name) for name in _SAME},
        "passages": tuple(
            Passage(
                each.doc_id,
                each.text or "",
                each.title or "",
                each.first_stage_score,
                each.metadata,
            )
            for each in hits
        ),
        "order": np.argsort([hit.rank for hit in hits]).astype(np.intp),
        "final": final,
        "matrix": matrix,
        "personas": tuple(form.personas),
        "calls": _usage_table(form.usage),
        "assessor_reasons": {
            row: why
            for row, hit in enumerate(hits)
            if (why := hit.missing.get(ASSESSOR)) is not None and ASSESSOR not in form.personas
        },
        "absolute": form.absolute,
        "relevances": of_rows("relevance"),
        "cut": {row: length for row, length in of_rows("cut").items() if length},
        "dropped": of_rows("dropped"),
        "orders": _orders(form, hits) if form.orders else None,
        "undecided": tuple(form.undecided),
        "reasons": {
            (row, name): why for row, hit in enumerate(hits) for name, why in hit.reasons.items()
        },
        "has_texts": all(hit.text is not None and hit.title is not None for hit in hits),
    }


def _matrix(form: StoredRanking, hits: Sequence[StoredHit]) -> ScoreMatrix:
    import numpy as np

    names = form.personas
    rows = [[hit.scores[name] for name in names] for hit in hits]
    values = np.array(rows, dtype=np.float64).reshape(len(hits), len(names))

    def cells(kind: str) -> dict[tuple[int, int], Any]:
        by_row = ((row, given) for row, hit in enumerate(hits) if (given := getattr(hit, kind)))
        return {
            (row, column): given[name]
            for row, given in by_row
            for column, name in enumerate(names)
            if name in given
        }

    criteria = {}
    given: dict[str, float]
    for (row, column), given in cells("criteria").items():
        listed = criteria_names(form.team, names[column])
        if given and set(given) != set(listed):
            raise SchemaError(
                f"this is no complete ranking: the hit of rank {hits[row].rank} has scores "
                f"of other criteria than {names[column]!r} has"
            )
        if given:
            criteria[row, column] = tuple([given[each] for each in listed])
    return ScoreMatrix(
        values, cells("missing"), criteria, cells("confidence"), cells("probabilities")
    )


def criteria_names(team: Team | None, persona: str) -> tuple[str, ...]:
    """Names of a persona's criteria, in their order; none where it has no rubric."""
    members = team.members if team else ()
    rubric = next((each.rubric for each in members if each.name == persona), None)
    return tuple(each.name for each in rubric.criteria) if rubric else ()


def _usage_table(usage: StoredUsage) -> UsageTable:
    table = UsageTable()
    for reused, rows in ((False, usage.by_stage), (True, usage.reused)):
        for each in rows:
            stage = cast("Stage", each.stage)
            took = Usage(**{name: getattr(each, name) for name in _USAGE})
            table.add(stage, each.persona, each.model, took, reused=reused)
            if not reused:
                table.costs[stage, each.persona, each.model] = each.cost
    return table


def _orders(form: StoredRanking, hits: Sequence[StoredHit]) -> Orders:
    import numpy as np

    names = tuple(form.orders)
    rows = [[hit.ranks.get(name, math.nan) for name in names] for hit in hits]
    return Orders(
        personas=names,
        ranks=np.array(rows, dtype=np.float64).reshape(len(hits), len(names)),
        comparisons={
            name: Comparisons(*(getattr(each, count.name) for count in fields(Comparisons)))
            for name, each in form.orders.items()
        },
        left_out={name: each.left_out for name, each in form.orders.items() if each.left_out},
    )


# Written


def stored(ranking: Any, *, texts: bool) -> dict[str, Any]:
    """The form of a `RankingRecord`, see its `to_dict`."""
    orders = ranking.orders
    form: dict[str, Any] = {
        "version": 1,
        "query": {"text": ranking.query.conversation, "id": ranking.query.id},
        "ranker": ranking.ranker,
        "team": ranking.team.model_dump(mode="json") if ranking.team else None,
        "personas": list(ranking.personas),
        "hits": [stored_hit(hit, texts=texts) for hit in ranking.hits],
        "config": plain_values(ranking.config),
        "models": dict(ranking.models),
        "prompt_hashes": dict(ranking.prompt_hashes),
        "usage": {
            **asdict(ranking.usage),
            "cost": ranking.cost,
            "by_stage": [_calls(row) for row in ranking.rows_of_calls()],
            "reused": [_calls(row) for row in ranking.rows_of_calls(reused=True)],
        },
        "seconds": dict(ranking.seconds),
        "absolute": ranking.absolute,
        "partial": ranking.partial,
        "failure": ranking.failure,
    }
    optional = {
        "comparisons": ranking.comparisons and asdict(ranking.comparisons),
        "windows": ranking.windows and asdict(ranking.windows),
        "orders": orders
        and {
            name: {**asdict(orders.comparisons[name]), "left_out": orders.left_out.get(name, "")}
            for name in orders.personas
        },
        "undecided": [list(each) for each in ranking.undecided],
        "weak_judge": ranking.weak_judge,
        "false_quotes": ranking.false_quotes,
    }
    return {**form, **{name: value for name, value in optional.items() if value}}


def stored_hit(hit: Any, *, texts: bool) -> dict[str, Any]:
    """The form of a `Hit`, see its `to_dict`."""
    form = {name: getattr(hit, name) for name in _OF_HIT}
    form |= {"scores": dict(hit.scores), "missing": dict(hit.missing)}
    form["metadata"] = plain_values(hit.metadata)
    optional = {name: getattr(hit, name) for name in _IF_KNOWN}
    optional["probabilities"] = {name: list(each) for name, each in hit.probabilities.items()}
    optional["reasons"] = {name: asdict(each) for name, each in hit.reasons.items()}
    form |= {name: value for name, value in optional.items() if value not in (None, {})}
    return form | ({"title": hit.title, "text": hit.text} if texts else {})


def _calls(row: Calls) -> dict[str, Any]:
    names = {"stage": row.stage, "persona": row.persona, "model": row.model}
    return {**names, **asdict(row.usage), "cost": row.cost}


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping with text in place of what JSON, or `check_plain`, cannot hold."""
    return {str(name): _plain_value(value, 2) for name, value in values.items()}


def _plain_value(value: object, depth: int) -> Any:
    match value:
        case None | bool() | str():
            return value
        case int() | float() if abs(value) <= _LARGEST:
            return value
        case Mapping() if depth <= _DEEPEST:
            return {str(name): _plain_value(inner, depth + 1) for name, inner in value.items()}
        case list() | tuple() if depth <= _DEEPEST:
            return [_plain_value(inner, depth + 1) for inner in value]
    return shown(value) if isinstance(value, Mapping | list | tuple) else str(value)


def check_plain(values: Mapping[str, Any]) -> None:
    """Raise a `ValueError` for what JSON cannot hold, and what is too great or too deep."""
    for name, value in values.items():
        if _plain_value(value, 2) != value:
            raise ValueError(
                f"{name[:_LONGEST_NAME]}: holds what JSON and sums cannot hold, such as numbers "
                f"beyond {_LARGEST:,}, or lists nested deeper than {_DEEPEST} levels"
            )


def explain(error: ValidationError, what: str, form: str) -> str:
    """Say why stored data are not `what`, which has that `form`, without the values in them."""
    # Values are left out: they may be whole passages.
    details = error.errors(include_url=False, include_input=False, include_context=False)
    first = details[0]
    if first["type"] == "json_invalid":
        return f"not JSON: {first['msg'].removeprefix('Invalid JSON: ')}"
    if first["loc"] == ("version",) and first["type"] == "literal_error":
        found = repr(error.errors(include_url=False)[0]["input"])[:_LONGEST_NAME]
        return (
            f"{what} of version {plain(found)}, and this program reads version 1; use the program "
            "that made it"
        )
    problems = [
        f"{'.'.join(str(part) for part in detail['loc']) or 'the whole'}: {detail['msg']}"
        for detail in details[:_MOST_PROBLEMS]
    ]
    more = f"; and {len(details) - _MOST_PROBLEMS} more" if len(details) > _MOST_PROBLEMS else ""
    return plain(f"{form}; {'; '.join(problems)}{more}", _LONGEST_ERROR)
