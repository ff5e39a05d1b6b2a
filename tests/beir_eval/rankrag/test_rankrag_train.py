"""Training on a tiny model made here, which is then asked through the `rankrag` preset."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcranker.cli.group import cli
from mcranker.rag import RAGPipeline

# Warnings of trl and torch about themselves.
pytestmark = pytest.mark.filterwarnings("default")

TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def examples() -> list[dict[str, Any]]:
    rows = []
    for number in range(64):
        word, verdict = ("good", "True") if number % 2 else ("bad", "False")
        turns = [{"role": "user", "content": f"Passage {number % 8}: {word}."}]
        rows.append({"prompt": turns, "completion": [{"role": "assistant", "content": verdict}]})
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_without_trl_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "trl", None)
    data = write(tmp_path / "d.jsonl", examples())
    found = train(data, "model", tmp_path / "out")
    assert found.exit_code == 1
    assert 'pip install "mcranker[train]"' in found.stderr


def test_what_is_no_example_is_named(tmp_path: Path) -> None:
    data = write(tmp_path / "d.jsonl", [{"prompt": "text"}])
    assert "d.jsonl:1" in train(data, "model", tmp_path / "out").stderr
    data = write(tmp_path / "d.jsonl", examples())
    found = train(data, "model", tmp_path / "out", "--at-once", "3")
    assert "at_once=3 must divide batch=64" in found.stderr


def train(data: Path, model: str | Path, out: Path, *args: str) -> Any:
    given = ["rankrag", "train", str(data), "--model", str(model), "--out", str(out), *args]
    return CliRunner().invoke(cli, given)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("trl", reason="the extra train is not installed")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = "good bad True False Passage passage question relevant user assistant system"
    pieces = ["<s>", "</s>", "<unk>", *words.split(), *"0123456789[].:,'?-"]
    tokenizer = Tokenizer(models.WordLevel({each: n for n, each in enumerate(pieces)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks)
    fast.chat_template = TEMPLATE
    config = LlamaConfig(
        vocab_size=len(pieces), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=512,
        bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("tiny")
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def trained(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trained")
    data = write(place / "d.jsonl", examples())
    flags = ["--steps", "60", "--batch", "16", "--at-once", "16", "--learning-rate", "0.01"]
    found = train(data, tiny, place / "model", *flags)
    assert found.exit_code == 0, found.output
    return place / "model"


def test_the_loss_falls_and_the_run_is_recorded(trained: Path) -> None:
    about = json.loads((trained / "training.json").read_text())
    losses = [*about["losses"].values()]
    assert losses[0] > 1
    assert losses[-1] < 0.2
    assert about["examples"] == 64


def test_lora_is_merged(tiny: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "d.jsonl", examples())
    flags = ["--steps", "2", "--batch", "4", "--lora", "4"]
    found = train(data, tiny, tmp_path / "model", *flags)
    assert found.exit_code == 0, found.output
    assert (tmp_path / "model" / "model.safetensors").exists()
    assert not (tmp_path / "model" / "adapter_config.json").exists()


@pytest.fixture
def server(trained: Path) -> Iterator[str]:
    """Serves the model as vLLM does: chat completions with top log-probabilities."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(trained)
    tokenizer = AutoTokenizer.from_pretrained(trained)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = tokenizer.apply_chat_template(
                body["messages"], tokenize=False, add_generation_prompt=True
            )
            ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
            with torch.no_grad():
                found = torch.log_softmax(model(ids[:, -500:]).logits[0, -1], -1)
            top = torch.topk(found, 20)
            rows = [
                {"token": tokenizer.decode([int(i)]), "logprob": float(p), "bytes": None}
                for p, i in zip(top.values, top.indices, strict=True)
            ]
            reply = {
                "id": "1", "object": "chat.completion", "created": 1, "model": "tiny",
                "choices": [{
                    "index": 0, "finish_reason": "stop",
                    "message": {"role": "assistant", "content": rows[0]["token"]},
                    "logprobs": {"content": [{**rows[0], "top_logprobs": rows}]},
                }],
                "usage": {"prompt_tokens": ids.shape[1], "completion_tokens": 1, "total_tokens": 1},
            }  # fmt: skip
            sent = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: object) -> None: ...

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}/v1"
    running.shutdown()


def test_the_model_is_asked_through_the_preset(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    documents = [{"id": "b", "text": "bad."}, {"id": "a", "text": "good."}]
    options = {"model": "openai:tiny", "base_url": server, "ledger": None}
    with RAGPipeline.from_documents(documents, "rankrag", **options) as pipeline:
        result = pipeline.answer("question?")
    scores = {each.document: each.score or 0.0 for each in result.passages}
    assert scores["a"] > scores["b"]
    assert all(math.isfinite(each) for each in scores.values())
    assert result.text
