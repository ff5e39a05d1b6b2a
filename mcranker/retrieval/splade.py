"""SPLADE: texts as weights of a vocabulary's tokens, searched by their dot product.

A masked language model gives a token v of its vocabulary the weight ``max over i of
log(1 + max(0, logit_iv))``, i over the text's tokens, so that a text also has words that it does
not hold ("SPLADE v2", Formal et al. 2021, arXiv 2109.10086). The score of a document is the sum
over the query's tokens of query weight times document weight.

transformers, with PyTorch, is imported at the first text that no cache has.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcranker.errors import RunError, UnsupportedCapability
from mcranker.llm.local.cross_encoder import loading, source_of
from mcranker.llm.local.engine import check_installed
from mcranker.logs import safe_logger
from mcranker.retrieval import cache as stored
from mcranker.retrieval.bm25 import Found, best, check_depth

MOST_TERMS = 250
"""Tokens of a text that are kept, those with the highest weights."""

MAX_TOKENS = 256
"""Tokens that the model reads of a text; the rest does not count."""

PACKAGE = "transformers"
LONGEST_TEXT = 20_000  # characters read of a text
PART = 512  # documents that are weighted and kept together
_NOTHING = np.zeros(0, np.int64), np.zeros(0, np.float16)
_BLOCK = 2048  # tokens of the vocabulary whose logits are computed together

_log = safe_logger("mcranker.retrieval.splade")


class Terms(NamedTuple):
    """Weights of texts, one text after the other.

    Attributes:
        counts: tokens of each text.
        ids: place of each token in the vocabulary.
        weights: of each token, above 0, in half precision.
    """

    counts: NDArray[Any]
    ids: NDArray[Any]
    weights: NDArray[np.float16]


class SpladeModel:
    """A masked language model by transformers: of a folder, or of the Hugging Face hub.

    It is loaded at the first text, on a GPU if PyTorch finds one. May be used by several threads;
    one works at a time. Models with another way for queries than for documents are not supported.

    Args:
        name: folder, or name such as ``"naver/splade-v3"``.

    Raises:
        ConfigError: transformers or PyTorch is not installed.
        ModelNotFound: the name is a path, and no folder is there.
    """

    def __init__(self, name: str) -> None:
        self.name = f"splade:{name}"
        check_installed(self.name, {"transformers": PACKAGE, "torch": "torch"}, "crossencoder")
        self._source, files = source_of(name, self.name, "splade:naver/splade-v3")
        version = metadata.version(PACKAGE)
        self.mark = f"{PACKAGE} {version} {files or self._source} {MAX_TOKENS} {MOST_TERMS}"
        self._lock = threading.Lock()
        self._weigh: Callable[[str], tuple[NDArray[Any], NDArray[np.float16]]] | None = None

    def weigh(self, texts: Sequence[str], /) -> Terms:
        """The weights of texts, queries or documents. Blocks.

        Raises:
            ModelNotFound, ModelFileError: the model cannot be had, or not be loaded.
            UnsupportedCapability: it is no masked language model.
            RunError: it fails on these texts.
        """
        read = (text[:LONGEST_TEXT].encode("utf-8", "replace").decode() for text in texts)
        with self._lock:
            if self._weigh is None:
                with loading(self.name, "a SPLADE model"):
                    self._weigh = self._load()
            try:
                ids, weights = zip(_NOTHING, *map(self._weigh, read), strict=True)
            except (RuntimeError, ValueError, IndexError) as error:
                raise RunError(f"{self.name} fails on {len(texts)} texts: {error}") from error
        return Terms(np.array([*map(len, ids)][1:]), np.concatenate(ids), np.concatenate(weights))

    def _load(self) -> Callable[[str], tuple[NDArray[Any], NDArray[np.float16]]]:
        import torch
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(self._source)
        model = AutoModelForMaskedLM.from_pretrained(self._source)
        if type(model).__name__ not in (model.config.architectures or ()):
            raise UnsupportedCapability(
                f"{self.name} is no masked language model, so it has no weights of words; take "
                "one such as 'naver/splade-v3'",
                model=self.name,
            )
        output = model.get_output_embeddings()

        # The highest logit of each token instead of that at each place. A block of the vocabulary
        # at a time stays in the processor's cache, three times as fast and equal to the last digit.
        def highest(hidden: Any) -> Any:
            blocks = output.weight.split(_BLOCK)
            found = torch.cat([(hidden @ each.T).amax(1) for each in blocks], dim=1)
            return found if output.bias is None else found + output.bias

        output.forward = highest
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model.to(device).eval()
        longest = min(tokenizer.model_max_length, MAX_TOKENS)

        def weigh(text: str) -> tuple[NDArray[Any], NDArray[np.float16]]:
            read = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt")
            with torch.inference_mode():
                logits = model(**read.to(device)).logits[0]
                best = torch.log1p(torch.relu(logits)).topk(min(MOST_TERMS, len(logits)))
            weights = best.values.cpu().numpy().astype(np.float16)
            held = weights > 0  # and not so small that half precision has none
            return best.indices.cpu().numpy()[held], weights[held]

        return weigh


class Splade:
    """An index in memory: 6 bytes for every token of a document; a `Retriever`.

    Weights have half precision, and scores single precision.

    Args:
        texts: document id -> text, as a mapping or as pairs; gone through once.
        model: gives the weights.
        cache: folder where weights are kept and found again, 512 documents together, by their
            texts and the model, so that what was stopped goes on; None for no folder.

    Raises:
        ModelError, RunError: as the model says.
    """

    def __init__(
        self,
        texts: Mapping[str, str] | Iterable[tuple[str, str]],
        model: SpladeModel,
        *,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        self._model, self._cache = model, None if cache is None else Path(cache)
        self._doc_ids: list[str] = []
        started = time.perf_counter()
        pairs = iter(texts.items() if isinstance(texts, Mapping) else texts)
        parts = [Terms(np.zeros(0, np.int64), *_NOTHING)]
        while part := list(islice(pairs, PART)):
            self._doc_ids += [doc_id for doc_id, _ in part]
            parts.append(self._weigh([text for _, text in part]))
            _log.info("%d documents have their weights", len(self))
        counts, ids, weights = map(np.concatenate, zip(*parts, strict=True))
        # A column a token, as BM25's: the weights, their documents' places, and where each starts.
        order = np.argsort(ids, kind="stable")
        self._places = np.repeat(np.arange(len(counts), dtype=np.int32), counts)[order]
        self._weights = weights[order]
        self._starts = np.searchsorted(ids[order], np.arange(ids.max(initial=-1) + 2))
        _log.info(
            "indexed %d documents of %d tokens in %.2f s",
            *(len(counts), len(ids), time.perf_counter() - started),
        )

    def __len__(self) -> int:
        return len(self._doc_ids)

    def retrieve(self, queries: Mapping[str, str], k: int) -> Found:
        """Documents that share a token with each query; equal scores keep the corpus' order.

        Raises:
            ConfigError: `k` is below 1.
            ModelError, RunError: as the model says.
        """
        check_depth(k)
        terms, found = self._model.weigh([*queries.values()]), {}
        weighted = zip(terms.ids.tolist(), terms.weights.astype(np.float32), strict=True)
        for query_id, count in zip(queries, terms.counts.tolist(), strict=True):
            scores = np.zeros(len(self), dtype=np.float32)
            for token, weight in islice(weighted, count):
                if token + 1 < len(self._starts):
                    column = slice(self._starts[token], self._starts[token + 1])
                    weights = self._weights[column].astype(np.float32)
                    scores[self._places[column]] += weight * weights
            rows = best(scores, k).tolist()
            found[query_id] = [(self._doc_ids[row], float(scores[row])) for row in rows]
        return found

    def _weigh(self, texts: list[str]) -> Terms:
        if self._cache is None:
            return self._model.weigh(texts)
        digest = stored.digest_of((text,) for text in texts)
        key = stored.key_of({"splade": self._model.mark, "texts": digest})
        if kept := stored.find(self._cache, "splade", key):
            with np.load(kept / "terms.npz") as arrays:
                return Terms(**arrays)
        terms = self._model.weigh(texts)
        smallest = np.min_scalar_type(terms.ids.max(initial=0))
        terms = terms._replace(ids=terms.ids.astype(smallest))

        def write(folder: Path) -> None:
            np.savez(folder / "terms.npz", **terms._asdict())

        stored.keep(self._cache, "splade", key, write)
        return terms
