"""Scores of a team as training examples: queries, passages, and the relevance of each."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from beir_eval.errors import RunFolderError, SettingError
from beir_eval.experiment.run_folder import DataFolder, RunFolder, find_runs
from mcranker.config import RankerConfig
from mcranker.method.session import passage_text
from personas import PromptSet
from personas.ranking.hit import Hit
from personas.ranking.types import Passage
from personas.untrusted import without_tokens

Loss: TypeAlias = Literal["mse", "margin_mse", "lambda"]
LOSSES: tuple[str, ...] = get_args(Loss)

_OF_TEACHER = ("ranker", "models", "server", "prompt_hashes")
_SETTINGS = ("preset", "team_size", "recruiting", "criteria", "scoring", "scale", "ensemble")


@dataclass(frozen=True, slots=True)
class TaughtQuery:
    """A query, and what the teacher thinks of its passages; those are in first-stage order.

    Attributes:
        key: number of its run and id, such as ``"1:42"``; unique.
        text: as a reranker is given it.
        documents: ids.
        passages: texts, with titles, as a reranker is given them.
        scores: the teacher's relevance, 0 to 1.
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
        data: of each run: the data set, its split, its queries, and the first stage.
        queries: those with a score.
        left_out: why passages or queries are not there -> how many.
    """

    teacher: Mapping[str, Any]
    data: tuple[Mapping[str, Any], ...]
    queries: tuple[TaughtQuery, ...]
    left_out: Counter[str]

    @property
    def pairs(self) -> int:
        """Number of scores."""
        return sum(len(each.scores) for each in self.queries)


def teacher_runs(paths: Sequence[str | Path]) -> list[RunFolder]:
    """Find the runs in or below `paths`, which must be of one teacher, each over data of its own.

    Raises:
        RunFolderError: there is none, two rank the same data, or two are of different teachers.
    """
    runs = find_runs(paths)
    seen: dict[str, RunFolder] = {}
    for run in runs:
        other = seen.setdefault(run.manifest.data, run)
        if other is not run:
            raise RunFolderError(
                f"{other.path} and {run.path} rank the same data; give the folder of one run"
            )
        for name in _OF_TEACHER:
            values = [getattr(each.manifest, name) for each in (runs[0], run)]
            if values[0] != values[1]:
                raise RunFolderError(
                    f"{runs[0].path} and {run.path} are of two teachers, with {name} "
                    f"{values[0]!r} and {values[1]!r}; give runs of one"
                )
    return runs


def read_taught(runs: Sequence[RunFolder], *, first: int = 1) -> Taught:
    """Read the scores of finished runs of one teacher.

    A score is the relevance of the personas alone, without a share of the first stage. A passage
    without a score of every persona is left out.

    Args:
        runs: as `teacher_runs` gives them.
        first: number of the first one in `TaughtQuery.key`.

    Raises:
        RunFolderError: a run is not finished, cannot be read, or its ranker gives no relevance.
    """
    queries: list[TaughtQuery] = []
    data, left_out = [], Counter[str]()
    for number, run in enumerate(runs, start=first):
        left_out["query: not ranked"] += len(run.metrics().failed)
        folder, count = run.data(), len(queries)
        queries += _queries(run, folder, number, left_out)
        about = folder.manifest
        data.append(
            {
                "dataset": about.dataset,
                "split": about.split,
                "content": about.content,
                "queries": len(queries) - count,
                "depth": about.depth,
                "first_stage": about.first_stage.name,
            }
        )
    manifest = runs[0].manifest
    teacher = {
        "label": manifest.label,
        **{name: getattr(manifest, name) for name in _OF_TEACHER},
        "weak_judge": manifest.weak_judge,
        "settings": {name: manifest.config.get(name) for name in _SETTINGS},
    }
    return Taught(teacher, tuple(data), tuple(queries), +left_out)


def split(
    queries: Sequence[TaughtQuery], share: float, seed: int
) -> tuple[list[TaughtQuery], list[TaughtQuery]]:
    """Divide queries into those to train with and those held out, equal texts together.

    Args:
        queries: of both.
        share: of different texts that are held out, above 0 and below 1; one at least.
        seed: of the draw.
    """
    texts = sorted({each.text for each in queries})
    random.Random(seed).shuffle(texts)  # noqa: S311 - no secret
    held_out = {*texts[: max(1, round(share * len(texts)))]}
    return (
        [each for each in queries if each.text not in held_out],
        [each for each in queries if each.text in held_out],
    )


def examples(queries: Iterable[TaughtQuery], loss: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the rows that a loss learns from.

    | loss | columns |
    |---|---|
    | ``"mse"`` | query, passage; label: the teacher's relevance |
    | ``"margin_mse"`` | query, two passages; label: how much more relevant the first is |
    | ``"lambda"`` | query, passages; labels: their relevances |

    For margins each passage comes with one other of the query, drawn by chance, that has another
    score; what has none is left out.

    Raises:
        SettingError: `loss` is unknown.
    """
    draws = random.Random(seed)  # noqa: S311 - no secret
    for query in queries:
        pairs = list(zip(query.passages, query.scores, strict=True))
        match loss:
            case "mse":
                for passage, score in pairs:
                    yield {"query": query.text, "passage": passage, "label": score}
            case "margin_mse":
                for one in pairs:
                    if others := [each for each in pairs if each[1] != one[1]]:
                        (low, less), (high, more) = sorted((one, draws.choice(others)), key=_score)
                        row = {"query": query.text, "higher": high, "lower": low}
                        yield {**row, "label": more - less}
            case "lambda":
                passages, scores = list(query.passages), list(query.scores)
                yield {"query": query.text, "passages": passages, "labels": scores}
            case _:
                raise SettingError(f"loss={loss!r} is unknown; give {', '.join(LOSSES)}")


def _queries(
    run: RunFolder, data: DataFolder, number: int, left_out: Counter[str]
) -> Iterator[TaughtQuery]:
    texts, grades, passages = data.queries(), data.qrels(), data.passages()
    clean, config = PromptSet.load(RankerConfig().prompts).cleaner, RankerConfig()
    for ranking in run.rankings():
        if ranking.hits and not ranking.absolute:
            raise RunFolderError(
                f"{run.path}: {run.manifest.ranker} puts passages in order and gives no relevance "
                "to learn; give a run of mcranker, direct or another ranker that scores"
            )
        query_id, kept = ranking.query.id, []
        for hit in sorted(ranking.hits, key=lambda each: each.row):
            if why := _why_not(hit):
                left_out[f"passage: {why}"] += 1
                continue
            title, text = passages[hit.doc_id]
            # As rankers give passages to a model of typed questions.
            shown = without_tokens(passage_text(Passage(hit.doc_id, text, title), text, config))
            kept.append((hit.doc_id, shown, float(hit.relevance or 0.0)))
        if not kept:
            left_out["query: no passage with a score"] += 1
            continue
        yield TaughtQuery(
            f"{number}:{query_id}",
            clean.text(texts[query_id]),
            *zip(*kept, strict=True),
            grades.get(query_id, {}),
        )


def _why_not(hit: Hit) -> str:
    """Reason to leave a passage out; empty if it has all its scores."""
    if hit.skipped:
        return "not judged, as it could not reach top_k"
    if hit.missing:
        return "a score is missing, for the reasons in the run's metrics.json"
    return "no relevance" if hit.relevance is None else ""


def _score(pair: tuple[str, float]) -> float:
    return pair[1]
