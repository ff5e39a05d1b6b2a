"""A ranking as it is stored: the one form that is written, read and checked, version 1.

`Ranking.to_dict` makes it; ``mcranker rank --save``, run folders and reports hold it. Keys that
are not known are no error: a newer ranking may say more. What passes can be shown, summed up and
written again: numbers are finite and not too great for sums and squares, and nothing nests too
deep.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from personas.ensembles import HIGHEST_SCORE, Rule
from personas.errors import SchemaError, shown
from personas.plain import plain
from personas.ranking.types import (
    ASSESSOR,
    Comparisons,
    MemberRanking,
    Orders,
    Passage,
    Query,
    Reason,
    ScoreMatrix,
    WindowCounts,
)
from personas.ranking.usage import Calls, Stage, Usage, UsageTable
from personas.schema import Team
from personas.weak_judges import WeakJudge

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FORM = "this is no ranking as Ranking.to_dict() makes it, version 1"
_MOST_PROBLEMS = 5
_LONGEST_VERSION = 40
_LARGEST = 2**63 - 1
_DEEPEST = 20  # lists and mappings in one another in a configuration
_LONGEST_ERROR = 1000
_USAGE = tuple(each.name for each in fields(Usage))

_Score = Annotated[float, Field(ge=-HIGHEST_SCORE, le=HIGHEST_SCORE)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=0, le=_LARGEST)]
_Ranks = Annotated[tuple[int, int], Field(strict=False)]


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class StoredQuery(_Stored):
    """The query; the id may be empty."""

    text: str
    id: str


class StoredReason(_Stored):
    """See `personas.ranking.types.Reason`."""

    text: str
    quote: str = ""
    kind: Literal["said", "words"] = "said"


class StoredHit(_Stored):
    """One passage, as `Hit` explains its fields.

    `title` and `text` are None where they are stored elsewhere, as in run folders.
    """

    rank: int = Field(ge=1)
    doc_id: str
    score: _Score | None
    scores: dict[str, _Score | None]
    missing: dict[str, str]
    skipped: tuple[str, ...] = Field((), strict=False)
    at_most: _Score | None = None
    relevance: Annotated[float, Field(ge=0, le=1)] | None = None
    cut: _Count = 0
    criteria: dict[str, dict[str, _Score]]
    confidence: dict[str, _Share] = {}
    probabilities: dict[str, Annotated[tuple[_Share, ...], Field(strict=False)]] = {}
    reasons: dict[str, StoredReason] = {}
    dropped: _Score | None = None
    ranks: dict[str, Annotated[int, Field(ge=1)]] = {}
    first_stage_rank: int = Field(ge=1)
    first_stage_score: _Score | None
    title: str | None = None
    text: str | None = None
    metadata: dict[str, Any] = {}


class _Counts(_Stored):
    calls: _Count
    input_tokens: _Count
    cached_input_tokens: _Count
    output_tokens: _Count
    seconds: _Score = 0.0
    unreadable: _Count = 0
    cost: _Score | None


class _Caller(_Stored):
    stage: str
    persona: str
    model: str


class StoredCalls(_Counts, _Caller):
    """Calls of one stage by one persona (empty where there is none) to one model.

    `seconds` are those of all answers added up, `cost` is in US dollars and None where no price is
    known.
    """


class StoredUsage(_Counts):
    """Calls of the ranking: all together and one by one; answers of the ledger apart."""

    by_stage: list[StoredCalls]
    reused: list[StoredCalls] = []


class StoredComparisons(_Stored):
    """See `personas.ranking.types.Comparisons`."""

    asked: _Count
    odd: _Count = 0
    missing: _Count = 0
    repeated: _Count = 0
    unknown: _Count = 0
    as_shown: _Count = 0
    tied: _Count = 0
    inconsistent: _Count = 0
    failed: _Count = 0
    reason: str = ""


class StoredWindows(_Stored):
    """See `personas.ranking.types.WindowCounts`."""

    asked: _Count
    odd: _Count = 0
    missing: _Count = 0
    repeated: _Count = 0
    unknown: _Count = 0
    unreadable: _Count = 0
    failed: _Count = 0
    sums: _Count = 0
    differing: _Count = 0


class StoredMember(_Stored):
    """Result of a member of a fused ranking, as `personas.ranking.types.MemberRanking` explains.

    `ranks` and `scores` are of the passages in first-stage order.
    """

    label: str
    ranker: str
    weight: Annotated[float, Field(ge=0, le=HIGHEST_SCORE)]
    ranks: Annotated[tuple[Annotated[int, Field(ge=1)] | None, ...], Field(strict=False)]
    scores: Annotated[tuple[_Score | None, ...], Field(strict=False)]
    undecided: Annotated[tuple[_Ranks, ...], Field(strict=False)] = ()
    missing: _Count = 0
    asked: _Count = 0
    partial: bool = False
    failure: str = ""


class StoredOrder(StoredComparisons):
    """The same of one persona; `left_out` says why its order does not count, and is empty else."""

    left_out: str = ""


class StoredHead(_Stored):
    """The query of a ranking; read in passing over a file of many."""

    version: Literal[1]
    query: StoredQuery

    @classmethod
    def read(cls, data: object) -> Self:
        """The ranking in JSON text, or in what `Ranking.to_dict` made.

        Raises:
            SchemaError: it is something else, is not complete, or contradicts itself.
        """
        try:
            if isinstance(data, str | bytes):
                return cls.model_validate_json(data)
            return cls.model_validate(data)
        except ValidationError as error:
            raise SchemaError(plain(_explain(error), _LONGEST_ERROR)) from error
        except RecursionError as error:
            raise SchemaError(f"{_FORM}; its values nest too deep") from error


class StoredRanking(StoredHead):
    """One ranked query.

    `absolute` is None only while a ranking is read whose relevance depended on its passages.
    """

    ranker: str
    team: Team | None
    personas: list[str]
    hits: list[StoredHit]
    config: dict[str, Any]
    models: dict[str, str]
    prompt_hashes: dict[str, str]
    usage: StoredUsage
    seconds: dict[str, _Score]
    absolute: bool | None = None
    partial: bool = False
    failure: str = ""
    comparisons: StoredComparisons | None = None
    windows: StoredWindows | None = None
    members: list[StoredMember] = []
    orders: dict[str, StoredOrder] = {}
    undecided: list[_Ranks] = []
    weak_judge: WeakJudge = ""
    false_quotes: _Count = 0

    @property
    def ordered_by(self) -> tuple[str, ...]:
        """The personas whose orders of the passages count, in team order."""
        return tuple(name for name, order in self.orders.items() if not order.left_out)

    def criteria_of(self, persona: str) -> tuple[str, ...]:
        """Names of a persona's criteria, in their order; none where it has no rubric."""
        members = self.team.members if self.team else ()
        rubric = next((each.rubric for each in members if each.name == persona), None)
        return tuple(each.name for each in rubric.criteria) if rubric else ()

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
            if any(hit.scores.get(name, 0) is not None for name in hit.skipped):
                raise ValueError(f"the hit of rank {hit.rank} has a score that was not asked for")
        if self.members and [each.label for each in self.members] != self.personas:
            raise ValueError("the score columns of a fused ranking are its members")
        for each in self.members:
            if not len(each.ranks) == len(each.scores) == len(self.hits):
                raise ValueError(f"the member {each.label!r} must have one rank and score a hit")
        ends = [rank for first_and_last in self.undecided for rank in first_and_last]
        if ends != sorted(set(ends)) or not places.issuperset(ends):
            raise ValueError(f"undecided: the ranks must rise, from 1 to {len(self.hits)}")
        by = set(self.ordered_by)
        for hit in self.hits:
            if hit.ranks and hit.ranks.keys() != by:
                raise ValueError(
                    f"the hit of rank {hit.rank} must have one rank a persona, or none"
                )
            if max(hit.ranks.values(), default=0) > len(self.hits):
                raise ValueError(f"the hit of rank {hit.rank} has a rank beyond {len(self.hits)}")
        return self


def read_fields(data: object) -> dict[str, Any]:
    """The fields of the `RankingRecord` that was stored.

    Args:
        data: what its `to_dict` made, or the JSON text of that.

    Raises:
        SchemaError: it is something else, is not complete, or contradicts itself.
    """
    import numpy as np

    form = StoredRanking.read(data)
    hits = sorted(form.hits, key=lambda hit: hit.first_stage_rank)
    matrix = _matrix(form, hits)
    final = np.array([hit.score for hit in hits], dtype=np.float64)
    relevances = {row: hit.relevance for row, hit in enumerate(hits) if hit.relevance is not None}
    if form.absolute is None:
        final[[_is_unscored(hit, Rule.of(form.config)) for hit in hits]] = np.nan
        absolute, relevances = _relevance_of_scores(form, matrix.values, final)
    else:
        absolute = form.absolute
    return {
        "query": Query(form.query.text, form.query.id),
        "passages": tuple([_passage(hit) for hit in hits]),
        "order": np.argsort([hit.rank for hit in hits]).astype(np.intp),
        "final": final,
        "matrix": matrix,
        "personas": tuple(form.personas),
        "team": form.team,
        "ranker": form.ranker,
        "config": form.config,
        "models": form.models,
        "prompt_hashes": form.prompt_hashes,
        "calls": _usage_table(form.usage),
        "seconds": form.seconds,
        "assessor_reasons": {
            row: hit.missing[ASSESSOR]
            for row, hit in enumerate(hits)
            if ASSESSOR in hit.missing and ASSESSOR not in form.personas
        },
        "bounds": {row: hit.at_most for row, hit in enumerate(hits) if hit.at_most is not None},
        "absolute": absolute,
        "relevances": relevances,
        "partial": form.partial,
        "failure": form.failure,
        "cut": {row: hit.cut for row, hit in enumerate(hits) if hit.cut},
        "comparisons": Comparisons(**dict(form.comparisons)) if form.comparisons else None,
        "dropped": {row: hit.dropped for row, hit in enumerate(hits) if hit.dropped is not None},
        "windows": WindowCounts(**dict(form.windows)) if form.windows else None,
        "members": tuple([MemberRanking(**dict(each)) for each in form.members]),
        "orders": _orders(form, hits) if form.orders else None,
        "undecided": tuple(form.undecided),
        "weak_judge": form.weak_judge,
        "reasons": {
            (row, name): Reason(**dict(reason))
            for row, hit in enumerate(hits)
            for name, reason in hit.reasons.items()
        },
        "false_quotes": form.false_quotes,
        "has_texts": all(hit.text is not None and hit.title is not None for hit in hits),
    }


def _passage(hit: StoredHit) -> Passage:
    title, text = hit.title or "", hit.text or ""
    return Passage(hit.doc_id, text, title, hit.first_stage_score, hit.metadata)


def _matrix(form: StoredRanking, hits: Sequence[StoredHit]) -> ScoreMatrix:
    import numpy as np

    names = form.personas
    rows = [[hit.scores[name] for name in names] for hit in hits]
    values = np.array(rows, dtype=np.float64).reshape(len(hits), len(names))
    matrix = ScoreMatrix(values)
    for row, hit in enumerate(hits):
        if not (hit.missing or hit.criteria or hit.confidence or hit.probabilities):
            continue
        for column, name in enumerate(names):
            place = row, column
            if name in hit.missing:
                matrix.reasons[place] = hit.missing[name]
            if name in hit.confidence:
                matrix.confidence[place] = hit.confidence[name]
            if name in hit.probabilities:
                matrix.probabilities[place] = hit.probabilities[name]
            if given := hit.criteria.get(name):
                listed = form.criteria_of(name)
                if set(given) != set(listed):
                    raise SchemaError(
                        f"this is no complete ranking: the hit of rank {hit.rank} has scores "
                        f"of other criteria than {name!r} has"
                    )
                matrix.criteria[place] = tuple([given[each] for each in listed])
    return matrix


def _is_unscored(hit: StoredHit, rule: Rule) -> bool:
    """True if a passage of an older version, which gave it a final score, has none."""
    if rule.missing == "constant" or (rule.ensemble.asks and ASSESSOR not in hit.missing):
        return False
    return bool(hit.missing) and all(score is None for score in hit.scores.values())


def _relevance_of_scores(
    form: StoredRanking, values: NDArray[np.float64], final: NDArray[np.float64]
) -> tuple[bool, dict[int, float]]:
    """The relevance of a ranking that was saved when it was scaled over the query's passages."""
    import numpy as np

    rule = Rule.of(form.config)
    if not (form.personas and rule.top) or form.members or form.ranker == "qg":
        return False, {}
    asks = rule.ensemble.asks and not rule.first_stage_weight
    found = rule.relevance(values, final if asks else None)
    known = np.flatnonzero(~np.isnan(final) & ~np.isnan(found)).tolist()
    return True, {row: float(found[row]) for row in known}


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
            name: Comparisons(**each.model_dump(exclude={"left_out"}))
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
        "query": {"text": ranking.query.text, "id": ranking.query.id},
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
        "members": [_listed(asdict(each)) for each in ranking.members],
        "orders": {
            name: {**asdict(orders.comparisons[name]), "left_out": orders.left_out.get(name, "")}
            for name in (orders.personas if orders else ())
        }
        if orders
        else {},
        "undecided": [list(each) for each in ranking.undecided],
        "weak_judge": ranking.weak_judge,
        "false_quotes": ranking.false_quotes,
    }
    return {**form, **{name: value for name, value in optional.items() if value}}


def stored_hit(hit: Any, *, texts: bool) -> dict[str, Any]:
    """The form of a `Hit`, see its `to_dict`."""
    form: dict[str, Any] = {
        "rank": hit.rank,
        "doc_id": hit.doc_id,
        "score": hit.score,
        "scores": dict(hit.scores),
        "missing": dict(hit.missing),
        "skipped": list(hit.skipped),
        "at_most": hit.at_most,
        "relevance": hit.relevance,
        "cut": hit.cut,
        "criteria": hit.criteria,
        "first_stage_rank": hit.first_stage_rank,
        "first_stage_score": hit.first_stage_score,
        "metadata": plain_values(hit.metadata),
    }
    optional = {
        "imputed": hit.imputed,
        "confidence": hit.confidence,
        "probabilities": {name: list(each) for name, each in hit.probabilities.items()},
        "ranks": hit.ranks,
        "reasons": {name: asdict(each) for name, each in hit.reasons.items()},
    }
    form |= {name: dict(value) for name, value in optional.items() if value}
    if hit.dropped is not None:
        form["dropped"] = hit.dropped
    if texts:
        form |= {"title": hit.title, "text": hit.text}
    return form


def _calls(row: Calls) -> dict[str, Any]:
    names = {"stage": row.stage, "persona": row.persona, "model": row.model}
    return {**names, **asdict(row.usage), "cost": row.cost}


def _listed(member: dict[str, Any]) -> dict[str, Any]:
    found = {**member, "ranks": list(member["ranks"]), "scores": list(member["scores"])}
    undecided = [list(each) for each in found.pop("undecided")]
    return {**found, "undecided": undecided} if undecided else found


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


def check_plain(value: object, depth: int = 0) -> None:
    """Refuse values that JSON cannot hold, or that are too great to be shown or reckoned with.

    Raises:
        ValueError: there is one in `value`, or lists and mappings nest too deep.
    """
    if depth > _DEEPEST:
        raise ValueError(f"it nests deeper than {_DEEPEST} levels")
    match value:
        case None | bool() | str():
            return
        case int() | float() if abs(value) <= _LARGEST:
            return
        case dict():
            for name, inner in value.items():
                check_plain(name if isinstance(name, str) else object(), depth)
                check_plain(inner, depth + 1)
        case list() | tuple():
            for inner in value:
                check_plain(inner, depth + 1)
        case _:
            raise ValueError(f"it holds a {type(value).__name__} that JSON and sums cannot hold")


def _explain(error: ValidationError) -> str:
    # Values are left out: they may be whole passages.
    details = error.errors(include_url=False, include_input=False, include_context=False)
    first = details[0]
    if first["type"] == "json_invalid":
        return f"not JSON: {first['msg'].removeprefix('Invalid JSON: ')}"
    if first["loc"] == ("version",) and first["type"] == "literal_error":
        found = repr(error.errors(include_url=False)[0]["input"])[:_LONGEST_VERSION]
        return (
            f"a ranking of version {found}, and this program reads version 1; use the program "
            "that made it"
        )
    problems = [
        f"{'.'.join(str(part) for part in detail['loc']) or 'the whole'}: {detail['msg']}"
        for detail in details[:_MOST_PROBLEMS]
    ]
    more = f"; and {len(details) - _MOST_PROBLEMS} more" if len(details) > _MOST_PROBLEMS else ""
    return f"{_FORM}; {'; '.join(problems)}{more}"
