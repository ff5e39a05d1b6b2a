"""A T5 of a few words and one layer, made on the spot, and its logits by hand.

All weights of its layers are 0 but for the decoder's attention to the encoder, which is to all
tokens alike. So the first token's logits are the tokens times the sum of the start token and the
mean of the text's, each scaled to a root mean square of 1, over the root of the width.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FALSE", "TRUE", "expected_logit", "write_t5"]

SPECIAL = ("<pad>", "</s>", "<unk>", "true", "false")
TRUE, FALSE = 3, 4
WORDS = (
    "Query:",
    "Document:",
    "Relevant:",
    "masks",
    "help",
    "against",
    "viruses",
    "bread",
    "rises",
)
TOKENS = (*SPECIAL, *WORDS)
WIDTH, LONGEST = 16, 12
Matrix = NDArray[np.float64]


def expected_logit(words: str, token: int) -> float:
    """The logit of a token, as the first one after these words and the end."""
    x = weights()
    read = _scaled(x[[*(TOKENS.index(word) for word in words.split()), 1]])
    return float(x[token] @ _scaled(x[0] + read.mean(axis=0)) / np.sqrt(WIDTH))


def _scaled(x: Matrix) -> Matrix:
    return np.asarray(x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6))


def weights() -> Matrix:
    return np.random.default_rng(7).normal(size=(len(TOKENS), WIDTH))


def write_t5(folder: Path) -> Path:
    """Write the model as transformers keeps it."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {word: number for number, word in enumerate(TOKENS)}
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
        model_max_length=LONGEST,
    )
    tokenizer.save_pretrained(folder)
    config = transformers.T5Config(
        vocab_size=len(TOKENS),
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
    model.shared.weight.data = torch.tensor(weights(), dtype=torch.float32)
    model.tie_weights()
    attention = model.decoder.block[0].layer[1].EncDecAttention
    attention.v.weight.data = torch.eye(WIDTH)
    attention.o.weight.data = torch.eye(WIDTH)
    model.save_pretrained(folder)
    return folder
