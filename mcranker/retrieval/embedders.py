"""Embedders: queries and passages to vectors, by one interface for every model."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Protocol, runtime_checkable

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from mcranker.config import RankerConfig
from mcranker.encoders.encoder import Encoder
from mcranker.encoders.open_encoder import FORMS, open_encoder
from mcranker.errors import ConfigError
from mcranker.llm.connect import DEFAULT_LOCAL
from mcranker.llm.limits.budget import Budget
from mcranker.llm.local.catalogue import release_apart
from mcranker.llm.models import layered
from personas.ranking.usage import Usage, UsageTable


@runtime_checkable
class Embedder(Protocol):
    """Anything that makes vectors of texts, each of length 1, in an array (texts, dimensions).

    Attributes:
        name: the model as a user names it, e.g. ``"openai:text-embedding-3-small"``.
        mark: identity of its vectors: another mark, other vectors.
        dimensions: numbers of a vector; may be 0 until the first text was embedded.
        max_tokens: tokens that it reads of a text.
    """

    @property
    def name(self) -> str: ...
    @property
    def mark(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...

    async def embed_queries(
        self, texts: Sequence[str], usage: UsageTable | None = None
    ) -> NDArray[np.float32]: ...

    async def embed_passages(
        self, texts: Sequence[str], usage: UsageTable | None = None
    ) -> NDArray[np.float32]: ...

    async def aclose(self) -> None:
        """Release models and connections. Calling it twice does no harm."""
        ...


class TextEmbedder:
    """An `Embedder` by an `Encoder`, whose user it is."""

    def __init__(self, encoder: Encoder) -> None:
        self.name = encoder.name
        self.mark = encoder.mark
        self.max_tokens = encoder.max_tokens
        self.tokenizer = encoder.tokenizer  # passages are measured with it, if there is one
        self._encoder = encoder
        self._lease = weakref.finalize(self, release_apart, encoder.release)

    @property
    def dimensions(self) -> int:
        return self._encoder.dimensions

    async def embed_queries(
        self, texts: Sequence[str], usage: UsageTable | None = None
    ) -> NDArray[np.float32]:
        return await self._embed(self._encoder.prefixes[0], texts, usage)

    async def embed_passages(
        self, texts: Sequence[str], usage: UsageTable | None = None, *, keep: bool = True
    ) -> NDArray[np.float32]:
        """As an `Embedder`; `keep` is that of `Encoder.encode`."""
        return await self._embed(self._encoder.prefixes[1], texts, usage, keep=keep)

    async def aclose(self) -> None:
        if self._lease.detach() is not None:
            await anyio.to_thread.run_sync(partial(self._encoder.release, wait=True))

    async def _embed(
        self, prefix: str, texts: Sequence[str], usage: UsageTable | None, *, keep: bool = True
    ) -> NDArray[np.float32]:
        found = await self._encoder.encode([prefix + text for text in texts], keep=keep)
        if usage is not None:
            read = set(zip(texts, found.tokens, found.known, strict=True))
            for reused in sorted({known for _, _, known in read}):
                took = Usage(input_tokens=sum(n for _, n, known in read if known is reused))
                if not reused:
                    took += Usage(calls=found.usage.calls or 1, seconds=found.usage.seconds)
                usage.add("embed", "", self.name, took, reused=reused)
        return found.vectors


def connect_embedder(
    spec: str | Embedder | None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    config: RankerConfig | None = None,
    budget: Budget | None = None,
    prefixes: tuple[str, str] | None = None,
) -> Embedder:
    """The embedder of a name. Nothing is loaded or sent yet."""
    if spec is not None and not isinstance(spec, str):
        if not isinstance(spec, Embedder):
            raise ConfigError(f"embedder={spec!r} is a {type(spec).__name__}; use {FORMS}")
        if base_url is not None or api_key or prefixes:
            raise ConfigError("base_url=, api_key= and prefixes= go with an embedder's name")
        return spec
    config = config or RankerConfig()
    encoder = open_encoder(
        DEFAULT_LOCAL if spec is None else spec,
        prefixes=prefixes,
        base_url=base_url,
        api_key=api_key,
        timeout=config.timeout,
        concurrency=config.workers,
        around=partial(layered, config=config, budget=budget),
    )
    return TextEmbedder(encoder)
