"""A cross-encoder of BERT's form and a T5, of a few words and one layer, and their logits by hand.

All weights of BERT's layer are 0, so each token stays what it is, but for being brought to mean 0
and variance 1: a few lines of numpy say what the head makes of the first. Those of the T5 are 0 but
for the decoder's attention to the encoder, which is to all tokens alike: the first token's logits
are the tokens times the sum of the start token and the mean of the text's, each scaled to a root
mean square of 1, over the root of the width.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FALSE",
    "TRUE",
    "expected_logits",
    "t5_logit",
    "write_causal",
    "write_cross_encoder",
    "write_t5",
]

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("masks", "help", "against", "viruses", "bread", "rises", "spread", "the", "in", "oven")
WIDTH, LONGEST = 16, 32
_EPSILON = 1e-12
Matrix = NDArray[np.float64]
TRUE, FALSE, T5_LONGEST = 3, 4, 12
T5_TOKENS = (
    *("<pad>", "</s>", "<unk>", "true", "false", "Query:", "Document:", "Relevant:"),
    *("masks", "help", "against", "viruses", "bread", "rises"),
)


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


def write_causal(folder: Path) -> Path:
    """Write a causal model of weights 0, which has the words "yes" and "no"."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: number for number, word in enumerate(("<pad>", "yes", "no", *WORDS))}
    made = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<pad>", model_max_length=LONGEST
    )
    tokenizer.chat_template = "{% for each in messages %}{{ each['content'] }} {% endfor %}yes"
    tokenizer.save_pretrained(folder)
    config = transformers.StableLmConfig(
        vocab_size=len(words),
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=LONGEST,
    )
    model: Any = transformers.StableLmForCausalLM(config)
    for values in model.parameters():
        values.data.fill_(0.0)
    model.save_pretrained(folder)
    return folder


def t5_logit(words: str, token: int) -> float:
    """The logit of a token, as the first one after these words and the end."""
    x = _t5_weights()
    read = _scaled(x[[*(T5_TOKENS.index(word) for word in words.split()), 1]])
    return float(x[token] @ _scaled(x[0] + read.mean(axis=0)) / np.sqrt(WIDTH))


def _scaled(x: Matrix) -> Matrix:
    return np.asarray(x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6))


def _t5_weights() -> Matrix:
    return np.random.default_rng(7).normal(size=(len(T5_TOKENS), WIDTH))


def write_t5(folder: Path) -> Path:
    """Write the model as transformers keeps it."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {word: number for number, word in enumerate(T5_TOKENS)}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=T5_LONGEST,
    )
    tokenizer.save_pretrained(folder)
    config = transformers.T5Config(
        vocab_size=len(T5_TOKENS),
        d_model=WIDTH,
        d_kv=WIDTH // 2,
        num_heads=2,
        d_ff=WIDTH,
        num_layers=1,
        decoder_start_token_id=0,
    )
    model: Any = transformers.T5ForConditionalGeneration(config)
    for name, values in model.named_parameters():
        values.data.fill_(1.0 if name.endswith("layer_norm.weight") else 0.0)
    model.shared.weight.data = torch.tensor(_t5_weights(), dtype=torch.float32)
    model.tie_weights()
    attention = model.decoder.block[0].layer[1].EncDecAttention
    attention.v.weight.data = torch.eye(WIDTH)
    attention.o.weight.data = torch.eye(WIDTH)
    model.save_pretrained(folder)
    return folder
