"""SPLADE's search against sums by hand, and the weights of a tiny model against its formula."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beir_eval import Dataset, Document
from beir_eval.data.first_stage import FirstStage, find
from mcranker.errors import ConfigError, ModelNotFound, UnsupportedCapability
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


class ByHand(SpladeModel):
    """Weighs texts as `WEIGHTS` says and notes what it was given."""

    def __init__(self) -> None:
        self.mark = "by hand"
        self.seen: list[tuple[str, ...]] = []

    def weigh(self, texts: Sequence[str], /) -> Terms:
        self.seen.append(tuple(texts))
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
    assert model.seen == [("cat", "dog"), ("",)]
    again = Splade(DOCUMENTS, model, cache=tmp_path)
    # The first two were kept; the third is not together with the same documents any more.
    assert model.seen[2:] == [("", "cat")]
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
    assert model.seen == [(" cat", " dog", " ", " cat"), ("pets",)]
    note = stage.note()
    assert note.name == "SPLADE"
    assert note.settings == {"engine": "splade", "model": tmp_path.name}


def test_a_missing_package_or_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'mcranker\[crossencoder\]'"):
        SpladeModel("naver/splade-v3")


# --- the model, where PyTorch is there


def write_model(folder: Path, kind: str) -> Any:
    """A BERT of 8 tokens by chance, whose logits are far enough from 0."""
    pytest.importorskip("transformers", reason="the extra crossencoder is not installed")
    import torch
    import transformers

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "dog", "pet"]
    vocabulary = {word: place for place, word in enumerate(words)}
    transformers.BertTokenizerFast(vocab=vocabulary, model_max_length=16).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=4, max_position_embeddings=16,
    )  # fmt: skip
    torch.manual_seed(3)
    model = getattr(transformers, kind)(config).eval()
    for values in model.parameters():
        values.data += torch.randn(values.shape)
    model.save_pretrained(folder)
    return model


@pytest.mark.filterwarnings("default")  # of transformers and torch about themselves
def test_weights_of_a_model_by_the_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = write_model(tmp_path, "BertForMaskedLM")
    import torch

    monkeypatch.setattr(splade, "_BLOCK", 3)  # of 8, so that there are three blocks
    monkeypatch.setattr(splade, "MOST_TERMS", 2)
    words = [[2, 5, 6, 5, 7, 3], [2, 6, 3], [2, 7, 3]]
    terms = SpladeModel(str(tmp_path)).weigh(["cat dog cat pet", "dog", "pet"])
    found = list(zip(terms.ids.tolist(), terms.weights.tolist(), strict=True))
    assert terms.weights.dtype == np.float16
    expected = []
    for ids in words:
        logits = plain(torch.tensor([ids])).logits[0]
        highest = torch.log1p(torch.relu(logits)).amax(0).tolist()
        order = sorted(range(8), key=lambda token: -highest[token])[:2]
        expected += [(token, highest[token]) for token in order if highest[token]]
    assert len(expected) > 3
    assert [token for token, _ in found] == [token for token, _ in expected]
    assert [w for _, w in found] == pytest.approx([w for _, w in expected], rel=1e-3)


@pytest.mark.filterwarnings("default")
def test_what_is_no_masked_language_model_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path, "BertForSequenceClassification")
    with pytest.raises(UnsupportedCapability, match="no masked language model"):
        SpladeModel(str(tmp_path)).weigh(["cat"])
    with pytest.raises(ModelNotFound, match="no folder"):
        SpladeModel(str(tmp_path / "none"))
