"""One ranker over one data set: ranked query by query into a run folder, resumable anywhere."""

from __future__ import annotations

import math
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beir_eval.errors import RunFolderError
from beir_eval.experiment.rankings import RANKINGS, index_rankings, ranking_line, read_rankings
from beir_eval.experiment.run_folder import (
    RUN_FILES,
    Metrics,
    Percentiles,
    RunCost,
    RunFolder,
    RunManifest,
    ScoreCounts,
    digests,
)
from beir_eval.files import append_whole, cut_torn_line, write_form
from beir_eval.measures.ties import Tied, measured
from mcranker.config import HOW_NOT_WHAT
from mcranker.inputs.trec import write_trec
from mcranker.llm.masking import shown_url
from mcranker.llm.models import MODEL_OPTIONS
from mcranker.logs import safe_logger
from personas.ensembles import find_ensemble
from personas.io.atomic import replacing
from personas.ranking.record import RankingRecord
from personas.ranking.types import ASSESSOR
from personas.ranking.usage import UsageTable

if TYPE_CHECKING:
    from beir_eval.experiment.prepare import RankingInput
    from beir_eval.experiment.suite import RankerSpec
    from mcranker.rankers import Ranker
    from mcranker.ranking import Ranking

_log = safe_logger("mcranker.beir_eval.cell")

ELSEWHERE = {*MODEL_OPTIONS, "base_url", "api_key", "ledger", "team", "with_criteria"}
"""Options of rankers that a manifest keeps under models, team and prompts."""

LONGEST_REASON = 120
_OF_SCORES = ("score", "assess")
"""Stages whose answers are about passages."""


@dataclass
class RunJob:
    """One ranker over one data set."""

    path: Path  # of the run folder
    spec: RankerSpec  # what ranks
    prepared: RankingInput  # what is ranked
    measures: Sequence[str]  # names as ir-measures writes them; the first one heads the tables
    # Query id -> why it was not ranked, of the queries tried this time.
    failed: dict[str, str] = field(default_factory=dict)

    @cached_property
    def done(self) -> set[str]:
        """Ids of the queries already ranked; nothing is changed."""
        if not self._rankings.exists():
            return set()
        return set(index_rankings(self._rankings, finished=False).offsets)

    @property
    def open_queries(self) -> list[str]:
        """Ids of the queries that are still to be ranked, in order."""
        return [query_id for query_id in self.prepared.queries if query_id not in self.done]

    @property
    def scores_ahead(self) -> int:
        """Scores of the queries that are still to be ranked: one a passage and judge."""
        run = self.prepared.run
        return judges(self.spec) * sum(len(run.get(each, ())) for each in self.open_queries)

    def begin(self, ranker: Ranker) -> None:
        """Make the folder, or see that what is ranked there was ranked with the same choices."""
        # Another program may have ranked some since they were counted.
        vars(self).pop("done", None)
        if cut_torn_line(self._rankings):
            _log.warning("%s: the last ranking was torn; it is made again", self._rankings)
        manifest = self._manifest(ranker)
        if (self.path / "manifest.json").exists():
            known = RunFolder.open(self.path).manifest
            if self.done:
                _check_same(self.path, known, manifest)
            if known.finished and not self.open_queries:
                manifest = manifest.model_copy(update={"finished": True, "files": known.files})
        self.path.mkdir(parents=True, exist_ok=True)
        write_form(self.path / "manifest.json", manifest)

    def keep(self, ranking: Ranking) -> None:
        """Add a ranking to the folder; it stays, whatever happens next."""
        append_whole(self._rankings, ranking_line(ranking))
        self.done.add(ranking.query.id)

    def finish(self) -> Metrics:
        """Write the TREC run, the measures, and the rankings in the order of the queries."""
        self._rankings.touch()
        offsets = index_rankings(self._rankings, finished=True).offsets
        tried = offsets.keys() | self.failed.keys()
        gone = [each for each in self.prepared.queries if each not in tried]
        if gone:
            raise RunFolderError(
                f"{self._rankings}: {len(gone)} rankings that were made are gone, e.g. of query "
                f"{gone[0]!r}; let one run at a time write there, and run it again"
            )
        in_order = [offsets[query_id] for query_id in self.prepared.queries if query_id in offsets]
        _keep_lines(self._rankings, in_order)
        outcome = Outcome(self.prepared.texts)
        for ranking in read_rankings(self._rankings):
            outcome.take(ranking)
        metrics = outcome.metrics(self.prepared.qrels, self.measures, self.failed)
        run = {query_id: outcome.run.get(query_id, []) for query_id in self.prepared.queries}
        write_trec(
            {query_id: ranked for query_id, ranked in run.items() if ranked},
            self.path / "run.trec",
            self.path.name,
        )
        write_form(self.path / "metrics.json", metrics)
        known = RunFolder.open(self.path).manifest
        finished = {"finished": True, "files": digests(self.path, RUN_FILES)}
        write_form(self.path / "manifest.json", known.model_copy(update=finished))
        return metrics

    def finished(self) -> Metrics | None:
        """The measures, if all queries are done and none failed; else None."""
        if not (self.path / "metrics.json").exists() or self.open_queries:
            return None
        folder = RunFolder.open(self.path)
        if not folder.manifest.finished:
            return None
        metrics = folder.metrics()
        return metrics if metrics.measures == tuple(self.measures) else self.finish()

    @property
    def _rankings(self) -> Path:
        return self.path / RANKINGS

    def _manifest(self, ranker: Ranker) -> RunManifest:
        from mcranker import __version__

        config = ranker.config.recorded(how=False)
        endpoint = getattr(ranker.models.scoring, "endpoint", "")
        return RunManifest(
            label=self.spec.label,
            ranker=self.spec.ranker,
            options={
                name: _plain(value)
                for name, value in self.spec.options.items()
                if name not in HOW_NOT_WHAT
            },
            config=config,
            models=dict(ranker.models.names),
            server=shown_url(endpoint) if "://" in endpoint else "",  # else a model in this process
            weak_judge=ranker.models.scoring.capabilities.weak_judge,
            prompt_hashes=dict(ranker.prompt_hashes),
            versions={"mcranker": __version__, "python": platform.python_version()},
            data=self.prepared.manifest.content,
            suite=self.spec.note,
        )


def judges(spec: RankerSpec) -> int:
    """Return the scores a passage gets: one of each persona and the assessor, or DIRECT's one."""
    from mcranker import MCRanker, RankerConfig
    from mcranker.method.team_plan import as_team

    if spec.ranker != MCRanker.name:
        return 0 if spec.run else 1
    size, team = spec.options.get("team_size"), spec.options.get("team")
    if size is None and team is not None:
        size = len(as_team(team).members)
    if size is None:
        size = RankerConfig().team_size
    ensemble = find_ensemble(spec.options)
    return int(size) + (ensemble is not None and ensemble.asks)


def _check_same(path: Path, known: RunManifest, wanted: RunManifest) -> None:
    changed = [
        f"{name} was {getattr(known, name)!r} and is {getattr(wanted, name)!r}"
        for name in ("label", "ranker", "data")
        if getattr(known, name) != getattr(wanted, name)
    ]
    for name in ("config", "models", "prompt_hashes"):
        before, now = getattr(known, name), getattr(wanted, name)
        changed += [
            f"{key} was {before.get(key)!r} and is {now.get(key)!r}"
            for key in dict.fromkeys([*before, *now])
            if before.get(key) != now.get(key)
        ]
    if changed:
        raise RunFolderError(
            f"{path} was begun with other choices: {'; '.join(changed[:3])}; choose another "
            "--out, or delete the folder (answers stay in the ledger)"
        )


def _plain(value: Any) -> Any:
    """An option as JSON can hold it; a model object by its name."""
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return str(getattr(value, "name", type(value).__name__))


def _keep_lines(path: Path, offsets: Iterable[int]) -> None:
    """Rewrite a file with the lines at `offsets`, in that order, one in memory at a time."""
    with replacing(path) as file, path.open("rb") as lines:
        for offset in offsets:
            lines.seek(offset)
            file.write(lines.readline())


@dataclass(slots=True)
class Outcome:
    """Collects rankings one by one and sums them up; keeps ids and scores."""

    # Document id -> title and text; equal passages were judged as one.
    texts: Mapping[str, tuple[str, str]]
    # Query id -> (document id, score), best first. A passage without a score of its own has the
    # highest that it could have got, or one below all others.
    run: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    _tied: dict[str, Tied] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)  # as `ScoreCounts` has them
    _short_teams: int = 0
    _cut: int = 0
    _reasons: Counter[str] = field(default_factory=Counter)
    _used: UsageTable = field(default_factory=UsageTable)
    _seconds: list[float] = field(default_factory=list)

    def take(self, ranking: RankingRecord) -> None:
        """Count a ranking; texts may be left out."""
        query_id = ranking.query.id
        self._tied[query_id] = Tied.of_ranking(ranking, self.texts)
        self.run[query_id] = _with_numbers(ranking.run)
        self._cut += any(hit.cut for hit in ranking.hits)
        size = ranking.config.get("team_size")
        if ranking.team is not None and isinstance(size, int):
            self._short_teams += len(ranking.team.members) < size
        ensemble = find_ensemble(ranking.config)
        assessed = ensemble is not None and ensemble.asks
        missing = ranking.missing
        given = sum(score is not None for hit in ranking.hits for score in hit.scores.values())
        if assessed:  # whose score is the final one, and no persona's
            given += sum(ASSESSOR not in hit.missing for hit in ranking.judged)
        self._counts["missing"] += len(missing)
        self._counts["asked"] += given + len(missing)
        self._reasons.update(_in_short(each.reason) for each in missing)
        if (counts := ranking.comparisons) is not None:
            self._counts.update(
                asked=counts.asked,
                comparisons=counts.asked,
                missing=counts.failed,
            )
            if counts.failed:
                self._reasons[_in_short(counts.reason)] += counts.failed
        for table in (ranking.calls, ranking.calls.reused):
            for key, usage in table.items():
                self._used.add(*key, usage)
        # What the ledger had took no time that says anything.
        if "total" in ranking.seconds and not any(
            stage in _OF_SCORES for stage, _, _ in ranking.calls.reused
        ):
            self._seconds.append(ranking.seconds["total"])

    def metrics(
        self,
        qrels: Mapping[str, Mapping[str, int]],
        measures: Sequence[str],
        failed: Mapping[str, str],
    ) -> Metrics:
        """The measures over all judged queries, and the sums; `failed` is query id -> why."""
        scores = ScoreCounts(
            **self._counts,
            reasons=dict(sorted(self._reasons.items(), key=lambda item: (-item[1], item[0]))),
            unreadable=sum(usage.unreadable for usage in self._used.values()),
        )
        return measured(self.run, self._tied, qrels, measures).model_copy(
            update={
                "failed": dict(failed),
                "short_teams": self._short_teams,
                "cut": self._cut,
                "scores": scores,
                "taken": self._taken(),
            }
        )

    def _taken(self) -> RunCost:
        import numpy as np

        from mcranker.llm.prices import cost
        from personas.ranking.usage import Usage

        sorted_rows = [(key, self._used[key]) for key in sorted(self._used)]
        total = sum((usage for _, usage in sorted_rows), start=Usage())
        # Priced together, so that it makes no difference which answers were there already.
        costs = [cost(model, usage) for (_, _, model), usage in sorted_rows]
        known = [each for each in costs if each is not None]
        timed = None
        if self._seconds:
            ends = np.percentile(self._seconds, (50, 90, 99))
            p50, p90, p99 = (round(float(each), 3) for each in ends)
            timed = Percentiles(queries=len(self._seconds), p50=p50, p90=p90, p99=p99)
        return RunCost(
            calls=total.calls,
            input_tokens=total.input_tokens,
            cached_input_tokens=total.cached_input_tokens,
            output_tokens=total.output_tokens,
            # The order of the answers must not show in the last digits.
            seconds=round(total.seconds, 3),
            cost=round(math.fsum(known), 9) if len(known) == len(costs) else None,
            query_seconds=timed,
        )


def _with_numbers(run: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    numbered: list[tuple[str, float]] = []
    for doc_id, score in run:
        below = min([0.0, *(before for _, before in numbered[-1:])]) - 1.0
        numbered.append((doc_id, below if math.isnan(score) else score))
    return numbered


def _in_short(reason: str) -> str:
    """The reason without the model's own words, so that equal reasons count together."""
    return reason.partition(" The answer:")[0][:LONGEST_REASON]
