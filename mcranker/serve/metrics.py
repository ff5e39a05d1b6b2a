"""Metrics of the service, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE

from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, ReusesAnswers, Wrapper
from mcranker.llm.models import ROLES, Models
from mcranker.llm.prices import cost
from mcranker.ranking import Ranking
from mcranker.serve.bodies import Problem
from mcranker.serve.results import public_name

__all__ = ["CONTENT_TYPE", "Metrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_CALL = ("ranker", "stage", "model")
_COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "requests": ("Requests answered.", ("route", "status")),
    "rankings": ("Rankings, by what became of them.", ("ranker", "outcome")),
    "answers": ("Answers to questions, by what became of them.", ("outcome",)),
    "passages": ("Passages of finished rankings.", ("ranker",)),
    "missing_scores": ("Scores that were asked for and did not come.", ("ranker",)),
    "calls": ("Calls that models answered.", _CALL),
    "failed_calls": ("Calls that failed for good or were given up.", (*_CALL, "error")),
    "ledger_hits": ("Answers that were there already and cost nothing.", _CALL),
    "tokens": ("Tokens of calls: input, cached_input (a part of it), output.", (*_CALL, "kind")),
    "cost_dollars": ("US dollars for calls to models whose price is known.", _CALL),
    "unpriced_calls": ("Calls whose price is not known, and not in the cost.", _CALL),
}
"""Counter -> what it counts, and its labels."""


class Metrics:
    """Counters and histograms of one service, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._counters = {
            name: Counter(f"mcranker_{name}", text, labels, registry=registry)
            for name, (text, labels) in _COUNTERS.items()
        }
        histogram = partial(Histogram, buckets=_SECONDS, registry=registry)
        gauge = partial(Gauge, labelnames=("ranker",), registry=registry)
        waited = "From a request's head to its answer, waiting included."
        self._request_seconds = histogram("mcranker_request_seconds", waited, ("route",))
        took = "Wall time of a ranking's stages, and of all of it (total)."
        self._stages = histogram("mcranker_stage_seconds", took, ("ranker", "stage"))
        self._taken = gauge("mcranker_rankings_in_progress", "Rankings under way.")
        self._waiting = gauge(
            "mcranker_requests_waiting", "Requests that wait for a ranking to end."
        )

    def add(self, name: str, *labels: str, amount: float = 1) -> None:
        """Add to the counter of that name in `_COUNTERS`, with its labels."""
        self._counters[name].labels(*labels).inc(amount)

    def watch(self, ranker: str, limiter: anyio.CapacityLimiter) -> None:
        """Report how busy the ranker is whenever metrics are read."""
        busy = limiter.statistics
        self._taken.labels(ranker).set_function(lambda: busy().borrowed_tokens)
        self._waiting.labels(ranker).set_function(lambda: busy().tasks_waiting)

    def request(self, route: str, status: int, seconds: float) -> None:
        self.add("requests", route, str(status))
        self._request_seconds.labels(route).observe(seconds)

    @contextmanager
    def counting(self, *labels: str) -> Iterator[None]:
        """Count what ends with an error after it began: the counter's name, then its labels."""
        try:
            yield
        except BaseException as error:
            gone = isinstance(error, anyio.get_cancelled_exc_class())
            if not isinstance(error, Problem) or error.kind == "timeout":
                self.add(*labels, "cancelled" if gone else "failed")
            raise

    def ranked(self, ranker: str, ranking: Ranking) -> None:
        """Count a ranking that came to its end."""
        outcome = "missing" if ranking.missing else "complete"
        if ranking.failure or ranking.partial:
            outcome = "first_stage" if ranking.failure else "partial"
        self.add("rankings", ranker, outcome)
        self.add("passages", ranker, amount=len(ranking.passages))
        self.add("missing_scores", ranker, amount=len(ranking.missing))
        self.staged(ranker, ranking.seconds)

    def staged(self, ranker: str, seconds: Mapping[str, float]) -> None:
        for stage, each in seconds.items():
            self._stages.labels(ranker, stage).observe(each)

    def answered(self, labels: tuple[str, str, str], model: str, reply: ChatReply) -> None:
        """Count an answer of a model, or of the ledger; `labels` are those of `_CALL`."""
        if reply.reused:
            self.add("ledger_hits", *labels)
            return
        usage = reply.usage
        self.add("calls", *labels, amount=usage.calls)
        for kind in ("input", "cached_input", "output"):
            self.add("tokens", *labels, kind, amount=getattr(usage, f"{kind}_tokens"))
        if (dollars := cost(model, usage)) is None:
            self.add("unpriced_calls", *labels, amount=usage.calls)
        else:
            self.add("cost_dollars", *labels, amount=dollars)

    def metered(self, ranker: str, models: Models) -> Models:
        """Return a ranker's models with their calls counted, failed ones too."""
        plain = {role: getattr(models, role) for role in ROLES}
        around: dict[int, Any] = {
            id(model): _Metered(model, self, ranker) for model in plain.values()
        }
        return replace(models, **{role: around[id(model)] for role, model in plain.items()})

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Metered(Wrapper):
    def __init__(self, model: ChatModel, metrics: Metrics, ranker: str) -> None:
        super().__init__(model)
        self._metrics = metrics
        self._ranker = ranker

    async def complete(self, request: ChatRequest) -> ChatReply:
        labels = self._ranker, request.tag.stage, public_name(self.name)
        try:
            reply = await self._model.complete(request)
        except BaseException as error:
            self._metrics.add("failed_calls", *labels, type(error).__name__)
            raise
        self._metrics.answered(labels, self._model.name, reply)
        return reply

    async def mark_unusable(self, request: ChatRequest) -> None:
        if isinstance(self._model, ReusesAnswers):
            await self._model.mark_unusable(request)
