"""One query out of a run folder, with its texts, its judgements and DIRECT's ranking beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from beir_eval.errors import RunFolderError
from beir_eval.experiment.run_folder import (
    DATA_FOLDER,
    RANKINGS,
    DataFolder,
    Ranked,
    RunFolder,
    find_runs,
    index_rankings,
    ranking_at,
)
from beir_eval.persona_report.sources import Source, find_sources
from mcranker.cli.invocation import say
from mcranker.paths import is_file, is_folder
from personas.ensembles import highest_score
from personas.errors import SchemaError
from personas.format import counted
from personas.io.lines import place_of
from personas.io.select import Grades, Listed, choose, place_of_query
from personas.ranking.record import OtherRanking, RankingRecord

_MOST_NAMED = 8
_MANIFEST = "manifest.json"


def run_folder_of(source: str) -> Path | None:
    """The run folder that a path means: itself, or that of its ``rankings.jsonl``."""
    path = Path(source)
    if not is_folder(path):
        folder = path.parent.resolve() if path.parent.name in {"", ".."} else path.parent
        is_run = path.name == RANKINGS and is_file(folder / _MANIFEST)
        return folder if is_run and is_folder(folder.parent / DATA_FOLDER) else None
    if not is_file(path / _MANIFEST):
        found = find_runs([source])
        named = ", ".join(repr(str(run.path)) for run in found[:_MOST_NAMED])
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        count = counted(len(found), "run")
        raise RunFolderError(
            f"{source!r} is no run, but holds {count}: {named}{more}; give one of them"
        )
    if path.resolve().name == DATA_FOLDER:
        data = DataFolder.open(path).manifest
        raise RunFolderError(
            f"{source}: holds what was ranked ({data.dataset}); give the folder of a run beside it"
        )
    return path.resolve() if path.name in {"", ".."} else path


def choose_from_run(
    folder: Path, query: str | None, grades: Grades | None
) -> RankingRecord | list[Listed]:
    """The ranking of a run that `query` names; or a list, if it is None and there are several."""
    run, path = RunFolder.open(folder), folder / RANKINGS
    source = next(found for found in find_sources([folder])[0] if found.run.path == run.path)
    ranked = index_rankings(path, finished=run.manifest.finished)
    texts = source.data.queries()
    known = source.data.qrels() if grades is None else grades
    ids = [query_id for query_id in texts if query_id in ranked.offsets]
    if query is None and len(ids) > 1:
        if lost := [query_id for query_id in texts if query_id not in ranked.offsets]:
            are = f"{counted(len(lost), 'query', 'queries')} {'is' if len(lost) == 1 else 'are'}"
            why = _why_not(source, lost[0])
            say(f"{are} not among them; the first, {lost[0]!r}, {why}")
        return choose(_lines(path, ranked, ids), None, known)
    if query is None:
        query_id = ids[0]
    elif query in texts and query not in ids:
        raise RunFolderError(f"{source.run.path}: query {query!r} {_why_not(source, query)}")
    else:
        try:
            query_id = ids[place_of_query(query, ids)]
        except SchemaError as error:
            raise RunFolderError(f"{source.run.path}: {error}") from None
    ranking = _ranking(path, ranked, query_id)
    assert ranking is not None, "it was picked among those"
    wanted = set(ranking.ids)
    passages = source.data.passages(wanted)
    if lost := sorted(wanted - passages.keys()):
        raise RunFolderError(
            f"{source.data.path / 'passages.jsonl'}: has no text of passage {lost[0]!r}, which "
            f"{place_of(path, ranked.offsets[query_id])} ranks; bring back the whole folder"
        )
    other = None
    if source.other:
        beside, choices = source.other.path / RANKINGS, source.other.manifest
        found = _ranking(beside, index_rankings(beside, finished=True), query_id)
        other = OtherRanking.of(choices.label, highest_score(choices.config), found)
    return ranking.with_texts(passages).beside(grades=known.get(query_id), other=other)


def _why_not(source: Source, query_id: str) -> str:
    if not source.run.manifest.finished:
        return "is not ranked yet; run the same 'beir-eval run' again"
    reason = source.run.metrics().failed.get(query_id)
    return f"was not ranked: {reason}" if reason else "was not ranked"


def _lines(path: Path, ranked: Ranked, ids: list[str]) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as lines:
        for query_id in ids:
            lines.seek(ranked.offsets[query_id])
            yield f"{path}: query {query_id!r}", lines.readline()


def _ranking(path: Path, ranked: Ranked, query_id: str) -> RankingRecord | None:
    if query_id not in ranked.offsets:
        return None
    with path.open("rb") as lines:
        return ranking_at(path, lines, ranked.offsets[query_id])
