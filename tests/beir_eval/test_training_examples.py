"""The examples that train, with tiny models; they need PyTorch, sentence-transformers and trl."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcranker import RerankRanker
from tests.support.run_folders import make_run_folders
from tests.support.tiny_cross_encoder import WORDS, write_cross_encoder

ROOT = Path(__file__).parents[2]
# Warnings of transformers and torch about themselves.
pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("default")]


def run(example: str, *args: str | Path) -> str:
    """The output of an example."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / example, *args],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_student_learns_the_teachers_relevance(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("accelerate")
    made = make_run_folders(tmp_path, labels=("DIRECT(0,10)",), queries=30, passages=8)
    # Passages show their score: from 0 to 9, the word of that place.
    passages = made / "scifact" / "data" / "passages.jsonl"
    texts = {line["_id"]: line for line in map(json.loads, passages.read_text().splitlines())}
    for line in next(made.rglob("rankings.jsonl")).read_text().splitlines():
        for hit in json.loads(line)["hits"]:
            word = WORDS[min(9, round(10 * hit["relevance"]))]
            texts[hit["doc_id"]] = {"_id": hit["doc_id"], "title": "", "text": word}
    passages.write_text("".join(f"{json.dumps(each)}\n" for each in texts.values()))
    # An encoder without a scoring layer gets a new one.
    student = write_cross_encoder(tmp_path / "tiny", kind="BertModel")
    flags = ("--epochs", "20", "--learning-rate", "0.01", "--max-tokens", "32")
    printed = run("distil.py", made, student, tmp_path / "out", *flags)
    found = re.search(r"tau with the team: (\S+), untrained (\S+)", printed)
    assert found is not None
    assert float(found[1]) > 0.8 > float(found[2])
    with RerankRanker(model=f"crossencoder:{tmp_path / 'out'}", ledger=None) as ranker:
        ranking = ranker.rank("what is known about it", {each: each for each in WORDS[1:9:2]})
    assert ranking.ids == ["the", "rises", "viruses", "help"]
    assert [hit.relevance for hit in ranking] == pytest.approx([0.7, 0.5, 0.3, 0.1], abs=0.2)


@pytest.mark.parametrize("lora", [False, True])
def test_a_chat_model_learns_the_replies(lora: bool, tmp_path: Path) -> None:
    pytest.importorskip("trl")
    pytest.importorskip("peft")
    rows = []
    for number in range(64):
        word, verdict = ("good", "True") if number % 2 else ("bad", "False")
        prompt = [{"role": "user", "content": f"Passage {number % 8}: {word}."}]
        rows.append({"prompt": prompt, "completion": [{"role": "assistant", "content": verdict}]})
    data = tmp_path / "data.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    flags = ["--batch", "16", "--at-once", "16", "--learning-rate", "0.01", "--steps"]
    flags += ["2", "--lora", "4"] if lora else ["60"]
    printed = run("rankrag_train.py", data, _chat_model(tmp_path), tmp_path / "out", *flags)
    first, last = map(float, re.findall(r"(\S+) at (?:first|last)", printed))
    assert lora or first > 1 > 0.2 > last
    assert (tmp_path / "out" / "model.safetensors").exists()
    assert not (tmp_path / "out" / "adapter_config.json").exists()


def _chat_model(folder: Path) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = "good bad True False Passage user assistant"
    pieces = ["<s>", "</s>", "<unk>", *words.split(), *"0123456789[].:"]
    tokenizer = Tokenizer(models.WordLevel({each: n for n, each in enumerate(pieces)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks)
    fast.chat_template = (
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}[assistant] {% endif %}"
    )
    config = LlamaConfig(
        vocab_size=len(pieces), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=512,
        bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder / "tiny")
    fast.save_pretrained(folder / "tiny")
    return folder / "tiny"
