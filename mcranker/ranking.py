"""The result: a sequence of hits that knows how it came about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, overload

from mcranker.errors import ConfigError, InputError, MissingScoreError
from mcranker.grades import checked_grades
from mcranker.hit import Hit
from mcranker.stored_form import fields_of, stored_calls, stored_hit, stored_orders
from mcranker.trec import trec_run
from mcranker.types import (
    Comparisons,
    MemberRanking,
    MissingScore,
    Orders,
    Passage,
    Query,
    ScoreMatrix,
    UsageTable,
    WindowCounts,
)
from personas.ensembles import Rule, descending, distinct
from personas.errors import PersonasError
from personas.inspection.stored import (
    ASSESSOR,
    StoredComparisons,
    StoredMember,
    StoredQuery,
    StoredRanking,
    StoredUsage,
    StoredWindows,
    imputed,
    returned,
)
from personas.orders import points, rule_of_points
from personas.plain import json_text
from personas.weak_judges import WeakJudge, judge_note

if TYPE_CHECKING:
    import os

    import numpy as np
    from numpy.typing import NDArray

    from mcranker.llm.chat import Usage
    from personas import Team

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Ranking(Sequence[Hit]):
    """Passages in their new order, best first, with everything that led to it.

    As a sequence it has the hits that the ranker and the options ``top_n`` and ``min_relevance``
    leave, and so have `ids` and `to_trec`. The arrays, `to_dict`, `to_html` and `show` have all
    passages.

    Attributes:
        query: what was asked.
        passages: in first-stage order.
        order: places in `passages`, best first; an integer array of length n.
        final: final score by place in `passages`; NaN beyond ``depth``, for passages that nobody
            scored, which follow the others, and for the places in `bounds`; length n.
        matrix: scores by passage (rows as `passages`) and persona.
        personas: names of the matrix's columns.
        team: who judged, with rubrics; None for rankers without a team.
        ranker: the ranker's name, e.g. ``"mcranker"``.
        config: the configuration in effect, as plain values.
        models: role -> model name, for the roles that were needed.
        prompt_hashes: prompt -> SHA-256 of its text.
        calls: usage by stage, persona and model.
        seconds: wall time by stage, and ``total``.
        assessor_reasons: place in `passages` -> why the assessor's score is missing.
        bounds: place in `passages` -> the highest final score possible, for passages that
            ``top_k`` left without some of their scores; they are ranked by it.
        absolute: whether hits have a relevance, 0 to 1, that does not depend on the other passages,
            so that a threshold means the same for every query; see `relevance_note`.
        relevances: place in `passages` -> relevance, for those that were scored; empty for rankers
            that give none.
        partial: whether the ``deadline`` came before all scores. What was not answered by then is
            missing with the reason ``"deadline"``.
        failure: why no passage was judged and the order is the first stage's, with
            ``on_failure="first_stage"``; else empty.
        cut: place in `passages` -> characters that ``max_passage_words`` or
            ``max_passage_tokens`` took off its end before models saw it.
        comparisons: what came of the replies, for rankers that compare passages; None for others.
        dropped: place in `passages` -> the relevance, 0 to 10, for which REBEL dropped it. Dropped
            passages have no final score and are no hits; here they follow the others, in
            first-stage order.
        windows: what came of the replies, for rankers that score several passages in one call; None
            for others.
        members: what was fused; empty for rankings that are of one ranker. The columns of `matrix`
            then hold what each member gave to a passage, and `personas` its labels.
        orders: the order of each persona, where a team compared passages: then `matrix` has no
            columns, and `final` combines the ranks. None for others.
        undecided: first and last rank of each group of passages that a ranker has compared and
            whose order among each other its replies have not decided: they failed or contradict
            each other, or those ranks were not asked for. Empty for what is ordered by scores.
        weak_judge: why the model that judged is weak: ``"small"``, or ``"encoder"``, which does
            not reason; empty where it is not known to be.
    """

    query: Query
    passages: tuple[Passage, ...]
    order: NDArray[np.intp]
    final: NDArray[np.float64]
    matrix: ScoreMatrix
    personas: tuple[str, ...]
    team: Team | None
    ranker: str
    config: Mapping[str, Any]
    models: Mapping[str, str]
    prompt_hashes: Mapping[str, str]
    calls: UsageTable
    seconds: Mapping[str, float]
    assessor_reasons: Mapping[int, str] = field(default_factory=dict)
    bounds: Mapping[int, float] = field(default_factory=dict)
    absolute: bool = False
    relevances: Mapping[int, float] = field(default_factory=dict)
    partial: bool = False
    failure: str = ""
    cut: Mapping[int, int] = field(default_factory=dict)
    comparisons: Comparisons | None = None
    dropped: Mapping[int, float] = field(default_factory=dict)
    windows: WindowCounts | None = None
    members: tuple[MemberRanking, ...] = ()
    orders: Orders | None = None
    undecided: tuple[tuple[int, int], ...] = ()
    weak_judge: WeakJudge = ""
    _returned: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        relevances = [self.relevances.get(row) for row in self.order.tolist()]
        dropped = [row in self.dropped for row in self.order.tolist()]
        places = returned(relevances, self.config, dropped)
        object.__setattr__(self, "_returned", tuple(places))

    def __len__(self) -> int:
        return len(self._returned)

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> list[Hit]: ...
    def __getitem__(self, place: int | slice) -> Hit | list[Hit]:
        if isinstance(place, slice):
            return [self._hit(rank) for rank in self._returned[place]]
        if not -len(self) <= place < len(self):
            raise IndexError(f"there is no hit {place}; the ranking has {len(self)}")
        return self._hit(self._returned[place])

    def __repr__(self) -> str:
        lost = f", {len(self.missing)} scores missing" if self.missing else ""
        lost += f", {self.unfilled} recruits too few" if self.unfilled else ""
        all_of = "" if len(self) == len(self.passages) else f"{len(self)} of "
        count = f"{all_of}{len(self.passages)} passages"
        note = f". {self.judge_note}" if self.judge_note else ""
        return f"<Ranking of {count} for {self.query.text!r} by {self.ranker}{lost}{note}>"

    @property
    def ids(self) -> list[str]:
        """The passages' ids, best first."""
        return [self.passages[self.order[place]].id for place in self._returned]

    @property
    def usage(self) -> Usage:
        """Calls and tokens that this ranking took, everything together."""
        return self.calls.total

    @property
    def reused(self) -> Usage:
        """Answers that were in the ledger already, and what they had taken when they came."""
        return self.calls.reused.total

    @property
    def cost(self) -> float | None:
        """US dollars for all calls; None if a model's price is not known."""
        from mcranker.llm.prices import cost

        # Reused answers cost nothing now.
        costs = [cost(model, usage) for (_, _, model), usage in self.calls.items()]
        known = [each for each in costs if each is not None]
        return math.fsum(known) if len(known) == len(costs) else None

    @property
    def missing(self) -> list[MissingScore]:
        """Every score that was asked for and did not come, by first-stage order."""
        places = [(row, column, why) for (row, column), why in self.matrix.reasons.items()]
        places += [(row, len(self.personas), why) for row, why in self.assessor_reasons.items()]
        names = (*self.personas, ASSESSOR)
        return [
            MissingScore(self.passages[row].id, names[column], why)
            for row, column, why in sorted(places)
        ]

    @property
    def unfilled(self) -> int:
        """How many recruits lack, because fewer were named than asked for."""
        size = self.config.get("team_size")
        if self.team is None or not isinstance(size, int):
            return 0
        return max(0, size - len(self.team.members))

    @property
    def skipped(self) -> int:
        """How many scores were not asked for, because of ``top_k``."""
        return sum(len(self._skipped(row)) for row in self.bounds)

    @property
    def judged(self) -> bool:
        """Whether the order comes from judges, not from the first stage.

        False where nothing was scored and no comparison was answered: replies or calls failed, or
        the deadline came first.
        """
        import numpy as np

        if np.isfinite(self.final).any() or self.bounds:
            return True
        if self.failure or self.matrix.reasons or self.orders is not None:
            return False
        counts = self.comparisons
        if counts is not None and counts.asked > counts.failed:
            return True
        return not (self.partial or self.dropped)

    @property
    def judge_note(self) -> str:
        """What to know of a weak judge, in a sentence; empty where it is not known to be weak."""
        return judge_note(self.weak_judge, self.models.get("scoring", ""))

    @property
    def relevance_note(self) -> str:
        """Why hits have no relevance, in a sentence; empty where they can have one."""
        if self.absolute:
            return ""
        return (
            f"{self.ranker} gives an order and no relevance: its scores cannot be compared from "
            "query to query."
        )

    def to_trec(self, tag: str | None = None) -> str:
        """The ranking as lines of a TREC run: query id, Q0, document id, rank, score, tag.

        The score of a passage that ``top_k`` left without some of its scores is the highest
        that was possible.

        Tools for TREC runs sort by score, read as a 32-bit float, and break ties by document
        id; so scores that would be equal there are set apart by the smallest such step.

        Raises:
            InputError: the query has no id, or an id holds white space.
        """
        rows = [int(self.order[place]) for place in self._returned]
        scores = [self.bounds.get(row, float(self.final[row])) for row in rows]
        return trec_run(self.query.id, self.ids, scores, tag or self.ranker)

    def reensemble(
        self,
        ensemble: str | None = None,
        *,
        missing: str | None = None,
        missing_constant: float | None = None,
        first_stage_weight: float | None = None,
        rank_ties: str | None = None,
    ) -> Ranking:
        """The same scores, or orders, combined in another way; no call is made.

        >>> ranking.reensemble("reciprocal_rank")
        >>> ranking.reensemble(first_stage_weight=0.3)

        Args:
            ensemble: ``"sum"``, ``"reciprocal_rank"``, or one that a package adds, see
                `personas.Ensemble`.
            missing: what stands in for a missing score, as in `RankerConfig`.
            missing_constant: the constant for ``missing="constant"``.
            first_stage_weight: share of the first stage's score, 0 to 1.
            rank_ties: the rank of equal scores with ``"reciprocal_rank"``, see `RankerConfig`.

        What is None stays as it was. Calls and times are those of this ranking.

        Raises:
            ConfigError: a value is impossible; a model combines the scores (``"assessor"``); or
                ``top_k`` left scores out that are needed.
            InputError: the first stage is to have a share, and gave no score to a passage.
            MissingScoreError: a score is missing and ``missing="fail"``.
        """
        import numpy as np

        from mcranker.config import RankerConfig

        options = {
            "ensemble": self.config.get("ensemble", "sum") if ensemble is None else ensemble,
            "missing": missing,
            "missing_constant": missing_constant,
            "first_stage_weight": first_stage_weight,
            "rank_ties": rank_ties,
        }
        chosen = {name: value for name, value in options.items() if value is not None}
        checked = RankerConfig(**chosen).model_dump(mode="json", include=set(chosen))
        config = {**self.config, **checked}
        if ensemble is not None and ensemble != self.config.get("ensemble"):
            config["rank_ties"] = RankerConfig(**chosen).rank_ties
        if self.members:
            raise ConfigError(
                "a fused ranking has no personas' scores to be combined; fuse its members again, "
                "with another method or other weights (answers that the ledger has cost nothing)"
            )
        if self.passages and self.judged and not self.personas and self.orders is None:
            raise ConfigError(
                f"a ranking by {self.ranker!r} has no personas' scores or orders to be combined; "
                "rank by a team, such as with MCRanker, or fuse it with others"
            )
        rule = Rule.of(config)
        if not rule.ensemble.ranks:
            config.pop("rank_ties", None)
        if rule.ensemble.asks and self.orders is not None:
            raise ConfigError(
                f"ensemble={rule.ensemble.name!r} asks a model about scores, and this team gave "
                'orders; use "rrf", "reciprocal_rank" or "sum"'
            )
        if rule.ensemble.asks:
            raise ConfigError(
                f"ensemble={rule.ensemble.name!r} asks a model; rank again with it (scores that "
                "the ledger has are not paid for again)"
            )
        places = np.flatnonzero(self._judged)
        rows, group_of = distinct(self.passages[place].content for place in places.tolist())
        matrix = self.matrix.take(places[rows])
        if self.orders is not None:
            matrix = ScoreMatrix(points(self.orders.counted[places[rows]]))
            rule = rule_of_points(rule, len(rows))
        if matrix.unasked.any() and (rule.first_stage_weight or not rule.ensemble.monotone):
            raise ConfigError(_left_out(config))
        if rule.first_stage_weight:
            check_first_stage(rule.first_stage_weight, [self.passages[place] for place in places])
        row_of = np.full(len(self.passages), -1, dtype=np.intp)
        row_of[places] = group_of
        judges = self.absolute and self.orders is None
        changed = replace(
            self,
            config=config,
            assessor_reasons={},
            relevances=relevances_of(rule, matrix, row_of) if judges else {},
            **combined(
                rule,
                matrix,
                row_of,
                self.passages,
                refuse_missing=config.get("missing") == "fail",
            ),
        )
        top_k = config.get("top_k")
        first = changed.order[: top_k if isinstance(top_k, int) else None].tolist()
        if not changed.bounds.keys().isdisjoint(first):
            raise ConfigError(_left_out(config))
        return changed

    def stored(self) -> StoredRanking:
        """Everything, in the form in which it is stored."""
        whole = [self._hit(place) for place in range(len(self.order))]
        return StoredRanking(
            version=1,
            query=StoredQuery(**asdict(self.query)),
            ranker=self.ranker,
            team=self.team,
            personas=list(self.personas),
            hits=[stored_hit(each) for each in whole],
            config=dict(self.config),
            models=dict(self.models),
            prompt_hashes=dict(self.prompt_hashes),
            usage=StoredUsage(
                **asdict(self.usage),
                cost=self.cost,
                by_stage=stored_calls(self.calls),
                reused=stored_calls(self.calls.reused),
            ),
            seconds=dict(self.seconds),
            absolute=self.absolute,
            partial=self.partial,
            failure=self.failure,
            comparisons=StoredComparisons(**asdict(self.comparisons)) if self.comparisons else None,
            windows=StoredWindows(**asdict(self.windows)) if self.windows else None,
            members=[StoredMember(**asdict(each)) for each in self.members],
            orders=stored_orders(self.orders) if self.orders else {},
            undecided=list(self.undecided),
            weak_judge=self.weak_judge,
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; `from_dict` takes it back.

        Metadata that JSON cannot hold, such as dates, is stored as text.
        """
        return self.stored().to_dict()

    def to_json(self, *, indent: int | None = None) -> str:
        """`to_dict` as JSON text, with control characters as escapes."""
        return json_text(self.to_dict(), indent=indent)

    def to_html(
        self, path: str | os.PathLike[str], *, grades: Mapping[str, int] | None = None
    ) -> None:
        """Write the inspection report: one HTML file that needs nothing else.

        The file appears whole or not at all.

        Args:
            path: of the file; one that is there is replaced.
            grades: document id -> judgement for this query, above 0 for relevant; passages that
                are not in the ranking may be among them.

        Raises:
            InputError: `grades` are not document ids with whole numbers.
            OSError: the file cannot be written.
        """
        from personas.atomic import write_whole
        from personas.report import render_inspection

        write_whole(path, render_inspection(self.stored(), grades=checked_grades(grades)))

    def show(
        self,
        top: int = 20,
        passage: int | str | None = None,
        *,
        grades: Mapping[str, int] | None = None,
        file: TextIO | None = None,
    ) -> None:
        """Print the inspection for a terminal: the team, all scores, agreement, what it took.

        Args:
            top: passages in the table.
            passage: a rank or an id, to print all about that passage instead.
            grades: as `to_html` takes them.
            file: where to; standard output if None.

        Raises:
            InputError: `grades` are not document ids with whole numbers.
            PersonasError: there is no such passage.
        """
        from personas.report.terminal.terminal import print_inspection

        known = checked_grades(grades)
        print_inspection(self.stored(), top=top, passage=passage, grades=known, file=file)

    @classmethod
    def from_dict(cls, data: StoredRanking | Mapping[str, Any]) -> Ranking:
        """A ranking from what `to_dict` made.

        Raises:
            InputError: it is of another version, or is not a ranking.
        """
        return cls(**fields_of(data))

    def _hit(self, place: int) -> Hit:
        row = int(self.order[place])
        passage = self.passages[row]
        values = self.matrix.values[row].tolist()
        columns = list(enumerate(self.personas))
        reasons = {name: self.matrix.reasons.get((row, column)) for column, name in columns}
        if row in self.assessor_reasons:
            reasons[ASSESSOR] = self.assessor_reasons[row]
        each = {name: self.matrix.criteria.get((row, column)) for column, name in columns}
        score = self._final(row)
        scores = {
            name: None if math.isnan(values[column]) else values[column] for column, name in columns
        }
        missing = {name: why for name, why in reasons.items() if why is not None}
        known = score is not None and missing and not self.members
        return Hit(
            rank=place + 1,
            doc_id=passage.id,
            score=score,
            scores=scores,
            missing=missing,
            criteria={name: self._named(name, scores) for name, scores in each.items() if scores},
            first_stage_rank=row + 1,
            passage=passage,
            skipped=tuple(self.personas[column] for column in self._skipped(row)),
            at_most=self.bounds.get(row),
            relevance=self.relevances.get(row),
            cut=self.cut.get(row, 0),
            confidence=_by_name(self.matrix.confidence, row, columns),
            probabilities=_by_name(self.matrix.probabilities, row, columns),
            dropped=self.dropped.get(row),
            ranks=self._ranks(row),
            imputed=imputed(scores, missing, Rule.of(self.config)) if known else {},
        )

    @property
    def _judged(self) -> NDArray[np.bool_]:
        """By place, whether judges were asked about the passage, also if none gave a score."""
        import numpy as np

        judged = np.isfinite(self.final)
        judged[list(self.bounds)] = True
        judged[[row for row, _ in self.matrix.reasons]] = True
        return judged

    def _final(self, row: int) -> float | None:
        final = float(self.final[row])
        return None if math.isnan(final) else final

    def _ranks(self, row: int) -> dict[str, int]:
        """The ranks that the personas gave the passage; empty where none did."""
        orders = self.orders
        ranks = zip(orders.personas, orders.ranks[row].tolist(), strict=True) if orders else ()
        return {name: int(rank) for name, rank in ranks if not math.isnan(rank)}

    def _skipped(self, row: int) -> list[int]:
        """Columns of the personas who were not asked about the passage, though others were."""
        if row not in self.bounds:
            return []
        return [
            column
            for column, value in enumerate(self.matrix.values[row].tolist())
            if math.isnan(value) and (row, column) not in self.matrix.reasons
        ]

    def _named(self, persona: str, scores: tuple[float, ...]) -> dict[str, float]:
        members = self.team.members if self.team else ()
        rubric = next((member.rubric for member in members if member.name == persona), None)
        names = [criterion.name for criterion in rubric.criteria] if rubric else []
        return dict(zip(names, scores, strict=True))


def combined(
    rule: Rule,
    matrix: ScoreMatrix,
    row_of: NDArray[np.intp],
    passages: Sequence[Passage],
    *,
    assessed: ScoreMatrix | None = None,
    refuse_missing: bool = False,
) -> dict[str, Any]:
    """The fields `order`, `final` and `bounds` of a ranking (Eq. 4).

    A passage that was not scored by all has the place of the highest score that it could have
    reached. Passages without a score follow in first-stage order.

    Args:
        rule: how scores become final ones.
        matrix: the scores of distinct passages.
        row_of: the row of each passage; -1 for one that was not judged.
        passages: all passages.
        assessed: the assessor's scores, one column; None without an assessor.
        refuse_missing: nothing may stand in for a missing score.

    Raises:
        MissingScoreError: a score is missing and nothing may stand in for it.
        ConfigError: an ensemble of another package gives no scores.
    """
    import numpy as np

    for scores in (matrix, assessed) if refuse_missing else ():
        if scores is not None and scores.reasons:
            raise MissingScoreError(
                f"{len(scores.reasons)} of {scores.values.size} scores are missing and "
                'missing="fail"; see the reasons in the log, or choose another policy'
            )
    places, unasked = np.flatnonzero(row_of >= 0), matrix.unasked
    group_of = row_of[places]
    try:
        judged = rule.final(
            matrix.values,
            group_of,
            [passages[place].score for place in places.tolist()],
            unasked=unasked if unasked.any() else None,
            assessed=None if assessed is None else assessed.values[:, 0],
        )
    except PersonasError as error:
        raise ConfigError(str(error)) from error
    partly = np.any(unasked, axis=1)[group_of]
    final, by = np.full((2, len(row_of)), np.nan)
    by[places] = judged
    final[places[~partly]] = judged[~partly]
    return {
        "order": descending(by),
        "final": final,
        "bounds": dict(zip(places[partly].tolist(), judged[partly].tolist(), strict=True)),
    }


def check_first_stage(weight: float, passages: Sequence[Passage]) -> None:
    """Refuse a share of the first stage for passages that it gave no score.

    Raises:
        InputError: there is such a passage.
    """
    without = [each.id for each in passages if each.score is None]
    if without:
        raise InputError(
            f"first_stage_weight={weight:g} needs the first stage's score of every passage, and "
            f"{len(without)} of {len(passages)} have none (the first: {without[0][:80]!r}); give "
            "records with a 'score', or a run, or set it to 0"
        )


def relevances_of(
    rule: Rule,
    matrix: ScoreMatrix,
    row_of: NDArray[np.intp],
    assessed: ScoreMatrix | None = None,
) -> dict[int, float]:
    """The field `relevances` of a ranking; the arguments are those of `combined`."""
    import numpy as np

    by_row = rule.relevance(matrix.values, None if assessed is None else assessed.values[:, 0])
    by_row[matrix.unasked.any(axis=1)] = np.nan
    found = ((place, float(by_row[row])) for place, row in enumerate(row_of.tolist()) if row >= 0)
    return {place: value for place, value in found if not math.isnan(value)}


def _by_name(
    cells: Mapping[tuple[int, int], T], row: int, columns: Sequence[tuple[int, str]]
) -> dict[str, T]:
    return {name: cells[row, column] for column, name in columns if (row, column) in cells}


def _left_out(config: Mapping[str, Any]) -> str:
    return (
        f"top_k={config.get('top_k')!r} left out scores that this needs; rank again without it "
        "(scores that the ledger has are not paid for again)"
    )
