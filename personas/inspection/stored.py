"""A ranking as it is stored: the one form that is written, read and checked, version 1.

`Ranking.to_dict` makes it; ``mcranker rank --save``, run folders and reports hold it. Keys that
are not known are no error: a newer ranking may say more. What passes can be shown, summed up and
written again: numbers are finite and not too great for sums and squares, and nothing nests too
deep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import not_
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from personas.ensembles import HIGHEST_SCORE, Rule, find_ensemble
from personas.errors import SchemaError, shown
from personas.plain import plain
from personas.schema import Team
from personas.weak_judges import WeakJudge

ASSESSOR = "(assessor)"
"""The name under which the assessor's own missing scores are listed."""

_FORM = "this is no ranking as Ranking.to_dict() makes it, version 1"
_MOST_PROBLEMS = 5
_LONGEST_VERSION = 40
_LARGEST = 2**63 - 1
_DEEPEST = 20  # lists and mappings in one another in a configuration
_LONGEST_ERROR = 1000
_WITHOUT_TEXTS = {"hits": {"__all__": {"title", "text"}}}

_Score = Annotated[float, Field(ge=-HIGHEST_SCORE, le=HIGHEST_SCORE)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=0, le=_LARGEST)]
_Ranks = Annotated[tuple[int, int], Field(strict=False)]


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class StoredQuery(_Stored):
    """What was asked; the id may be empty."""

    text: str
    id: str


class StoredHit(_Stored):
    """One passage, as `InspectedHit` explains its fields.

    `title` and `text` are None where they are stored elsewhere, as in run folders.
    """

    rank: int = Field(ge=1)
    doc_id: str
    score: _Score | None
    scores: dict[str, _Score | None]
    missing: dict[str, str]
    imputed: dict[str, _Score] = Field({}, exclude_if=not_)
    skipped: tuple[str, ...] = Field((), strict=False)
    at_most: _Score | None = None
    relevance: Annotated[float, Field(ge=0, le=1)] | None = None
    cut: _Count = 0
    criteria: dict[str, dict[str, _Score]]
    confidence: dict[str, _Share] = Field({}, exclude_if=not_)
    probabilities: dict[str, Annotated[tuple[_Share, ...], Field(strict=False)]] = Field(
        {}, exclude_if=not_
    )
    dropped: _Score | None = Field(None, exclude_if=lambda value: value is None)
    ranks: dict[str, Annotated[int, Field(ge=1)]] = Field({}, exclude_if=not_)
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
    """What came of the replies of a ranker that compares, as `mcranker.types.Comparisons` says."""

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
    """What came of the replies about several passages, as `mcranker.types.WindowCounts` says."""

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
    """What a member of a fused ranking said, as `mcranker.types.MemberRanking` explains.

    `ranks` and `scores` are of the passages in first-stage order.
    """

    label: str
    ranker: str
    weight: Annotated[float, Field(ge=0, le=HIGHEST_SCORE)]
    ranks: Annotated[tuple[Annotated[int, Field(ge=1)] | None, ...], Field(strict=False)]
    scores: Annotated[tuple[_Score | None, ...], Field(strict=False)]
    undecided: Annotated[tuple[_Ranks, ...], Field(strict=False)] = Field((), exclude_if=not_)
    missing: _Count = 0
    asked: _Count = 0
    partial: bool = False
    failure: str = ""


class StoredOrder(StoredComparisons):
    """The same of one persona; `left_out` says why its order does not count, and is empty else."""

    left_out: str = ""


_Ranking = TypeVar("_Ranking", bound="StoredRanking")


class StoredHead(_Stored):
    """What a ranking is of; read in passing over a file of many."""

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
    comparisons: StoredComparisons | None = Field(None, exclude_if=not_)
    windows: StoredWindows | None = Field(None, exclude_if=not_)
    members: list[StoredMember] = Field([], exclude_if=not_)
    orders: dict[str, StoredOrder] = Field({}, exclude_if=not_)
    undecided: list[_Ranks] = Field([], exclude_if=not_)
    weak_judge: WeakJudge = Field("", exclude_if=not_)

    @classmethod
    def read(cls, data: object) -> Self:
        stored = super().read(data)
        if stored.absolute is None:
            stored = _with_relevance(stored)
        return _with_imputed(stored)

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """As plain values that JSON can hold; titles and texts of the passages may be left out."""
        return self.model_dump(mode="json", exclude=None if texts else _WITHOUT_TEXTS)

    def with_texts(self, texts: Mapping[str, tuple[str, str]]) -> Self:
        """The ranking with title and text of each passage, by document id.

        Raises:
            KeyError: those of a passage are not there.
        """
        hits = [
            hit.model_copy(update=dict(zip(("title", "text"), texts[hit.doc_id], strict=True)))
            for hit in self.hits
        ]
        return self.model_copy(update={"hits": hits})

    @property
    def ordered_by(self) -> tuple[str, ...]:
        """The personas whose orders of the passages count, in team order."""
        return tuple(name for name, order in self.orders.items() if not order.left_out)

    @property
    def best_first(self) -> list[StoredHit]:
        """The passages by rank."""
        return sorted(self.hits, key=lambda hit: hit.rank)

    @property
    def returned(self) -> list[StoredHit]:
        """The passages that the ranker, ``top_n`` and ``min_relevance`` left, by rank."""
        hits = self.best_first
        dropped = [hit.dropped is not None for hit in hits]
        places = returned([hit.relevance for hit in hits], self.config, dropped)
        return [hits[place] for place in places]

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


def _with_relevance(ranking: _Ranking) -> _Ranking:
    """A ranking of an older version, with the relevance that follows from its judges' scores.

    That version gave a final score, such as 0, to passages that nobody scored; they keep their
    ranks, without it.
    """
    import numpy as np

    rule = Rule.of(ranking.config)
    scores = [None if _is_unscored(hit, rule) else hit.score for hit in ranking.hits]
    judged = bool(ranking.personas and rule.top) and not ranking.members and ranking.ranker != "qg"
    found = np.full(len(scores), np.nan)
    if judged and scores:
        rows = [[hit.scores[name] for name in ranking.personas] for hit in ranking.hits]
        asks = rule.ensemble.asks and not rule.first_stage_weight
        finals = np.array(scores, dtype=np.float64)
        found = rule.relevance(np.array(rows, dtype=np.float64), finals if asks else None)
        found[np.isnan(finals)] = np.nan
    values = [None if each != each else each for each in found.tolist()]
    changed = [
        hit.model_copy(update={"score": score, "relevance": value})
        for hit, score, value in zip(ranking.hits, scores, values, strict=True)
    ]
    return ranking.model_copy(update={"absolute": judged, "hits": changed})


def _is_unscored(hit: StoredHit, rule: Rule) -> bool:
    """Return true for a passage without any score, whatever its final one says."""
    if rule.missing == "constant" or (rule.ensemble.asks and ASSESSOR not in hit.missing):
        return False
    return bool(hit.missing) and all(score is None for score in hit.scores.values())


def _with_imputed(ranking: _Ranking) -> _Ranking:
    """A ranking that was stored before `StoredHit.imputed` was, with what was imputed."""
    if ranking.members or find_ensemble(ranking.config) is None:
        return ranking
    rule, hits = Rule.of(ranking.config), list[StoredHit]()
    for hit in ranking.hits:
        lacks = hit.missing and not hit.imputed and hit.score is not None
        update = {"imputed": imputed(hit.scores, hit.missing, rule)} if lacks else {}
        hits.append(hit.model_copy(update=update) if update else hit)
    return ranking.model_copy(update={"hits": hits})


def imputed(
    scores: Mapping[str, float | None], missing: Mapping[str, str], rule: Rule
) -> dict[str, float]:
    """Persona -> what its missing score counts in the final one of a passage that has one.

    Args:
        scores: of one passage, by persona.
        missing: persona, or `ASSESSOR`, -> why its score is missing.
        rule: of the ranking.
    """
    import numpy as np

    filled = rule.filled(np.array([list(scores.values())], dtype=np.float64))
    if rule.ensemble.asks:
        # The model that combined the scores saw that some are missing.
        if ASSESSOR not in missing:
            return {}
        if rule.missing == "mean_of_team":
            return {ASSESSOR: float(filled.mean())}
        return {ASSESSOR: float(rule.filled(np.array([[np.nan]]))[0, 0])}
    found = zip(scores, filled[0].tolist(), strict=True)
    return {name: score for name, score in found if name in missing}


def returned(
    relevances: Sequence[float | None], config: Mapping[str, Any], dropped: Sequence[bool]
) -> list[int]:
    """Places of the passages that a ranking hands out, in their order.

    Those that the ranker dropped are left out. ``min_relevance`` leaves out what has a lower
    relevance and what was not judged, unless nothing was judged at all; ``top_n`` then leaves the
    first so many.

    Args:
        relevances: of the passages, best first; None for one that was not judged, or not by all.
        config: of the ranking.
        dropped: whether the ranker dropped it, of each of them.
    """
    least, most = config.get("min_relevance"), config.get("top_n")
    places = [place for place, gone in enumerate(dropped) if not gone]
    if isinstance(least, int | float) and any(each is not None for each in relevances):
        known = [(place, relevances[place]) for place in places]
        places = [place for place, each in known if each is not None and each >= least]
    return places[:most] if isinstance(most, int) and most > 0 else places


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
