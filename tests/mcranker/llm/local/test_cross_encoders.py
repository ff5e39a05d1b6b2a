"""Cross-encoders by sentence-transformers: which are taken, and what they say."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcranker import connect
from mcranker.errors import (
    ConfigError,
    ModelError,
    ModelFileError,
    UnsupportedCapability,
)
from mcranker.llm.chat import ChatRequest, Message, Question, State, Tag
from mcranker.llm.local.cross_encoder import CrossEncoderChat
from tests.support.tiny_cross_encoder import (
    LONGEST,
    WIDTH,
    WORDS,
    Matrix,
    expected_logits,
    write_cross_encoder,
)

TRUE, FALSE, T5_LONGEST = 3, 4, 12
T5_TOKENS = (
    *("<pad>", "</s>", "<unk>", "true", "false", "Query:", "Document:", "Relevant:"),
    *("masks", "help", "against", "viruses", "bread", "rises"),
)

QUERY = "masks against viruses"
TEXTS = ("masks help against viruses", "bread rises in the oven", "viruses spread")

without = pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is not None, reason="the extra is there"
)


@without
def test_the_extra_is_named_where_it_is_absent() -> None:
    with pytest.raises(ConfigError, match=r"pip install 'mcranker\[crossencoder\]'"):
        connect("crossencoder:cross-encoder/ms-marco-MiniLM-L6-v2")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where models are written; nothing is looked for on the hub."""
    pytest.importorskip("sentence_transformers", reason="the extra crossencoder is absent")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


def logistic(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def relevance(text: str) -> float:
    return logistic(float(expected_logits(QUERY, text)[0]))


def ask(names: dict[str, str], query: str = QUERY) -> ChatRequest:
    questions = tuple(Question(name, "", passage=name) for name in names)
    return ChatRequest((), Tag("score"), questions=questions, state=State(query, names))


@pytest.mark.anyio
async def test_it_answers_with_the_models_own_relevance(folder: Path) -> None:
    path = write_cross_encoder(folder / "model")
    chat = connect(f"crossencoder:{path}")
    assert isinstance(chat, CrossEncoderChat)
    reply = await chat.complete(ask({f"p{n}": text for n, text in enumerate(TEXTS)}))
    with pytest.raises(UnsupportedCapability, match="answers no prompts"):
        await chat.complete(ChatRequest((Message("user", "Who?"),), Tag("recruit")))
    await chat.aclose()
    assert reply.answers is not None
    values = [answer.value for answer in reply.answers]
    assert values == pytest.approx([relevance(text) for text in TEXTS], rel=1e-4)
    # [CLS] and two [SEP], 3 words of the query each time, and 4, 5 and 2 of the texts.
    assert reply.usage.input_tokens == 3 * (3 + 3) + 4 + 5 + 2


@pytest.mark.anyio
async def test_two_classes_are_the_probability_of_the_second(folder: Path) -> None:
    path = write_cross_encoder(folder / "model", labels=2)
    reply = await CrossEncoderChat(str(path)).complete(ask({"p": TEXTS[0]}))
    no, yes = expected_logits(QUERY, TEXTS[0], labels=2)
    assert reply.answers is not None
    assert reply.answers[0].value == pytest.approx(logistic(float(yes - no)), rel=1e-4)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("labels", "kind", "error", "said"),
    [
        (3, "BertForSequenceClassification", UnsupportedCapability, "tells 3 classes apart"),
        (2, "BertLMHeadModel", UnsupportedCapability, "is of the kind BertLMHeadModel, without"),
        (1, "BertModel", UnsupportedCapability, "is of the kind BertModel, without the head"),
        (1, "BertForMaskedLM", UnsupportedCapability, "of the kind BertForMaskedLM, without"),
    ],
)
async def test_what_is_no_reranker_scores_nothing(
    labels: int, kind: str, error: type[ModelError], said: str, folder: Path
) -> None:
    path = write_cross_encoder(folder / "model", labels=labels, kind=kind)
    with pytest.raises(error, match=said):
        await CrossEncoderChat(str(path)).complete(ask({"p": TEXTS[0]}))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("second", "taken"),
    [("LABEL_1", True), ("relevant", True), ("Yes", True), ("positive", False), ("0", False)],
)
async def test_the_second_class_has_to_be_relevance(second: str, taken: bool, folder: Path) -> None:
    path = write_cross_encoder(folder / "model", labels=2)
    config = json.loads((path / "config.json").read_text())
    config |= {"id2label": {"0": "first", "1": second}, "label2id": {"first": 0, second: 1}}
    (path / "config.json").write_text(json.dumps(config))
    chat = CrossEncoderChat(str(path))
    if taken:
        no, yes = expected_logits(QUERY, TEXTS[0], labels=2)
        reply = await chat.complete(ask({"p": TEXTS[0]}))
        assert reply.answers is not None
        assert reply.answers[0].value == pytest.approx(logistic(float(yes - no)), rel=1e-4)
        return
    with pytest.raises(UnsupportedCapability, match=f"2 classes apart .first, {second}"):
        await chat.complete(ask({"p": TEXTS[0]}))


@pytest.mark.anyio
async def test_a_causal_model_needs_its_words_of_relevance(folder: Path) -> None:
    """The same model, without and with a ``modules.json`` that names the two tokens."""
    path = write_causal(folder / "causal")
    with pytest.raises(UnsupportedCapability, match=r"no modules\.json that lists LogitScore"):
        await CrossEncoderChat(str(path)).complete(ask({"p": TEXTS[0]}))
    from sentence_transformers import CrossEncoder

    CrossEncoder(str(path)).save_pretrained(str(folder / "reranker"))
    reply = await CrossEncoderChat(str(folder / "reranker")).complete(ask({"p": TEXTS[0]}))
    assert reply.answers is not None
    assert reply.answers[0].value == pytest.approx(0.5)  # all weights are 0


T5_TEXTS = {"p1": "masks help against viruses", "p2": "bread rises"}


@pytest.mark.anyio
async def test_a_t5_answers_by_the_logits_of_its_tokens(folder: Path) -> None:
    """monoT5's p(true) of true and false, and RankT5's logit; each text of another length."""
    path = write_t5(folder / "t5")
    said = {
        f"{TRUE},{FALSE}": [
            t5_logit(f"Query: masks Document: {text} Relevant:", TRUE)
            - t5_logit(f"Query: masks Document: {text} Relevant:", FALSE)
            for text in T5_TEXTS.values()
        ],
        f"{TRUE}": [t5_logit(f"Query: masks Document: {text}", TRUE) for text in T5_TEXTS.values()],
    }
    request = ask(T5_TEXTS, query="masks")
    for ids, logits in said.items():
        chat = connect(f"crossencoder:{path}#{ids}")
        reply = await chat.complete(request)
        assert reply.answers is not None
        values = [answer.value for answer in reply.answers]
        assert values == pytest.approx([logistic(logit) for logit in logits], rel=1e-4)
        # Query: masks Document: and the end, and 4 and 2 words of the texts; Relevant: of monoT5.
        assert reply.usage.input_tokens == 2 * (3 + 1 + ("," in ids)) + 4 + 2


@pytest.mark.anyio
async def test_a_long_text_of_a_t5_loses_its_own_end_and_not_the_prompts(folder: Path) -> None:
    """12 tokens: Query: masks Document:, 7 words, Relevant: and the end."""
    path = write_t5(folder / "t5")
    chat = CrossEncoderChat(f"{path}#{TRUE},{FALSE}")
    reply = await chat.complete(ask({"p": "bread " * 7 + "masks " * 50}, query="masks"))
    words = f"Query: masks Document: {'bread ' * 7} Relevant:"
    assert reply.answers is not None
    assert reply.answers[0].value == pytest.approx(
        logistic(t5_logit(words, TRUE) - t5_logit(words, FALSE)), rel=1e-4
    )
    assert reply.usage.input_tokens == 12


@pytest.mark.anyio
async def test_a_t5_needs_tokens_that_it_has(folder: Path) -> None:
    t5, bert = write_t5(folder / "t5"), write_cross_encoder(folder / "model")
    for name, said in (
        (str(t5), "name the tokens that do after the model: '#1176,6136' for monoT5"),
        (f"{t5}#32089", "there is no token 32089, as the model has 14"),
    ):
        with pytest.raises(UnsupportedCapability, match=said):
            await CrossEncoderChat(name).complete(ask({"p": "x"}))
    with pytest.raises(ModelFileError, match="cannot be loaded as a cross-encoder"):
        await CrossEncoderChat(f"{bert}#3").complete(ask({"p": "x"}))


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
    """A T5 of weights 0, but for the decoder's attention to the encoder, to all tokens alike.

    The first token's logits are the tokens times the sum of the start token and the mean of the
    text's, each scaled to a root mean square of 1, over the root of the width.
    """
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
