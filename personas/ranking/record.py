"""A ranking is the list of its hits, and what follows from it is worked out without a call.

What is stored is what is shown: `RankingRecord.to_dict` writes the fields of both classes, version
1, and `from_dict` checks and reads them. Keys that are not known are no error: a newer ranking may
say more. What passes can be shown, summed up and written again: numbers are finite and not too
great for sums and squares, and nothing nests too deep.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, overload

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    ValidationError,
    model_validator,
)

from personas.ensembles import (
    Ensemble,
    Rule,
    descending,
    distinct,
    find_ensemble,
    highest_score,
    unit_range,
)
from personas.errors import SchemaError, explain, shown
from personas.ranking.hit import (
    IF_ANY,
    Hit,
    NotStored,
    OtherPlace,
    OtherRanking,
    adapter,
    check_plain,
    criteria_names,
    plain_values,
)
from personas.ranking.types import (
    ASSESSOR,
    Comparisons,
    Count,
    MissingScore,
    Number,
    Passage,
    Query,
    Reason,
    WeakJudge,
    WindowCounts,
    as_array,
    judge_note,
)
from personas.ranking.usage import Calls, Usage, UsageTable
from personas.schema import Member, Team

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from personas.ranking.agreement import TeamAgreement
    from personas.ranking.suspicions import Suspicion

__all__ = ["OtherPlace", "OtherRanking", "RankingRecord", "read_query"]

_FORM = "this is no ranking as Ranking.to_dict() makes it, version 1"
_DEFAULT_TOP = 10.0
_CLOSE = 0.75  # how alike ids must be to be suggested, 0 to 1
_LONGEST_ID = 200  # characters of an id that is looked for


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RankingRecord(Sequence[Hit]):
    """Passages in their new order, best first, with everything that led to it.

    A sequence of those hits that are returned; `hits` has all of them, and ``ranking["ID"]`` is the
    one with that id.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict()

    version: Literal[1] = 1
    query: Annotated[
        Query, PlainSerializer(lambda query: {"text": query.conversation, "id": query.id})
    ]
    ranker: str
    team: Team | None
    personas: tuple[str, ...]
    hits: tuple[Hit, ...]
    config: Annotated[Mapping[str, Any], AfterValidator(check_plain), PlainSerializer(plain_values)]
    models: Mapping[str, str]
    prompt_hashes: Mapping[str, str]
    calls: Annotated[UsageTable, Field(alias="usage"), PlainSerializer(lambda _: None)]
    seconds: Mapping[str, Number]
    absolute: StrictBool
    partial: StrictBool = False
    failure: str = ""
    comparisons: Annotated[Comparisons | None, IF_ANY] = None
    windows: Annotated[WindowCounts | None, IF_ANY] = None
    undecided: Annotated[tuple[tuple[int, int], ...], IF_ANY] = ()
    weak_judge: Annotated[WeakJudge, IF_ANY] = ""
    false_quotes: Annotated[Count, IF_ANY] = 0
    grades: Annotated[Mapping[str, int] | None, Field(exclude=True)] = None
    other: Annotated[OtherRanking | None, Field(exclude=True)] = None

    def __post_init__(self) -> None:
        hits = sorted(self.hits, key=attrgetter("rank"))
        if hits and hasattr(hits[0], "ranking"):  # they are of another ranking
            hits = [hit.copied() for hit in hits]
        object.__setattr__(self, "hits", tuple(hits))
        for hit in hits:
            object.__setattr__(hit, "ranking", self)
            if hit.missing or hit.imputed:
                object.__setattr__(hit, "imputed", self._imputed(hit))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names, hits = set(self.personas), self.hits
        if len(names) < len(self.personas):
            raise ValueError("two score columns have the same name")
        places = set(range(1, len(hits) + 1))
        for kind in ("rank", "first_stage_rank"):
            if {getattr(hit, kind) for hit in hits} != places:
                limits = [name for name in ("top_n", "min_relevance") if self.config.get(name)]
                left_out = f"; {' and '.join(limits)} left out hits: keep all with --save FILE"
                raise ValueError(
                    f"the hits' {kind} must be 1 to {len(hits)}, each once"
                    f"{left_out if limits else ''}"
                )
        ends = [rank for first_and_last in self.undecided for rank in first_and_last]
        if ends != sorted(set(ends)) or not places.issuperset(ends):
            raise ValueError(f"undecided: the ranks must rise, from 1 to {len(hits)}")
        members = self.team.members if self.team else ()
        criteria = {name: set(criteria_names(members, name)) for name in names}
        for hit in hits:
            of = f"the hit of rank {hit.rank}"
            if hit.scores.keys() != names:
                raise ValueError(f"{of} must have one score a persona")
            for name, given in hit.criteria.items():
                if given and set(given) != criteria.get(name):
                    raise ValueError(f"{of} has scores of other criteria than {name!r} has")
        return self

    # Read and written

    @classmethod
    def of(cls, data: object) -> Self:
        """The ranking itself, or as `from_dict` reads it."""
        return data if isinstance(data, cls) else cls.from_dict(data)

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """A ranking from what `to_dict` made, or from its JSON text."""
        found: Self = _read(cls, data)
        return found

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; `from_dict` takes it back."""
        exclude = None if texts else {"hits": {"__all__": {"title", "text"}}}
        form: dict[str, Any] = adapter(RankingRecord).dump_python(
            self, mode="json", by_alias=True, exclude=exclude
        )
        rows = [self.rows_of_calls(), self.rows_of_calls(reused=True)]
        by_stage, reused = adapter(list[list[Calls]]).dump_python(rows, mode="json")
        sums = adapter(Usage).dump_python(self.usage, mode="json")
        if any(member.rubric for member in self.members):
            form["criteria_used"] = self.criteria_used
        form["usage"] = {**sums, "cost": self.cost, "by_stage": by_stage, "reused": reused}
        return form

    def beside(
        self, *, grades: Mapping[str, int] | None = None, other: OtherRanking | None = None
    ) -> Self:
        """The ranking with judgements and another one beside it; a `SchemaError` without texts."""
        if not self.has_texts:
            raise SchemaError(
                "a ranking without texts, as run folders keep them; 'personas report RUN --out "
                "FOLDER' makes a page for each query of a run folder"
            )
        return replace(self, grades=grades, other=other)

    def with_texts(self, texts: Mapping[str, tuple[str, str]]) -> Self:
        """The ranking with title and text of each passage, by document id, all of them there."""
        found = [(hit, *texts[hit.doc_id]) for hit in self.hits]
        return replace(
            self, hits=tuple([replace(hit, title=title, text=text) for hit, title, text in found])
        )

    # A sequence of what is returned

    def __len__(self) -> int:
        return len(self._returned)

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: str) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> list[Hit]: ...
    def __getitem__(self, place: int | str | slice) -> Hit | list[Hit]:
        if isinstance(place, slice):
            return [self.hits[rank] for rank in self._returned[place]]
        if isinstance(place, str):
            return self._by_id(place)
        if not -len(self) <= place < len(self):
            raise IndexError(f"there is no hit {place}; the ranking has {len(self)}")
        return self.hits[self._returned[place]]

    def __repr__(self) -> str:
        lost = f", {len(self.missing)} scores missing" if self.missing else ""
        lost += f", {self.unfilled} recruits too few" if self.unfilled else ""
        all_of = "" if len(self) == len(self.hits) else f"{len(self)} of "
        count = f"{all_of}{len(self.hits)} passages"
        note = f". {self.judge_note}" if self.judge_note else ""
        return f"<Ranking of {count} for {shown(self.query.text)} by {self.ranker}{lost}{note}>"

    def _by_id(self, doc_id: str) -> Hit:
        """The hit of that id, returned or left out; a `KeyError` with close ids."""
        found = next((hit for hit in self.hits if hit.doc_id == doc_id), None)
        if found is not None:
            return found
        given, ids = doc_id[:_LONGEST_ID], [hit.doc_id[:_LONGEST_ID] for hit in self.hits]
        close = difflib.get_close_matches(given, ids, n=3, cutoff=_CLOSE)
        meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise KeyError(f"no passage {given!r}{meant}")

    @cached_property
    def _returned(self) -> Sequence[int]:
        """Places in `hits` of those that the ranker, ``min_relevance`` and ``top_n`` leave."""
        least, most = self.config.get("min_relevance"), self.config.get("top_n")
        left = list(self.hits)
        if isinstance(least, int | float) and self._has_relevance:
            left = [hit for hit in left if hit.relevance is not None and hit.relevance >= least]
        few = most if isinstance(most, int) and most > 0 else None
        return [hit.rank - 1 for hit in left if hit.dropped is None][:few]

    @cached_property
    def _has_relevance(self) -> bool:
        return any(hit.relevance is not None for hit in self.hits)

    @property
    def ids(self) -> list[str]:
        """The passages' ids, best first."""
        return [hit.doc_id for hit in self]

    @property
    def run(self) -> list[tuple[str, float]]:
        """Id and final score of each passage that is returned, best first; NaN without one."""
        return [(hit.doc_id, math.nan if hit.score is None else hit.score) for hit in self]

    @cached_property
    def as_given(self) -> tuple[Hit, ...]:
        """All hits in first-stage order."""
        return tuple(sorted(self.hits, key=attrgetter("first_stage_rank")))

    @cached_property
    def passages(self) -> tuple[Passage, ...]:
        """All passages in first-stage order."""
        return tuple([hit.passage for hit in self.as_given])

    @property
    def has_texts(self) -> bool:
        """True unless the passages were stored without their texts."""
        texts = (text for hit in self.hits for text in (hit.title, hit.text))
        return not any(isinstance(text, NotStored) for text in texts)

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """The scores of `hits` (rows) by `personas` (columns); NaN where there is none."""
        rows = [[hit.scores[name] for name in self.personas] for hit in self.hits]
        return as_array(rows, len(self.personas))

    # Who judged, and what was used

    @property
    def members(self) -> tuple[Member, ...]:
        """The team's members; none without a team."""
        return self.team.members if self.team else ()

    def member(self, persona: str) -> Member | None:
        """The team's member of that name; None if there is none."""
        return next((each for each in self.members if each.name == persona), None)

    @property
    def unfilled(self) -> int:
        """Recruits that lack, because fewer were named than asked for."""
        size = self.config.get("team_size")
        return max(0, size - len(self.members)) if self.team and isinstance(size, int) else 0

    @property
    def criteria_used(self) -> bool:
        """True if the judge reads the team's criteria; an encoder does not."""
        return not self.weak_judge and any(member.rubric for member in self.members)

    @property
    def judge_note(self) -> str:
        """A sentence about a weak judge; empty if it is not known to be weak."""
        return judge_note(self.weak_judge, self.models.get("scoring", ""))

    @property
    def usage(self) -> Usage:
        """Calls and tokens that this ranking took, everything together."""
        return self.calls.total

    @property
    def reused(self) -> Usage:
        """Answers that were in the ledger already, and what they had taken when they came."""
        return self.calls.reused.total

    def price(self, model: str, usage: Usage) -> float | None:
        """US dollars for these tokens; None where no price is known."""
        return None

    def rows_of_calls(self, *, reused: bool = False) -> list[Calls]:
        """Calls by stage, persona and model, with what they cost; or answers of the ledger."""
        table = self.calls.reused if reused else self.calls
        known = table.costs
        return [
            Calls.of(*key, usage, known[key] if key in known else self.price(key[2], usage))
            for key, usage in table.items()
        ]

    @property
    def cost(self) -> float | None:
        """US dollars for all calls; None if a model's price is not known."""
        rows = self.rows_of_calls()  # reused answers cost nothing now
        known = [row.cost for row in rows if row.cost is not None]
        return math.fsum(known) if len(known) == len(rows) else None

    # What scores mean

    @property
    def ensemble(self) -> Ensemble | None:
        """The ensemble; None if it is not known here."""
        return find_ensemble(self.config)

    @property
    def unscored(self) -> bool:
        """True if the ranker compared the passages and gives an order without scores."""
        return self.comparisons is not None and not self.failure and not self.judged

    @cached_property
    def top(self) -> float:
        """The highest score one persona could give."""
        if said := highest_score(self.config):
            return said
        given = (score for hit in self.hits for score in hit.known_scores)
        return max(given, default=0.0) or _DEFAULT_TOP

    @property
    def relevance_note(self) -> str:
        """Why hits have no relevance, in a sentence; empty where they can have one."""
        of_ranker = f"{self.ranker} gives an order and no relevance"
        why = "its scores cannot be compared from query to query."
        return "" if self.absolute else f"{of_ranker}: {why}"

    # What is not there

    @property
    def missing(self) -> list[MissingScore]:
        """Every score that was asked for and did not come, by first-stage order."""
        return [
            MissingScore(hit.doc_id, name, hit.missing[name])
            for hit in self.as_given
            if hit.missing
            for name in dict.fromkeys((*self.personas, ASSESSOR))
            if name in hit.missing
        ]

    @property
    def dropped(self) -> Mapping[int, float]:
        """Index of each passage that REBEL dropped -> the relevance that was too low."""
        return {hit.index: hit.dropped for hit in self.as_given if hit.dropped is not None}

    @property
    def reasons(self) -> Mapping[tuple[int, str], Reason]:
        """Index of a passage, and a judge, -> why it scored the passage so."""
        return {
            (hit.index, judge): why for hit in self.as_given for judge, why in hit.reasons.items()
        }

    @property
    def was_judged(self) -> bool:
        """True if the order comes from judges; false if nothing was scored or compared."""
        if self.judged:
            return True
        if self.failure or any(hit.missing.keys() - {ASSESSOR} for hit in self.hits):
            return False
        answered = self.comparisons is not None and self.comparisons.asked > self.comparisons.failed
        return answered or not (self.partial or self.dropped)

    @property
    def unfinished(self) -> str:
        """Why the ranking is not all that it was to be, in a sentence; else empty."""
        if self.failure:
            return f"No passage was judged, so they keep their first-stage order: {self.failure}"
        return "The deadline came before all scores." if self.partial else ""

    # Passages of some kind

    @cached_property
    def judged(self) -> tuple[Hit, ...]:
        """The passages that have a final score, best first."""
        return tuple(hit for hit in self.hits if hit.judged)

    @property
    def last_sure_rank(self) -> int | None:
        """The last rank that was asked for; None if that is the last of all."""
        asked = self.config.get("ranks") if self.comparisons else None
        last = asked if isinstance(asked, int) else len(self.judged)
        return last if 0 < last < len(self.hits) else None

    # What follows from the scores

    @cached_property
    def agreement(self) -> TeamAgreement:
        """Agreement of the personas."""
        from personas.ranking.agreement import TeamAgreement

        scores = [hit.scores for hit in self.hits]
        return TeamAgreement.of({name: [each[name] for each in scores] for name in self.personas})

    @property
    def leave_one_out_exact(self) -> bool:
        """True if the arithmetic of `Hit.rank_without` gives this very ranking."""
        if len(self.judged) > 1 and (self.ensemble is None or self.ensemble.asks):
            return False
        return all(place == hit.rank_of_all for place, hit in enumerate(self.judged, start=1))

    @cached_property
    def rule(self) -> Rule:
        """The rule by which scores become final scores."""
        return Rule.of(self.config).for_columns(self.members, self.personas)

    def _imputed(self, hit: Hit) -> Mapping[str, float]:
        if self.ensemble is None:
            return hit.imputed
        if not hit.missing or not hit.judged:
            return {}
        rule = self.rule
        filled = rule.filled(as_array([list(hit.scores.values())]))
        if not rule.ensemble.asks:
            found = zip(hit.scores, filled[0].tolist(), strict=True)
            return {name: score for name, score in found if name in hit.missing}
        # The model that combined the scores saw that some are missing.
        if ASSESSOR not in hit.missing:
            return {}
        by_team = rule.missing_policy == "mean_of_team"
        return {ASSESSOR: float((filled if by_team else rule.filled(as_array([[None]]))).mean())}

    @cached_property
    def left_out_scores(self) -> tuple[Sequence[Hit], Mapping[str | None, NDArray[np.float64]]]:
        """Passages as given, and their final scores by all personas (None) and without each."""
        # Without a persona, a passage that only it has scored comes among those without a score.
        asked = [
            hit for hit in self.as_given if hit.judged or (hit.missing and hit.dropped is None)
        ]
        names, members = self.personas, self.members
        given = [[hit.scores[name] for name in names] for hit in asked]
        # Passages that were judged as one have the same scores.
        judged_as = ((hit.title, hit.text, *each) for hit, each in zip(asked, given, strict=True))
        rows, group_of = distinct(judged_as)
        values = as_array([given[row] for row in rows], len(names))
        first_stage = [hit.first_stage_score for hit in asked]

        def scores(left_out: str | None) -> NDArray[np.float64]:
            columns = [place for place, name in enumerate(names) if name != left_out]
            rule = self.rule.for_columns(members, [names[place] for place in columns])
            return rule.final(values[:, columns], group_of, first_stage)

        return asked, {name: scores(name) for name in (None, *(names if len(names) > 1 else ()))}

    @cached_property
    def _leave_one_out(self) -> Mapping[int, tuple[int, Mapping[str, int]]]:
        """Rank -> rank by all scores, and for each persona by those of the others."""
        asked, finals = self.left_out_scores
        ranks = {name: descending(each).argsort().tolist() for name, each in finals.items()}
        of_all = ranks.pop(None)
        return {
            hit.rank: (
                of_all[place] + 1,
                {name or "": each[place] + 1 for name, each in ranks.items()},
            )
            for place, hit in enumerate(asked)
        }

    @cached_property
    def _shares(self) -> Mapping[int, tuple[float, float]]:
        """Rank -> what of the final score is the personas', and what the first stage's, 0 to 1."""
        weight = Rule.of(self.config).first_stage_weight
        judged = [hit for hit in self.judged if hit.first_stage_score is not None]
        if not weight or len(judged) < len(self.judged):
            return {}
        firsts = unit_range(as_array([[hit.first_stage_score for hit in judged]])[0]).tolist()
        found = {}
        for hit, first in zip(judged, firsts, strict=True):
            own = ((hit.score or 0.0) - weight * first) / (1 - weight) if weight < 1 else 0.0
            found[hit.rank] = min(max(own, 0.0), 1.0), first
        return found

    @cached_property
    def _suspicions_of(self) -> Callable[[str, str], tuple[Suspicion, ...]]:
        from personas.ranking.suspicions import SuspicionDetector

        return cache(SuspicionDetector(self.query.text).suspicions)


@dataclass(frozen=True)
class _Head:
    version: Literal[1]
    query: Query


def read_query(data: object) -> Query:
    """The query of a stored ranking; the rest is not looked at. Takes what `from_dict` does."""
    found: Query = _read(_Head, data).query
    return found


def _read(kind: Any, data: object) -> Any:
    try:
        if isinstance(data, str | bytes):
            return adapter(kind).validate_json(data)
        return adapter(kind).validate_python(data)
    except ValidationError as error:
        raise SchemaError(explain(error, "a ranking", _FORM)) from error
    except RecursionError as error:
        raise SchemaError(f"{_FORM}; its values nest too deep") from error
