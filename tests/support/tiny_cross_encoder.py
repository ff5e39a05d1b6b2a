"""A cross-encoder of BERT's form, of a few words and one layer, and its logits by hand.

All weights of the layer are 0, so each token stays what it is, but for being brought to mean 0
and variance 1: a few lines of numpy say what the head makes of the first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("masks", "help", "against", "viruses", "bread", "rises", "spread", "the", "in", "oven")
WIDTH, LONGEST = 16, 32
_EPSILON = 1e-12
Matrix = NDArray[np.float64]


def expected_logits(query: str, text: str, labels: int = 1) -> Matrix:
    """What the model says to ``[CLS] query [SEP] text [SEP]``."""
    w = weights(labels)
    tokens = [*SPECIAL, *WORDS]
    words = ["[CLS]", *query.split(), "[SEP]", *text.split(), "[SEP]"]
    kinds = [0] * (len(query.split()) + 2) + [1] * (len(text.split()) + 1)
    x = w["words"][[tokens.index(word) for word in words]] + w["kinds"][kinds]
    x = _normed(x)
    # Queries and keys are 0, so that each token attends to all alike, and values are the tokens.
    first = _normed(_normed(x[0] + x.mean(axis=0)))
    return np.asarray(w["head"] @ np.tanh(w["pooler"] @ first))


def _normed(x: Matrix) -> Matrix:
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + _EPSILON))


def weights(labels: int) -> dict[str, Matrix]:
    luck = np.random.default_rng(7)
    return {
        "words": luck.normal(size=(len(SPECIAL) + len(WORDS), WIDTH)),
        "kinds": luck.normal(size=(2, WIDTH)),
        "pooler": luck.normal(size=(WIDTH, WIDTH)) / 2,
        "head": luck.normal(size=(labels, WIDTH)),
    }


def write_cross_encoder(
    folder: Path, *, labels: int = 1, kind: str = "BertForSequenceClassification"
) -> Path:
    """Write the model as transformers keeps it; another `kind` has no head of a cross-encoder."""
    import torch
    import transformers

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = transformers.BertTokenizerFast(vocab=vocabulary, model_max_length=LONGEST)
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=WIDTH,
        max_position_embeddings=LONGEST,
        num_labels=labels,
        layer_norm_eps=_EPSILON,
    )
    model: Any = getattr(transformers, kind)(config)
    for name, values in model.named_parameters():
        values.data.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
    bert = model.bert if hasattr(model, "bert") else model
    given = {
        name: torch.tensor(each, dtype=torch.float32) for name, each in weights(labels).items()
    }
    bert.embeddings.word_embeddings.weight.data = given["words"]
    bert.embeddings.token_type_embeddings.weight.data = given["kinds"]
    attention = bert.encoder.layer[0].attention
    attention.self.value.weight.data = torch.eye(WIDTH)
    attention.output.dense.weight.data = torch.eye(WIDTH)
    if bert.pooler is not None:
        bert.pooler.dense.weight.data = given["pooler"]
    if hasattr(model, "classifier"):
        model.classifier.weight.data = given["head"]
    model.save_pretrained(folder)
    return folder
