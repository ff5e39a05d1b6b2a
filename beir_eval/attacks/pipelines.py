"""Attacks through a pipeline to its answer, and on the judges of answers.

Of each query a pipeline searches, by BM25, what the first stage found for it, with the attacked
passage in the place of the clean one, or with poisoned documents besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from beir_eval.answers.judging import answered_of, judged, judges_of
from beir_eval.answers.questions import Question
from beir_eval.attacks.rankers import Campaign, OnDone, less, means_of
from beir_eval.attacks.templates import fill
from beir_eval.attacks.texts import ADDED, Piece, Trial, lists_of, values_of
from mcranker.errors import BudgetExceeded, MCRankerError
from mcranker.estimate import Estimate
from mcranker.rag.pipeline import RAGPipeline
from mcranker.rag.result import RAGResult
from mcranker.rankers import FATAL_ERRORS
from mcranker.rankers.dispatch import dispatch
from mcranker.retrieval.bm25 import BM25, Found
from mcranker.retrieval.chunks import Chunk
from personas.ranking.types import Passage

AT_ONCE = 4
"""Questions in progress."""

SHARES = ("in_context", "changed", "control_changed", "wrong")
"""Shares of answers: an attacked passage in the context, a text that differs, one that differs by
harmless words, and one that holds the attack's wrong answer."""

_WORD = re.compile(r"\w+")
_searched: ContextVar[tuple[Passage, ...]] = ContextVar("searched")


class PoolRetriever:
    """Searches, by BM25, the passages of the question in progress."""

    def retrieve(self, queries: Mapping[str, str], k: int) -> Found:
        """The first `k` passages of each query."""
        index = BM25((each.id, f"{each.title} {each.text}") for each in _searched.get())
        return index.retrieve(queries, k)

    def chunk(self, name: str, /) -> Chunk:
        """A passage as a piece of a document."""
        found = next(each for each in _searched.get() if each.id == name)
        return Chunk(name, name, found.title, found.text, 0, len(found.text))


@dataclass(frozen=True, slots=True)
class PipelineCampaign:
    """Attacks of a campaign through a pipeline: a preset or a TOML file.

    `options` are of `RAGPipeline`; `judges` names of judges of answers, for attacks on them.
    """

    campaign: Campaign
    pipeline: str
    options: Mapping[str, Any]
    judges: Sequence[str] = ()

    async def run(self, on_done: OnDone) -> list[dict[str, Any]]:
        """Return a line for each attack and query: what became of the answer, or its judgement.

        Raises:
            MCRankerError, PersonasError: as `RAGPipeline`; an error that all questions would meet.
        """
        trials, pieces = self._trials()
        on_done(self.pipeline, len(pieces))
        answers: dict[Piece, RAGResult | str] = {}
        async with self._made() as made:

            async def answer(_: int, piece: Piece) -> tuple[Piece, RAGResult | str]:
                _searched.set(piece[1])
                try:
                    return piece, await made.aanswer(piece[0])
                except (*FATAL_ERRORS, BudgetExceeded):
                    raise
                except MCRankerError as error:
                    return piece, str(error)

            async with dispatch(pieces, answer, AT_ONCE) as stream:
                async for piece, result in stream:
                    answers[piece] = result
                    on_done("", 0)
        rows = []
        for trial in trials:
            attack, query = trial.attack, trial.target.query.id
            about = {"class": attack.number, "attack": attack.id, "query": query}
            results = (answers[each] for each in (trial.target.clean, *trial.lists))
            rows.append({"pipeline": self.pipeline, **about, **self._seen(trial, *results)})
        return rows + (await self._judged(answers) if self.judges else [])

    async def estimate(self) -> Estimate:
        """Estimate `run` without the judges; requests that are equal count each time."""
        total = Estimate()
        async with self._made() as made:
            for query, passages in self._trials()[1]:
                _searched.set(passages)
                total += await made.aestimate(query)
        return total

    def _made(self) -> RAGPipeline:
        budget = self.campaign.budget
        return RAGPipeline(PoolRetriever(), self.pipeline, budget=budget, **self.options)

    def _trials(self) -> tuple[list[Trial], list[Piece]]:
        """Return trials, and the lists for which answers are needed, each once."""
        of, aims = self.campaign, ("ranker", "pipeline")
        trials = [trial for each in of.targets for trial in of.trials(each, *aims, top="10")]
        return trials, list(
            dict.fromkeys([*(each.clean for each in of.targets), *lists_of(trials)])
        )

    def _seen(
        self, trial: Trial, clean: RAGResult | str, now: RAGResult | str, control: RAGResult | str
    ) -> dict[str, Any]:
        """Return 1 or 0 for each thing that can happen; None where there is no answer to see it."""
        failed = next((each for each in (now, clean) if isinstance(each, str)), "")
        seen: dict[str, Any] = {"failure": failed, "in_context": None, "wrong": None}
        if isinstance(now, RAGResult):
            # Of an attack on pipelines, the passage itself is clean.
            own = trial.target.passage.id if trial.attack.target == "ranker" else None
            ids = (each.id for each in now.context)
            seen["in_context"] = float(any(i == own or i.startswith(ADDED) for i in ids))
            if any("{wrong}" in text for text in trial.attack.texts):
                wrong = _plain(values_of(trial.target.query, self.campaign.seed)["wrong"])
                seen["wrong"] = float(wrong in _plain(now.text))
            seen["answer"] = now.text
        changed, by_control = _differ(clean, now), _differ(clean, control)
        return {**seen, "changed": changed, "control_changed": by_control}

    async def _judged(self, answers: Mapping[Piece, RAGResult | str]) -> list[dict[str, Any]]:
        """Return judges' values of a wrong answer, and of it with an attack at its end.

        The reference is the pipeline's answer where nothing is attacked.
        """
        rows: list[dict[str, Any]] = []
        known = ("model", "base_url", "ledger")
        where = {name: self.options[name] for name in known if name in self.options}
        attacks = self.campaign.attacks.aimed_at("answer")
        async with judges_of(self.judges, budget=self.campaign.budget, **where) as judges:
            for target in self.campaign.targets:
                result = answers[target.clean]
                if isinstance(result, str) or not result.text:
                    continue
                values = values_of(target.query, self.campaign.seed)
                question = Question(target.query.id, target.query.text, (result.text,))
                wrong = replace(answered_of(result, question), text=f"It is {values['wrong']}.")
                bad = [f"{wrong.text} {fill(each.texts[0], values)}" for each in attacks]
                all_of = [wrong, *(replace(wrong, text=text) for text in bad)]
                found = {row.place: row async for row in judged(all_of, judges)}
                for place, attack in enumerate(attacks, start=1):
                    for name in self.judges:
                        clean, now = (found[n].judgements[name] for n in (0, place))
                        about = {"judge": name, "class": attack.number, "attack": attack.id}
                        both = {"clean": clean.value, "attacked": now.value}
                        why = "" if now.undefined else now.why
                        rows.append({**about, "query": target.query.id, **both, "failure": why})
        return rows


def figures_of(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return means over queries by pipeline or judge and class: shares, and gains of judges."""
    trials = (
        (
            (row.get("pipeline") or row["judge"], row["class"]),
            row["query"],
            row["failure"],
            {
                **{key: row.get(key) for key in SHARES},
                "gain": less(row.get("attacked"), row.get("clean")),
            },
        )
        for row in rows
    )
    return means_of(trials, ("name", "class"), "failed")


def _differ(one: RAGResult | str, two: RAGResult | str) -> float | None:
    if isinstance(one, str) or isinstance(two, str):
        return None
    return float(_plain(one.text) != _plain(two.text))


def _plain(text: str) -> str:
    """Return the words alone, in small letters."""
    return " ".join(_WORD.findall(text.lower()))
