"""Base of the adapters: the ranker, its input, and the metadata added to documents."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack

import anyio.to_thread

from mcranker.config import RankerConfig
from mcranker.documents import of_object
from mcranker.errors import ConfigError
from mcranker.inputs import as_passages
from mcranker.rankers.base import Ranker
from mcranker.rankers.mcranker import MCRanker
from mcranker.ranking import Ranking
from personas.ranking.hit import Hit
from personas.ranking.types import Passage

KEY = "mcranker"
"""The key of metadata, or the column, under which `explanation` comes back with a document."""


class Limits(TypedDict):
    """Limits of `Ranker.rank` as keywords."""

    top_n: int | None
    min_relevance: float | None
    deadline: float | None


class RankerSource:
    """A ranker that was given, or an `MCRanker` that is made when it is first needed.

    Made of options it can be pickled; a copy makes a ranker of its own.

    Args:
        ranker: used as it is, and closed by its maker.
        options: arguments of `MCRanker`, if no ranker is given.

    Raises:
        ConfigError: `ranker` is none, there are options as well, or an option is impossible.
    """

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
        own = MCRanker.takes().keys() - RankerConfig.model_fields.keys()
        fields = {name: value for name, value in self.options.items() if name not in own}
        RankerConfig.of(self.options.get("config"), fields)
        self._given = ranker
        self._made: Ranker | None = None
        self._lock = threading.Lock()

    def get(self) -> Ranker:
        """The ranker.

        Raises:
            ConfigError, ModelError, DownloadError, PersonasError: as `MCRanker`.
        """
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
        """The options, to be written to a file.

        Raises:
            ConfigError: a ranker was given, or the options hold a key.
        """
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
        """Refuse copies of a ranker that was given.

        Raises:
            ConfigError: it was.
        """
        if self._given is not None:
            raise ConfigError(
                f"{self._given!r} has connections and cannot be pickled or serialized; give the "
                "arguments of MCRanker as options= instead of ranker="
            )


def check_limits(**limits: Unpack[Limits]) -> None:
    """Refuse what `Ranker.rank` would not take, before it is called.

    Raises:
        ConfigError: a value is impossible.
    """
    RankerConfig.of(None, {name: value for name, value in limits.items() if value is not None})


def passages_of(documents: Iterable[object], title_key: str | None = None) -> tuple[Passage, ...]:
    """Documents of a library as passages, in the order given; two may have the same id.

    A document without an id, or with one that another has, is named by its place.

    Args:
        documents: as `mcranker.inputs.as_passages` takes them.
        title_key: the key of metadata that holds a title, to be shown to models.

    Raises:
        InputError: a document has no text, or one that is none.
    """
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
    """Why a document has its place, as plain values that JSON can hold.

    Returns:
        ``rank``, from 1; ``score``, the final one, and ``relevance``, 0 to 1, both None where
        there is none; ``first_stage_rank``, from 1, and ``first_stage_score``; ``scores``,
        persona -> score or None; ``missing``, persona -> why there is none; ``partial`` and
        ``failure`` of the ranking. Where there are such: ``criteria``, ``confidence``,
        ``probabilities`` and ``imputed`` by persona, ``skipped``, ``at_most`` and ``cut``, as in
        `Hit`.
    """
    told = {
        "rank": hit.rank,
        "score": hit.score,
        "relevance": hit.relevance,
        "first_stage_rank": hit.first_stage_rank,
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
    skipped = {"skipped": list(hit.skipped), "at_most": hit.at_most} if hit.skipped else {}
    return told | skipped | {name: value for name, value in rest.items() if value}


def not_installed(module: str, extra: str, error: ModuleNotFoundError) -> ImportError:
    """The error of an adapter whose library is not installed."""
    return ImportError(f"{module} needs {error.name}: pip install 'mcranker[{extra}]'")
