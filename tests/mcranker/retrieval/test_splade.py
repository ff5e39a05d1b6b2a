"""SPLADE's search against sums by hand, and the weights of a tiny model against its formula."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from beir_eval import Dataset, Document
from beir_eval.data.first_stage import FirstStage, find
from mcranker.errors import ConfigError, ModelNotFound
from mcranker.retrieval import splade
from mcranker.retrieval.splade import Splade, SpladeModel, Terms

DOCUMENTS = {"d1": "cat", "d2": "dog", "d3": "", "d4": "cat"}
# Text -> token -> weight.
WEIGHTS = {
    "cat": {1: 0.5, 7: 2.0},
    "dog": {2: 1.5, 7: 0.25},
    "": {},
    "pets": {7: 1.0},
    "cats": {1: 2.0, 9: 3.0},
    "Pets 0.1": {7: 0.1},
}


class ByHand:
    """Weighs texts as `WEIGHTS` says and notes what it was given."""

    mark = "by hand"

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[str, ...], bool]] = []

    def weigh(self, texts: Sequence[str], *, queries: bool) -> Terms:
        self.seen.append((tuple(texts), queries))
        pairs = [pair for text in texts for pair in WEIGHTS[text.strip()].items()]
        counts = np.array([len(WEIGHTS[text.strip()]) for text in texts])
        ids, weights = zip(*pairs, strict=True) if pairs else ((), ())
        return Terms(counts, np.array(ids, np.int64), np.array(weights, np.float16))


def test_scores_by_hand() -> None:
    index = Splade(DOCUMENTS, ByHand())
    found = index.retrieve({"q1": "pets", "q2": "cats", "q3": ""}, 10)
    # pets is 1.0 of token 7: d1 and d4 have 2.0 of it, d2 0.25, and d3 nothing.
    assert found["q1"] == [("d1", 2.0), ("d4", 2.0), ("d2", 0.25)]
    # cats is 2.0 of token 1, of which d1 and d4 have 0.5; no document has token 9.
    assert found["q2"] == [("d1", 1.0), ("d4", 1.0)]
    assert found["q3"] == []
    assert Splade(DOCUMENTS, ByHand()).retrieve({"q": "pets"}, 1) == {"q": [("d1", 2.0)]}
    # Half precision of 0.1 is 0.0999755859375, and single precision holds it times 2.
    assert index.retrieve({"q": "Pets 0.1"}, 1)["q"] == [("d1", 0.199951171875)]
    with pytest.raises(ConfigError, match="depth=0"):
        index.retrieve({"q": "pets"}, 0)
    assert Splade({}, ByHand()).retrieve({"q": "pets"}, 5) == {"q": []}


def test_what_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splade, "PART", 2)
    model = ByHand()
    first = Splade(dict([*DOCUMENTS.items()][:3]), model, cache=tmp_path)
    assert [texts for texts, _ in model.seen] == [("cat", "dog"), ("",)]
    again = Splade(DOCUMENTS, model, cache=tmp_path)
    # The first two were kept; the third is not together with the same documents any more.
    assert [texts for texts, _ in model.seen[2:]] == [("", "cat")]
    assert again.retrieve({"q": "pets"}, 2) == {"q": [("d1", 2.0), ("d4", 2.0)]}
    assert len(first) == 3
    other = ByHand()
    other.mark = "another model"
    Splade(DOCUMENTS, other, cache=tmp_path)
    assert len(other.seen) == 2


def test_a_data_set_is_searched_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ByHand()
    monkeypatch.setattr("beir_eval.data.first_stage.SpladeModel", lambda name: model)
    corpus = {name: Document(name, "", text) for name, text in DOCUMENTS.items()}
    pets = Dataset(name="pets", corpus=corpus, queries={"q": "pets"}, qrels={}, description="")
    stage = FirstStage("splade", depth=2, model=str(tmp_path))
    for _ in range(2):  # the second time its run was kept
        assert find(pets, stage, cache=tmp_path)["q"] == [("d1", 2.0), ("d4", 2.0)]
    assert [queries for _, queries in model.seen] == [False, True]
    note = stage.note()
    assert note.name == "SPLADE"
    assert note.settings == {"engine": "splade", "model": tmp_path.name}


def test_a_missing_package_or_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'mcranker\[crossencoder\]'"):
        SpladeModel("naver/splade-v3")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A masked language model whose logits are a table: layers, and all biases but one, are 0."""
    pytest.importorskip("sentence_transformers", reason="the extra crossencoder is not installed")
    import torch
    import transformers

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "dog", "pet"]
    vocabulary = {word: place for place, word in enumerate(words)}
    transformers.BertTokenizerFast(vocab=vocabulary, model_max_length=16).save_pretrained(tmp_path)
    config = transformers.BertConfig(
        vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=4, max_position_embeddings=16,
    )  # fmt: skip
    model = transformers.BertForMaskedLM(config)
    for name, values in model.named_parameters():
        values.data.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
    # All logits are the bias then, whatever the text.
    bias = torch.tensor([0.0, 0.0, 0.0, -1.0, 0.0, math.e - 1, 3.0, 0.5])
    model.cls.predictions.bias.data = bias
    model.cls.predictions.decoder.bias = model.cls.predictions.bias
    model.save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("default")  # of transformers and torch about themselves
def test_weights_of_a_model_by_the_formula(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = SpladeModel(str(tiny))
    terms = model.weigh(["cat", "dog dog"], queries=False)
    # log(1 + e - 1) = 1, log(1 + 3) = 1.3863, log(1 + 0.5) = 0.4055; logits of 0 or less give 0.
    assert terms.counts.tolist() == [3, 3]
    found = dict(zip(terms.ids[:3].tolist(), terms.weights[:3].tolist(), strict=True))
    assert found == pytest.approx({5: 1.0, 6: math.log(4), 7: math.log(1.5)}, abs=1e-3)
    assert terms.weights.dtype == np.float16
    monkeypatch.setattr(splade, "MOST_TERMS", 2)
    assert sorted(model.weigh(["cat"], queries=True).ids.tolist()) == [5, 6]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="the extra crossencoder is not installed")
    with pytest.raises(ModelNotFound, match="no folder"):
        SpladeModel(str(tmp_path / "none"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no such"}))
    with pytest.raises(Exception, match="splade:"):
        SpladeModel(str(tmp_path)).weigh(["a"], queries=False)
