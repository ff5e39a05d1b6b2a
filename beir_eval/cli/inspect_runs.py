"""One query out of a run folder, with its texts, its judgements and DIRECT's ranking beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from beir_eval.cli.inspect_sources import Grades, Listed, choose, unknown_query
from beir_eval.errors import RunFolderError
from beir_eval.experiment.rankings import RANKINGS, Ranked, index_rankings, ranking_at
from beir_eval.experiment.run_folder import DATA_FOLDER, DataFolder, RunFolder
from beir_eval.persona_report.sources import Source, find_sources
from mcranker.cli.invocation import say
from mcranker.paths import is_file, is_folder
from personas.ensembles import highest_score
from personas.format import counted
from personas.io.lines import place_of
from personas.ranking.record import OtherRanking, RankingRecord

_MOST_NAMED = 8
_MANIFEST = "manifest.json"


def run_folder_of(source: str) -> Path | None:
    """The run folder that a path means: itself, or that of its ``rankings.jsonl``.

    Returns:
        None if the path is of another file.

    Raises:
        RunFolderError: it is a folder, but of no run; names those in it.
    """
    path = Path(source)
    if is_folder(path):
        if not (path / _MANIFEST).is_file():
            raise RunFolderError(_not_one(path))
        if path.resolve().name == DATA_FOLDER:
            data = DataFolder.open(path).manifest
            raise RunFolderError(
                f"{source}: holds what was ranked ({data.dataset}); give the folder of a run "
                "beside it"
            )
        return _named(path)
    folder = _named(path.parent)
    is_run = path.name == RANKINGS and is_file(folder / _MANIFEST)
    return folder if is_run and (folder.parent / DATA_FOLDER).is_dir() else None


def choose_from_run(
    folder: Path, query: str | None, grades: Grades | None
) -> RankingRecord | list[Listed]:
    """The ranking of a run that `query` names; or a list, if it is None and there are several.

    Args:
        folder: of the run.
        query: an id, or a number in the order of the data set.
        grades: other judgements than those of the folder ``data``.

    Raises:
        RunFolderError: the run cannot be read, or the query was not ranked; says why.
    """
    run, path = RunFolder.open(folder), folder / RANKINGS
    source = next(found for found in find_sources([folder])[0] if found.run.path == run.path)
    ranked = index_rankings(path, finished=run.manifest.finished)
    texts = source.data.queries()
    known = source.data.qrels() if grades is None else grades
    ids = [query_id for query_id in texts if query_id in ranked.offsets]
    if query is None and len(ids) > 1:
        _say_what_is_lacking(source, ids, texts)
        return choose(_lines(path, ranked, ids), None, known)
    query_id = _picked(source, query, ids, texts)
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


def _picked(source: Source, query: str | None, ids: list[str], texts: Collection[str]) -> str:
    if query is None:
        return ids[0]
    if query in ids:
        return query
    if query in texts:
        raise RunFolderError(f"{source.run.path}: query {query!r} {_why_not(source, query)}")
    number = int(query) if query.isascii() and query.isdigit() else 0
    if 1 <= number <= len(ids):
        return ids[number - 1]
    raise RunFolderError(f"{source.run.path}: {unknown_query(query, ids)}")


def _why_not(source: Source, query_id: str) -> str:
    if not source.run.manifest.finished:
        return "is not ranked yet; run the same 'beir-eval run' again"
    reason = source.run.metrics().failed.get(query_id)
    return f"was not ranked: {reason}" if reason else "was not ranked"


def _say_what_is_lacking(source: Source, ids: list[str], texts: Collection[str]) -> None:
    ranked = set(ids)
    lost = [query_id for query_id in texts if query_id not in ranked]
    if lost:
        are = "is" if len(lost) == 1 else "are"
        say(
            f"{counted(len(lost), 'query', 'queries')} {are} not among them; the first, "
            f"{lost[0]!r}, {_why_not(source, lost[0])}"
        )


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


def _named(folder: Path) -> Path:
    """Return the folder by its name, which ``.`` alone does not show."""
    return folder if folder.name not in {"", ".."} else folder.resolve()


def _not_one(path: Path) -> str:
    """Return the message about a folder that is no run."""
    found = [
        manifest.parent
        for pattern in (f"*/{_MANIFEST}", f"*/*/{_MANIFEST}")
        for manifest in sorted(path.glob(pattern))
        if (manifest.parent / RANKINGS).is_file()
    ]
    if not found:
        return f"{str(path)!r} is no run; give a folder that 'beir-eval run' made"
    named = ", ".join(repr(str(folder)) for folder in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    count = counted(len(found), "run")
    return f"{str(path)!r} is no run, but holds {count}: {named}{more}; give one of them"
