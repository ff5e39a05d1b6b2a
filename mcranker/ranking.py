"""The result: a sequence of hits with the record of its making."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, TextIO

from mcranker.errors import ConfigError, InputError, MissingScoreError
from mcranker.inputs.grades import checked_grades
from mcranker.inputs.trec import trec_run
from personas.ensembles import Rule, distinct
from personas.errors import PersonasError, SchemaError
from personas.ranking.hit import HIT_COLUMNS, Hit
from personas.ranking.record import RankingRecord
from personas.ranking.types import ASSESSOR, Passage, ScoreMatrix, as_array
from personas.sanitize import json_text

if TYPE_CHECKING:
    import os

    import numpy as np
    import pandas
    from numpy.typing import NDArray

    from personas.ranking.usage import Usage

_REFUSED = (
    '{} of {} scores are missing and missing_policy="fail"; see the reasons in the log, or choose '
    "another policy"
)


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(RankingRecord):
    """Passages in their new order, best first, with everything that led to it.

    >>> for hit in ranking[:10]:
    ...     print(hit.rank, hit.doc_id, hit.relevance, hit.scores)

    See `personas.ranking.record.RankingRecord` for its attributes.
    """

    def price(self, model: str, usage: Usage) -> float | None:
        from mcranker.llm.prices import cost

        return cost(model, usage)

    def to_trec(self, tag: str | None = None) -> str:
        """The ranking as lines of a TREC run: query id, Q0, document id, rank, score, tag.

        Tools for TREC runs sort by score, read as a 32-bit float, and break ties by document
        id; so scores that would be equal there are set apart, see `write_trec`.

        Raises:
            InputError: the query has no id, or an id holds white space.
        """
        run = self.run
        ids, scores = [doc_id for doc_id, _ in run], [score for _, score in run]
        return trec_run(self.query.id, ids, scores, tag or self.ranker)

    def reensemble(
        self,
        ensemble: str | None = None,
        *,
        missing_policy: str | None = None,
        missing_constant: float | None = None,
        first_stage_weight: float | None = None,
    ) -> Ranking:
        """The same scores, combined in another way; no call is made.

        >>> ranking.reensemble("reciprocal_rank")
        >>> ranking.reensemble(first_stage_weight=0.3)

        Args:
            ensemble: ``"sum"``, ``"reciprocal_rank"``, or one that a package adds, see
                `personas.Ensemble`.
            missing_policy: what replaces a missing score, as in `RankerConfig`.
            missing_constant: the constant for ``missing_policy="constant"``.
            first_stage_weight: share of the first stage's score, 0 to 1.

        What is None stays as it was. Calls and times are those of this ranking.

        Raises:
            ConfigError: a value is impossible; or a model combines the scores (``"assessor"``).
            InputError: the first stage is to have a share, and gave no score to a passage.
            MissingScoreError: a score is missing and ``missing_policy="fail"``.
        """
        from mcranker.config import RankerConfig

        ensemble = self.config.get("ensemble", "sum") if ensemble is None else ensemble
        options = {
            "ensemble": ensemble,
            "missing_policy": missing_policy,
            "missing_constant": missing_constant,
            "first_stage_weight": first_stage_weight,
        }
        chosen = {name: value for name, value in options.items() if value is not None}
        checked = RankerConfig(**chosen).model_dump(mode="json", include=set(chosen))
        config = {**self.config, **checked}
        if self.hits and self.was_judged and not self.personas:
            raise ConfigError(
                f"a ranking by {self.ranker!r} has no personas' scores to be combined; "
                "rank by a team, such as with MCRanker"
            )
        rule = Rule.of(config).for_columns(self.members, self.personas)
        if rule.ensemble.asks:
            raise ConfigError(
                f"ensemble={rule.ensemble.name!r} asks a model; rank again with it (scores that "
                "the ledger has are not paid for again)"
            )
        judged = [hit for hit in self.as_given if hit.judged or _without_assessor(hit)]
        rows, group_of = distinct((hit.title, hit.text) for hit in judged)
        scores = [[judged[row].scores[name] for name in self.personas] for row in rows]
        values = as_array(scores, len(self.personas))
        lost = sum(len(_without_assessor(judged[row])) for row in rows)
        if lost and config.get("missing_policy") == "fail":
            raise MissingScoreError(_REFUSED.format(lost, values.size))
        if rule.first_stage_weight:
            check_first_stage(rule.first_stage_weight, [hit.passage for hit in judged])
        row_of = dict(zip((hit.index for hit in judged), group_of.tolist(), strict=True))
        hits = combined(
            rule,
            [replace(hit, missing=_without_assessor(hit)) for hit in self.as_given],
            values,
            [row_of.get(place, -1) for place in range(len(self.hits))],
            absolute=self.absolute,
        )
        return replace(self, config=config, hits=hits)

    def to_json(self, *, indent: int | None = None) -> str:
        """`to_dict` as JSON text, with control characters as escapes."""
        return json_text(self.to_dict(), indent=indent)

    def to_html(
        self, path: str | os.PathLike[str], *, grades: Mapping[str, int] | None = None
    ) -> None:
        """Write the inspection report: one HTML file that needs nothing else.

        The file appears whole or not at all.

        `grades` are judgements for this query, document id -> grade, above 0 for relevant; passages
        that are not in the ranking may be among them.

        Raises:
            InputError: `grades` are not document ids with whole numbers.
            OSError: the file cannot be written.
        """
        from mcranker import __version__
        from personas.io.atomic import write_whole
        from personas.report import render_inspection
        from personas.report.page import ReportFooter

        page = render_inspection(
            self, grades=checked_grades(grades), footer=ReportFooter(__version__)
        )
        write_whole(path, page)

    def show(
        self,
        top: int = 20,
        passage: int | str | None = None,
        *,
        grades: Mapping[str, int] | None = None,
        file: TextIO | None = None,
    ) -> None:
        """Print the ranking for a terminal: the team in short, all scores, agreement, what it took.

        Args:
            top: passages in the table.
            passage: a rank or an id, to print all about that passage instead.
            grades: as `to_html` takes them.
            file: where to; standard output if None.

        Raises:
            InputError: `grades` are not document ids with whole numbers.
            PersonasError: there is no such passage.
        """
        from personas.report.terminal import print_inspection

        known = checked_grades(grades)
        print_inspection(self, top=top, passage=passage, grades=known, file=file)

    def _repr_html_(self) -> str:
        """The first passages and their scores, as a notebook shows them."""
        from personas.report.inspection import ranking_html

        return ranking_html(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """The hits as a pandas data frame, a row each, best first.

        Columns are ``rank``, ``doc_id``, ``score``, ``relevance``, ``first_stage_rank``,
        ``first_stage_score``, ``title``, ``text``, and one per persona, ``score: NAME``.
        Missing values are NaN.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_dataframe needs pandas: pip install pandas") from error
        scores = [f"score: {name}" for name in self.personas]
        table = pandas.DataFrame(map(dict, self), columns=[*HIT_COLUMNS, *scores])
        numbers = ["score", "relevance", "first_stage_score", *scores]
        return table.astype(dict.fromkeys(numbers, float))

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """A ranking from what `to_dict` made.

        Raises:
            InputError: it is of another version, or is not a ranking.
        """
        try:
            return super().from_dict(data)
        except SchemaError as error:
            raise InputError(str(error)) from error


def combined(
    rule: Rule,
    hits: Sequence[Hit],
    values: NDArray[np.float64],
    row_of: Sequence[int],
    *,
    assessed: NDArray[np.float64] | None = None,
    absolute: bool = False,
) -> tuple[Hit, ...]:
    """The hits, which are in first-stage order, by their final scores (Eq. 4).

    `values` has a row for each distinct passage; `row_of` says which is a hit's, -1 for none.
    """
    import numpy as np

    rows = np.array(row_of, dtype=np.intp)
    places = np.flatnonzero(rows >= 0)
    first_stage = [hits[place].first_stage_score for place in places.tolist()]
    try:
        scores = rule.final(values, rows[places], first_stage, assessed=assessed)
    except PersonasError as error:
        raise ConfigError(str(error)) from error
    by_place: list[float | None] = [None] * len(hits)
    for place, score in zip(places.tolist(), scores.tolist(), strict=True):
        by_place[place] = None if math.isnan(score) else score
    found = rule.relevance(values, assessed).tolist() if absolute else []
    relevances = [None if math.isnan(each) else each for each in found]
    return in_order(
        hits, by_place, [relevances[row] if absolute and row >= 0 else None for row in row_of]
    )


def in_order(
    hits: Sequence[Hit], scores: Sequence[float | None], relevances: Sequence[float | None]
) -> tuple[Hit, ...]:
    """The hits, which are in first-stage order, by falling score; those without one come last."""
    keys = [math.inf if score is None else -score for score in scores]
    ranked = enumerate(sorted(range(len(hits)), key=keys.__getitem__), 1)
    return tuple(
        [
            replace(hits[place], rank=rank, score=scores[place], relevance=relevances[place])
            for rank, place in ranked
        ]
    )


def refuse_missing(*matrices: ScoreMatrix | None) -> None:
    """Raise a `MissingScoreError` if a score is missing."""
    for scores in matrices:
        if scores is not None and scores.missing:
            raise MissingScoreError(_REFUSED.format(scores.missing, scores.values.size))


def _without_assessor(hit: Hit) -> Mapping[str, str]:
    return {name: why for name, why in hit.missing.items() if name != ASSESSOR}


def check_first_stage(weight: float, passages: Sequence[Passage]) -> None:
    """Refuse a share of the first stage for passages that it gave no score."""
    without = [each.id for each in passages if each.score is None]
    if without:
        raise InputError(
            f"first_stage_weight={weight:g} needs the first stage's score of every passage, and "
            f"{len(without)} of {len(passages)} have none (the first: {without[0][:80]!r}); give "
            "records with a 'score', or a run, or set it to 0"
        )
