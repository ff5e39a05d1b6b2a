"""Training by transformers' trainers: what `beir_eval.rankrag` and `beir_eval.distil` share."""

from __future__ import annotations

import contextlib
import sys
from os import fspath
from pathlib import Path
from typing import Any


def trainer_arguments(
    out: str | Path, *, steps: int, batch: int, learning_rate: float, seed: int
) -> dict[str, Any]:
    """Arguments of a trainer that saves nothing by itself and notes its loss 100 times.

    Args:
        out: an existing folder, or one to make.
        steps: of the optimiser.
        batch: examples in memory at a time.
        learning_rate: the highest.
        seed: of order and dropout.
    """
    import torch

    gpu = torch.cuda.is_available()
    return {
        "output_dir": fspath(out),
        "max_steps": steps,
        "per_device_train_batch_size": batch,
        "learning_rate": learning_rate,
        "bf16": gpu and torch.cuda.is_bf16_supported(),
        "dataloader_pin_memory": gpu,
        "logging_steps": max(1, steps // 100),
        "save_strategy": "no",
        "report_to": [],
        "seed": seed,
    }


def train(trainer: Any) -> dict[int, float]:
    """Run a trainer, and return its loss by step. The trainer's own words go to stderr."""
    with contextlib.redirect_stdout(sys.stderr):
        trainer.train()
    return {each["step"]: each["loss"] for each in trainer.state.log_history if "loss" in each}
