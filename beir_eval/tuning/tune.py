"""From ranked and judged queries to a team with fitted weights, and the gain that they show."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beir_eval.data.qrels import read_qrels
from beir_eval.errors import RunFolderError, SettingError
from beir_eval.experiment.rankings import RANKINGS, judged_by_team
from beir_eval.experiment.run_folder import find_runs
from beir_eval.measures.significance import (
    MARGIN,
    SIGNIFICANT,
    Interval,
    compare_runs,
    paired_bootstrap,
)
from beir_eval.ranges import check_whole
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
    check_whole("folds", folds, 2, _MOST_FOLDS)
    judged, sources = _read(paths, qrels)
    rankings, grades = zip(*judged.values(), strict=True)
    count, before, enough = len(judged), rankings[0].team, len(judged) >= FEWEST_QUERIES
    assert before is not None, "checked as it was read"
    few = f"{counted(count, 'judged query', 'judged queries')}; a claim takes {FEWEST_QUERIES}"
    if count < 2 * folds:
        raise RunFolderError(f"{few}, and a fit {2 * folds}; judge more of them")
    data = ScoredQueries.of(rankings, grades, Rule.of(rankings[0].config))
    present = data.weights(before)
    held_out = {name: np.zeros(count) for name in ("", *FITS)}
    for done, (part, test, found) in enumerate(_folds(data, present, folds, seed), 1):
        for name in FITS:
            held_out[name][test] = found[name]
        held_out[""][test] = found[_best_method(part, present, seed)]
        if progress is not None:
            progress(done, folds + 1)
    values = data.ndcg(present)
    gain, *others = (_gain(each - values, seed) for each in held_out.values())
    notes = _notes(gain, "" if enough else few, count)
    if not (enough or anyway):
        raise RunFolderError(
            f"{notes[0]} Judge more queries, or give --anyway (anyway=True) for weights that "
            "nothing speaks for"
        )
    method = _best_method(data, present, seed)
    team = FITS[method](data, present).on(before)
    weak = "" if gain.is_shown else "; no gain is shown"
    claim = f"held-out gain {gain}{weak}" if enough else "nothing is shown"
    origin = (
        f"personas tune of MCRanker {__version__}{' on ' * bool(date)}{date}: {MEASURE} of {count} "
        f"judged queries of {'; '.join(sources)}; {folds} folds: {claim}"
    )
    texts = (each.query.text for each in rankings)
    rows = zip(texts, values.tolist(), held_out[""].tolist(), strict=True)
    return TunedTeam(
        before,
        team.model_copy(update={"weights_from": origin}),
        method,
        gain,
        dict(zip(FITS, others, strict=True)),
        dict(zip(judged, rows, strict=True)),
        float(data.ndcg(data.weights(team)).mean()),
        notes,
    )


def _best_method(data: ScoredQueries, present: Weights, seed: int) -> str:
    """The method with the highest mean over inner folds of these queries."""
    found = [each for *_, each in _folds(data, present, _INNER_FOLDS, seed + 1)]
    return max(FITS, key=lambda name: sum(float(each[name].sum()) for each in found))


def _folds(
    data: ScoredQueries, present: Weights, folds: int, seed: int
) -> Iterator[tuple[ScoredQueries, NDArray[np.intp], dict[str, Numbers]]]:
    """Fold by fold: queries to fit to, places of the held-out ones, and their nDCG by method."""
    order = np.random.default_rng(seed).permutation(len(data.gains))
    for test in np.array_split(order, folds):
        part, rest = data.take(np.setdiff1d(order, test)), data.take(test)
        yield part, test, {name: rest.ndcg(fit(part, present)) for name, fit in FITS.items()}


def _gain(differences: Numbers, seed: int) -> Gain:
    labelled = {str(place): each for place, each in enumerate(differences.tolist())}
    runs = {"": {"present": dict.fromkeys(labelled, 0.0), "tuned": labelled}}
    test = compare_runs(runs, "present")[""]["tuned"]
    interval, p_value = paired_bootstrap(differences.tolist(), seed=seed)
    counts = (test.wins, test.ties, test.losses)
    return Gain(test.difference, interval, p_value, *counts, test.detectable or 0.0)


def _notes(gain: Gain, few: str, count: int) -> tuple[str, ...]:
    if few:
        wanted = max(FEWEST_QUERIES, math.ceil(count * (gain.detectable / MARGIN) ** 2))
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
) -> tuple[dict[str, tuple[RankingRecord, Mapping[str, int]]], list[str]]:
    """Judged rankings and their judgements, by query; and a name of each run."""
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
    judged: dict[str, tuple[RankingRecord, Mapping[str, int]]] = {}
    sources, first = [], None
    for run in runs:
        data = run.data()
        known = data.qrels() if qrels is None else read_qrels(qrels)
        dataset = data.manifest.dataset
        model = run.manifest.models.get("scoring", "an unknown model")
        sources.append(f"{dataset} ({data.manifest.split}), {run.manifest.label} by {model}")
        for ranking in run.rankings():
            if not ranking.passages:
                continue  # nothing was found, so no team was asked
            first, query_id = first or ranking, ranking.query.id
            if problem := why_unfit(ranking, first):
                raise RunFolderError(f"{run.path}: query {query_id!r} {problem}")
            if known.get(query_id):
                label = f"{dataset}: {query_id}" if len(runs) > 1 else query_id
                judged.setdefault(label, (ranking, known[query_id]))
    if not judged:
        raise RunFolderError(f"{runs[0].path}: no ranked query has judgements; give their --qrels")
    return judged, sources
