"""Training of a cross-encoder on a teacher's scores, by sentence-transformers."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import orjson

from beir_eval.distil import agreement as agree
from beir_eval.distil.card import model_card
from beir_eval.distil.data import (
    LOSSES,
    Taught,
    TaughtQuery,
    examples,
    read_taught,
    split,
    teacher_runs,
)
from beir_eval.errors import ExtraMissing, SettingError
from beir_eval.experiment.run_folder import find_runs
from beir_eval.training import train, trainer_arguments
from mcranker.llm.local.cross_encoder import AT_ONCE, PACKAGE, loading, source_of
from mcranker.paths import is_folder
from mcranker.retrieval.cache import digest_of
from personas.io.atomic import replacing_folder

RECORD = "distil.json"
_WARMUP = 0.1  # of the steps, in which the learning rate rises from 0


@dataclass(frozen=True, slots=True)
class Distillation:
    """A distillation.

    Attributes:
        runs: run folders with the teacher's scores.
        model: folder or hub name of the student, of any encoder that transformers knows.
        out: folder for the trained student.
        held_out: run folders to evaluate on; without any, `dev` of the queries are held out.
        dev: that share, above 0 and below 1.
        loss: one of `LOSSES`.
        epochs: how often each example is seen.
        steps: of the optimiser, instead of `epochs`.
        batch: examples a step: passages, pairs of passages, or for ``"lambda"`` queries.
        learning_rate: at a tenth of the steps; it rises to it, and falls linearly to 0.
        max_tokens: of query and passage together; the rest is cut, also when the model is used.
        seed: of split, order, dropout, and the scoring layer that a student without one gets.
    """

    runs: tuple[str, ...]
    model: str
    out: str
    held_out: tuple[str, ...] = ()
    dev: float = 0.2
    loss: str = "mse"
    epochs: float = 1.0
    steps: int | None = None
    batch: int = 16
    learning_rate: float = 2e-5
    max_tokens: int = 256
    seed: int = 0


def distil(task: Distillation, *, quiet: bool = False) -> dict[str, Any]:
    """Train a student and evaluate it; model, ``distil.json`` and ``README.md`` appear at once.

    Returns:
        The content of ``distil.json``: teacher, data, counts, training with the losses by step,
        agreement with the teacher, and figures by judgements.

    Raises:
        SettingError: `out` holds something else, or no query is left to train or evaluate with.
        RunFolderError: as `read_taught`.
        ExtraMissing: sentence-transformers, accelerate or datasets is not installed.
        ModelError: the student cannot be had, or not be loaded.
    """
    _check_out(Path(task.out))
    if task.loss not in LOSSES:
        raise SettingError(f"loss={task.loss!r} is unknown; give {', '.join(LOSSES)}")
    taught, train_with, held_out, also = _divided(task)
    rows = list(examples(train_with, task.loss, task.seed))
    if not rows:
        raise SettingError("no example to learn from: no query has two different scores")
    try:
        import accelerate  # noqa: F401 - the trainer needs it, and names it only later
        import datasets  # noqa: F401
        import sentence_transformers  # noqa: F401
    except ImportError as missing:
        raise ExtraMissing(missing.name or PACKAGE, "distilling", extra="train") from missing
    with replacing_folder(task.out) as folder:
        started = time.perf_counter()
        model = _student(task)
        before = _scores(model, held_out)
        losses = train(_trainer(task, model, rows, folder, quiet=quiet))
        after = _scores(model, held_out)
        first = {each.key: [-float(n) for n in range(len(each.scores))] for each in held_out}
        systems: dict[str, agree.Scores] = {
            agree.STUDENT: after,
            agree.TEACHER: {each.key: each.scores for each in held_out},
            agree.UNTRAINED: before,
            agree.FIRST: first,
        }
        record = {
            "version": 1,
            "teacher": dict(taught.teacher),
            "data": list(taught.data),
            "held_out_data": list(also),
            "counts": {
                "queries": len(train_with),
                "passages": sum(len(each.scores) for each in train_with),
                "examples": len(rows),
                "held_out_queries": len(held_out),
                "held_out_passages": sum(len(each.scores) for each in held_out),
                "left_out": dict(+taught.left_out),
            },
            "examples_sha256": digest_of((orjson.dumps(row).decode(),) for row in rows),
            "training": {
                "model": Path(task.model).name if is_folder(task.model) else task.model,
                "parameters": sum(each.numel() for each in model.parameters()),
                **{name: getattr(task, name) for name in _TOLD},
                "steps": _steps(task, len(rows)),
                "losses": losses,
                "seconds": time.perf_counter() - started,
            },
            "agreement": {
                name: agree.agreement(held_out, scores, relevance=name != agree.FIRST)
                for name, scores in systems.items()
                if name != agree.TEACHER
            },
            "judgements": agree.judged(held_out, systems),
            "versions": {each: metadata.version(each) for each in (PACKAGE, "transformers")},
        }
        record["bar_reached"] = agree.reached(record["agreement"][agree.STUDENT])
        model.save_pretrained(str(folder), create_model_card=False)
        plain: dict[str, Any] = orjson.loads(
            orjson.dumps(record, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_DATACLASS)
        )
        (folder / "README.md").write_text(model_card(plain, Path(task.out).name), encoding="utf-8")
        (folder / RECORD).write_bytes(orjson.dumps(plain, option=orjson.OPT_INDENT_2))
    return plain


_TOLD = ("loss", "batch", "learning_rate", "max_tokens", "seed")


def _check_out(out: Path) -> None:
    if out.exists() and not (out / RECORD).is_file() and (out.is_file() or any(out.iterdir())):
        raise SettingError(
            f"{str(out)!r} holds something else than a distilled model; give another --out"
        )


def _divided(
    task: Distillation,
) -> tuple[Taught, list[TaughtQuery], list[TaughtQuery], Sequence[Mapping[str, Any]]]:
    """The teacher, queries to train with, those held out, and the data of their runs if apart."""
    runs = teacher_runs((*task.runs, *task.held_out))
    own = {each.path for each in find_runs(task.runs)}
    taught = read_taught([each for each in runs if each.path in own])
    also: Sequence[Mapping[str, Any]] = ()
    if task.held_out:
        apart = [each for each in runs if each.path not in own]
        other = read_taught(apart, first=len(own) + 1)
        texts = {each.text for each in other.queries}
        train_with = [each for each in taught.queries if each.text not in texts]
        taught.left_out["query: held out as well"] = len(taught.queries) - len(train_with)
        taught.left_out.update(other.left_out)
        held_out, also = list(other.queries), other.data
    else:
        train_with, held_out = split(taught.queries, task.dev, task.seed)
    if not train_with or not held_out:
        raise SettingError(
            f"{len(train_with)} queries are left to train with and {len(held_out)} to evaluate on; "
            "give runs of more queries, or another --dev"
        )
    return taught, train_with, held_out, also


def _student(task: Distillation) -> Any:
    source, _ = source_of(task.model, task.model, "microsoft/MiniLM-L12-H384-uncased")
    with loading(task.model, "a student"):
        from sentence_transformers import CrossEncoder
        from transformers import set_seed

        set_seed(task.seed)
        return CrossEncoder(source, num_labels=1, max_length=task.max_tokens)


def _trainer(
    task: Distillation, model: Any, rows: list[dict[str, Any]], folder: Path, *, quiet: bool
) -> Any:
    from datasets import Dataset
    from sentence_transformers.cross_encoder import (
        CrossEncoderTrainer,
        CrossEncoderTrainingArguments,
        losses,
    )
    from torch.nn import Sigmoid

    steps = _steps(task, len(rows))
    arguments = CrossEncoderTrainingArguments(
        **trainer_arguments(
            folder,
            steps=steps,
            batch=task.batch,
            learning_rate=task.learning_rate,
            seed=task.seed,
        ),
        warmup_steps=math.ceil(_WARMUP * steps),
        disable_tqdm=quiet,
    )
    # The model's relevance is the sigmoid of its logit, so this is what has to fit the teacher's.
    loss = {
        "mse": lambda: losses.MSELoss(model, activation_fn=Sigmoid()),
        "margin_mse": lambda: losses.MarginMSELoss(model, activation_fn=Sigmoid()),
        "lambda": lambda: losses.LambdaLoss(model, mini_batch_size=AT_ONCE),
    }[task.loss]()
    return CrossEncoderTrainer(
        model=model, args=arguments, train_dataset=Dataset.from_list(rows), loss=loss
    )


def _steps(task: Distillation, rows: int) -> int:
    return task.steps or max(1, math.ceil(task.epochs * rows / task.batch))


def _scores(model: Any, queries: Sequence[TaughtQuery]) -> dict[str, list[float]]:
    """The relevance of each passage, as `crossencoder:` gives it."""
    import numpy as np

    pairs = [(each.text, passage) for each in queries for passage in each.passages]
    logits = model.predict(
        pairs, batch_size=AT_ONCE, activation_fn=lambda each: each, show_progress_bar=False
    )
    relevance = iter((0.5 * (1 + np.tanh(0.5 * np.asarray(logits, dtype=np.float64)))).tolist())
    return {each.key: [next(relevance) for _ in each.passages] for each in queries}
