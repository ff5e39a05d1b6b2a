"""The rankings of a run: a line each, without titles and texts, read in order or found by id."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import orjson

from beir_eval.errors import RunFolderError
from personas.errors import SchemaError
from personas.io.lines import LONGEST_RANKING, Line, place_of, read_lines
from personas.io.rankings import checked
from personas.ranking.record import RankingRecord, read_query
from personas.ranking.types import Query

RANKINGS = "rankings.jsonl"
"""Name of the file in a run folder."""


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
            query_id = _query(line).id
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
        offsets.setdefault(_query(line).id, line.offset)
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


def _lines(path: Path) -> Iterator[Line]:
    return read_lines(path, RunFolderError, longest=LONGEST_RANKING)


def _query(line: Line) -> Query:
    return checked(read_query, line.content, line.place, RunFolderError)


def _ranking(line: Line) -> RankingRecord:
    return checked(RankingRecord.from_dict, line.content, line.place, RunFolderError)
