"""Train a small cross-encoder on the scores that a team gave in a run.

pip install '.[crossencoder,eval]' accelerate datasets
beir-eval run --dataset scifact --split train --ranker mcranker --model openai:NAME --out runs
python examples/distil.py runs microsoft/MiniLM-L12-H384-uncased student
mcranker rank "…" --docs passages.jsonl --ranker rerank --model crossencoder:student

It repeats the team's judgements, without personas, criteria or reasons. A hundred queries are too
few; plan for thousands, and measure it by `beir-eval run` before you use it.
"""

from __future__ import annotations

import argparse
import math
import random
from statistics import fmean

from datasets import Dataset
from scipy.stats import kendalltau
from sentence_transformers.cross_encoder import (
    CrossEncoder,
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
)
from sentence_transformers.cross_encoder.losses import MSELoss
from torch.nn import Sigmoid

import beir_eval

Taught = dict[str, list[tuple[str, float]]]
"""Text of a query -> its passages, and the team's relevance of each, 0 to 1."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="folder of one finished run, or one that holds it")
    parser.add_argument("model", help="folder or hub name of an encoder")
    parser.add_argument("out", help="folder for the trained cross-encoder")
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    parser.add_argument("--max-tokens", type=int, default=256)
    given = parser.parse_args()

    taught = scores_of(given.run)
    texts = sorted(taught)
    random.Random(0).shuffle(texts)  # noqa: S311 - no secret
    held_out = {text: taught.pop(text) for text in texts[: max(1, len(texts) // 5)]}
    model = CrossEncoder(given.model, num_labels=1, max_length=given.max_tokens)
    before = agreement(model, held_out)
    train(model, taught, given)
    model.save_pretrained(given.out)
    print(f"{given.out}: learned from {len(taught)} queries; on {len(held_out)} others")
    print(f"Kendall's tau with the team: {agreement(model, held_out):.3f}, untrained {before:.3f}")


def scores_of(path: str) -> Taught:
    """Return the relevances of a run, without passages of which a score is missing."""
    (run,) = beir_eval.find_runs([path])
    data = run.data()
    queries, passages = data.queries(), data.passages()
    taught: Taught = {}
    for ranking in run.rankings():
        pairs = [
            (" ".join(passages[hit.doc_id]).strip(), hit.relevance)
            for hit in ranking.hits
            if hit.relevance is not None and not hit.missing
        ]
        if pairs:
            taught[queries[ranking.query.id]] = pairs
    return taught


def train(model: CrossEncoder, taught: Taught, given: argparse.Namespace) -> None:
    rows = [
        {"query": query, "passage": passage, "label": relevance}
        for query, pairs in taught.items()
        for passage, relevance in pairs
    ]
    steps = math.ceil(given.epochs * len(rows) / given.batch)
    arguments = CrossEncoderTrainingArguments(
        output_dir=given.out,
        max_steps=steps,
        per_device_train_batch_size=given.batch,
        learning_rate=given.learning_rate,
        warmup_steps=steps // 10,
        save_strategy="no",
        report_to=[],
    )
    CrossEncoderTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        # A cross-encoder's relevance is the sigmoid of its logit, which has to fit the team's.
        loss=MSELoss(model, activation_fn=Sigmoid()),
    ).train()


def agreement(model: CrossEncoder, taught: Taught) -> float:
    """Return the mean of Kendall's tau over the queries where it is defined."""
    found = []
    for query, pairs in taught.items():
        scores = model.predict([(query, passage) for passage, _ in pairs])
        found.append(kendalltau(scores, [relevance for _, relevance in pairs]).statistic)
    return fmean(tau for tau in found if not math.isnan(tau))


if __name__ == "__main__":
    main()
