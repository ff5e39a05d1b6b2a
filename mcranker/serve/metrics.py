"""What is counted of the service, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, ReusesAnswers
from mcranker.llm.prices import cost
from mcranker.llm.wrapper import Wrapper

if TYPE_CHECKING:
    from mcranker.models import Models
    from mcranker.ranking import Ranking
    from mcranker.serve.places import Places

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """Counters and histograms of one service, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "mcranker_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self._request_seconds = Histogram(
            "mcranker_request_seconds",
            "From a request's head to its answer, waiting included.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._rankings = Counter(
            "mcranker_rankings",
            "Rankings, by what became of them: complete, missing (some scores), partial "
            "(deadline), first_stage (no model answered), failed, cancelled.",
            ["ranker", "outcome"],
            registry=registry,
        )
        self._passages = Counter(
            "mcranker_passages", "Passages of finished rankings.", ["ranker"], registry=registry
        )
        self._missing = Counter(
            "mcranker_missing_scores",
            "Scores that were asked for and did not come.",
            ["ranker"],
            registry=registry,
        )
        self._stages = Histogram(
            "mcranker_stage_seconds",
            "Wall time of a ranking's stages, and of all of it (total).",
            ["ranker", "stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        of_a_call = ["ranker", "stage", "model"]
        self._calls = Counter(
            "mcranker_calls", "Calls that models answered.", of_a_call, registry=registry
        )
        self._failed_calls = Counter(
            "mcranker_failed_calls",
            "Calls that failed for good, all tries together, or were given up.",
            [*of_a_call, "error"],
            registry=registry,
        )
        self._ledger_hits = Counter(
            "mcranker_ledger_hits",
            "Answers that were there already and cost nothing.",
            of_a_call,
            registry=registry,
        )
        self._tokens = Counter(
            "mcranker_tokens",
            "Tokens of calls: input, cached_input (a part of it), output.",
            [*of_a_call, "kind"],
            registry=registry,
        )
        self._cost = Counter(
            "mcranker_cost_dollars",
            "US dollars for calls to models whose price is known.",
            of_a_call,
            registry=registry,
        )
        self._unpriced = Counter(
            "mcranker_unpriced_calls",
            "Calls to models whose price is not known; mcranker_cost_dollars lacks them.",
            of_a_call,
            registry=registry,
        )
        self._taken = Gauge(
            "mcranker_rankings_in_progress", "Rankings under way.", ["ranker"], registry=registry
        )
        self._waiting = Gauge(
            "mcranker_requests_waiting",
            "Requests that wait for a ranking to end.",
            ["ranker"],
            registry=registry,
        )

    def watch(self, ranker: str, places: Places) -> None:
        """Read how busy the ranker is whenever metrics are read."""
        self._taken.labels(ranker).set_function(lambda: places.statistics().taken)
        self._waiting.labels(ranker).set_function(lambda: places.statistics().waiting)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def ranked(self, ranker: str, ranking: Ranking) -> None:
        """Count a ranking that came to its end."""
        outcome = "missing" if ranking.missing else "complete"
        if ranking.failure or ranking.partial:
            outcome = "first_stage" if ranking.failure else "partial"
        self._rankings.labels(ranker, outcome).inc()
        self._passages.labels(ranker).inc(len(ranking.passages))
        self._missing.labels(ranker).inc(len(ranking.missing))
        for stage, seconds in ranking.seconds.items():
            self._stages.labels(ranker, stage).observe(seconds)

    def not_ranked(self, ranker: str, *, cancelled: bool) -> None:
        """Count a ranking that failed or was cancelled."""
        self._rankings.labels(ranker, "cancelled" if cancelled else "failed").inc()

    def metered(self, ranker: str, models: Models, shown: Callable[[str], str]) -> Models:
        """The models, whose calls are counted from now on, those of failed rankings as well.

        Args:
            ranker: name of the ranker.
            models: of the ranker.
            shown: makes of a model's name what metrics call it.
        """
        around: dict[int, _Metered] = {}

        def metered(model: ChatModel) -> ChatModel:
            counted = _Metered(model, self, ranker, shown(model.name))
            return around.setdefault(id(model), counted)

        return replace(
            models,
            recruiter=metered(models.recruiter),
            criteria=metered(models.criteria),
            scoring=metered(models.scoring),
            assessor=metered(models.assessor),
        )

    def of_calls(self, *labels: str) -> CallCounters:
        """What is counted of the calls of a ranker, a stage and a model."""
        tokens = (
            self._tokens.labels(*labels, kind) for kind in ("input", "cached_input", "output")
        )
        return CallCounters(
            *(each.labels(*labels) for each in (self._calls, self._ledger_hits)),
            *tokens,
            *(each.labels(*labels) for each in (self._cost, self._unpriced)),
        )

    def not_answered(self, *labels: str, error: BaseException) -> None:
        """Count a call that failed."""
        self._failed_calls.labels(*labels, type(error).__name__).inc()

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)


class CallCounters(NamedTuple):
    """Counters of one kind of call; found once, since that takes longer than to count."""

    calls: Counter
    ledger_hits: Counter
    input_tokens: Counter
    cached_input_tokens: Counter
    output_tokens: Counter
    cost: Counter
    unpriced: Counter

    def answered(self, model: str, reply: ChatReply) -> None:
        """Count an answer of a model, or of the ledger."""
        if reply.reused:
            self.ledger_hits.inc()
            return
        usage = reply.usage
        self.calls.inc(usage.calls)
        self.input_tokens.inc(usage.input_tokens)
        self.cached_input_tokens.inc(usage.cached_input_tokens)
        self.output_tokens.inc(usage.output_tokens)
        dollars = cost(model, usage)
        if dollars is None:
            self.unpriced.inc(usage.calls)
        else:
            self.cost.inc(dollars)


class _Metered(Wrapper):
    def __init__(self, model: ChatModel, metrics: Metrics, ranker: str, shown: str) -> None:
        super().__init__(model)
        self._metrics = metrics
        self._labels = ranker, shown
        self._counters: dict[str, CallCounters] = {}

    async def complete(self, request: ChatRequest) -> ChatReply:
        stage = request.tag.stage
        ranker, shown = self._labels
        if stage not in self._counters:
            self._counters[stage] = self._metrics.of_calls(ranker, stage, shown)
        try:
            reply = await self._model.complete(request)
        except BaseException as error:
            self._metrics.not_answered(ranker, stage, shown, error=error)
            raise
        self._counters[stage].answered(self._model.name, reply)
        return reply

    async def mark_unusable(self, request: ChatRequest) -> None:
        if isinstance(self._model, ReusesAnswers):
            await self._model.mark_unusable(request)
