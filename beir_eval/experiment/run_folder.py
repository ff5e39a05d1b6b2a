"""Run folders: a ranker's results on a data set, kept whole, so that a report makes no call.

    OUT/DATASET/data/       what was ranked, shared by all rankers of the data set
        manifest.json       `DataManifest`
        queries.jsonl       _id, text
        qrels.tsv           query id, document id, grade, under a line of headings
        passages.jsonl      _id, title, text of every passage that the first stage found
        first_stage.trec    the first stage's run
        metrics.json        `Metrics` of the first stage's run
    OUT/DATASET/RANKER/     one run
        manifest.json       `RunManifest`
        rankings.jsonl      a query a line, in the order of the queries once the run is finished:
                            `Ranking.to_dict` without titles and texts, which are in data/
        run.trec            the rankings as a TREC run
        metrics.json        `Metrics` of that run
    OUT/PIPELINE/           a pipeline
        manifest.json       `RunManifest`
        run-1/              for each repetition: ``answers.jsonl``, a `RAGResult` a line, and
                            ``judgements.jsonl``, the judges' values; the last of an id counts
        metrics.json        `AnswerMetrics` of all repetitions

A foreign run, which another program made, has no ``rankings.jsonl``.
Before a run is finished, nothing but the manifest and its lines are there. Folders that were
written to have a file ``.lock`` as well, see `beir_eval.files.locked`. Everything is checked where
it is read: an error names the file, and the line. The manifest of what is finished has the
SHA-256 of every other file, so that reports find edits.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, ClassVar, Generic, Literal, Self, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, field_validator

from beir_eval.data.datasets import read_qrels
from beir_eval.errors import DatasetError, RunFolderError
from beir_eval.files import read_form
from mcranker.inputs.trec import read_trec
from mcranker.paths import is_folder
from personas.errors import SchemaError
from personas.format import counted
from personas.io.lines import LONGEST_RANKING, Line, place_of, read_lines, read_records
from personas.io.rankings import checked
from personas.ranking.hit import check_plain
from personas.ranking.record import RankingRecord, read_query
from personas.ranking.types import WeakJudge

MANIFEST, METRICS, RANKINGS = "manifest.json", "metrics.json", "rankings.jsonl"
ANSWERS, JUDGEMENTS = "answers.jsonl", "judgements.jsonl"
"""Names of files in run folders."""
DATA_FOLDER = "data"
FIRST_STAGE = "first stage"
"""Label of the first stage's own run in tables; its name is in `FirstStageNote`."""
FOREIGN, PIPELINE = "foreign run", "pipeline"
"""In a manifest, the ranker's name of a TREC run and of a pipeline."""


_Count = Annotated[int, Field(ge=0, le=2**63 - 1)]


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class FirstStageNote(_Kept):
    """The first stage that found the passages."""

    name: str  # how it is called in tables, e.g. ``"BM25"``
    settings: dict[str, str | int | float]  # e.g. ``{"engine": "bm25s", "k1": 0.9, "b": 0.4}``
    # Program -> version, e.g. ``{"bm25s": "0.2.14"}``; empty for a file.
    versions: dict[str, str] = {}


class DataManifest(_Kept):
    """The data that was ranked."""

    version: Literal[1] = 1
    dataset: str  # name of the data set; also the folder's name
    description: str = ""  # it in a line
    # Its key in the paper's tables, e.g. ``"scifact"``; None if it has none.
    paper: str | None = None
    split: str  # which judgements
    documents: _Count  # in the corpus
    queries: _Count  # how many were ranked
    queries_in_full: _Count  # how many judged queries the split has
    depth: _Count  # passages a query, at most
    first_stage: FirstStageNote  # what found them
    content: str  # SHA-256 over queries, judgements, and the first stage's run with its texts
    judge: str = ""  # the model that made the judgements; empty if people did
    files: dict[str, str] = {}  # name -> SHA-256 of the other files


class FigureLine(_Kept):
    """A least-squares line through some pipelines of a figure, as REBEL's figure 1 has them."""

    name: str
    through: tuple[str, ...] = Field(min_length=2)


class FigureNote(_Kept):
    """Figures of the runs of a suite."""

    # Of rankers. ``"line"``: nDCG@10 over a number; ``"bars"``: one group of bars a data set.
    kind: Literal["line", "bars"] | None = None
    title: str = ""  # above the figure
    x_label: str = ""  # what the numbers of `SuiteNote.x` are
    paper: str | None = None  # key of the paper's words about it, under ``figures_only_in_words``
    # Of pipelines: the judges of its axes, and lines.
    quality: tuple[str, ...] = Field((), max_length=2)
    lines: tuple[FigureLine, ...] = Field((), max_length=6)
    # A paper's points: label -> judge, "JUDGE sd" of its runs, and "speed" in characters a second.
    theirs: dict[str, dict[str, float]] = {}


class SuiteNote(_Kept):
    """The suite that a run is part of, and its place there."""

    name: str  # of the suite, e.g. ``"table1"``
    title: str  # heading of its section in a report
    description: str = ""  # what a suite of pipelines shows
    # Key of the paper's table, e.g. ``"table_5_and_1"``; None if there is none.
    paper_table: str | None = None
    # Label of the run that the others are compared with; None for the first stage.
    baseline: str | None = None
    figure: FigureNote | None = None  # how its runs make a figure; None if they make none
    place: _Count = 0  # place of the ranker in the suite, from 0
    paper_row: str | None = None  # the ranker's row in the paper's table; None if it has none
    x: float | str | None = None  # its place on a line figure's axis, or its bar's name
    series: str = ""  # its line of a figure; empty if the figure has one line a data set
    rankers: tuple[str, ...] = ()  # labels of all
    # Label -> row in the paper's table, of all rankers that have one; likewise.
    paper_rows: dict[str, str] = {}
    # Rows of the paper's table that the suite shows with the paper's numbers alone.
    not_run: tuple[str, ...] = ()
    theirs: dict[str, float] = {}  # judge -> a paper's value
    # Factor -> level, of a point of a grid; factors whose levels are ours; formula of its analysis.
    point: dict[str, str | int | float | bool] = {}
    ours: tuple[str, ...] = ()
    formula: str = ""


class ForeignNote(_Kept):
    """The file of a foreign run, and what of it did not fit what is ranked."""

    file: str  # its name, without folders
    sha256: str  # of its bytes
    without: _Count = 0  # queries that it has no line for; they count as empty lists
    other_queries: _Count = 0  # queries of the file that are not among those that are ranked
    below_depth: _Count = 0  # documents left out because of the depth
    documents: _Count = 0  # in the lists that count
    # Of these, how many are not in the corpus; they keep their ranks. None if not known.
    unknown_documents: _Count | None = None

    @property
    def oddities(self) -> list[str]:
        """Problems found in the file, in words."""
        counts = {
            " without a line, counted as empty": (self.without, "query", "queries"),
            ", not ranked here": (self.other_queries, "other query", "other queries"),
            " below the depth, left out": (self.below_depth, "document", "documents"),
            " not in the corpus": (self.unknown_documents, "document", "documents"),
        }
        return [f"{counted(n, one, many)}{what}" for what, (n, one, many) in counts.items() if n]


class AnswersNote(_Kept):
    """The judges of a pipeline's answers, and what was asked."""

    judges: tuple[str, ...]  # names of `JUDGES`; the first one heads the tables
    judge: str = ""  # the model that they ask
    runs: _Count = 1  # repetitions of every answer
    documents: dict[str, Any] = {}  # the index that was searched
    golden: dict[str, tuple[str, ...]] = {}  # question id -> right answers


class RunManifest(_Kept):
    """A ranker or a pipeline, and its settings."""

    version: Literal[1] = 1
    label: str  # the row of tables, e.g. ``"DIRECT(0,10)"``
    ranker: str  # as in `mcranker.rankers.RANKERS`; or `FOREIGN`, or `PIPELINE`
    options: dict[str, Any]  # as the suite or the flags set them, without secrets
    config: dict[str, Any]  # every choice in effect, as `Ranking.config`
    models: dict[str, str]  # role -> model, for all roles
    server: str = ""  # address of the scoring model's, without secrets
    weak_judge: WeakJudge = ""  # why the scoring model is weak, as `RankingRecord.weak_judge`
    prompt_hashes: dict[str, str] = {}  # prompt -> SHA-256 of its text
    # Program -> version, e.g. ``{"mcranker": "0.1.0", "python": "3.11.7"}``.
    versions: dict[str, str]
    data: str  # `DataManifest.content` of what was ranked; a digest of the questions
    suite: SuiteNote | None = None  # the suite, or None
    answers: AnswersNote | None = None  # of a pipeline
    # The file, if nothing was ranked here and a TREC run was given; else None.
    foreign: ForeignNote | None = None
    finished: bool = False  # whether every query was tried
    files: dict[str, str] = {}  # name -> SHA-256 of the other files, once the run is finished

    @field_validator("options", "config")
    @classmethod
    def _plain_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        check_plain(values)
        return values

    @field_validator("options")
    @classmethod
    def _without_secrets(cls, options: dict[str, Any]) -> dict[str, Any]:
        shown = {name: value for name, value in options.items() if name != "api_key"}
        if isinstance(url := shown.get("base_url"), str):
            from mcranker.llm.masking import shown_url

            shown["base_url"] = shown_url(url)
        return shown


class TieBounds(_Kept):
    """A measure's mean if ties were broken otherwise, see `beir_eval.measures.ties`."""

    worst: float  # with ties in the worst order
    best: float  # with ties in the best order
    by_lot: float  # with ties drawn by lot
    sampled: bool = False  # whether `worst` and `best` are the ends of a sample, and not exact


class ScoreCounts(_Kept):
    """Counts of scores, or of the comparisons of rankers that compare."""

    # Scores asked for: one a persona and distinct passage, the assessor's included; or comparisons.
    asked: _Count = 0
    comparisons: _Count = 0  # how many of those are comparisons
    missing: _Count = 0  # those that did not come, or could not be read
    # Why scores are missing -> how many; of comparisons that of the first in a ranking.
    reasons: dict[str, _Count] = {}
    # Replies that could not be read, whatever they were for; each was asked for again as often as
    # ``repair_attempts`` allows.
    unreadable: _Count = 0

    @staticmethod
    def unit(counts: Iterable[ScoreCounts | None]) -> tuple[str, str]:
        """Singular and plural of what was asked for: scores, comparisons or either."""
        found = [each for each in counts if each is not None]
        compared = sum(each.comparisons for each in found)
        if not compared:
            return "score", "scores"
        if compared == sum(each.asked for each in found):
            return "comparison", "comparisons"
        return "score or comparison", "scores or comparisons"


class Percentiles(_Kept):
    """Seconds per query, each from its beginning to its end beside others."""

    queries: _Count  # how many were timed: those for which the ledger had no score yet
    p50: float  # half of them took no longer; between two values in proportion, as numpy has it
    p90: float  # nine tenths of them
    p99: float  # 99 of 100


class RunCost(_Kept):
    """Effort of a run by itself: answers that the ledger already had count as well."""

    calls: _Count = 0  # requests answered
    input_tokens: _Count = 0  # all input, the cached part included
    cached_input_tokens: _Count = 0  # what the provider read from its prompt cache
    output_tokens: _Count = 0  # what the models wrote
    # The answers' times added up; more than passes where calls run side by side. Of the embedded
    # encoder and cross-encoders, the time they computed.
    seconds: float = 0.0
    cost: float | None = 0.0  # US dollars; None if a model's price is not known
    query_seconds: Percentiles | None = None  # how long queries took; None where none was timed


class Metrics(_Kept):
    """Quality and effort of a run."""

    version: Literal[1] = 1
    # Names as ir-measures writes them; the first one heads the tables. The next fields have
    # one more, the share of judged documents among the ranks that it looks at.
    measures: tuple[str, ...]
    means: dict[str, float]  # measure -> its value over all judged queries
    per_query: dict[str, dict[str, float]]  # measure -> query id -> value, every judged query
    # Measure -> its mean with ties at their worst, at their best, and drawn by lot.
    ties: dict[str, TieBounds] = {}
    # Measure -> query id -> value with ties drawn by lot, of the queries that have ties; for the
    # others it is that of `per_query`.
    by_lot: dict[str, dict[str, float]] = {}
    missing_queries: tuple[str, ...] = ()  # judged queries without results; they count 0
    failed: dict[str, str] = {}  # query id -> why it was not ranked
    # Queries whose team is smaller than asked for; None for a first stage and a foreign run.
    short_teams: _Count | None = None
    cut: _Count = 0  # queries of which passages were cut to fit the model
    scores: ScoreCounts | None = None  # what became of the scores; None for a first stage
    taken: RunCost | None = None  # calls, tokens, time and cost; None for a first stage


_Manifest = TypeVar("_Manifest", DataManifest, RunManifest)


@dataclass(frozen=True, slots=True)
class _Folder(Generic[_Manifest]):
    path: Path
    manifest: _Manifest
    _form: ClassVar[Any]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """The folder at `path`.

        Raises:
            RunFolderError: it is none, or cannot be read.
        """
        return cls(Path(path), read_form(Path(path, MANIFEST), cls._form))

    def _metrics(self) -> Metrics:
        path = self.path / METRICS
        metrics = read_form(path, Metrics)
        for name in metrics.measures or ("",):
            if name not in metrics.means or name not in metrics.per_query:
                what = f"no values of the measure {name!r}" if name else "no measure"
                raise RunFolderError(f"{path}: {what} in it; bring back the whole file")
        return metrics

    def changed(self) -> list[str]:
        """Files that are not as they were written, or gone."""
        files = self.manifest.files
        found = digests(self.path, files)
        return [name for name, digest in files.items() if found.get(name) != digest]


class DataFolder(_Folder[DataManifest]):
    """Ranked data on disk. Everything but the manifest is read on demand."""

    _form = DataManifest

    def queries(self) -> dict[str, str]:
        """Query id -> text, in the order of the data set."""
        found = read_records(self.path / "queries.jsonl", RunFolderError, "_id", "text")
        return {each["_id"]: each["text"] for _, each in found}

    def qrels(self) -> dict[str, dict[str, int]]:
        """Query id -> document id -> grade."""
        try:
            return read_qrels(self.path / "qrels.tsv")
        except DatasetError as failure:
            raise RunFolderError(str(failure)) from failure

    def passages(self, wanted: Container[str] | None = None) -> dict[str, tuple[str, str]]:
        """Document id -> title and text, of those `wanted` if not of all."""
        path = self.path / "passages.jsonl"
        return {
            each["_id"]: (each["title"], each["text"])
            for _, each in read_records(path, RunFolderError, "_id", "title", "text")
            if wanted is None or each["_id"] in wanted
        }

    def first_stage(self) -> dict[str, list[tuple[str, float]]]:
        """The first stage's run: query id -> (document id, score), best first."""
        return read_trec(self.path / "first_stage.trec")

    def metrics(self) -> Metrics:
        """Values of the first stage's run."""
        return self._metrics()


class RunFolder(_Folder[RunManifest]):
    """One run on disk. Everything but the manifest is read when it is asked for."""

    _form = RunManifest

    def data(self) -> DataFolder:
        """The data that was ranked.

        Raises:
            RunFolderError: the folder ``data`` beside is gone, or is of something else.
        """
        found = DataFolder.open(self.path.parent / DATA_FOLDER)
        if found.manifest.content != self.manifest.data:
            raise RunFolderError(
                f"{self.path}: ranked something else than {found.path} holds; "
                "the folders do not belong together"
            )
        return found

    def metrics(self) -> Metrics:
        """Values of the run.

        Raises:
            RunFolderError: the run is not finished.
        """
        if not self.manifest.finished:
            raise RunFolderError(
                f"{self.path}: the run is not finished; run the same 'beir-eval run' again"
            )
        return self._metrics()

    def run(self) -> dict[str, list[tuple[str, float]]]:
        """The run: query id -> (document id, score), best first."""
        return read_trec(self.path / "run.trec")

    def rankings(self, wanted: Collection[str] | None = None) -> Iterator[RankingRecord]:
        """Every ranking, or those of some queries, without titles and texts."""
        return read_rankings(self.path / RANKINGS, wanted)


def find_runs(
    paths: Iterable[str | os.PathLike[str]], *, pipelines: bool = False
) -> list[RunFolder]:
    """Every run of a ranker in or below `paths`, by path, each once; with `pipelines` theirs too.

    Raises:
        RunFolderError: a path is not there, has no run of a ranker, or a manifest cannot be read.
    """
    found: dict[Path, RunFolder] = {}
    for path in map(Path, paths):
        if not is_folder(path):
            raise RunFolderError(f"no folder {os.fspath(path)!r}; give folders of 'beir-eval run'")
        folders = [
            each.parent for each in sorted(path.rglob(MANIFEST)) if each.parent.name != DATA_FOLDER
        ]
        if not folders:
            raise RunFolderError(f"no run in {os.fspath(path)!r}; give folders of 'beir-eval run'")
        for folder in folders:
            run = RunFolder.open(folder)
            if run.manifest.answers and not pipelines:
                shows = f"'beir-eval report {folder.parent}' shows them"
                raise RunFolderError(f"{folder}: answers of a pipeline; {shows}")
            found.setdefault(folder.resolve(), run)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Ranked:
    """The rankings of a file."""

    # Query id -> where its line begins, in bytes; in the order of the file.
    offsets: Mapping[str, int]
    torn: bool  # whether the last line was not written to its end; it is left out


def ranking_line(ranking: RankingRecord) -> bytes:
    """The line of a ranking."""
    return orjson.dumps(ranking.to_dict(texts=False), option=orjson.OPT_APPEND_NEWLINE)


def read_rankings(path: Path, wanted: Collection[str] | None = None) -> Iterator[RankingRecord]:
    """Every ranking of a file, or of some queries, and then no line after the last of them."""
    left = None if wanted is None else set(wanted)
    for line in _lines(path):
        if left is not None:
            if not left:
                return
            query_id = _query_id(line)
            if query_id not in left:
                continue
            left.remove(query_id)
        yield _ranking(line)


def index_rankings(path: Path, *, finished: bool) -> Ranked:
    """Return the place of each ranking in a file; of several of one query, the first."""
    offsets: dict[str, int] = {}
    for line in _lines(path):
        if not (finished or line.content.endswith(b"\n")):
            return Ranked(offsets, torn=True)
        offsets.setdefault(_query_id(line), line.offset)
    return Ranked(offsets, torn=False)


def ranking_at(path: Path, lines: BinaryIO, offset: int) -> RankingRecord:
    """The ranking that begins at `offset` of `lines`, which is the open file `path`."""
    lines.seek(offset)
    try:
        return RankingRecord.from_dict(lines.readline())
    except SchemaError as failure:
        raise RunFolderError(f"{place_of(path, offset)}: {failure}") from failure


def judged_by_team(path: Path) -> bool:
    """True if the first ranking with passages is a team's."""
    for line in _lines(path):
        if not line.content.endswith(b"\n"):
            break
        ranking = _ranking(line)
        if ranking.team is not None or ranking.hits:
            return ranking.team is not None
    return False


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Name -> SHA-256 of files of a folder, those that are there."""
    found = {}
    for name in names:
        try:
            with (folder / name).open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            continue
        except OSError as failure:
            raise RunFolderError(
                f"{folder / name}: cannot be read: {failure.strerror}"
            ) from failure
    return found


def _lines(path: Path) -> Iterator[Line]:
    return read_lines(path, RunFolderError, longest=LONGEST_RANKING)


def _query_id(line: Line) -> str:
    return checked(read_query, line.content, line.place, RunFolderError).id


def _ranking(line: Line) -> RankingRecord:
    return checked(RankingRecord.from_dict, line.content, line.place, RunFolderError)
