"""Base of the adapters: the ranker, its input, and the metadata added to documents."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import anyio.to_thread
from pydantic import BaseModel, Field, PrivateAttr

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError
from mcranker.inputs.documents import of_object
from mcranker.inputs.passages import as_passages
from mcranker.rankers.base import Ranker
from mcranker.rankers.judge import MCRanker
from mcranker.ranking import Ranking
from personas.ranking.hit import Hit
from personas.ranking.types import Passage

KEY = "mcranker"
"""The key of metadata, or the column, under which `explanation` comes back with a document."""


class RankerSource:
    """A ranker that was given, or an `MCRanker` that is made when it is first needed."""

    def __init__(self, ranker: Ranker | None, options: Mapping[str, Any] | None) -> None:
        if ranker is not None and not isinstance(ranker, Ranker):
            raise ConfigError(
                f"ranker={ranker!r} is no Ranker; give MCRanker(...) or another, or options="
            )
        if ranker is not None and options:
            raise ConfigError(
                f"options ({', '.join(options)}) are for a ranker that is made here; give them to "
                "the ranker, or leave out ranker="
            )
        self.options = dict(options or {})
        own = {"config", *MCRanker.keywords()}
        fields = {name: value for name, value in self.options.items() if name not in own}
        RankerConfig.of(self.options.get("config"), fields)
        self._given = ranker
        self._made: Ranker | None = None
        self._lock = threading.Lock()

    def get(self) -> Ranker:
        """The ranker."""
        if self._given is not None:
            return self._given
        with self._lock:
            if self._made is None:
                self._made = MCRanker(**self.options)
            return self._made

    async def aget(self) -> Ranker:
        """`get` for callers with an event loop; making a ranker may fetch a model."""
        known = self._made if self._given is None else self._given
        return await anyio.to_thread.run_sync(self.get) if known is None else known

    def plain_options(self) -> dict[str, Any]:
        """The options, to be written to a file."""
        self.check_copied()
        if "api_key" in self.options:
            raise ConfigError(
                "options hold an api_key, which would be written as plain text; leave it out and "
                "set the provider's environment variable, such as OPENAI_API_KEY"
            )
        return dict(self.options)

    def close(self) -> None:
        """Close the ranker if it was made here; a later `get` makes another."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    async def aclose(self) -> None:
        """`close` for callers with an event loop."""
        made, self._made = self._made, None
        if made is not None:
            await made.aclose()

    def __getstate__(self) -> dict[str, Any]:
        self.check_copied()
        return {"options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        RankerSource.__init__(self, None, state["options"])

    def check_copied(self) -> None:
        """Refuse copies of a ranker that was given."""
        if self._given is not None:
            raise ConfigError(
                f"{self._given!r} has connections and cannot be pickled or serialized; give the "
                "arguments of MCRanker as options= instead of ranker="
            )


def limits_of(
    top_n: int | None = None, min_relevance: float | None = None, deadline: float | None = None
) -> dict[str, Any]:
    """Return limits as keywords of `Ranker.rank`, which would take them."""
    limits = {"top_n": top_n, "min_relevance": min_relevance, "deadline": deadline}
    RankerConfig.of(None, {name: value for name, value in limits.items() if value is not None})
    return limits


class RerankingModel(BaseModel):
    """Base of adapters that are pydantic models: a ranker, its limits, and its end."""

    ranker: Any = Field(default=None, exclude=True)
    options: dict[str, Any] | None = None
    top_n: int | None = None
    min_relevance: float | None = None
    deadline: float | None = None
    title_key: str | None = None
    on_ranking: Callable[[Ranking], object] | None = Field(default=None, exclude=True)

    _source: RankerSource = PrivateAttr()

    def __init__(
        self,
        ranker: Ranker | None = None,
        *,
        options: dict[str, Any] | None = None,
        top_n: int | None = None,
        min_relevance: float | None = None,
        deadline: float | None = None,
        title_key: str | None = None,
        on_ranking: Callable[[Ranking], object] | None = None,
        **others: Any,
    ) -> None:
        # First of all: pydantic would put what was given, with keys, into the error.
        source = RankerSource(ranker, options)
        limits = limits_of(top_n, min_relevance, deadline)
        own = {"options": options, "title_key": title_key, "on_ranking": on_ranking}
        super().__init__(ranker=ranker, **own, **limits, **others)
        self._source = source

    def __getstate__(self) -> dict[Any, Any]:
        # LlamaIndex leaves out what cannot be pickled; the copy would have another ranker.
        pickle.dumps(self._source)
        return super().__getstate__()

    def close(self) -> None:
        """Close the ranker that was made of options."""
        self._source.close()

    async def aclose(self) -> None:
        """`close` for callers with an event loop."""
        await self._source.aclose()

    def _rank(self, query: str, documents: Iterable[object]) -> Ranking:
        ranker = self._source.get()
        ranking = ranker.rank(query, passages_of(documents, self.title_key), **self._limits())
        return self._done(ranking)

    async def _arank(self, query: str, documents: Iterable[object]) -> Ranking:
        ranker = await self._source.aget()
        passages = passages_of(documents, self.title_key)
        return self._done(await ranker.arank(query, passages, **self._limits()))

    def _limits(self) -> dict[str, Any]:
        return limits_of(self.top_n, self.min_relevance, self.deadline)

    def _done(self, ranking: Ranking) -> Ranking:
        if self.on_ranking is not None:
            self.on_ranking(ranking)
        return ranking


def passages_of(documents: Iterable[object], title_key: str | None = None) -> tuple[Passage, ...]:
    """Documents of a library as passages, in the order given; two may have the same id."""
    parts = [of_object(each, f"docs[{place}]") for place, each in enumerate(documents)]
    own = [str(each["id"]) for each in parts]
    taken = {name for each, name in zip(parts, own, strict=True) if each["id"] is not None}
    named = set[str]()
    for place, (each, name) in enumerate(zip(parts, own, strict=True)):
        if each["id"] is None or name in named or not name.strip():
            name = str(place)
            while name in taken or name in named:
                name += "'"
        named.add(name)
        each["id"] = name
        if title_key is not None and each["metadata"].get(title_key) is not None:
            each["title"] = str(each["metadata"][title_key])
    return as_passages(parts)


def explanation(ranking: Ranking, hit: Hit) -> dict[str, Any]:
    """Why a document has its place, as plain values that JSON can hold."""
    why: dict[str, Any] = {
        **{name: getattr(hit, name) for name in ("rank", "score", "relevance", "first_stage_rank")},
        "first_stage_score": hit.passage.score,
        "scores": dict(hit.scores),
        "missing": dict(hit.missing),
        "partial": ranking.partial,
        "failure": ranking.failure,
    }
    rest = {
        "criteria": {name: dict(scores) for name, scores in hit.criteria.items()},
        "confidence": dict(hit.confidence),
        "imputed": dict(hit.imputed),
        "probabilities": {name: list(each) for name, each in hit.probabilities.items()},
        "cut": hit.cut,
    }
    return why | {name: value for name, value in rest.items() if value}


def not_installed(module: str, extra: str, error: ModuleNotFoundError) -> ImportError:
    """The error of an adapter whose library is not installed."""
    return ImportError(f"{module} needs {error.name}: pip install 'mcranker[{extra}]'")
