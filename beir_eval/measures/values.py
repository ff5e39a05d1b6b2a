"""Values of a measure with their flaws: the only numbers that are averaged, compared and shown.

`Values` is what a measure gives of a system: a value for each query, that with ties drawn by lot,
and what makes it doubtful. `compare_runs` compares them query by query, on the queries that both
have: t = mean(d) / (sd(d) / sqrt(n)) of the differences d over n queries, sd with n - 1, on n - 1
degrees of freedom (scipy's Student distribution).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from beir_eval.errors import ExtraMissing, SettingError
from personas.format import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

LEVEL = 0.95
"""Of confidence intervals."""

EQUAL = 1e-9
"""Two values that differ by no more are a tie."""

SIGNIFICANT = 0.05
"""Corrected p-values below it are significant."""

POWER = 0.8
"""Share of experiments in which a difference of `Comparison.detectable` would be found."""

FEWEST = 6
"""Queries below which nothing is tested."""

FEW = 20
"""Queries below which intervals and tests are rough."""

Kind = Literal[
    "failed", "empty", "missing", "undefined", "own model", "model", "cut", "ties", "few"
]
Data = TypeVar("Data", bound=Hashable)
Label = TypeVar("Label", bound=Hashable)
Query = TypeVar("Query", str, int)


class Flaw(NamedTuple):
    """A reason to doubt a number, in a sentence without its end."""

    kind: Kind
    said: str


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval: its lower and upper end."""

    low: float
    high: float


@dataclass(frozen=True)
class Values:
    """The values of a measure for one system."""

    of: Mapping[str, float]  # query id -> value as ranked; of one that failed the lowest
    measure: str = ""
    total: float | None = None  # the measure over all queries, where that is not their mean
    # Query id -> value with ties drawn by lot, of the queries that have ties.
    lots: Mapping[str, float] = field(default_factory=dict)
    lots_known: bool = True  # False if nothing is known of ties
    # Query id -> lowest and highest value that missing scores could have given; a query without
    # any value is in no mean, but in both cases of it.
    open: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)  # query id -> why it has no result
    empty: int = 0  # other judged queries without a result, which count as empty lists
    undefined: int = 0  # queries for which the measure has no value; they are in no mean
    missing: int = 0  # scores, comparisons or verdicts that did not come
    asked: int = 0  # scores, comparisons or verdicts in all
    unit: str = "scores"  # their name in the plural
    cut: int = 0  # queries of which passages were cut to fit the model
    depth: int | None = None  # passages a query that were ranked, at most; None if not known
    judge: str = ""  # the model that made the judgements; empty for people and for words
    own: bool = False  # that model is also the system's
    scale: tuple[float, float] = (-math.inf, math.inf)
    runs: tuple[float, ...] = ()  # means of repetitions

    @property
    def mean(self) -> float | None:
        """The measure over all queries, ties as ranked; None without a value."""
        return self.total if self.total is not None else _mean(self.of.values())

    @cached_property
    def fair(self) -> dict[str, float]:
        """Query id -> value, ties drawn by lot where that is known."""
        return {**self.of, **self.lots}

    @property
    def by_lot(self) -> float | None:
        """The mean with ties drawn by lot, or as ranked where that is not known."""
        return _mean(self.fair.values()) if self.lots else self.mean

    def case(self, *, best: bool) -> dict[str, float]:
        """Query id -> value in the best, or in the worst case of what is missing."""
        pick, known = (max if best else min), self.fair
        return known | {
            each: pick(known.get(each, ends[0]), *ends) for each, ends in self.open.items()
        }

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The mean in the worst and in the best case."""
        if not self.open:
            return self.by_lot, self.by_lot
        worst, best = (_mean(self.case(best=each).values()) for each in (False, True))
        return worst, best

    @property
    def is_open(self) -> bool:
        """True if what is missing could change the mean in its third decimal."""
        low, high = self.ends
        return low is not None and high is not None and high - low >= 0.0005

    @cached_property
    def interval(self) -> Interval:
        """Student's 95% interval of `by_lot`, within the scale."""
        low, high = self.scale
        return confidence_intervals({"": self.fair}, low=low, high=high)[""]

    def only(self, queries: Collection[str]) -> Values:
        """The values of some queries."""

        def some(of: Mapping[str, Any]) -> dict[str, Any]:
            return {each: of[each] for each in queries if each in of}

        if (of := some(self.of)) == self.of:
            return self
        lots, open_, failed = map(some, (self.lots, self.open, self.failed))
        return replace(self, total=None, of=of, lots=lots, open=open_, failed=failed)

    def flaws(self) -> Iterator[Flaw]:
        """Yield what a reader must know besides the number, the worst first."""
        low, high = self.ends
        could = ""
        if self.is_open:
            could = f"; the mean lies between {low:.3f} and {high:.3f}"
        if self.failed:
            those = counted(len(self.failed), "failed query", "failed queries")
            yield Flaw("failed", f"{those}, counted with the lowest value{could}")
        if self.empty:
            those = counted(self.empty, "query", "queries")
            yield Flaw("empty", f"{those} without results, counted as empty lists")
        if self.missing:
            share = f"{100 * self.missing / self.asked:.1f}%" if self.asked else "some"
            said = f"{self.missing:,} of {self.asked:,} {self.unit} are missing ({share})"
            yield Flaw("missing", said + could * (not self.failed))
        if self.undefined:
            said = "without a value by their nature, in no mean"
            yield Flaw("undefined", f"{counted(self.undefined, 'answer')} {said}")
        if self.judge:
            own = ", which is also the system's" if self.own else ""
            said = f"judged by a model, {self.judge}{own}, and not by people"
            yield Flaw("own model" if self.own else "model", said)
        if self.cut:
            those = counted(self.cut, "query", "queries")
            yield Flaw("cut", f"passages of {those} were cut to fit the model")
        if not self.lots_known:
            yield Flaw("ties", "the effect of ties is not known; values and tests are as ranked")
        if self.of and len(self.of) < FEW:
            those = counted(len(self.of), "query", "queries")
            yield Flaw("few", f"{those}, fewer than {FEW}: intervals and tests are rough")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run against a baseline, query by query, on the queries that both have.

    Attributes:
        difference: mean of the run less mean of the baseline, ties drawn by lot.
        interval: Student's confidence interval of it.
        p_value: of the paired t-test, two-sided; None below 6 queries, and where all differences
            are the same: nothing is tested there.
        p_adjusted: `p_value` after the correction for all comparisons of its family.
        wins: queries on which the run is better by more than 1e-9.
        ties: queries on which they are equal.
        losses: the others.
        effect: mean difference over its standard deviation (Cohen's d of paired values); None
            where that is 0, and for one query.
        detectable: the smallest difference that a two-sided test at 0.05, uncorrected, finds in
            80% of experiments with as many queries and such a spread; None for one query.
        worst: the difference where what is missing goes against the run.
        best: the difference where it goes for the run.
        decision: ``"better"`` or ``"worse"`` if the corrected p is below 0.05, and would be
            whatever the missing scores are; empty if not.
        left_out: queries that only one of the two has.
        notes: why the two are not alike, such as another depth.
    """

    difference: float
    interval: Interval
    p_value: float | None
    p_adjusted: float | None
    wins: int
    ties: int
    losses: int
    effect: float | None
    detectable: float | None
    worst: float = 0.0
    best: float = 0.0
    decision: Literal["better", "worse", ""] = ""
    left_out: int = 0
    notes: tuple[str, ...] = ()

    @property
    def queries(self) -> int:
        """Queries that both have."""
        return self.wins + self.ties + self.losses


def compare_runs(
    values: Mapping[Data, Mapping[Label, Values | Mapping[str, float]]],
    baseline: Label,
) -> dict[Data, dict[Label, Comparison]]:
    """Compare every run with the baseline, on every data set.

    All comparisons are one family: p-values are corrected for all of them by Holm. A data set
    without the baseline has none. Queries that only one of two runs has are left out.

    Args:
        values: data set -> run -> its `Values` of one measure, or query id -> value.
        baseline: the run that the others are compared with.

    Raises:
        SettingError: two runs have no query in common, or a value is not a finite number.
        ExtraMissing: scipy is not installed.
    """
    pairs: list[tuple[Data, Label, Values, Values]] = []
    for data, given in values.items():
        runs = {label: of if isinstance(of, Values) else Values(of) for label, of in given.items()}
        base = runs.pop(baseline, None)
        pairs += [(data, label, of, base) for label, of in runs.items() if base]
    # As it is, then with what is missing against the run, then for it.
    cases = [[_differences(pair, case) for pair in pairs] for case in (None, False, True)]
    p_values = [[_p_value(each) for each in case] for case in cases]
    corrected = [_corrected(case) for case in p_values]
    found: dict[Data, dict[Label, Comparison]] = {data: {} for data in values}
    for place, (data, label, run, base) in enumerate(pairs):
        differences = cases[0][place]
        wins, losses = int((differences > EQUAL).sum()), int((differences < -EQUAL).sum())
        mean, spread = _mean_and_spread(differences)
        far = run.scale[1] - run.scale[0]
        gains = dict(enumerate(differences.tolist()))
        ends = confidence_intervals({"": gains}, low=-far, high=far)
        means = [float(case[place].mean()) for case in cases]
        said = {_decided(mean, ps[place]) for mean, ps in zip(means, corrected, strict=True)}
        count = len(differences)
        found[data][label] = Comparison(
            difference=mean,
            interval=ends[""],
            p_value=p_values[0][place],
            p_adjusted=corrected[0][place],
            wins=wins,
            ties=count - wins - losses,
            losses=losses,
            effect=mean / spread if spread else None,
            detectable=None if spread is None else _detectable(spread, count),
            worst=means[1],
            best=means[2],
            decision=said.pop() if len(said) == 1 else "",
            left_out=len(run.of.keys() ^ base.of.keys()),
            notes=tuple(_unlike(run, base)),
        )
    return found


def adjust(p_values: Sequence[float]) -> list[float]:
    """Correct the p-values of one family by Holm, in their order; at most 1."""
    import numpy as np

    given, count = np.array(p_values, dtype=np.float64), len(p_values)
    order = np.argsort(given, kind="stable")
    given[order] = np.maximum.accumulate(given[order] * np.arange(count, 0, -1))
    return [float(each) for each in np.minimum(given, 1.0)]


def confidence_intervals(
    values: Mapping[Label, Mapping[Query, float]],
    *,
    low: float = -math.inf,
    high: float = math.inf,
) -> dict[Label, Interval]:
    """Student's 95% intervals of the means over queries: mean +- t * sd / sqrt(n), sd with n - 1.

    Where all values are equal the ends are too. One query says nothing of others: its interval
    goes from `low` to `high`. For the interval of a difference, give the differences as a run.
    Intervals from resampled queries (bootstrap) are too narrow for few queries, see
    docs/evaluation.md.

    Args:
        values: run -> query id -> value; one query or more.
        low: no interval goes below it, such as 0 for a measure that cannot.
        high: no interval goes above it.

    Raises:
        SettingError: a run has no query, or a value is not a finite number.
        ExtraMissing: scipy is not installed.
    """
    found = {}
    for label, of in values.items():
        if not of:
            raise SettingError("there are no queries, so there is no mean to have an interval")
        row = _row(str(label), of, sorted(of))
        reach = math.inf
        if len(row) > 1:
            spread = float(row.std(ddof=1))
            reach = _quantile((1 + LEVEL) / 2, len(row) - 1) / math.sqrt(len(row)) * spread
        mean = float(row.mean())
        found[label] = Interval(max(low, mean - reach), min(high, mean + reach))
    return found


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.fsum(found) / len(found) if found else None


def _differences(pair: tuple[Any, Any, Values, Values], best: bool | None) -> Numbers:
    """Differences by query; `best` says how what is missing counts for the run, None not at all."""
    _, label, run, base = pair
    ours, theirs = run.fair, base.fair
    if best is not None:
        ours, theirs = run.case(best=best), base.case(best=not best)
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        raise SettingError(f"run {label!r} has no query in common with the baseline")
    return _row(str(label), ours, common) - _row("baseline", theirs, common)


def _row(label: str, of: Mapping[Any, float], query_ids: Sequence[Any]) -> Numbers:
    import numpy as np

    row = np.array([of[each] for each in query_ids], dtype=np.float64)
    for query_id, value in zip(query_ids, row.tolist(), strict=True):
        if not math.isfinite(value):
            raise SettingError(
                f"run {label!r}, query {query_id!r}: the value {value!r} is not a finite number"
            )
    return row


def _unlike(run: Values, base: Values) -> Iterator[str]:
    if run.depth is not None and base.depth is not None and run.depth != base.depth:
        yield f"lists of up to {run.depth:,} passages against {base.depth:,}"
    if run.judge != base.judge:
        yield f"judged by {run.judge or 'people'} against {base.judge or 'people'}"


def _decided(difference: float, p_value: float | None) -> Literal["better", "worse", ""]:
    if p_value is None or p_value >= SIGNIFICANT:
        return ""
    return "better" if difference > 0 else "worse"


def _quantile(probability: float, degrees: int) -> float:
    """The value that Student's t stays below with that probability."""
    return float(_scipy().stdtrit(degrees, probability))


def _p_value(differences: Numbers) -> float | None:
    """Two-sided p of no difference by the paired t-test; None where nothing is tested."""
    mean, spread = _mean_and_spread(differences)
    if not spread or len(differences) < FEWEST:
        return None
    t_value = abs(mean) / (spread / math.sqrt(len(differences)))
    return 2 * float(_scipy().stdtr(len(differences) - 1, -t_value))


def _corrected(p_values: Sequence[float | None]) -> list[float | None]:
    # What is not tested counts in its family all the same.
    corrected = adjust([1.0 if each is None else each for each in p_values])
    return [
        None if given is None else each for given, each in zip(p_values, corrected, strict=True)
    ]


def _mean_and_spread(differences: Numbers) -> tuple[float, float | None]:
    """Return mean and standard deviation; 0 if only rounding differs, None for one value."""
    import numpy as np

    mean = float(differences.mean())
    if len(differences) < 2:
        return mean, None
    same = np.abs(differences - mean).max() <= EQUAL
    return mean, 0.0 if same else float(differences.std(ddof=1))


def _detectable(spread: float, count: int) -> float:
    reach = _quantile(1 - SIGNIFICANT / 2, count - 1) + _quantile(POWER, count - 1)
    return reach * spread / math.sqrt(count)


def _scipy() -> Any:
    try:
        from scipy import special
    except ImportError as missing:
        raise ExtraMissing("scipy", "significance tests and intervals", extra="eval") from missing
    return special
