"""The team out of a saved ranking, so that a ranking can be given wherever a team can."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from personas.errors import SchemaError
from personas.ranking.stored import StoredHead
from personas.schema import Team

SUFFIXES = (".json", ".jsonl", ".ndjson")
"""Of files that ``mcranker rank`` writes rankings to."""

LARGEST_RANKING = 1_000_000_000
"""Bytes of a file with rankings; one of 100 passages has some 300,000."""

_MARK = b'"hits"'


class _TeamOnly(StoredHead):
    """A ranking of which nothing but the team is looked at."""

    ranker: str
    team: Team | None


def saved_team(path: Path) -> Team | None:
    """The team of the rankings in a file; None if the file holds none, or cannot be read.

    A file is what ``mcranker rank`` wrote with ``--save`` or ``--output json``: of one query, or
    of many that one team has judged.

    Raises:
        SchemaError: there is a ranking and it has no team, is of another version, or cannot be
            read; there are several of different teams; the file has more than `LARGEST_RANKING`
            bytes.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_RANKING + 1)
    except (OSError, ValueError):
        return None
    if _MARK not in content:
        return None
    if len(content) > LARGEST_RANKING:
        raise SchemaError(
            f"{path}: has more than {LARGEST_RANKING:,} bytes; save the ranking of one query"
        )
    teams: list[Team] = []
    found = 0
    for where, ranking in _rankings(content, path):
        found += 1
        team = _team_of(ranking, where)
        if team not in teams:
            teams.append(team)
    if len(teams) > 1:
        raise SchemaError(
            f"{path}: has {found:,} rankings by {len(teams):,} different teams; give the ranking "
            "of one query, or save its team with 'mcranker rank --save-team FILE'"
        )
    return teams[0] if teams else None


def is_saved_ranking(path: Path) -> bool:
    """Whether the file holds a ranking with a team.

    Raises:
        SchemaError: as `saved_team`.
    """
    return path.suffix.lower() in SUFFIXES and saved_team(path) is not None


def _team_of(ranking: dict[str, Any], where: str) -> Team:
    try:
        head = _TeamOnly.read(ranking)
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from error
    if head.team is None:
        raise SchemaError(
            f"{where}: a ranking by {head.ranker[:80]!r}, which has no team; give one by 'mcranker'"
        )
    return head.team


def _rankings(content: bytes, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rankings: of one JSON value, or of a value a line; none where it is something else."""
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        yield from _by_line(content, path)
        return
    for ranking in _unpacked(whole):
        yield str(path), ranking


def _by_line(content: bytes, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == 1:  # a team's file, perhaps, and its own reader says more
                return
            raise SchemaError(f"{where}: not JSON: {error}") from error
        for ranking in _unpacked(value):
            yield where, ranking


def _unpacked(value: Any) -> Iterator[dict[str, Any]]:
    """The rankings in a value: itself, or those of the envelope of ``--output json``."""
    if not isinstance(value, dict):
        return
    if "hits" in value:
        yield value
    elif {"status", "errors"} <= value.keys():
        inside = value.get("rankings", [value.get("ranking")])
        for each in inside if isinstance(inside, list) else ():
            yield from _unpacked(each)
