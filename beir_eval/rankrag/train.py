"""Training of a RankRAG model on examples, with trl; of all weights or of LoRA's alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from beir_eval.answers.questions import records
from beir_eval.errors import DatasetError, ExtraMissing, SettingError
from beir_eval.training import train as run
from beir_eval.training import trainer_arguments

STAGES: Mapping[int, Mapping[str, Any]] = {
    1: {"batch": 128, "steps": 1_000, "learning_rate": 5e-6},
    2: {"batch": 64, "steps": 3_300, "learning_rate": 3e-7},
}
"""The paper's values for 8 billion weights; for 70 billion it takes 2e-7 in stage II."""


@dataclass(frozen=True, slots=True)
class Training:
    """A training.

    Attributes:
        model: folder or hub name of a model with a chat template.
        data: JSONL of examples.
        out: folder for the model.
        stage: 1 or 2; decides what is not given below.
        steps: of the optimiser.
        batch: examples of a step.
        at_once: of them in memory at a time; divides `batch`.
        learning_rate: at the start; it falls linearly to 0.
        max_tokens: of an example; longer ones are cut.
        lora: rank of LoRA's matrices; 0 trains all weights. LoRA is ours, the paper has none.
        seed: of order and dropout.
    """

    model: str
    data: str
    out: str
    stage: int = 2
    steps: int | None = None
    batch: int | None = None
    at_once: int = 1
    learning_rate: float | None = None
    max_tokens: int = 4096
    lora: int = 0
    seed: int = 0


def train(training: Training) -> dict[str, Any]:
    """Train and save a model with its tokenizer; loss is that of the completions alone.

    Returns:
        Model, examples, steps, and the losses by step; they are in ``training.json`` as well.

    Raises:
        ExtraMissing: trl or peft is not installed.
        SettingError: the batch cannot be divided, or the model cannot be loaded.
        DatasetError: there is no example, or a line is none.
    """
    about = asdict(training)
    about |= {name: each for name, each in STAGES[training.stage].items() if about[name] is None}
    batch, steps = about["batch"], about["steps"]
    if batch % training.at_once:
        raise SettingError(f"at_once={training.at_once} must divide batch={batch}")
    rows = []
    for place, record in records(training.data):
        if not isinstance(record.get("prompt"), list) or not record.get("completion"):
            raise DatasetError(f'{place}: no "prompt" and "completion"; see mcranker rankrag data')
        rows.append({name: record[name] for name in ("prompt", "completion")})
    if not rows:
        raise DatasetError(f"{training.data}: holds no example")
    try:
        from datasets import Dataset
        from peft import LoraConfig
        from trl import SFTConfig, SFTTrainer
    except ImportError as missing:
        raise ExtraMissing("trl", "training", extra="train") from missing
    config = SFTConfig(
        **trainer_arguments(
            training.out,
            steps=steps,
            batch=training.at_once,
            learning_rate=about["learning_rate"],
            seed=training.seed,
        ),
        gradient_accumulation_steps=batch // training.at_once,
        max_length=training.max_tokens,
        completion_only_loss=True,
        adam_beta1=0.9,
        adam_beta2=0.98,
    )
    lora = None
    if rank := training.lora:
        lora = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
    data = Dataset.from_list(rows)
    try:
        trainer = SFTTrainer(
            model=training.model, args=config, train_dataset=data, peft_config=lora
        )
    except OSError as error:
        raise SettingError(f"model {training.model!r} cannot be loaded: {error}") from error
    losses = run(trainer)
    if lora:
        trainer.model = trainer.model.merge_and_unload()  # a server needs no adapter then
    trainer.save_model(training.out)
    trainer.processing_class.save_pretrained(training.out)
    about |= {"examples": len(rows), "losses": losses}
    Path(training.out, "training.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
    return about
