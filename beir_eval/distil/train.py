"""Training of a cross-encoder on a teacher's scores, by sentence-transformers."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import orjson

from beir_eval.distil import agreement as agree
from beir_eval.distil.card import model_card
from beir_eval.distil.data import LOSSES, TaughtQuery, examples, read_taught
from beir_eval.errors import ExtraMissing, SettingError
from beir_eval.training import train, trainer_arguments
from mcranker.llm.local.cross_encoder import AT_ONCE, PACKAGE, loading, source_of
from mcranker.paths import is_folder
from mcranker.retrieval.cache import digest_of
from personas.io.atomic import replacing_folder

RECORD = "distil.json"
_RECORDED = ("loss", "batch", "learning_rate", "max_tokens", "seed")


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
        learning_rate: the highest, after a tenth of the steps; then it falls linearly to 0.
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
    """Train a student and evaluate it; model, ``distil.json`` and ``README.md`` appear together.

    Returns:
        The content of ``distil.json``: teacher, data, counts, training with the losses by step,
        agreement with the teacher, and figures by judgements.

    Raises:
        SettingError: `out` holds something else, the loss is unknown, or no query or example is
            left.
        RunFolderError: as `read_taught`.
        ExtraMissing: sentence-transformers, accelerate or datasets is not installed.
        ModelError: the student cannot be had, or not be loaded.
    """
    out = Path(task.out)
    if out.exists() and not (out / RECORD).is_file() and (out.is_file() or any(out.iterdir())):
        raise SettingError(
            f"{task.out!r} holds something else than a distilled model; change --out"
        )
    if task.loss not in LOSSES:
        raise SettingError(f"loss={task.loss!r} is unknown; give {', '.join(LOSSES)}")
    taught = read_taught(task.runs, task.held_out, dev=task.dev, seed=task.seed)
    held_out, rows = taught.held_out, list(examples(taught.train, task.loss, task.seed))
    if not rows or not held_out:
        raise SettingError(
            f"{len(rows)} examples of {len(taught.train)} queries are left to train with and "
            f"{len(held_out)} queries to evaluate on; give runs of more queries, or another --dev"
        )
    try:
        import accelerate  # noqa: F401 - the trainer needs it, and names it only later
        import datasets  # noqa: F401
        import sentence_transformers  # noqa: F401
    except ImportError as missing:
        raise ExtraMissing(missing.name or PACKAGE, "distilling", extra="train") from missing
    with replacing_folder(out) as folder:
        started = time.perf_counter()
        model = _student(task)
        untrained = _scores(model, held_out)
        trainer = _trainer(task, model, rows, folder, quiet=quiet)
        losses = train(trainer)
        systems: dict[str, agree.Scores] = {
            agree.STUDENT: _scores(model, held_out),
            agree.UNTRAINED: untrained,
            agree.FIRST: {each.key: range(0, -len(each.scores), -1) for each in held_out},
            agree.TEACHER: {each.key: each.scores for each in held_out},
        }
        agreed = {
            name: agree.agreement(held_out, scores, relevance=name != agree.FIRST)
            for name, scores in systems.items()
            if name != agree.TEACHER
        }
        found = agreed[agree.STUDENT][agree.BY_TEACHER]
        record = {
            "version": 1,
            "teacher": taught.teacher,
            "data": taught.data,
            "counts": {
                "queries": len(taught.train),
                "passages": sum(len(each.scores) for each in taught.train),
                "examples": len(rows),
                "held_out_queries": len(held_out),
                "held_out_passages": sum(len(each.scores) for each in held_out),
                "left_out": taught.left_out,
            },
            "examples_sha256": digest_of((orjson.dumps(row).decode(),) for row in rows),
            "training": {
                "model": Path(task.model).name if is_folder(task.model) else task.model,
                "parameters": sum(each.numel() for each in model.parameters()),
                **{name: getattr(task, name) for name in _RECORDED},
                "steps": trainer.args.max_steps,
                "losses": losses,
                "seconds": time.perf_counter() - started,
            },
            "agreement": agreed,
            "bar_reached": found is not None and found["mean"] >= 1 - agree.BAR,
            "judgements": agree.judged(held_out, systems),
            "versions": {each: metadata.version(each) for each in (PACKAGE, "transformers")},
        }
        content = orjson.dumps(record, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
        plain: dict[str, Any] = orjson.loads(content)
        model.save_pretrained(str(folder), create_model_card=False)
        (folder / "README.md").write_text(model_card(plain, out.name), encoding="utf-8")
        (folder / RECORD).write_bytes(content)
    return plain


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
    from sentence_transformers import cross_encoder
    from sentence_transformers.cross_encoder import losses
    from torch.nn import Sigmoid
    from transformers import PrinterCallback

    steps = task.steps or max(1, math.ceil(task.epochs * len(rows) / task.batch))
    arguments = trainer_arguments(
        folder, steps=steps, batch=task.batch, learning_rate=task.learning_rate, seed=task.seed
    )
    # The model's relevance is the sigmoid of its logit, so this is what has to fit the teacher's.
    loss = {
        "mse": lambda: losses.MSELoss(model, activation_fn=Sigmoid()),
        "margin_mse": lambda: losses.MarginMSELoss(model, activation_fn=Sigmoid()),
        "lambda": lambda: losses.LambdaLoss(model, mini_batch_size=AT_ONCE),
    }[task.loss]()
    args = cross_encoder.CrossEncoderTrainingArguments(
        **arguments, warmup_steps=math.ceil(steps / 10), disable_tqdm=quiet
    )
    trainer = cross_encoder.CrossEncoderTrainer(
        model=model, args=args, train_dataset=Dataset.from_list(rows), loss=loss
    )
    if quiet:
        trainer.remove_callback(PrinterCallback)  # takes the place of the bar
    return trainer


def _scores(model: Any, queries: Sequence[TaughtQuery]) -> dict[str, list[float]]:
    """The relevance of each passage, as `crossencoder:` gives it: the logistic of its logit."""
    pairs = [(each.text, passage) for each in queries for passage in each.passages]
    logits = model.predict(
        pairs, batch_size=AT_ONCE, activation_fn=lambda each: each, show_progress_bar=False
    )
    relevance = (0.5 + 0.5 * math.tanh(0.5 * each) for each in logits.tolist())
    return {each.key: [next(relevance) for _ in each.passages] for each in queries}
