"""From run folders to a folder of pages that show why passages rank where they do.

    OUT/                    the report, if it is about one run
        persona-report.json     marks the folder as a report
        index.html              the page about all queries
        figures.json            what it shows, as a `personas.survey.Survey`
        query/000001.html, ...  a page a query, or several where one would grow too large
    OUT/run-1/, run-2/, ... the same for each of several runs; OUT/index.html lists them

Queries that were ranked have the places 1, 2, ... in the order of the data set; those that
failed come after them, and have no page.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from beir_eval.errors import RunFolderError, SettingError
from beir_eval.experiment.run_folder import RANKINGS, Ranked, index_rankings
from beir_eval.persona_report.sources import (
    MEASURE,
    Source,
    differences,
    find_sources,
)
from beir_eval.report.load import Loader
from beir_eval.report.warnings import conditions, program_note
from mcranker import __version__
from personas.io.atomic import replacing_folder
from personas.report.dataset import ReportedRun, render_runs, render_survey
from personas.report.formats import value
from personas.report.inspection import inspection_page
from personas.report.page import OVERVIEW, PageContext, ReportFooter, query_page
from personas.survey import (
    MOST_NAME,
    MOST_TEXT,
    QueryFigures,
    QueryFindings,
    cut,
    survey_of,
)

Progress: TypeAlias = Callable[[int, int], None]
"""Takes the number of queries that have their pages, and the number of all."""

FIGURES = "figures.json"
"""The survey of a run, beside its pages."""
MARKER = "persona-report.json"
"""A folder with this file is a report, which another one may replace."""

_CHUNK = 64
"""Queries whose rankings are in memory at a time."""
_OF_TEAMS = ("team_size", "recruiting", "criteria", "ensemble")
_SETTINGS = (
    *("preset", "team_size", "recruiting", "criteria", "scoring", "scale", "labels", "ensemble"),
    *("missing_policy", "depth", "first_stage_weight", "prompts"),
)


@dataclass(frozen=True, slots=True)
class PersonaReport:
    """A report that has been written.

    Attributes:
        index: the page to begin with.
        runs: in order.
        pages: the number of pages.
        left_out: the reasons why other runs are not in it, a sentence each.
    """

    index: Path
    runs: tuple[ReportedRun, ...]
    pages: int
    left_out: tuple[str, ...]


def write_persona_report(
    paths: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    against: str | None = None,
    progress: Progress | None = None,
    command: str = "",
    date: str = "",
) -> PersonaReport:
    """Write the report on the runs in or below `paths` into the folder `out`.

    The folder appears whole or not at all, and replaces a report that is there. The same runs
    give the same pages.

    Args:
        paths: run folders, or folders that hold some.
        out: a new folder, an empty one, or one with a report.
        against: label or folder of the run to compare with, or ``"none"``. Without: a run
            without a team over the same data, DIRECT with the same highest score first.
        progress: receives the progress of the work.
        command: that made the pages, for their last line; empty for none.
        date: when they were made, for their last line; empty for none.

    Raises:
        RunFolderError: there is no run, or none like `against`; a file is damaged, of another
            version or incomplete. Names the file, and the line.
        SettingError: `out` holds something else.
        OSError: the report cannot be written; what was there before is untouched.
    """
    out = Path(out)
    _check_place(out)
    sources, left_out = find_sources(paths, against)
    for run in (run for each in sources for run in (each.run, each.other) if run is not None):
        if run.path.resolve().is_relative_to(out.resolve()):
            raise SettingError(
                f"{str(out)!r} holds the run {str(run.path)!r}, and would be replaced as a whole; "
                "name another folder"
            )
    footer, loader = ReportFooter(__version__, date, command), Loader(MEASURE)
    tested = differences(sources, loader)
    ranked = [
        index_rankings(each.run.path / RANKINGS, finished=each.run.manifest.finished)
        for each in sources
    ]
    done, total = 0, sum(len(each.offsets) for each in ranked)
    report: Callable[[int, int], None] = progress or (lambda done, total: None)
    pages, runs = 0, []
    with replacing_folder(out) as folder:
        report(done, total)
        for number, source in enumerate(sources):
            place = folder / f"run-{number + 1}" if len(sources) > 1 else folder
            (place / query_page(1)).parent.mkdir(parents=True)
            found: list[QueryFindings] = []
            for findings in _write_pages(source, ranked[number], place, footer):
                found.append(findings)
                report(done + len(found), total)
            pages += len(found)
            done += len(found)
            survey = survey_of(
                [*found, *_failed(source, ranked[number])],
                differences=tested[number],
                **_about(source, ranked[number], loader),
            )
            options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
            (place / FIGURES).write_bytes(orjson.dumps(survey, option=options))
            above = f"../{OVERVIEW}" if len(sources) > 1 else ""
            page = render_survey(survey, runs=above, figures=FIGURES, footer=footer)
            _write(place / OVERVIEW, page)
            pages += 1
            kept = replace(survey, queries=(), personas=())
            runs.append(
                ReportedRun(
                    source.run.path,
                    out / (place / OVERVIEW).relative_to(folder),
                    source.run.manifest.finished,
                    kept,
                )
            )
        if len(sources) > 1:
            listed = [(each.index.relative_to(out).as_posix(), each) for each in runs]
            _write(folder / OVERVIEW, render_runs(listed, left_out, footer))
            pages += 1
        (folder / MARKER).write_text(json.dumps({"version": 1, "runs": len(sources)}) + "\n")
        _check_place(out)  # another program may have written there meanwhile
    return PersonaReport(out / OVERVIEW, tuple(runs), pages, tuple(left_out))


def _write(path: Path, page: str) -> None:
    path.write_text(page, encoding="utf-8", newline="")


def _check_place(out: Path) -> None:
    """Refuse a place where something else is than a report."""
    if out.exists() and not out.is_dir():
        raise SettingError(f"{str(out)!r} is a file; name a folder for the report")
    if out.is_dir() and not (out / MARKER).is_file() and any(out.iterdir()):
        raise SettingError(
            f"{str(out)!r} holds something else than a report, and would be replaced as a whole; "
            "name a new folder, or an empty one"
        )


def _about(source: Source, ranked: Ranked, loader: Loader) -> dict[str, Any]:
    """Fields of a survey about the run: names, models, and settings that shape scores."""
    data, config = source.data.manifest, source.run.manifest.config
    split = "" if data.split == "test" else f" ({data.split})"
    return {
        "title": source.title,
        "dataset": f"{data.dataset}{split}: {conditions(data, None)}",
        "collection": data.dataset,
        "first_stage": data.first_stage.name,
        "other": source.other.manifest.label if source.other else "",
        "models": source.run.manifest.models,
        "settings": {
            name.replace("_", " "): value(config[name])
            for name in _SETTINGS
            if config.get(name) not in (None, "", [], (), 0.0)
            and (source.team or name not in _OF_TEAMS)
            and not (name == "scale" and config.get("labels"))
        },
        "notes": tuple(_notes(source, ranked, loader)),
    }


def _failed(source: Source, ranked: Ranked) -> Iterator[QueryFindings]:
    """Queries that were tried in vain; an unfinished run does not name them yet."""
    if not source.run.manifest.finished:
        return
    texts, grades = source.data.queries(), source.data.qrels()
    reasons = source.run.metrics().failed
    first_stage = source.data.metrics().per_query.get(MEASURE, {})
    other = source.other.metrics().per_query.get(MEASURE, {}) if source.other else {}
    failed = [each for each in texts if each not in ranked.offsets]
    for place, query_id in enumerate(failed, start=len(texts) - len(failed) + 1):
        yield QueryFindings(
            QueryFigures(
                place=place,
                query_id=cut(query_id, MOST_NAME),
                query=cut(texts[query_id], MOST_TEXT),
                ndcg=0.0 if grades.get(query_id) else None,
                first_stage_ndcg=first_stage.get(query_id),
                other_ndcg=other.get(query_id),
                error=cut(reasons.get(query_id) or "The run does not say why.", MOST_TEXT),
            )
        )


def _notes(source: Source, ranked: Ranked, loader: Loader) -> Iterator[str]:
    """Notes for readers of the report, a sentence or two each."""
    queries, count = source.data.queries(), len(ranked.offsets)
    if source.run.manifest.finished:
        flaws = loader.of_run(source.run, source.data).values.flaws()
        yield from (f"{each.said[:1].upper()}{each.said[1:]}." for each in flaws)
    elif judge := source.data.manifest.judge:
        yield f"Judged by a model, {judge}, and not by people."
    if not source.run.manifest.finished:
        torn = " The last ranking was not written to its end and is left out."
        yield (
            f"The run is not finished: {count:,} of {len(queries):,} queries have been "
            "ranked, and this report is about them alone." + torn * ranked.torn
        )
    grades = source.data.qrels()
    if unjudged := sum(not grades.get(each) for each in ranked.offsets):
        yield f"{unjudged:,} of {count:,} ranked queries have no judgements and no nDCG@10."
    lacks = len(ranked.offsets.keys() - source.others().keys())
    if source.other is not None and lacks:
        yield (
            f"{source.other.manifest.label} has not ranked {lacks:,} of these queries; they "
            "count 0 for it."
        )
    yield from program_note(source.run.manifest.models.values())


def _write_pages(
    source: Source, ranked: Ranked, folder: Path, footer: ReportFooter
) -> Iterator[QueryFindings]:
    """Write the page of each query; yield what the survey takes from it."""
    texts = source.data.queries()
    if strangers := ranked.offsets.keys() - texts.keys():
        raise RunFolderError(
            f"{source.run.path / RANKINGS}: ranks query {min(strangers)!r}, which "
            f"{source.data.path} does not hold; the folders do not belong together"
        )
    queries = [each for each in texts if each in ranked.offsets]
    grades, others = source.data.qrels(), source.others()
    for start in range(0, len(queries), _CHUNK):
        chunk = {each: ranked.offsets[each] for each in queries[start : start + _CHUNK]}
        for place, ranking in enumerate(source.read(chunk, others, grades), start + 1):
            around = PageContext(source.title, place, len(queries), footer)
            _write(folder / query_page(place), inspection_page(ranking, around))
            yield QueryFindings.of(place, ranking)
