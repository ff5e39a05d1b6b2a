"""Results for clients: scores, warnings and headers of rankings and answers.

Paths and addresses of the operator's are in none of them.
"""

from __future__ import annotations

import re
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Generic, NamedTuple, TypeVar

from mcranker.llm.masking import HOST_MARK, without_hosts
from mcranker.method.annotator import INSTRUCTION_SHARE
from mcranker.rag.result import RAGResult
from mcranker.ranking import Ranking
from mcranker.serve.bodies import Problem
from mcranker.serve.settings import Limits, Unscored
from personas.format import counted
from personas.ranking.types import judge_note

SMALL = 0.01  # the number of the first document if nothing was judged, without `fail_open`
_JUDGES = ("scoring", "assessor")
NOT_ABSOLUTE = (
    "it gives an order without scores, and this service makes none up "
    "(unscored = 'error'); ask POST /v1/rank, or have it served with unscored = 'falling'"
)
"""Reason that a ranker does not serve rerank clients, if the operator wants no numbers by rank."""
_ADDRESS = re.compile(
    r"(?<!\w)\w++://[^\s\"'>)]++|\[[0-9a-fA-F:]++\]:\d++|(?<![\w.-])[\w.-]++:\d{2,5}\b"
    r"|(?<!\d)\d++(\.\d++){3}\b"
)
_PATH = re.compile(r"(?<![\w.])(~|[A-Za-z]:)?([\\/][\w.@+-]+){2,}[\\/]?")
_OF_A_SCORE = 100  # bytes, about
_OF_A_PASSAGE = 1_000
T = TypeVar("T")


class Scored(NamedTuple):
    """Numbers for the documents of an answer, in the ranking's order."""

    scores: Sequence[float | None]
    relevance: str
    unscored: int
    warnings: tuple[str, ...]


def scores_of(
    ranking: Ranking, policy: Unscored, *, raw: bool = False, level: float | None = None
) -> Scored:
    """Give a number to each document that is returned; falling from `level` if none was scored."""
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
        level = SMALL if level is None else level
        numbers = [level * (count + 1 - hit.rank) / count for hit in hits]
        warnings = [f"no document was scored: scores fall from {level:g} in input order"]
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
        warnings.append("the model failed: input order kept")
    if ranking.partial:
        warnings.append("partial: the deadline came before all scores")
    if missing := len(ranking.missing):
        constant = ranking.config.get("missing_policy") == "constant"
        instead = f"; {ranking.config['missing_constant']:g} is imputed" if constant else ""
        warnings.append(f"{missing} of {ranking.matrix.size} scores are missing{instead}")
    if reasons and len(ranking) and not ranking.reasons:
        warnings.append("no reason arrived")
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


def public_form(ranking: Ranking) -> dict[str, Any]:
    """Everything a ranking holds, as JSON values, without paths and addresses of the operator's."""
    return public(ranking.to_dict())


def public(form: dict[str, Any]) -> dict[str, Any]:
    """Take paths and addresses of the operator's out of what `Ranking.to_dict` gave."""
    form["models"] = {role: public_name(name) for role, name in form["models"].items()}
    if isinstance(prompts := form["config"].get("prompts"), str):
        form["config"]["prompts"] = PurePath(prompts).name
    for calls in (*form["usage"]["by_stage"], *form["usage"].get("reused", ())):
        calls["model"] = public_name(calls["model"])
    for holder in (form, form.get("comparisons") or {}):
        for name in ("failure", "reason"):
            if holder.get(name):
                holder[name] = discreet(holder[name])
    for hit in form["hits"]:
        if missing := hit.get("missing"):
            hit["missing"] = {persona: discreet(reason) for persona, reason in missing.items()}
    return form


def public_name(model: str) -> str:
    """A model's name without the folders of its file."""
    kind, colon, name = model.partition(":")
    return f"{kind}:{PurePath(name).name}" if colon and kind == "local" else model


def discreet(message: str) -> str:
    """Return a message about a model without addresses and paths."""
    return _PATH.sub("[path]", without_hosts(_ADDRESS.sub(HOST_MARK, message)))


def discreetly(value: Any) -> Any:
    """JSON values without addresses and paths in any text."""
    match value:
        case str():
            return discreet(value)
        case list():
            return [discreetly(each) for each in value]
        case dict():
            return {name: discreetly(each) for name, each in value.items()}
    return value


class Explanations(Generic[T]):
    """Rankings, or what else has a page, by id; the oldest make room for new ones."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: OrderedDict[str, tuple[T, str, int]] = OrderedDict()
        self._bytes = 0

    def put(self, made: T, size: int, holder: str = "") -> str:
        """Keep one of `size` bytes and return its id; `holder` names the key it was asked with."""
        name, most = uuid.uuid4().hex, self._limits.explanations_bytes
        if size <= most:
            self._kept[name] = made, holder, size
            self._bytes += size
        while len(self._kept) > self._limits.explanations or self._bytes > most:
            self._bytes -= self._kept.popitem(last=False)[1][2]
        return name

    def get(self, name: str, holder: str = "") -> T:
        made, owner, _ = self._kept.get(name, (None, "", 0))
        if made is None or owner != holder:
            said = f"there is no ranking {name[:100]!r}, or it is no longer kept; rank again"
            raise Problem("not_found", said)
        return made


def size_of(ranking: Ranking) -> int:
    """Return the bytes that a ranking takes, about."""
    # Python takes up to four bytes for a character.
    texts = sum(4 * (len(each.text) + len(each.title)) for each in ranking.passages)
    scores = _OF_A_PASSAGE + _OF_A_SCORE * len(ranking.personas)
    return texts + scores * len(ranking.passages)


def _were(documents: int) -> str:
    return f"{counted(documents, 'document')} {'was' if documents == 1 else 'were'}"
