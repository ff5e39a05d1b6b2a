"""A pipeline's stages and their options: in a TOML file, and by name as ``-o KEY=VALUE``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mcranker.config import explain
from mcranker.errors import ConfigError
from mcranker.llm.connect import DEFAULT_LOCAL, choose_default
from mcranker.rankers import RANKERS
from mcranker.rankers.keys import Key, keys_of, needed_models, sentences_of, shared_keys
from personas.io.lines import read_text

LONGEST_FILE = 1_000_000  # bytes of a pipeline's file
LIMITS = (
    *(
        "max_calls",
        "max_cost",
        "deadline",
        "batch",
        "offline",
        "concurrency",
        "query_concurrency",
        "timeout",
    ),
    *("requests_per_minute", "tokens_per_minute", "temperature", "seed", "cache_variant"),
    "repair_attempts",
)
"""Fields of `RankerConfig` that a pipeline has for all of its stages together."""
SHARED = ("model", "base_url", "ledger", "prompts", *LIMITS)
"""Options of every ranker that `RAGPipeline` takes as well, for all of its stages together."""

_OWN = {
    "query_model": Key("query_model", help="Transforms queries, instead of model."),
    "answer_model": Key("answer_model", help="Writes the answer, instead of model."),
    "embedder_url": Key(
        "embedder_url", help="Address of the service whose vectors an index of embed:NAME has."
    ),
}

_CHUNKS = "chunks"

Preset = Literal[
    "naive", "hyde", "mmr", "rebel", "llm_rerank", "g_rag", "g_rag_champion", "rankrag", "team"
]
Wording = Literal["naive", "medium", "advanced"]


class _Stage(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class QueryStage(_Stage):
    """Queries that are sent for a question.

    Attributes:
        transform: ``"none"``: the question; ``"hyde"``: a hypothetical answer; ``"variants"``:
            other wordings; ``"decomposition"``: sub-queries, or variants of a simple question.
        wording: the prompt for variants.
        variants: wordings asked for.
        keep_question: whether the question is sent besides.
    """

    transform: Literal["none", "hyde", "variants", "decomposition"] = "none"
    wording: Wording = "naive"
    variants: int = Field(8, ge=1, le=50)
    keep_question: bool = True


class RetrievalStage(_Stage):
    """Search for passages.

    Attributes:
        by: ``"bm25"``, ``"dense"``, or both fused by reciprocal rank (``"hybrid"``).
        documents: passages in all; each of q queries brings ``int(documents / q)``, at least 1.
        per_source: depth of each search before fusion.
        rrf_k: constant of reciprocal rank fusion.
        unique: what may be in the result once: a ``"chunk"``, or a ``"document"``, of which the
            first chunk stays.
        mmr: share of relevance against novelty in maximal marginal relevance over `per_source`
            passages; None for no diversification.
    """

    by: Literal["bm25", "dense", "hybrid"] = "hybrid"
    documents: int = Field(10, ge=1, le=10_000)
    per_source: int = Field(100, ge=1, le=10_000)
    rrf_k: int = Field(60, ge=1)
    unique: Literal["chunk", "document"] = "chunk"
    mmr: float | None = Field(None, ge=0, le=1)


class RerankStage(_Stage):
    """Reranking by any ranker.

    Attributes:
        ranker: the name of one, or None to keep the order of retrieval.
        options: of the ranker, as ``-o KEY=VALUE`` names them.
        keep: passages that go on; None for all that the ranker leaves.
        fallback: first retrieved passages that go on if the ranker leaves none.
    """

    ranker: str | None = None
    options: Mapping[str, Any] = Field(default_factory=dict)
    keep: int | None = Field(None, ge=1)
    fallback: int = Field(0, ge=0)


class ContextStage(_Stage):
    """Passages shown to the writer of the answer: whole ones, until the next would pass `limit`.

    Attributes:
        limit: words (by white space) of all texts together; a first passage that is longer is cut.
    """

    limit: int = Field(10_000, ge=1)


class AnswerStage(_Stage):
    """The answer.

    Attributes:
        style: the prompt: ``"cited"`` asks for claims with passage numbers and verbatim quotes;
            ``"naive"``, ``"medium"`` and ``"advanced"`` are G-RAG's, ``"rebel"`` and ``"rankrag"``
            those of their papers, ``"rankrag_claim"`` for a claim that is True or False;
            ``"extract"`` asks no model and cites the best sentences.
        max_tokens: longest reply.
        max_words: longest answer, above which one more call shortens one without quotes; None
            never.
        abstain: answer "I don't know" without a call if no passage is left.
    """

    style: Literal[
        "cited", "naive", "medium", "advanced", "rebel", "rankrag", "rankrag_claim", "extract"
    ] = "cited"
    max_tokens: int = Field(1024, ge=1)
    max_words: int | None = Field(300, ge=1)
    abstain: bool = True


class PipelineConfig(_Stage):
    """A pipeline from question to answer; `load` reads one from a preset or a file.

    Attributes:
        preset: the preset that it began as; empty for none.
        about: what it is, in a sentence or two.
        chunks: how documents are divided when an index is made: ``"sentences"`` up to 512 tokens,
            ``"tokens"`` of 2,000 with 200 overlapping, ``"words"`` of 150, or ``"whole"``.
    """

    preset: str = ""
    about: str = ""
    chunks: Literal["sentences", "tokens", "words", "whole"] = "sentences"
    query: QueryStage = QueryStage()
    retrieval: RetrievalStage = RetrievalStage()
    rerank: RerankStage = RerankStage()
    context: ContextStage = ContextStage()
    answer: AnswerStage = AnswerStage()

    @property
    def tasks(self) -> tuple[Literal["query", "answer"], ...]:
        """The tasks besides reranking for which a model is asked."""
        query: tuple[Literal["query"], ...] = ("query",) if self.query.transform != "none" else ()
        return query if self.answer.style == "extract" else (*query, "answer")

    @classmethod
    def load(cls, preset_or_file: PipelineConfig | str | os.PathLike[str], **changes: Any) -> Self:
        """Return a preset, or the pipeline of a TOML file, with some values changed.

        Args:
            preset_or_file: one of `Preset`, or a path; a file may name a ``preset`` to begin with.
                Or a configuration that is there already.
            changes: stages with the values to change, such as ``answer={"style": "extract"}``.

        Raises:
            ConfigError: there is no such preset or file, or it cannot be read or used.
        """
        if isinstance(preset_or_file, PipelineConfig):
            return cls._of(preset_or_file.model_dump(), changes, "a pipeline")
        name = os.fspath(preset_or_file)
        if name in get_args(Preset):
            return cls._of(_shipped(name), changes, f"preset {name!r}")
        path = Path(name).expanduser()
        if not path.is_file():
            raise ConfigError(
                f"there is no preset and no file {name!r}; presets: {', '.join(get_args(Preset))}"
            )
        try:
            values = tomllib.loads(read_text(path, ConfigError, LONGEST_FILE))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: is no TOML: {error}") from error
        if (base := values.get("preset")) in get_args(Preset):
            values = _merged(_shipped(str(base)), values)
        return cls._of(values, changes, str(path))

    @classmethod
    def _of(cls, values: Mapping[str, Any], changes: Mapping[str, Any], where: str) -> Self:
        try:
            return cls.model_validate(_merged(values, changes))
        except ValidationError as error:
            raise ConfigError(f"{where}: {explain(error, cls)}") from error


def preset_text(preset: str) -> str:
    """Return a preset's TOML file."""
    file = resources.files("mcranker.rag") / "presets" / f"{preset}.toml"
    return file.read_text(encoding="utf-8")


def own_keys() -> dict[str, Key]:
    """Options of `RAGPipeline` that a text can name."""
    shared = shared_keys()
    return _OWN | {name: shared[name] for name in SHARED}


def stage_keys(*, of_rankers: bool = True) -> dict[str, Key]:
    """Values of stages, as ``answer.style``, and the options of `RAGPipeline` alone."""
    found = dict(_OWN)
    of_pipeline = sentences_of(PipelineConfig)
    for stage, field in PipelineConfig.model_fields.items():
        kind = field.annotation
        if stage == _CHUNKS:
            found[stage] = Key(stage, kind, field.default, of_pipeline[stage])
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            sentences = sentences_of(kind)
            for name, value in kind.model_fields.items():
                key, limits = f"{stage}.{name}", tuple(value.metadata)
                found[key] = Key(key, value.annotation, value.default, sentences[name], limits)
    del found["rerank.options"]
    own = keys_of(*RANKERS.names) if of_rankers else {}
    return found | {f"rerank.options.{name}": key for name, key in own.items()}


def models_of(config: PipelineConfig, options: Mapping[str, Any]) -> list[str]:
    """Return the models that a pipeline with these options of `RAGPipeline` asks."""
    ranker, writer = config.rerank.ranker, choose_default(os.environ)[0]
    if not options.get("model") and not options.get("answer_model"):
        config = without_writer(config)
    found = needed_models([(ranker, {**options, **config.rerank.options})] if ranker else ())
    specs = [
        options.get(f"{task}_model") or options.get("model") or writer for task in config.tasks
    ]
    return [each for each in dict.fromkeys([*found, *specs]) if isinstance(each, str)]


def without_writer(config: PipelineConfig) -> PipelineConfig:
    """The configuration with extracts for answers, if the default model is an encoder."""
    if choose_default(os.environ)[0] != DEFAULT_LOCAL or "answer" not in config.tasks:
        return config
    return PipelineConfig.load(config, answer={"style": "extract"})


def divided(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide options of any of these names."""
    own: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for name, value in options.items():
        if name in (*_OWN, *SHARED):
            own[name] = value
            continue
        path = name if "." in name or name == _CHUNKS else f"rerank.options.{name}"
        *tables, last = path.split(".")
        table = changes
        for each in tables:
            table = table.setdefault(each, {})
        table[last] = value
    return own, changes


def _shipped(preset: str) -> dict[str, Any]:
    return {"preset": preset, **tomllib.loads(preset_text(preset))}


def _merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Values with those of `changes` over them, table by table; options of another ranker go."""
    merged = dict(values)
    for name, change in changes.items():
        old = merged.get(name)
        if isinstance(old, Mapping) and isinstance(change, Mapping):
            if "ranker" in change and change["ranker"] != old.get("ranker"):
                old = {key: value for key, value in old.items() if key != "options"}
            change = _merged(old, change)
        merged[name] = change
    return merged
