"""Attacks through rankers, and what they did: clean, attacked and harmlessly changed lists."""

from __future__ import annotations

import math
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from beir_eval.attacks.texts import Attacks, Piece, Target, Trial, erased, trials_of
from beir_eval.experiment.ranker_cell import connected
from beir_eval.measures.metrics import Evaluator
from beir_eval.measures.values import Values
from mcranker.errors import (
    FATAL_ERRORS,
    BudgetExceeded,
    ConfigError,
    ModelError,
    UnsupportedCapability,
)
from mcranker.estimate import Estimate
from mcranker.llm.limits.budget import Budget
from mcranker.rankers import Ranker
from mcranker.rankers.keys import keys_of
from mcranker.ranking import Ranking
from personas import PromptSet
from personas.ranking.usage import UsageTable

DEFENCES = ("none", "delimiters_off", "erase_and_check")
"""Names; docs/security.md explains them."""
RELEVANT = 0.5
"""Relevance from which a passage counts as called relevant."""
OnDone = Callable[[str, int], None]
"""Takes the work that begins and its size, or an empty text when one list of it is done."""


class Seen(NamedTuple):
    """One ranked list: ids, best first, and by id scores, relevance and why replies are missing."""

    order: Sequence[str]
    scores: Mapping[str, float | None]
    relevance: Mapping[str, float | None]
    missing: Mapping[str, str]
    criteria: Sequence[str] = ()

    @classmethod
    def of(cls, ranking: Ranking) -> Seen:
        """Return what a ranking shows; scores and relevance in the order of the first stage."""
        order = [hit.doc_id for hit in ranking.hits]
        hits = {hit.doc_id: hit for hit in sorted(ranking.hits, key=lambda hit: hit.index)}
        missing = {key: why for key, hit in hits.items() for why in hit.missing.values()}
        if ranking.comparisons is not None and ranking.comparisons.failed:
            missing = dict.fromkeys(order, ranking.comparisons.reason)
        team = ranking.team.members if ranking.team else ()
        names = (each.name for member in team if member.rubric for each in member.rubric.criteria)
        scores = {key: hit.score for key, hit in hits.items()}
        relevance = {key: hit.relevance for key, hit in hits.items()}
        return cls(order, scores, relevance, missing, list(dict.fromkeys(names)))

    def lower(self, other: Seen) -> Seen:
        """Return the list by the lower of both scores; a passage without both goes last."""

        def least(name: str) -> dict[str, float | None]:
            ours, theirs = getattr(self, name), getattr(other, name)
            both = {key: (ours[key], theirs[key]) for key in ours}
            return {key: None if None in pair else min(pair) for key, pair in both.items()}

        scores = least("scores")
        order = sorted(scores, key=lambda key: (scores[key] is None, -(scores[key] or 0.0)))
        missing = {**other.missing, **self.missing}
        return Seen(order, scores, least("relevance"), missing, self.criteria)


@dataclass(slots=True)
class AttackResult:
    """One ranker behind one defence: its trials, clean lists by query, calls and failed lists."""

    ranker: str
    defence: str
    model: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """A trial each: number and id of the attack, query, document, text; ranks from 1, relevance."""
    clean: dict[str, Seen] = field(default_factory=dict)
    usage: UsageTable = field(default_factory=UsageTable)
    failed: list[str] = field(default_factory=list)
    left_out: str = ""

    @property
    def names(self) -> dict[str, str]:
        """Ranker, model and defence."""
        return {"ranker": self.ranker, "model": self.model, "defence": self.defence}

    def figures(self) -> list[dict[str, Any]]:
        """Return trials, missing replies and the mean of each of `values_of`, by class."""
        number = itemgetter("number")
        found = []
        for of_class, rows in groupby(sorted(self.rows, key=number), key=number):
            trials = [*rows]
            values = [(row["query"], values_of(row)) for row in trials]
            counts = {"trials": len(trials), "missing": sum(bool(row["missing"]) for row in trials)}
            names = values[0][1]
            means = {name: mean_of((query, of[name]) for query, of in values) for name in names}
            found.append({**self.names, "class": of_class, **counts, **means})
        return found

    def drift(
        self, without: AttackResult, qrels: Mapping[str, Mapping[str, int]]
    ) -> dict[str, Any]:
        """Return what the defence changes in clean lists, against `without` one."""
        both = self.clean.keys() & without.clean.keys()
        judged = {key: grades for key, grades in qrels.items() if key in both and grades}
        now, before = (_ndcg(each.clean, judged) for each in (self, without))
        moved = (
            (key, float(abs(rank - without.clean[key].order.index(doc_id))))
            for key in both
            for rank, doc_id in enumerate(self.clean[key].order)
        )
        calls = self.usage.total.calls
        return {
            **self.names,
            "ndcg": mean_of(now.items()),
            "change": mean_of((key, value - before[key]) for key, value in now.items()),
            "moved": mean_of(moved),
            "calls": calls,
            "answers": calls + self.usage.reused.total.calls,
            "failed": len(self.failed),
            "left_out": self.left_out,
        }


@dataclass(frozen=True, slots=True)
class Campaign:
    """Attacks on targets of a data set, drawn by `seed`; all calls are paid from `budget`."""

    targets: Sequence[Target]
    attacks: Attacks
    options: Mapping[str, Any]
    seed: int
    budget: Budget

    async def run(self, ranker: str, defence: str, on_done: OnDone) -> AttackResult:
        """Attack a ranker behind a defence."""
        result = AttackResult(ranker, defence)
        try:
            async with self._defended(ranker, defence) as made:
                await self._run(result, made, on_done)
        except (UnsupportedCapability, ConfigError) as error:
            if defence == "none":
                raise
            return AttackResult(ranker, defence, left_out=str(error))
        return result

    async def estimate(self, ranker: str, defence: str) -> Estimate | None:
        """Estimate `run` without sending anything; None if the defence does not go with it."""
        try:
            async with self._defended(ranker, defence) as made:
                named = ("criteria",) if made.plan.members or made.plan.recruits else ()
                trials = [each for target in self.targets for each in self._of(target, made, named)]
                lists = [*(each.clean for each in self.targets), *_lists_of(trials)]
                return await made.aestimate_many(_asked(lists, defence))
        except (UnsupportedCapability, ConfigError):
            if defence == "none":
                raise
            return None

    @asynccontextmanager
    async def _defended(self, name: str, defence: str) -> AsyncIterator[Ranker]:
        """Make a ranker behind a defence, for the time of the block."""
        takes = {*keys_of(name), "config", "api_key"}
        options = {key: value for key, value in self.options.items() if key in takes}
        async with AsyncExitStack() as stack:

            async def make(**more: Any) -> Ranker:
                made = connected(name, {**options, **more}, self.budget)
                return await stack.enter_async_context(made)

            ranker = await make()
            judge = ranker.models.scoring
            if defence == "delimiters_off":
                if not judge.capabilities.prompts:
                    raise UnsupportedCapability(f"{judge.name} is shown no markers")
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "prompts"
                PromptSet.load(ranker.config.prompts).save(folder)
                (folder / "passage.txt").write_text("{{text}}\n", encoding="utf-8")
                ranker = await make(prompts=str(folder))
            elif defence == "erase_and_check" and not ranker.absolute:
                raise UnsupportedCapability(f"{name} gives an order and no relevance")
            yield ranker

    def _of(self, target: Target, ranker: Ranker, criteria: Sequence[str]) -> list[Trial]:
        aims = ("ranker",) if ranker.absolute else ("ranker", "comparison")
        attacks = [each for each in self.attacks.attacks if each.target in aims]
        values = {"top": str(ranker.config.scale), "criteria": ", ".join(criteria)}
        return trials_of(target, attacks, self.attacks.neutral, self.seed, **values)

    async def _run(self, result: AttackResult, ranker: Ranker, on_done: OnDone) -> None:
        about = f"{result.ranker}, {result.defence}"
        clean = [each.clean for each in self.targets]
        found = await _ranked(result, ranker, f"{about}, unattacked", clean, on_done)
        pairs = [(target, seen) for target, seen in zip(self.targets, found, strict=True) if seen]
        trials = [
            (trial, seen)
            for target, seen in pairs
            for trial in self._of(target, ranker, seen.criteria)
        ]
        lists = _lists_of(trial for trial, _ in trials)
        seen_of = await _ranked(result, ranker, about, lists, on_done)
        now = dict(zip(lists, seen_of, strict=True))
        result.rows += [_row(trial, seen, *(now[x] for x in trial.lists)) for trial, seen in trials]
        result.clean |= {target.query.id: seen for target, seen in pairs}
        result.model = ranker.models.names.get("scoring", "")


def values_of(row: Mapping[str, Any]) -> dict[str, float | None]:
    """Ranks risen, relevance gained, 1 or 0 as the trial came in or was called relevant; or None.

    Only what was below the first 10 or 3 can come in, and only what people graded 0 and what was
    below `RELEVANT` can be called relevant.
    """

    def less(one: str, other: str) -> float | None:
        known = row[one] is not None and row[other] is not None
        return float(row[one] - row[other]) if known else None

    def entered(k: int) -> float | None:
        return None if row["rank"] is None or row["clean_rank"] <= k else float(row["rank"] <= k)

    clean, now = row["clean_relevance"], row["relevance"]
    counts = None not in (row["grade"], clean, now) and clean < RELEVANT
    return {
        "rise": less("clean_rank", "rank"),
        "net_rise": less("control_rank", "rank"),
        "top10": entered(10),
        "top3": entered(3),
        "relevance": less("relevance", "clean_relevance"),
        "net_relevance": less("relevance", "control_relevance"),
        "called_relevant": float(now >= RELEVANT) if counts else None,
    }


def mean_of(values: Iterable[tuple[str, float | None]]) -> dict[str, Any]:
    """Return the mean over queries of the means of their values; None is a missing value."""
    by_query: dict[str, list[float]] = {}
    for query, value in values:
        if value is not None:
            by_query.setdefault(query, []).append(value)
    means = Values({query: math.fsum(each) / len(each) for query, each in by_query.items()})
    ends = means.interval if len(means.of) > 1 else None
    given = [value for each in by_query.values() for value in each]
    return {
        "mean": means.mean,
        "low": ends and ends.low,
        "high": ends and ends.high,
        "sum": math.fsum(given),
        "count": len(given),
    }


def _lists_of(trials: Iterable[Trial]) -> list[Piece]:
    """The lists of trials and of their controls, each once."""
    return list(dict.fromkeys(each for trial in trials for each in trial.lists))


def _asked(pieces: Sequence[Piece], defence: str) -> list[Piece]:
    """The lists that a defence ranks: `erase_and_check` the same again with sentences erased."""
    again = (
        (query, tuple(replace(each, text=erased(each.text, query.text)) for each in passages))
        for query, passages in pieces
    )
    return [*pieces, *(again if defence == "erase_and_check" else ())]


async def _ranked(
    result: AttackResult, ranker: Ranker, what: str, pieces: Sequence[Piece], on_done: OnDone
) -> list[Seen | None]:
    """Rank lists; None for one that failed."""
    on_done(what, len(pieces))
    lists = _asked(pieces, result.defence)
    found: list[Seen | None] = [None] * len(lists)
    async with ranker.arank_many(lists) as stream:
        async for each in stream:
            on_done("", 0)
            ranking = each.ranking
            if ranking is None or ranking.failure:
                error = each.error or ModelError(ranking.failure if ranking else "not ranked")
                if isinstance(error, (*FATAL_ERRORS, BudgetExceeded)):
                    raise error
                result.failed.append(str(error))
                continue
            result.usage.add_all(ranking.calls)
            found[each.place] = Seen.of(ranking)
    if len(lists) == len(pieces):
        return found
    both = zip(found[: len(pieces)], found[len(pieces) :], strict=True)
    return [one.lower(two) if one and two else None for one, two in both]


def _row(trial: Trial, clean: Seen, now: Seen | None, control: Seen | None) -> dict[str, Any]:
    target, doc_id = trial.target, trial.target.passage.id

    def place(seen: Seen | None) -> tuple[int | None, float | None]:
        """Return rank and relevance; None, None where a reply is missing, which gives neither."""
        if seen is None or clean.missing.get(doc_id) or seen.missing.get(doc_id):
            return None, None
        return seen.order.index(doc_id) + 1, seen.relevance.get(doc_id)

    (rank, relevance), (control_rank, control_relevance) = place(now), place(control)
    lost = now.missing.get(doc_id, "") if now else "the list was not ranked"
    return {
        "number": trial.attack.number,
        "attack": trial.attack.id,
        "query": target.query.id,
        "doc_id": doc_id,
        "grade": target.grade,
        "text": trial.text,
        "clean_rank": clean.order.index(doc_id) + 1,
        "rank": rank,
        "control_rank": control_rank,
        "clean_relevance": clean.relevance.get(doc_id),
        "relevance": relevance,
        "control_relevance": control_relevance,
        "missing": clean.missing.get(doc_id) or lost,
    }


def _ndcg(clean: Mapping[str, Seen], qrels: Mapping[str, Mapping[str, int]]) -> Mapping[str, float]:
    if not qrels:
        return {}
    order = {key: enumerate(clean[key].order) for key in qrels}
    run = {key: [(doc_id, -float(n)) for n, doc_id in each] for key, each in order.items()}
    return Evaluator(qrels, ["nDCG@10"]).per_query(run)["nDCG@10"]
