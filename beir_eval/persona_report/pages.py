"""The pages of some queries of one run: what a worker process does."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from beir_eval.errors import RunFolderError
from beir_eval.experiment.rankings import ranking_at
from beir_eval.persona_report.line_index import Passages
from personas.io.lines import place_of
from personas.report.site import Made

if TYPE_CHECKING:
    from personas.ranking.record import OtherRanking, RankingRecord
    from personas.survey.surveyor import Surveyor


@dataclass(frozen=True, slots=True)
class OtherPlan:
    """The run that a run is compared with: its rankings, its name, its highest score."""

    rankings: Path
    name: str
    top: float | None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What is the same for all queries of a run.

    Attributes:
        folder: where the run's pages go.
        title: of its report.
        queries: how many have a page.
        rankings: the file of rankings.
        passages: the file of texts.
        index: the index of that file.
        other: what it is compared with; None if there is nothing.
        made: what the last line of each page says.
    """

    folder: Path
    title: str
    queries: int
    rankings: Path
    passages: Path
    index: Path
    other: OtherPlan | None
    made: Made


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """One ranked query.

    Attributes:
        place: from 1; names its pages.
        offset: where its ranking begins.
        other_offset: where the other ranking begins; None if there is none.
        grades: document id -> judgement; None without judgements.
    """

    place: int
    offset: int
    other_offset: int | None
    grades: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive queries of a run, the run by its number from 1."""

    number: int
    run: RunPlan
    queries: tuple[QueryPlan, ...]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What became of a chunk: its run's number, and how many queries and pages it made."""

    number: int
    queries: int
    pages: int
    surveyor: Surveyor


def write_pages(chunk: Chunk) -> Surveyed:
    """Write the pages of the queries, and survey them.

    Raises:
        RunFolderError: a ranking is none, or the text of a passage is missing; names the line.
        OSError: a page cannot be written.
    """
    from personas.report.query.inspection_page import inspection_pages
    from personas.report.site import PageContext, query_page
    from personas.survey.surveyor import Surveyor

    surveyor, run, pages = Surveyor(), chunk.run, 0
    with ExitStack() as files:
        passages = files.enter_context(Passages(run.passages, run.index))
        rankings = files.enter_context(run.rankings.open("rb"))
        others = files.enter_context(run.other.rankings.open("rb")) if run.other else None
        for query in chunk.queries:
            other = _other(run.other, others, query.other_offset) if run.other and others else None
            inspection = _inspection(run, rankings, passages, query, other)
            around = PageContext(run.title, query.place, run.queries, run.made)
            for part, page in enumerate(inspection_pages(inspection, around), start=1):
                path = run.folder / query_page(query.place, part)
                path.write_text(page, encoding="utf-8", newline="")
                pages += 1
            surveyor.take(query.place, inspection)
    return Surveyed(chunk.number, len(chunk.queries), pages, surveyor)


def _inspection(
    run: RunPlan,
    rankings: BinaryIO,
    passages: Passages,
    query: QueryPlan,
    other: OtherRanking | None,
) -> RankingRecord:

    ranking = ranking_at(run.rankings, rankings, query.offset)
    texts = {}
    for hit in ranking.hits:
        found = passages.texts(hit.doc_id)
        if found is None:
            raise RunFolderError(
                f"{run.passages}: has no text of passage {hit.doc_id!r}, which "
                f"{place_of(run.rankings, query.offset)} ranks; bring back the whole folder"
            )
        texts[hit.doc_id] = found
    return ranking.with_texts(texts).beside(grades=query.grades, other=other)


def _other(plan: OtherPlan, lines: BinaryIO, offset: int | None) -> OtherRanking:
    from personas.ranking.record import OtherRanking

    ranking = None if offset is None else ranking_at(plan.rankings, lines, offset)
    return OtherRanking.of(plan.name, plan.top, ranking)
