"""A model that grades pairs of query and passage from 0 to 3: a team, or UMBRELA's prompt.

Its grades are written in BEIR's form, which any tool reads. Beside them lies ``NAME.judge.json``,
an object about the judge.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from beir_eval.data.datasets import MARK
from beir_eval.errors import SettingError
from beir_eval.experiment.cell import GIVE_UP
from beir_eval.experiment.labels import row_labels
from beir_eval.experiment.run_folder import find_runs
from mcranker import MCRanker
from mcranker.config import RankerConfig
from mcranker.errors import FATAL_ERRORS, BudgetExceeded
from mcranker.inputs.trec import Run, read_trec
from mcranker.method.annotator import ScorePrompt
from mcranker.method.questions import QuestionSheet
from mcranker.method.session import Session
from mcranker.paths import is_folder
from mcranker.rankers.direct import DirectRanker
from mcranker.rankers.judge import refuse
from mcranker.replies.schemas import UMBRELA_SCHEMA
from mcranker.replies.scoring import IntegerScoring
from personas import Member, PromptSet
from personas.io.atomic import write_whole
from personas.ranking.types import Passage, Query, WeakJudge
from personas.sanitize import json_text
from personas.templates import OPTIONAL_PROMPTS

if TYPE_CHECKING:
    from beir_eval.data.datasets import Dataset
    from mcranker.rankers import RankedQuery, Ranker


Pairs: TypeAlias = Mapping[str, Collection[str]]
"""Query id -> ids of the documents to be judged for it, each once."""
Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> grade."""


@dataclass(frozen=True, slots=True)
class System:
    """A run whose documents are judged."""

    label: str  # unique among the systems
    run: Run  # its lists, best first
    models: frozenset[str] | None = None  # that made it; None if not known, as of a TREC file


def read_systems(paths: Sequence[str | os.PathLike[str]]) -> list[System]:
    """Read runs: run folders of ``beir-eval run``, or folders that hold some, then TREC files.

    Raises:
        RunFolderError, RunError: one cannot be read.
        SettingError: two have the same label.
    """
    folders = [path for path in paths if is_folder(Path(path))]
    runs = find_runs(folders) if folders else []
    found = []
    for label, each in zip(row_labels(runs), runs, strict=True):
        models = None if each.manifest.foreign else frozenset(each.manifest.models.values())
        found.append(System(label, each.run(), models))
    found += [System(Path(path).stem, read_trec(path)) for path in paths if path not in folders]
    for label, times in Counter(each.label for each in found).items():
        if times > 1:
            raise SettingError(f"{times} runs are called {label!r}; rename a file, or give one")
    return found


def pooled(systems: Sequence[System], depth: int) -> Pairs:
    """Return the first `depth` documents that each system has for a query, rank by rank."""
    found = {}
    for query_id in dict.fromkeys(each for system in systems for each in system.run):
        ranks = zip_longest(*(each.run.get(query_id, ())[:depth] for each in systems))
        listed = (entry[0] for rank in ranks for entry in rank if entry is not None)
        found[query_id] = list(dict.fromkeys(listed))
    return found


def judged_pairs(qrels: Qrels, sample: int | None = None, *, seed: int = 0) -> Pairs:
    """Return the pairs that people have judged, or about `sample` of them.

    Each grade has its share of the sample, rounded, but one pair at least: agreement by chance
    depends on the shares.
    """
    by_grade = defaultdict[int, list[tuple[str, str]]](list)
    for query_id, grades in qrels.items():
        for doc_id, grade in grades.items():
            by_grade[grade].append((query_id, doc_id))
    total = sum(map(len, by_grade.values()))
    drawn = random.Random(seed)  # noqa: S311 - nothing secret
    chosen: defaultdict[str, list[str]] = defaultdict(list)
    for _, pairs in sorted(by_grade.items()):
        count = len(pairs) if sample is None else max(1, round(sample * len(pairs) / total))
        for query_id, doc_id in drawn.sample(pairs, min(count, len(pairs))):
            chosen[query_id].append(doc_id)
    return {query_id: sorted(chosen[query_id]) for query_id in qrels if query_id in chosen}


HIGHEST = 3
"""The best grade: of a passage that is about the query alone and holds the exact answer."""


class UmbrelaRanker(DirectRanker):
    """DIRECT with four grades, asked in the manner of UMBRELA (Upadhyay et al. 2024)."""

    name: ClassVar[str] = "umbrela"
    prompt = "umbrela"
    takes_team = takes_instruction = False
    defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({"scale": HIGHEST})

    def _prepare(self, config: Any) -> Any:
        only: dict[str, Any] = {"scale": HIGHEST, "labels": (), "questions": None}
        only |= {"passages_per_call": None, "with_criteria": False}
        refuse(config, only, "does not go with UMBRELA's prompt; leave it out")
        return super()._prepare(config)

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        own = self.prompts.hashes_of(OPTIONAL_PROMPTS["umbrela"])
        return {**super().hashes_for(config), **own}

    def _asks(self, session: Session, members: Sequence[Member]) -> ScorePrompt | QuestionSheet:
        config, prompts = session.config, session.prompts
        if config.questions is not None:  # an encoder
            return super()._asks(session, members)
        answer = UmbrelaScoring(config, prompts) if config.scoring == "integer" else None
        return ScorePrompt(prompts[self.prompt], session, answer=answer)


class UmbrelaScoring(IntegerScoring):
    """The grade under ``Score``, written after intent, match and trust."""

    def __init__(self, config: RankerConfig, prompts: PromptSet) -> None:
        super().__init__(config, prompts, None)
        self._take(prompts, "answer_umbrela")
        self.schema = UMBRELA_SCHEMA


JUDGES = ("umbrela", "team")
UNFIT = frozenset(
    {
        *("deadline", "depth", "ensemble", "first_stage_weight", "labels", "min_relevance"),
        *("missing_constant", "missing_policy", "on_failure", "scale", "top_n"),
    }
)
"""Options of rankers that a judge does not take: they say what becomes of scores."""

_LONGEST_REASON = 200  # characters


@dataclass(frozen=True, slots=True)
class Grade:
    """The judge's grade of a pair."""

    value: int | None  # 0 to 3; None if there is none
    score: float | None = None  # 0 to 3, of which it is the nearest whole number, halves up
    reason: str = ""  # why there is none; empty if there is one


@dataclass(frozen=True, slots=True)
class Judged:
    """Grades, and what gave them."""

    judge: str  # one of `JUDGES`
    models: Mapping[str, str]  # role -> name; the grades are those of "scoring"
    config: Mapping[str, Any]  # choices in effect, as a run folder's manifest has them
    prompt_hashes: Mapping[str, str]  # prompt -> SHA-256 of its text
    weak_judge: WeakJudge  # why the model is weak; empty if it is not known to be
    own: Sequence[str] = ()  # labels of the judged runs that this model made itself
    # Query id -> document id -> grade, of every pair that was to be judged.
    grades: dict[str, dict[str, Grade]] = field(default_factory=dict)

    @property
    def qrels(self) -> Qrels:
        """Query id -> document id -> grade, of the pairs that have one."""
        return {
            query_id: {key: each.value for key, each in grades.items() if each.value is not None}
            for query_id, grades in self.grades.items()
        }

    @property
    def reasons(self) -> dict[str, int]:
        """Why grades are missing -> how many, the most frequent first."""
        found = (each.reason for grades in self.grades.values() for each in grades.values())
        return dict(Counter(filter(None, found)).most_common())

    def write(self, path: str) -> None:
        """Write the judgements, and beside them what gave them.

        Raises:
            OSError: a file cannot be written.
        """
        about = asdict(self)
        del about["grades"]
        about |= {
            "model": self.models["scoring"],
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "reasons": self.reasons,
        }
        write_whole(f"{path}{MARK}", f"{json_text(about)}\n")  # first: no judgements without it
        lines = ["query-id\tcorpus-id\tscore\n"]
        for query_id, grades in self.qrels.items():
            lines += [f"{query_id}\t{doc_id}\t{grade}\n" for doc_id, grade in grades.items()]
        write_whole(path, "".join(lines))


def make_judge(name: str, **options: Any) -> Ranker:
    """Return the judge of that name; `options` are those of `UmbrelaRanker` or `MCRanker`.

    Raises:
        SettingError: a judge does not take one of them.
        ConfigError, ModelError, PersonasError: as `mcranker.Ranker`.
    """
    if unfit := UNFIT & options.keys():
        raise SettingError(f"a judge of a collection takes no {min(unfit)}; leave it out")
    if options.get("scoring") == "peak":
        raise SettingError('scoring="peak" gives a likelihood and no grade; use "expected"')
    if name == JUDGES[0]:
        return UmbrelaRanker(**options)
    return MCRanker(**{**options, "scale": HIGHEST, "first_stage_weight": 0.0})


async def judge_pairs(
    judge: Ranker,
    dataset: Dataset,
    pairs: Pairs,
    *,
    systems: Sequence[System] = (),
    same_model: bool = False,
    done: Callable[[RankedQuery], None] = lambda _: None,
) -> Judged:
    """Grade every pair. A grade that did not come is missing with its reason, never 0.

    A team's score is the mean of its personas' scores; if one is missing, so is the grade. With a
    ledger, a judge that was stopped goes on where it was. A budget that is spent leaves the other
    grades missing.

    Args:
        judge: as `make_judge` returns it.
        dataset: with the texts.
        pairs: to be judged, of the data set's queries.
        systems: the runs that the pairs are from.
        same_model: judge runs that the judge's own model made; `Judged.own` names them.
        done: called with each query that was judged.

    Raises:
        SettingError: the judge's model made one of the systems, and `same_model` is false.
        MCRankerError: one that all queries would meet, or that many met one after the other.
    """
    model = judge.models.names["scoring"]
    own = [each.label for each in systems if model in (each.models or ())]
    if own and not same_model:
        raise SettingError(
            f"{model!r} made the run {own[0]!r}, and a model prefers what it ranked itself; judge "
            "with another model, or give --same-model (same_model=True), which the output states"
        )
    name, config = JUDGES[not isinstance(judge, UmbrelaRanker)], judge.config.recorded(how=False)
    weak = judge.models.scoring.capabilities.weak_judge
    judged = Judged(name, dict(judge.models.names), config, dict(judge.prompt_hashes), weak, own)
    absent = Grade(None, reason="its text is not in the corpus")
    judged.grades.update({key: dict.fromkeys(doc_ids, absent) for key, doc_ids in pairs.items()})
    failed = 0
    async with judge.arank_many(work_of(dataset, pairs)) as stream:
        async for ranked in stream:
            done(ranked)
            grades = judged.grades[ranked.query.id]
            if ranked.error is None:
                grades |= _grades_in(ranked)
                failed = 0
                continue
            spent = isinstance(ranked.error, BudgetExceeded)
            failed += not spent
            if isinstance(ranked.error, FATAL_ERRORS) or failed == GIVE_UP:
                raise ranked.error
            why = "the budget was spent" if spent else str(ranked.error)[:_LONGEST_REASON]
            grades |= {key: Grade(None, reason=why) for key in grades if key in dataset.corpus}
    return judged


def work_of(dataset: Dataset, pairs: Pairs) -> Iterator[tuple[Query, list[Passage]]]:
    """Yield the queries of `pairs`, each with those of its passages that the corpus holds."""
    for query_id, doc_ids in pairs.items():
        found = [dataset.corpus[each] for each in doc_ids if each in dataset.corpus]
        if found:
            passages = [Passage(each.id, each.text, each.title) for each in found]
            yield Query(dataset.queries[query_id], query_id), passages


def _grades_in(ranked: RankedQuery) -> dict[str, Grade]:
    ranking, found = ranked.result(), {}
    for hit in ranking.as_given:
        if hit.missing:
            found[hit.doc_id] = Grade(None, reason=[*hit.missing.values()][-1][:_LONGEST_REASON])
            continue
        mean = math.fsum(hit.known_scores) / len(hit.known_scores)
        found[hit.doc_id] = Grade(math.floor(mean + 0.5), mean)
    return found
