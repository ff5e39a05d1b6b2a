"""The result: a sequence of hits with the record of its making."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, TextIO, Unpack

from mcranker.errors import ConfigError, InputError, MissingScoreError
from mcranker.inputs.grades import checked_grades
from mcranker.inputs.trec import trec_run
from personas.ensembles import Rule, descending, distinct
from personas.errors import PersonasError, SchemaError
from personas.ranking.orders import points, rule_of_points
from personas.ranking.record import RankingRecord
from personas.ranking.types import Passage, ScoreMatrix
from personas.sanitize import json_text

if TYPE_CHECKING:
    import os

    import numpy as np
    import pandas
    from numpy.typing import NDArray

    from mcranker.llm.models import LedgerSpec, ModelSpec
    from mcranker.options import RankerOptions
    from personas.ranking.usage import Usage

_AS_ASKED = (
    *("prompts", "lowercase_query", "title_separator", "max_passage_words", "single_quotes"),
    *("temperature", "seed", "cache_variant", "repair_attempts"),
)
"""Options about requests to models, whatever the ranker."""


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
        """The same scores, or orders, combined in another way; no call is made.

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
        import numpy as np

        from mcranker.config import RANK_TIES, RankerConfig

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
        if ensemble != self.config.get("ensemble", "sum"):
            config["rank_ties"] = RANK_TIES
        if self.passages and self.was_judged and not self.personas and self.orders is None:
            raise ConfigError(
                f"a ranking by {self.ranker!r} has no personas' scores or orders to be combined; "
                "rank by a team, such as with MCRanker"
            )
        members = self.team.members if self.team else ()
        rule = Rule.of(config).for_columns(members, self.judges)
        if not rule.ensemble.ranks:
            config.pop("rank_ties", None)
        if rule.ensemble.asks:
            asks = f"ensemble={rule.ensemble.name!r} asks a model"
            raise ConfigError(
                f"{asks}; rank again with it (scores that the ledger has are not paid for again)"
                if self.orders is None
                else f"{asks} about scores, and this team gave orders; use 'rrf' or 'sum'"
            )
        places = np.flatnonzero(self._judged)
        rows, group_of = distinct(self.passages[place].content for place in places.tolist())
        matrix = self.matrix.take(places[rows])
        if self.orders is not None:
            matrix = ScoreMatrix(points(self.orders.counted[places[rows]]))
            rule = rule_of_points(rule, len(rows))
        if rule.first_stage_weight:
            check_first_stage(rule.first_stage_weight, [self.passages[place] for place in places])
        row_of = np.full(len(self.passages), -1, dtype=np.intp)
        row_of[places] = group_of
        judges = self.absolute and self.orders is None
        refuse_missing = config.get("missing_policy") == "fail"
        order, final = combined(rule, matrix, row_of, self.passages, refuse_missing=refuse_missing)
        return replace(
            self,
            config=config,
            order=order,
            final=final,
            assessor_reasons={},
            relevances=relevances_of(rule, matrix, row_of) if judges else {},
        )

    def explain(
        self,
        top: int = 10,
        *,
        model: ModelSpec = None,
        base_url: str | None = None,
        api_key: str | None = None,
        ledger: LedgerSpec = "default",
        **options: Unpack[RankerOptions],
    ) -> Ranking:
        """Ask why each judge gave the first passages what it gave them. Order and scores stay.

        >>> mcranker.Ranking.from_dict(stored).explain(top=5)[0].reasons

        `Ranker.explain`, which says more, does the same with the models of a ranker that is open.

        Args:
            top: passages that are asked about.
            model: which is asked; the one that judged if None.
            base_url: of an OpenAI- or Anthropic-compatible server.
            api_key: instead of the environment's.
            ledger: the file that keeps every answer.
            options: fields of `RankerConfig`, such as ``max_calls``; the wording of prompts and the
                form of passages are those of the ranking unless given.

        Raises:
            ConfigError, InputError, ModelError, BudgetExceeded: as `Ranker.explain`.
        """
        from mcranker import DirectRanker, RankerConfig

        kept = {name: self.config[name] for name in _AS_ASKED if name in self.config}
        with DirectRanker(
            model=model or self.models.get("scoring"),
            config=RankerConfig.of(RankerConfig(**kept), options),
            base_url=base_url,
            api_key=api_key,
            ledger=ledger,
        ) as ranker:
            return ranker.explain(self, top)

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
        ``first_stage_score``, ``title``, ``text``, and one per persona, ``score: NAME``, or
        ``rank: NAME`` where the team compared passages. Missing values are NaN.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_dataframe needs pandas: pip install pandas") from error
        kind = "rank" if self.by_rank else "score"
        columns = ["rank", "doc_id", "score", "relevance", "first_stage_rank"]
        columns += ["first_stage_score", "title", "text"]
        rows = []
        for hit in self:
            given = hit.ranks if self.by_rank else hit.scores
            rows.append(
                [getattr(hit, name) for name in columns] + [given.get(name) for name in self.judges]
            )
        names = [f"{kind}: {name}" for name in self.judges]
        table = pandas.DataFrame(rows, columns=[*columns, *names])
        numbers = ["score", "relevance", "first_stage_score", *names]
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

    @property
    def _judged(self) -> NDArray[np.bool_]:
        """By place, True if judges were asked about the passage, also if none gave a score."""
        import numpy as np

        judged = np.isfinite(self.final)
        judged[[row for row, _ in self.matrix.reasons]] = True
        return judged


def combined(
    rule: Rule,
    matrix: ScoreMatrix,
    row_of: NDArray[np.intp],
    passages: Sequence[Passage],
    *,
    assessed: ScoreMatrix | None = None,
    refuse_missing: bool = False,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The fields `order` and `final` of a ranking (Eq. 4)."""
    import numpy as np

    for scores in (matrix, assessed) if refuse_missing else ():
        if scores is not None and scores.reasons:
            raise MissingScoreError(
                f"{len(scores.reasons)} of {scores.values.size} scores are missing and "
                'missing_policy="fail"; see the reasons in the log, or choose another policy'
            )
    places = np.flatnonzero(row_of >= 0)
    final = np.full(len(row_of), np.nan)
    try:
        final[places] = rule.final(
            matrix.values,
            row_of[places],
            [passages[place].score for place in places.tolist()],
            assessed=None if assessed is None else assessed.values[:, 0],
        )
    except PersonasError as error:
        raise ConfigError(str(error)) from error
    return descending(final), final


def check_first_stage(weight: float, passages: Sequence[Passage]) -> None:
    """Refuse a share of the first stage for passages that it gave no score."""
    without = [each.id for each in passages if each.score is None]
    if without:
        raise InputError(
            f"first_stage_weight={weight:g} needs the first stage's score of every passage, and "
            f"{len(without)} of {len(passages)} have none (the first: {without[0][:80]!r}); give "
            "records with a 'score', or a run, or set it to 0"
        )


def relevances_of(
    rule: Rule, matrix: ScoreMatrix, row_of: NDArray[np.intp], assessed: ScoreMatrix | None = None
) -> dict[int, float]:
    """The field `relevances` of a ranking; the arguments are those of `combined`."""
    by_row = rule.relevance(matrix.values, None if assessed is None else assessed.values[:, 0])
    return {
        place: float(by_row[row])
        for place, row in enumerate(row_of.tolist())
        if row >= 0 and not math.isnan(by_row[row])
    }
