"""A passage of a ranking: what it got, and what follows from that."""

# ruff: noqa: SLF001 - what several hits need is worked out once, in private names of the ranking

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, ConfigDict, Field, PlainSerializer, TypeAdapter

from personas.errors import shown
from personas.format import exact
from personas.ranking.types import (
    Count,
    Number,
    Passage,
    Rank,
    Reason,
    Score,
    as_array,
)
from personas.schema import Member

if TYPE_CHECKING:
    from personas.ranking.suspicions import Suspicion

_LARGEST = 2**63 - 1
_DEEPEST = 20  # lists and mappings in one another in a configuration

_NOTHING: Mapping[str, Any] = {}  # of most fields of most hits: one for all takes no memory
_SHARED = AfterValidator(lambda each: each or _NOTHING)
_NO_MORE = dict.fromkeys(("imputed", "reasons"), _NOTHING)
IF_ANY = Field(exclude_if=operator.not_)

HIT_COLUMNS = (
    *("rank", "doc_id", "score", "relevance", "first_stage_rank", "first_stage_score"),
    *("title", "text"),
)
_BEGIN = 60  # characters of a text
_SCORE = "score: "  # before a persona's name, which may be that of another column
_Share = Annotated[float, Field(ge=0, le=1)]


class NotStored(str):
    """The empty text of a passage that was stored without its texts."""

    __slots__ = ()


NOT_STORED = NotStored()


def _nothing() -> Mapping[str, Any]:
    return _NOTHING


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """The adapter that reads and writes values of that type."""
    return TypeAdapter(kind)


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


def check_plain(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping; a `ValueError` if JSON cannot hold it, or it is too great or too deep."""
    for name, value in values.items():
        if _plain_value(value, 2) != value:
            raise ValueError(
                f"{name[:40]}: holds what JSON and sums cannot hold, such as numbers "
                f"beyond {_LARGEST:,}, or lists nested deeper than {_DEEPEST} levels"
            )
    return values


def criteria_names(members: Iterable[Member], persona: str) -> tuple[str, ...]:
    """Names of a persona's criteria, in their order; none where it has no rubric."""
    rubric = next((each.rubric for each in members if each.name == persona), None)
    return tuple(each.name for each in rubric.criteria) if rubric else ()


@dataclass(frozen=True, slots=True)
class OtherPlace:
    """Where another ranker has a passage: rank from 1, and score, None where it gave none."""

    rank: int
    score: float | None


@dataclass(frozen=True, slots=True)
class OtherRanking:
    """The places, by document id, that another ranker gave; `top` is its highest score possible."""

    name: str
    top: float | None
    places: Mapping[str, OtherPlace]

    @classmethod
    def of(cls, name: str, top: float | None, hits: Sequence[Hit]) -> OtherRanking:
        """The places of a ranking's hits."""
        return cls(name, top, {hit.doc_id: OtherPlace(hit.rank, hit.score) for hit in hits})


class _OfRanking(Mapping[str, Any]):
    __slots__ = ("ranking",)
    ranking: Any  # the `RankingRecord`; were it a field of the hit, `asdict` would have no end


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Hit(_OfRanking):
    """One passage of a ranking. Two are equal if what is stored of them is.

    A mapping too: column -> value of its row in a table, `HIT_COLUMNS` and ``score: NAME`` of each
    persona, so that ``pandas.DataFrame(ranking)`` has a row a hit.

    Attributes:
        rank: from 1, best first.
        score: the final score; None for a passage that no judge scored.
        scores: persona -> score, 0 to k, None where there is none.
        missing: persona, or `ASSESSOR`, -> why its score is missing.
        relevance: the mean judge's score, or the assessor's, by k: 0 to 1, with what is imputed.
            Other passages do not change it. None without a score, and unless `ranking.absolute`.
        cut: characters at the end of the passage that models did not see.
        criteria: persona -> criterion -> score, where criteria were scored one by one.
        first_stage_rank: rank in the order in which the passages were given, from 1.
        first_stage_score: None if not known.
        metadata: of the passage, which models do not see.
        imputed: persona -> what is taken for its missing score in `score`; empty without one.
        confidence: persona -> how sure the model said it was, 0 to 1, where it said so.
        dropped: the relevance, 0 to 10, for which REBEL dropped the passage; None for others.
        probabilities: persona -> probability of each level, from 0 to k at equal distances.
        reasons: persona, or the ranker where none judged, -> why it scored the passage so.
        title: of the passage, or empty.
        text: its body.
        ranking: of which it is a part.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict()

    rank: Rank
    doc_id: str
    score: Number | None
    scores: Mapping[str, Number | None]
    missing: Annotated[Mapping[str, str], _SHARED]
    relevance: _Share | None = None
    cut: Count = 0
    criteria: Annotated[Mapping[str, Mapping[str, Number]], _SHARED]
    first_stage_rank: Rank
    first_stage_score: Number | None
    metadata: Annotated[Mapping[str, Any], _SHARED, PlainSerializer(plain_values)] = field(
        default_factory=_nothing
    )
    imputed: Annotated[Mapping[str, Number], IF_ANY] = field(default_factory=_nothing)
    confidence: Annotated[Mapping[str, _Share], IF_ANY] = field(default_factory=_nothing)
    dropped: Annotated[Number | None, Field(exclude_if=lambda each: each is None)] = None
    probabilities: Annotated[Mapping[str, tuple[_Share, ...]], IF_ANY] = field(
        default_factory=_nothing
    )
    reasons: Annotated[Mapping[str, Reason], IF_ANY] = field(default_factory=_nothing)
    title: str = NOT_STORED
    text: str = NOT_STORED

    @classmethod
    def of(
        cls,
        passage: Passage,
        index: int,
        given: Mapping[str, Score | None] | None = None,
        members: Sequence[Member] = (),
        **known: Any,
    ) -> Hit:
        """The hit of a passage in its first-stage place, by what each persona gave it."""
        given = given or {}
        judged = [(name, score) for name, score in given.items() if score is not None]
        missing = {name: score.reason for name, score in judged if score.value is None}
        missing |= known.pop("missing", {})
        criteria = {
            name: dict(zip(criteria_names(members, name), score.criteria, strict=True))
            for name, score in judged
            if score.criteria
        }
        sure = {name: each.confidence for name, each in judged if each.confidence is not None}
        levels = {name: score.probabilities for name, score in judged if score.probabilities}
        return cls(
            first_stage_rank=index + 1,
            doc_id=passage.id,
            title=passage.title,
            text=passage.text,
            first_stage_score=passage.score,
            metadata=passage.metadata,
            scores={name: score.value if score else None for name, score in given.items()},
            missing=missing or _NOTHING,
            criteria=criteria or _NOTHING,
            confidence=sure or _NOTHING,
            probabilities=levels or _NOTHING,
            **{"rank": index + 1, "score": None, **_NO_MORE, **known},
        )

    def copied(self) -> Hit:
        """An equal hit, which is of no ranking yet."""
        copy = object.__new__(Hit)
        for name in _KEPT:
            object.__setattr__(copy, name, getattr(self, name))
        return copy

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*_KEPT, "ranking")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash((self.doc_id, self.rank))

    def __repr__(self) -> str:
        known = "score" if self.relevance is None else "relevance"
        found = f"{known} {getattr(self, known):.3g}, " if self.judged else ""
        text = self.text or self.title
        begin = f"{text[:_BEGIN]}…" if len(text) > _BEGIN else text
        return f"<Hit {self.rank}: {shown(self.doc_id)}, {found}{begin!r}>"

    def __getitem__(self, column: str) -> Any:
        if column in HIT_COLUMNS:
            return getattr(self, column)
        return {f"{_SCORE}{name}": score for name, score in self.scores.items()}[column]

    def __iter__(self) -> Iterator[str]:
        yield from HIT_COLUMNS
        yield from [f"{_SCORE}{name}" for name in self.scores]

    def __len__(self) -> int:
        return len(HIT_COLUMNS) + len(self.scores)

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Return its stored fields as plain values; title and text only with `texts`."""
        form: dict[str, Any] = adapter(Hit).dump_python(
            self, mode="json", exclude=None if texts else {"title", "text"}
        )
        return form

    # The passage

    @property
    def passage(self) -> Passage:
        """Title, text, the first stage's score and what else came with it."""
        return Passage(self.doc_id, self.text, self.title, self.first_stage_score, self.metadata)

    @property
    def index(self) -> int:
        """Place of the passage in the docs that were given, from 0."""
        return self.first_stage_rank - 1

    @property
    def moved(self) -> int:
        """Ranks that the passage rose (positive) or fell (negative)."""
        return self.first_stage_rank - self.rank

    @property
    def grade(self) -> int | None:
        """The judgement, above 0 for relevant; None where none is known."""
        return (self.ranking.grades or {}).get(self.doc_id)

    @property
    def other(self) -> OtherPlace | None:
        """Where the ranker that this one is compared with has it; None if nowhere."""
        return self.ranking.other.places.get(self.doc_id) if self.ranking.other else None

    @property
    def suspicions(self) -> tuple[Suspicion, ...]:
        """Signs that the passage was written to be ranked high."""
        found: tuple[Suspicion, ...] = self.ranking._suspicions_of(self.title, self.text)
        return found

    # What it got

    @property
    def judged(self) -> bool:
        """True if the passage has a final score."""
        return self.score is not None

    @property
    def why_left_out(self) -> str:
        """Reason why the ranking does not return the passage; empty if it does."""
        ranking, config = self.ranking, self.ranking.config
        if self.dropped is not None:
            least = config.get("min_relevance_score")
            return f"relevance {self.dropped:g} of 10 is below min_relevance_score={least}"
        if self.rank - 1 in ranking._returned:
            return ""
        least, relevance = config.get("min_relevance"), self.relevance
        if least is not None and ranking._has_relevance and relevance is None:
            return f"it has no score, and min_relevance={least:g} asks for one"
        if least is not None and relevance is not None and relevance < least:
            return f"relevance {exact(relevance)} is below min_relevance={least:g}"
        return f"it is beyond the first {config.get('top_n')} (top_n)"

    # What follows from that

    @property
    def known_scores(self) -> tuple[float, ...]:
        """The personas' scores that are there."""
        return tuple([score for score in self.scores.values() if score is not None])

    @property
    def score_range(self) -> float | None:
        """Highest less lowest of the personas' scores; None for fewer than two."""
        known = self.known_scores
        return max(known) - min(known) if len(known) > 1 else None

    @property
    def disagreement(self) -> float | None:
        """Population standard deviation of the scores; None for fewer than two."""
        known = self.known_scores
        if len(known) < 2:
            return None
        mean = math.fsum(known) / len(known)
        return math.sqrt(math.fsum([(each - mean) ** 2 for each in known]) / len(known))

    @property
    def rank_of_all(self) -> int | None:
        """Rank by the arithmetic of `rank_without` with all personas; None without a score."""
        rank: int | None = self.ranking._leave_one_out.get(self.rank, (None, {}))[0]
        return rank

    @property
    def rank_without(self) -> Mapping[str, int]:
        """Persona -> rank without that persona; empty without a score, or another persona."""
        ranks: Mapping[str, int] = self.ranking._leave_one_out.get(self.rank, (None, {}))[1]
        return ranks

    @property
    def effects(self) -> Mapping[str, int]:
        """Persona -> by how many ranks it raised (positive) or sank (negative) the passage."""
        of_all = self.rank_of_all or 0
        return {name: rank - of_all for name, rank in self.rank_without.items()}

    @property
    def raised_most_by(self) -> tuple[str, ...]:
        """The personas that raised the passage most, by scores they gave; equals together."""
        return self._with_effect(max)

    @property
    def sunk_most_by(self) -> tuple[str, ...]:
        """The personas that sank the passage most, by scores they gave; equals together."""
        return self._with_effect(min)

    def _with_effect(self, extreme: Callable[[Iterable[int]], int]) -> tuple[str, ...]:
        # What is imputed for a missing score has an effect too, but that is not the persona's.
        effects = {
            name: ranks for name, ranks in self.effects.items() if self.scores[name] is not None
        }
        most = extreme([0, *effects.values()])
        return tuple([name for name, ranks in effects.items() if ranks == most]) if most else ()

    @property
    def shares(self) -> tuple[float, float] | None:
        """The personas' score and the first stage's, each from 0 to 1 over the passages.

        None where the final score is not made of both.
        """
        shares: tuple[float, float] | None = self.ranking._shares.get(self.rank)
        return shares

    @property
    def formula(self) -> str:
        """Formula of the final score by `shares`, or by weights; empty if it has none."""
        rule = self.ranking.rule
        if self.score is None or (self.shares is None and not rule.weights):
            return ""
        if self.shares is None:
            filled = rule.filled(as_array([list(self.scores.values())]))[0]
            pairs = zip(rule.weights, filled.tolist(), strict=True)
            terms = " + ".join(f"{weight:.3g} × {exact(each)}" for weight, each in pairs)  # noqa: RUF001
            return f"{terms} = {exact(self.score)}"
        weight, (own, first) = rule.first_stage_weight, self.shares
        return f"{1 - weight:.2f} × {own:.2f} + {weight:.2f} × {first:.2f} = {self.score:.3f}"  # noqa: RUF001


_KEPT = tuple(each.name for each in fields(Hit))
