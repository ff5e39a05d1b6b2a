"""Scores of a team as training examples: queries, passages, and the relevance of each."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beir_eval.errors import RunFolderError
from beir_eval.experiment.run_folder import RunFolder, find_runs
from mcranker.config import RankerConfig
from mcranker.method.session import passage_text
from personas import PromptSet
from personas.ranking.types import Passage
from personas.untrusted import without_tokens

LOSSES = ("mse", "margin_mse", "lambda")
_OF_TEACHER = ("ranker", "models", "server", "prompt_hashes")
_SETTINGS = ("preset", "team_size", "recruiting", "criteria", "scoring", "scale", "ensemble")


@dataclass(frozen=True, slots=True)
class TaughtQuery:
    """A query, and the teacher's relevance, 0 to 1, of its passages, in first-stage order.

    Attributes:
        key: number of its run and id, such as ``"1:42"``.
        text: as a reranker is given it; so are `passages`, with titles.
        grades: document id -> judgement; empty where there is none.
    """

    key: str
    text: str
    documents: tuple[str, ...]
    passages: tuple[str, ...]
    scores: tuple[float, ...]
    grades: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Taught:
    """The scores of one teacher.

    Attributes:
        teacher: its label, ranker, models, settings and the SHA-256 of its prompts.
        data: of each run: the data set, its queries, the first stage.
        train: queries to train with.
        held_out: queries to evaluate on.
        left_out: why passages or queries are not there -> how many.
    """

    teacher: Mapping[str, Any]
    data: Sequence[Mapping[str, Any]]
    train: Sequence[TaughtQuery]
    held_out: Sequence[TaughtQuery]
    left_out: Counter[str]


def read_taught(
    paths: Sequence[str], held_out: Sequence[str] = (), *, dev: float = 0.2, seed: int = 0
) -> Taught:
    """Read the scores of finished runs of `beir-eval run`.

    A score is the relevance of the personas alone, without a share of the first stage. A passage
    without a score of every persona is left out.

    Args:
        paths: run folders, or folders that hold some.
        held_out: likewise, to evaluate on; queries with a text of theirs are not trained with.
        dev: where there are none, the share of different query texts that is held out.
        seed: of that draw.

    Raises:
        RunFolderError: a folder is no finished run, runs are of different teachers or rank the
            same data, or the ranker gives no relevance.
    """
    runs, own = find_runs([*paths, *held_out]), {each.path for each in find_runs(paths)}
    _check_one_teacher(runs)
    train, evaluated = list[TaughtQuery](), list[TaughtQuery]()
    data, left_out = [], Counter[str]()
    for number, run in enumerate(runs, start=1):
        left_out["query: not ranked"] += len(run.metrics().failed)
        found = list(_queries(run, number, left_out))
        (train if run.path in own else evaluated).extend(found)
        about = run.data().manifest
        data.append(
            {
                **about.model_dump(include={"dataset", "split", "content", "depth"}),
                "first_stage": about.first_stage.name,
                "queries": len(found),
                "used": "training" if run.path in own else "held out",
            }
        )
    if not held_out:
        texts = sorted({each.text for each in train})
        random.Random(seed).shuffle(texts)  # noqa: S311 - no secret
        drawn = {*texts[: max(1, round(dev * len(texts)))]}
        evaluated = [each for each in train if each.text in drawn]
    texts_held_out = {each.text for each in evaluated}
    if held_out:
        left_out["query: held out as well"] = sum(each.text in texts_held_out for each in train)
    train = [each for each in train if each.text not in texts_held_out]
    manifest = runs[0].manifest
    teacher = {
        **manifest.model_dump(include={"label", *_OF_TEACHER, "weak_judge"}),
        "settings": {name: manifest.config.get(name) for name in _SETTINGS},
    }
    return Taught(teacher, data, train, evaluated, +left_out)


def examples(queries: Iterable[TaughtQuery], loss: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the rows that a loss learns from.

    | loss | columns |
    |---|---|
    | ``"mse"`` | query, passage; label: the teacher's relevance |
    | ``"margin_mse"`` | query, two passages; label: how much more relevant the first is |
    | ``"lambda"`` | query, passages; labels: their relevances |

    For margins each passage comes with one other of the query, drawn by chance, that has another
    score; what has none is left out.
    """
    draws = random.Random(seed)  # noqa: S311 - no secret
    for query in queries:
        text, pairs = query.text, list(zip(query.scores, query.passages, strict=True))
        if loss == "lambda":
            yield {"query": text, "passages": [*query.passages], "labels": [*query.scores]}
            continue
        for one in pairs:
            if loss == "mse":
                yield {"query": text, "passage": one[1], "label": one[0]}
            elif others := [each for each in pairs if each[0] != one[0]]:
                (less, low), (more, high) = sorted((one, draws.choice(others)))
                yield {"query": text, "higher": high, "lower": low, "label": more - less}


def _check_one_teacher(runs: Sequence[RunFolder]) -> None:
    seen: dict[str, RunFolder] = {}
    for run in runs:
        if (other := seen.setdefault(run.manifest.data, run)) is not run:
            raise RunFolderError(
                f"{other.path} and {run.path} rank the same data; give the folder of one run"
            )
        for name in _OF_TEACHER:
            first, own = (getattr(each.manifest, name) for each in (runs[0], run))
            if first != own:
                raise RunFolderError(
                    f"{runs[0].path} and {run.path} are of two teachers, with {name} "
                    f"{first!r} and {own!r}; give runs of one"
                )


def _queries(run: RunFolder, number: int, left_out: Counter[str]) -> Iterator[TaughtQuery]:
    data, config = run.data(), RankerConfig()
    texts, grades, passages = data.queries(), data.qrels(), data.passages()
    clean = PromptSet.load(config.prompts).cleaner.text
    for ranking in run.rankings():
        if ranking.hits and not ranking.absolute:
            raise RunFolderError(
                f"{run.path}: {run.manifest.ranker} puts passages in order and gives no relevance "
                "to learn; give a run of mcranker, direct or another ranker that scores"
            )
        kept = []
        for hit in sorted(ranking.hits, key=lambda each: each.row):
            if hit.missing or hit.relevance is None:
                left_out["passage: a score is missing"] += 1
                continue
            title, text = passages[hit.doc_id]
            # As rankers give passages to a model of typed questions.
            shown = without_tokens(passage_text(Passage(hit.doc_id, text, title), text, config))
            kept.append((hit.doc_id, shown, hit.relevance))
        if kept:
            query_id, (documents, shown_texts, scores) = ranking.query.id, zip(*kept, strict=True)
            key, query = f"{number}:{query_id}", clean(texts[query_id])
            judged = grades.get(query_id, {})
            yield TaughtQuery(key, query, documents, shown_texts, scores, judged)
        else:
            left_out["query: no passage with a score"] += 1
