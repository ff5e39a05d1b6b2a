"""Saved rankings, read one by one.

A file holds a ranking, a ranking a line, or the envelope of ``mcranker rank --output json``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from personas.errors import SchemaError
from personas.io.lines import LONGEST_RANKING, Source, joined, named, parsed, read_texts
from personas.ranking.record import RankingRecord
from personas.schema import Team

SUFFIXES = (".json", ".jsonl", ".ndjson")
"""Of files that ``mcranker rank`` writes rankings to."""

_FORM = "; give what 'mcranker rank --save FILE' or '--output json' wrote"
_OPEN = ("{", "[", ",")  # a line that ends so is the first of a JSON value on many lines
_NAMES = {list: "a list", str: "a text", type(None): "null", bool: "true or false"}
_Read = TypeVar("_Read")


def read_rankings(
    source: Source, error: type[Exception] = SchemaError
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each ranking of a file is, and the ranking as `RankingRecord.from_dict` takes it."""
    lacking = "nothing"
    for place, value in _values(source, error):
        if (rankings := _unpacked(value)) is None:
            raise error(f"{place}: {_what_else(value)}")
        lacking = "" if rankings else lacking and "no ranking"
        for data in rankings:
            if not isinstance(data, dict) or "hits" not in data:
                raise error(f"{place}: the envelope holds something else than rankings")
            yield place, data
    if lacking:
        raise error(f"{named(source)}: there is {lacking} in it{_FORM}")


def checked(
    reader: Callable[[object], _Read], data: object, place: str, error: type[Exception]
) -> _Read:
    """Read a ranking by `reader`, e.g. `RankingRecord.from_dict`; errors say where."""
    try:
        return reader(data)
    except SchemaError as failure:
        raise error(f"{place}: {failure}") from failure


def saved_team(path: Path) -> Team | None:
    """The team of the rankings in a file; None if the file holds none, or cannot be read."""
    if path.suffix.lower() not in SUFFIXES:
        return None
    values = _values(path, SchemaError)
    try:
        first = list(islice(values, 1))
    except SchemaError:
        return None  # a team's file, perhaps, and its own reader says more
    teams: list[Team] = []
    count = 0
    for place, value in chain(first, values):
        for data in _unpacked(value) or ():
            if not isinstance(data, dict) or "hits" not in data:
                continue
            count += 1
            ranking = checked(RankingRecord.from_dict, data, place, SchemaError)
            if ranking.team is None:
                raise SchemaError(
                    f"{place}: a ranking by {ranking.ranker[:80]!r}, which has no team; give one "
                    "by 'mcranker'"
                )
            if ranking.team not in teams:
                teams.append(ranking.team)
    if len(teams) > 1:
        raise SchemaError(
            f"{path}: has {count:,} rankings by {len(teams):,} different teams; give the ranking "
            "of one query, or rank one query with --save"
        )
    return teams[0] if teams else None


def _values(source: Source, error: type[Exception]) -> Iterator[tuple[str, Any]]:
    """The JSON values: a line each, or one that takes all lines."""
    lines = read_texts(source, error, longest=LONGEST_RANKING)
    for place, line in lines:
        text, places = line, [place]
        if line.rstrip().endswith(_OPEN):
            text, places = joined(chain([(place, line)], lines), named(source), error)
        yield place, parsed(text, places, error, _FORM)


def _unpacked(value: Any) -> list[Any] | None:
    """A ranking, or what is in an envelope; None if the value is neither."""
    if isinstance(value, dict) and "hits" in value:
        return [value]
    if isinstance(value, dict) and {"status", "errors"} <= value.keys():
        inside = value.get("rankings", [value["ranking"]] if "ranking" in value else [])
        return inside if isinstance(inside, list) else [inside]
    return None


def _what_else(value: Any) -> str:
    """Describe a value that is no ranking."""
    if not isinstance(value, dict):
        return f"no ranking but {_NAMES.get(type(value), 'a number')}{_FORM}"
    if {"doc_id", "rank"} <= value.keys():
        return (
            "a passage of 'mcranker rank --output jsonl', which does not say why; keep whole "
            "rankings with --save FILE"
        )
    return f"an object, but no ranking{_FORM}"
