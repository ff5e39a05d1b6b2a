"""From ranked and judged queries to a team with fitted weights, and the gain that they show."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from beir_eval.data.qrels import read_qrels
from beir_eval.errors import RunFolderError, SettingError
from beir_eval.experiment.rankings import RANKINGS, judged_by_team
from beir_eval.experiment.run_folder import RunFolder, find_runs
from beir_eval.measures.significance import (
    MARGIN,
    SIGNIFICANT,
    Interval,
    compare_runs,
    paired_bootstrap,
)
from beir_eval.tuning.fit import FITS
from beir_eval.tuning.scored import DEPTH, Numbers, ScoredQueries, Weights, why_unfit
from mcranker import __version__
from personas.ensembles import Rule
from personas.format import counted, fixed, p_text, signed
from personas.ranking.record import RankingRecord
from personas.schema import Team

MEASURE = f"nDCG@{DEPTH}"

FEWEST_QUERIES = 50
"""Judged queries from which on a gain is claimed."""

_INNER_FOLDS = 3
_MOST_FOLDS = 20

_Rows: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Gain:
    """Gain of fitted weights over the present ones, on queries that they were not fitted to.

    Attributes:
        difference: mean of nDCG@10 with fitted weights less that with the present ones.
        interval: of that, 95%, and `p_value`: both by `paired_bootstrap`.
        wins: queries that are better by more than 1e-9; `losses`: worse; `ties`: the others.
        detectable: the smallest gain that is found in 80% of experiments like this one.
    """

    difference: float
    interval: Interval
    p_value: float
    wins: int
    ties: int
    losses: int
    detectable: float

    @property
    def is_shown(self) -> bool:
        """True if the gain is above 0 and significant."""
        return self.interval.low > 0 and self.p_value < SIGNIFICANT

    def __str__(self) -> str:
        ends = f"{signed(self.interval.low, 4)} to {signed(self.interval.high, 4)}"
        return f"{signed(self.difference, 4)} (95% interval {ends}, p {p_text(self.p_value)})"


@dataclass(frozen=True, slots=True, eq=False)
class TunedTeam:
    """A team with weights that were fitted to judgements.

    Attributes:
        before: the team as it ranked.
        team: the same with weights fitted to all queries; it says where they are from.
        method: the fit that was chosen, ``"listwise"`` or ``"ascent"``.
        gain: on held-out queries, each fold by the method that was best within the others.
        gains: method -> the same by that method in all folds.
        per_query: query -> its text, and nDCG@10 with the present weights and with those fitted to
            other folds.
        fitted: mean nDCG@10 over the queries with the weights of `team`, which were fitted to them:
            no claim follows from it.
        notes: what to know before the weights are used, the worst first; a sentence each.
    """

    before: Team
    team: Team
    method: str
    gain: Gain
    gains: Mapping[str, Gain]
    per_query: Mapping[str, tuple[str, float, float]]
    fitted: float
    notes: tuple[str, ...]


def tune(
    paths: Iterable[str | os.PathLike[str]],
    *,
    qrels: str | os.PathLike[str] | None = None,
    folds: int = 5,
    seed: int = 0,
    date: str = "",
    anyway: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> TunedTeam:
    """Fit the weights of a team's personas and criteria to nDCG@10, at no call.

    Weights of criteria are fitted where personas were scored by criterion. The gain comes from
    cross-validation by query: every query is measured with weights fitted to other folds, by the
    method that was best within those.

    Args:
        paths: run folders of one team, or folders that hold some; runs without a team are skipped.
        qrels: a file of judgements, instead of those in the run folder.
        folds: 2 to 20.
        seed: of the folds and the bootstrap; the same one gives the same result.
        date: of the fit, for `Team.weights_from`.
        anyway: fit below `FEWEST_QUERIES` judged queries too, where nothing is claimed.
        progress: receives the folds that are done, and the number of all.

    Raises:
        RunFolderError: there is no such run; teams or settings differ; weights cannot be fitted to
            a ranking; or the judged queries are too few. Says what to do.
        SettingError: `folds` is out of its range, or `qrels` is given for several runs.
        DatasetError: `qrels` cannot be read.
        ExtraMissing: scipy is not installed.
    """
    if not 2 <= folds <= _MOST_FOLDS:
        raise SettingError(f"folds={folds!r} is out of range; give 2 to {_MOST_FOLDS}")
    rankings, grades, sources = _read(paths, qrels)
    count, (first, *_) = len(rankings), rankings.values()
    few = f"{counted(count, 'judged query', 'judged queries')}; a claim takes {FEWEST_QUERIES}"
    if count < 2 * folds:
        raise RunFolderError(f"{few}, and a fit {2 * folds}; judge more of them")
    data = ScoredQueries.of(list(rankings.values()), grades, Rule.of(first.config))
    before = first.team
    assert before is not None, "checked as it was read"
    by_criterion = [each is not None for each in data.criteria]
    present = Weights.of(before, by_criterion)
    held_out = {name: np.zeros(count) for name in ("", *FITS)}
    for number, (train, test) in enumerate(_folds(count, folds, seed)):
        part, rest = data.take(train), data.take(test)
        for name, fit in FITS.items():
            held_out[name][test] = rest.ndcg(fit(part, present))
        held_out[""][test] = held_out[_best_method(part, present, seed)][test]
        if progress is not None:
            progress(number + 1, folds + 1)
    values = data.ndcg(present)
    gain, *others = (_gain(each - values, seed) for each in held_out.values())
    notes = _notes(gain, few if count < FEWEST_QUERIES else "", count)
    if count < FEWEST_QUERIES and not anyway:
        raise RunFolderError(
            f"{notes[0]} Judge more queries, or give --anyway (anyway=True) for weights that "
            "nothing speaks for"
        )
    method = _best_method(data, present, seed)
    team = FITS[method](data, present).on(before)
    claim = f"held-out gain {gain}" if count >= FEWEST_QUERIES else "nothing is shown"
    weak = "; no gain is shown" if count >= FEWEST_QUERIES and not gain.is_shown else ""
    origin = (
        f"personas tune of MCRanker {__version__}{' on ' * bool(date)}{date}: {MEASURE} of {count} "
        f"judged queries of {'; '.join(sources)}; {folds} folds: {claim}{weak}"
    )
    texts = (each.query.text for each in rankings.values())
    rows = zip(texts, values.tolist(), held_out[""].tolist(), strict=True)
    return TunedTeam(
        before,
        team.model_copy(update={"weights_from": origin}),
        method,
        gain,
        dict(zip(FITS, others, strict=True)),
        dict(zip(rankings, rows, strict=True)),
        float(data.ndcg(Weights.of(team, by_criterion)).mean()),
        notes,
    )


def _best_method(data: ScoredQueries, present: Weights, seed: int) -> str:
    """The method with the highest mean over inner folds of these queries."""
    sums = dict.fromkeys(FITS, 0.0)
    for train, test in _folds(len(data.best), _INNER_FOLDS, seed + 1):
        part, rest = data.take(train), data.take(test)
        for name, fit in FITS.items():
            sums[name] += float(rest.ndcg(fit(part, present)).sum())
    return max(sums, key=sums.__getitem__)


def _folds(count: int, folds: int, seed: int) -> Iterator[tuple[_Rows, _Rows]]:
    """Split queries at random: those to fit to, and those held out, fold by fold."""
    order = np.random.default_rng(seed).permutation(count)
    for test in np.array_split(order, folds):
        yield np.setdiff1d(order, test), np.sort(test)


def _gain(differences: Numbers, seed: int) -> Gain:
    labelled = {str(place): each for place, each in enumerate(differences.tolist())}
    runs = {"": {"present": dict.fromkeys(labelled, 0.0), "tuned": labelled}}
    test = compare_runs(runs, "present")[""]["tuned"]
    interval, p_value = paired_bootstrap(differences.tolist(), seed=seed)
    counts = (test.wins, test.ties, test.losses)
    return Gain(test.difference, interval, p_value, *counts, test.detectable or 0.0)


def _notes(gain: Gain, few: str, count: int) -> tuple[str, ...]:
    if few:
        wanted = math.ceil(count * (gain.detectable / MARGIN) ** 2)
        wanted = max(wanted, FEWEST_QUERIES)
        return (
            f"Nothing is shown: {few}, and to find a gain of {MARGIN:g} at the spread of these "
            f"takes {wanted:,} (80% power).",
        )
    if gain.is_shown:
        return ()
    if not gain.wins + gain.losses:
        return ("No gain is shown: the fitted weights change no query.",)
    return (
        "No gain is shown: the interval of the held-out gain is not above 0. A gain of "
        f"{fixed(gain.detectable, 4)} would be found in 80% of such experiments.",
    )


def _read(
    paths: Iterable[str | os.PathLike[str]], qrels: str | os.PathLike[str] | None
) -> tuple[dict[str, RankingRecord], list[Mapping[str, int]], list[str]]:
    """Judged rankings by query, their judgements, and a name of each run."""
    found = find_runs(paths)
    with_rankings = [each for each in found if (each.path / RANKINGS).is_file()]
    runs = [each for each in with_rankings if judged_by_team(each.path / RANKINGS)]
    if not runs:
        raise RunFolderError(
            f"{found[0].path}: no team ranked there; give a run of 'beir-eval run --ranker "
            "mcranker --team NAME'"
        )
    if len(runs) > 1 and qrels is not None:
        raise SettingError(f"qrels={os.fspath(qrels)!r} is for one run, and {len(runs)} are given")
    if len({each.manifest.data for each in runs}) < len(runs):
        raise RunFolderError(
            f"{runs[0].path}: several runs of a team over the same queries; give one of them"
        )
    rankings: dict[str, RankingRecord] = {}
    grades: list[Mapping[str, int]] = []
    first: RankingRecord | None = None
    for run in runs:
        known = run.data().qrels() if qrels is None else read_qrels(qrels)
        for ranking in run.rankings():
            first = first or ranking
            _check(run, ranking, first)
            query_id = ranking.query.id
            if known.get(query_id) and ranking.passages:
                dataset = f"{run.data().manifest.dataset}: " if len(runs) > 1 else ""
                rankings[f"{dataset}{query_id}"] = ranking
                grades.append(known[query_id])
    if not rankings:
        raise RunFolderError(f"{runs[0].path}: no ranked query has judgements; give their --qrels")
    return rankings, grades, [_source(run) for run in runs]


def _source(run: RunFolder) -> str:
    data, model = run.data().manifest, run.manifest.models.get("scoring", "an unknown model")
    return f"{data.dataset} ({data.split}), {run.manifest.label} by {model}"


def _check(run: RunFolder, ranking: RankingRecord, first: RankingRecord) -> None:
    """Refuse a ranking that weights cannot be fitted to, or not together with the first one."""
    where = f"{run.path}: query {ranking.query.id!r}"
    if problem := why_unfit(ranking):
        raise RunFolderError(f"{where} {problem}")
    if ranking.team is None or first.team is None or ranking.team.members != first.team.members:
        raise RunFolderError(
            f"{where} has another team than {first.query.id!r}, and weights belong to one team; "
            "rank all queries with --team FILE or --team NAME ('personas list --teams' lists them)"
        )
    if Rule.of(ranking.config) != Rule.of(first.config):
        raise RunFolderError(
            f"{where} combines scores by other settings than {first.query.id!r}, such as the scale "
            "or first_stage_weight; tune the runs apart"
        )
