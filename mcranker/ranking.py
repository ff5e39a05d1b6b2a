"""The result: a sequence of hits that knows how it came about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TextIO, overload

from mcranker.errors import InputError
from mcranker.stored_ranking import ASSESSOR, restored_fields
from mcranker.trec import trec_run
from mcranker.types import MissingScore, Passage, Query, ScoreMatrix, UsageTable
from personas.errors import SchemaError
from personas.plain import in_brief, json_text

if TYPE_CHECKING:
    import os

    import numpy as np
    from numpy.typing import NDArray

    from mcranker.llm.chat import Usage
    from personas import Team

__all__ = ["Hit", "Ranking"]

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage of a ranking.

    Attributes:
        rank: from 1, best first.
        doc_id: the passage's id.
        score: final score; None for a passage beyond ``depth``, which was not judged, and for
            one that `skipped` personas were not asked about.
        scores: persona -> score, 0 to k, or None where there is none; in team order.
        missing: persona -> why its score is missing.
        criteria: persona -> criterion -> score, only with ``scoring="per_criterion"``.
        first_stage_rank: rank in the order in which the passages were given, from 1.
        passage: title and text.
        skipped: personas who were not asked, because the passage could not reach the first
            ``top_k`` ranks any more.
        at_most: the highest final score it could have got from them; None if nobody was
            skipped.
    """

    rank: int
    doc_id: str
    score: float | None
    scores: Mapping[str, float | None]
    missing: Mapping[str, str]
    criteria: Mapping[str, Mapping[str, float]]
    first_stage_rank: int
    passage: Passage
    skipped: tuple[str, ...] = ()
    at_most: float | None = None

    @property
    def index(self) -> int:
        """Place of the passage in the docs that were given, from 0."""
        return self.first_stage_rank - 1

    @property
    def moved(self) -> int:
        """How many ranks the passage rose (positive) or fell (negative)."""
        return self.first_stage_rank - self.rank


@dataclass(frozen=True, slots=True, eq=False)
class Ranking(Sequence[Hit]):
    """Passages in their new order, best first, with everything that led to it.

    Attributes:
        query: what was asked.
        passages: in first-stage order.
        order: places in `passages`, best first; an integer array of length n.
        final: final score by place in `passages`; NaN beyond ``depth`` and for the places in
            `bounds`; length n.
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

    def __len__(self) -> int:
        return len(self.passages)

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> list[Hit]: ...
    def __getitem__(self, place: int | slice) -> Hit | list[Hit]:
        if isinstance(place, slice):
            return [self._hit(rank) for rank in range(*place.indices(len(self)))]
        rank = place if place >= 0 else place + len(self)
        if not 0 <= rank < len(self):
            raise IndexError(f"there is no hit {place}; the ranking has {len(self)}")
        return self._hit(rank)

    def __repr__(self) -> str:
        lost = f", {len(self.missing)} scores missing" if self.missing else ""
        return f"<Ranking of {len(self)} passages for {self.query.text!r} by {self.ranker}{lost}>"

    @property
    def ids(self) -> list[str]:
        """The passages' ids, best first."""
        return [self.passages[row].id for row in self.order]

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
    def skipped(self) -> int:
        """How many scores were not asked for, because of ``top_k``."""
        return sum(len(self._skipped(row)) for row in self.bounds)

    def to_trec(self, tag: str | None = None) -> str:
        """The ranking as lines of a TREC run: query id, Q0, document id, rank, score, tag.

        The score of a passage that ``top_k`` left without some of its scores is the highest
        that was possible.

        Tools for TREC runs sort by score, read as a 32-bit float, and break ties by document
        id; so scores that would be equal there are set apart by the smallest such step.

        Raises:
            InputError: the query has no id, or an id holds white space.
        """
        scores = [self.bounds.get(row, float(self.final[row])) for row in self.order.tolist()]
        return trec_run(self.query.id, self.ids, scores, tag or self.ranker)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; `from_dict` takes it back."""
        return {
            "version": FORMAT_VERSION,
            "query": asdict(self.query),
            "ranker": self.ranker,
            "team": self.team.model_dump(mode="json") if self.team else None,
            "personas": list(self.personas),
            "hits": [self._hit_dict(hit) for hit in self],
            "config": dict(self.config),
            "models": dict(self.models),
            "prompt_hashes": dict(self.prompt_hashes),
            "usage": {
                **asdict(self.usage),
                "cost": self.cost,
                "by_stage": _usage_rows(self.calls),
                "reused": _usage_rows(self.calls.reused),
            },
            "seconds": dict(self.seconds),
        }

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
        from mcranker.inspection_file import write_inspection

        write_inspection(self.to_dict(), path, grades)

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
        from mcranker.inspection_file import checked_grades
        from personas.report.terminal.terminal import print_inspection

        known = None if grades is None else checked_grades(grades)
        print_inspection(self.to_dict(), top=top, passage=passage, grades=known, file=file)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ranking:
        """A ranking from what `to_dict` made.

        Raises:
            InputError: it is of another version, or is not a ranking.
        """
        if not isinstance(data, Mapping) or data.get("version") != FORMAT_VERSION:
            found = data.get("version") if isinstance(data, Mapping) else type(data).__name__
            raise InputError(
                f"this is no ranking of version {FORMAT_VERSION}, but {in_brief(found)}"
            )
        try:
            return cls(**restored_fields(data))
        except SchemaError as error:
            raise InputError(f"this is no complete ranking: {error}") from error

    def _hit(self, place: int) -> Hit:
        row = int(self.order[place])
        passage = self.passages[row]
        values = self.matrix.values[row].tolist()
        columns = list(enumerate(self.personas))
        reasons = {name: self.matrix.reasons.get((row, column)) for column, name in columns}
        if row in self.assessor_reasons:
            reasons[ASSESSOR] = self.assessor_reasons[row]
        each = {name: self.matrix.criteria.get((row, column)) for column, name in columns}
        final = float(self.final[row])
        return Hit(
            rank=place + 1,
            doc_id=passage.id,
            score=None if math.isnan(final) else final,
            scores={
                name: None if math.isnan(values[column]) else values[column]
                for column, name in columns
            },
            missing={name: why for name, why in reasons.items() if why is not None},
            criteria={name: self._named(name, scores) for name, scores in each.items() if scores},
            first_stage_rank=row + 1,
            passage=passage,
            skipped=tuple(self.personas[column] for column in self._skipped(row)),
            at_most=self.bounds.get(row),
        )

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

    @staticmethod
    def _hit_dict(hit: Hit) -> dict[str, Any]:
        return {
            "rank": hit.rank,
            "doc_id": hit.doc_id,
            "score": hit.score,
            "scores": dict(hit.scores),
            "missing": dict(hit.missing),
            "skipped": list(hit.skipped),
            "at_most": hit.at_most,
            "criteria": {name: dict(each) for name, each in hit.criteria.items()},
            "first_stage_rank": hit.first_stage_rank,
            "first_stage_score": hit.passage.score,
            "title": hit.passage.title,
            "text": hit.passage.text,
        }


def _usage_rows(table: UsageTable) -> list[dict[str, Any]]:
    from mcranker.llm.prices import cost

    return [
        {
            "stage": stage,
            "persona": persona,
            "model": model,
            **asdict(usage),
            "cost": cost(model, usage),
        }
        for (stage, persona, model), usage in table.items()
    ]
