"""Answers to questions, from the index of the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from mcranker.method.annotator import INSTRUCTION_SHARE
from mcranker.rag.result import AnswerDone
from mcranker.ranking import Ranking
from mcranker.serve.bodies import Problem
from mcranker.serve.metrics import Metrics
from mcranker.serve.served import Places, discreet, discreetly, last_of, public, public_name
from mcranker.serve.settings import Settings, Unscored
from personas.format import counted
from personas.ranking.types import judge_note

if TYPE_CHECKING:
    from mcranker.llm.ledger.ledger import Ledger
    from mcranker.rag.pipeline import RAGPipeline
    from mcranker.rag.result import EmitAnswer, RAGResult
    from personas.ranking.types import Query


SMALL = 0.01  # the number of the first document if nothing was judged; those behind it get less
_JUDGES = ("scoring", "assessor")
NOT_ABSOLUTE = (
    "it gives an order without scores, and this service makes none up "
    "(unscored = 'error'); ask POST /v1/rank, or have it served with unscored = 'falling'"
)
"""Reason that a ranker does not serve rerank clients, if the operator wants no numbers by rank."""
ANSWER = "answer"  # name of the pipeline where metrics and the log name a ranker


class Scored(NamedTuple):
    """Numbers for the documents of an answer, in the ranking's order."""

    scores: Sequence[float | None]
    relevance: str
    unscored: int
    warnings: tuple[str, ...]


def scores_of(ranking: Ranking, policy: Unscored, *, raw: bool = False) -> Scored:
    """Give a number to each document that is returned."""
    hits, count = list(ranking), len(ranking.passages)
    compared = ranking.comparisons is not None
    known = [hit.score if raw else None if compared else hit.relevance for hit in hits]
    unscored = known.count(None)
    if not unscored:
        return Scored(known, "own" if raw else "absolute", 0, ())
    nothing, own = unscored == len(hits), "own" if raw else "absolute"
    order_only = nothing and ranking.was_judged
    relevance = "by_rank" if order_only else "input_order" if nothing else own
    if policy == "error":
        if order_only:
            raise Problem("invalid", f"the ranker {ranking.ranker!r}: {NOT_ABSOLUTE}")
        raise Problem("unavailable", f"{_were(unscored)} not scored", retry_after=1.0)
    numbers, warnings = known, list[str]()
    if order_only:
        depth = ranking.config.get("depth")
        judged = min(count, depth) if isinstance(depth, int) else count
        numbers = [(judged + 1 - hit.rank) / judged if hit.rank <= judged else None for hit in hits]
        unscored = numbers.count(None)
        warnings = ["the ranker gives an order, no relevance: scores are by rank, 1 for the first"]
    elif nothing:
        numbers = [SMALL * (count + 1 - hit.rank) / count for hit in hits]
        warnings = [f"no document was scored: scores fall from {SMALL:g} in the order as given"]
    if None in numbers:
        warnings.append(f"{_were(unscored)} not scored: the lowest score is used")
    if policy == "null":
        warnings = [f"{each.partition(':')[0]}: null" for each in warnings]
        return Scored(known, relevance, unscored, tuple(warnings))
    filled: list[float | None] = [min(score for score in numbers if score is not None)]
    for score in reversed(numbers):
        filled.append(filled[-1] if score is None else score)
    return Scored(filled[:0:-1], relevance, unscored, tuple(warnings))


def warnings_of(ranking: Ranking, reasons: int) -> tuple[str, ...]:
    """Return warnings about how a ranking was made, for which `reasons` were asked."""
    warnings = []
    if ranking.failure:
        warnings.append("the model failed: the order is the one that was given")
    if ranking.partial:
        warnings.append("partial: the deadline came before all scores")
    if missing := len(ranking.missing):
        constant = ranking.config.get("missing_policy") == "constant"
        instead = f"; {ranking.config['missing_constant']:g} is imputed" if constant else ""
        warnings.append(f"{missing} of {ranking.matrix.size} scores are missing{instead}")
    if reasons and len(ranking) and not ranking.reasons:
        warnings.append("no reason could be had")
    if note := judge_note(ranking.weak_judge, public_name(ranking.models.get("scoring", ""))):
        warnings.append(note.rstrip("."))
    return tuple(warnings)


def meta_of(ranking: Ranking, scored: Scored, warnings: Sequence[str]) -> Mapping[str, Any]:
    """Return the judges, the missing scores and the effort, for answers that are objects."""
    usage, reused, models = ranking.usage, ranking.reused, ranking.models
    meta: dict[str, Any] = {
        "api_version": {"version": "2"},
        "tokens": {
            "input_tokens": usage.input_tokens + reused.input_tokens,
            "output_tokens": usage.output_tokens + reused.output_tokens,
        },
        "reused_tokens": reused.input_tokens + reused.output_tokens,
        "judged_by": sorted({public_name(models[role]) for role in _JUDGES if role in models}),
        "relevance": scored.relevance,
        "unscored": scored.unscored,
        "missing_scores": len(ranking.missing),
    }
    if ranking.config.get("instruction"):
        share = f"one more criterion of every judge, {INSTRUCTION_SHARE:g}% of the weight"
        meta["instruction"] = "passed on" if ranking.ranker == "rerank" else share
    return {**meta, "warnings": list(warnings)} if warnings else meta


def headers_of(
    name: str, ranking: Ranking, unscored: int, warnings: Sequence[str]
) -> dict[str, str]:
    """Return the headers of an answer; not every dialect has a place for their content."""
    headers = {"X-Ranking-Id": name}
    if warnings:
        headers["X-Notes"] = "; ".join(warnings).encode("ascii", "replace").decode()
    if ranking.partial:
        headers["X-Partial"] = "deadline"
    if missing := len(ranking.missing):
        headers["X-Missing-Scores"] = str(missing)
    if unscored:
        headers["X-Unscored"] = str(unscored)
    return headers


class Answering:
    """The pipeline of a service, with its places."""

    def __init__(self, settings: Settings, metrics: Metrics | None = None) -> None:
        limits = settings.limits
        self.pipeline = settings.answer.make() if settings.answer else None
        self._places = Places(limits.rankings, limits.waiting, limits.wait)
        self._metrics = metrics
        if metrics is not None and self.pipeline is not None:
            metrics.watch(ANSWER, self._places.limiter)

    @property
    def ledger(self) -> Ledger | None:
        """The ledger of the pipeline's own calls, if it has one."""
        return self.pipeline.ledger if self.pipeline is not None else None

    def ready(self) -> RAGPipeline:
        if self.pipeline is None:
            raise Problem(
                "not_found", "this service has no index to answer from; start it with --index"
            )
        return self.pipeline

    async def answer(
        self, question: Query, seconds: float, emit: EmitAnswer | None = None
    ) -> RAGResult:
        """Wait for a place and answer; at the deadline the answer is of what is there."""
        pipeline, outcome = self.ready(), "failed"
        try:
            async with self._places.one(seconds, "answer") as left:
                events = pipeline.astream(question, deadline=left())
                result = (await last_of(events, AnswerDone, emit)).result
            outcome = "partial" if result.partial else result.kind
        except anyio.get_cancelled_exc_class():
            outcome = "cancelled"
            raise
        except Problem as error:
            outcome = "failed" if error.kind == "timeout" else ""
            raise
        finally:
            if self._metrics is not None and outcome:
                self._metrics.add("answers", outcome)
        if self._metrics is not None:
            self._metrics.staged(ANSWER, {each.name: each.seconds for each in result.stages})
        return result

    async def aclose(self) -> None:
        """Close the pipeline, if there is one."""
        if self.pipeline is not None:
            await self.pipeline.aclose()


def public_answer(result: RAGResult) -> dict[str, Any]:
    """Everything an answer holds, as JSON values, without paths and addresses of the operator's."""
    form = result.to_dict()
    form["models"] = {role: public_name(name) for role, name in form["models"].items()}
    for name in ("failure", "stages", "warnings", "config"):
        form[name] = discreetly(form[name])
    for each in form["passages"]:
        each["dropped"] = discreet(each["dropped"])
    if form["stored_ranking"] is not None:
        form["stored_ranking"] = public(form["stored_ranking"])
    return form


def answer_headers(name: str, result: RAGResult) -> dict[str, str]:
    """Return the headers of an answer."""
    headers = {"X-Answer-Id": name}
    if result.warnings:
        notes = " ".join(discreet("; ".join(result.warnings)).split())
        headers["X-Notes"] = notes.encode("ascii", "replace").decode()
    return headers | ({"X-Partial": "deadline"} if result.partial else {})


def _were(documents: int) -> str:
    return f"{counted(documents, 'document')} {'was' if documents == 1 else 'were'}"
