"""Saved rankings that somebody has spoiled: read, or refused with an error of this project."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest

from beir_eval.errors import RunFolderError
from beir_eval.experiment.cell import Outcome
from beir_eval.experiment.rankings import index_rankings, read_rankings
from mcranker import ConfigError, InputError, MCRanker, MissingScoreError, Ranking
from personas.errors import SchemaError
from personas.ranking.record import RankingRecord
from personas.ranking.stored import StoredHead
from personas.report import render_inspection
from personas.survey.query import QueryFindings
from tests.attack.scale import scaled
from tests.support.scripted import scripted

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**400,
    2**64,
    1e308,
    float("nan"),
    float("-inf"),
    "",
    "x" * 3000,
    "<script>\x1b[31m\0",
    "\ud800",
    [],
    [[]],
    ["x", "x"],
    {},
    {"version": 1},
    {"x": {"x": None}},
)


@lru_cache
def whole() -> str:
    with MCRanker(model=scripted(), scoring="per_criterion") as ranker:
        return ranker.rank("masks", {"a": "some text", "b": "more", "c": "more"}).to_json()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value below this one."""
    children = value.items() if isinstance(value, dict) else ()
    for key, child in enumerate(value) if isinstance(value, list) else children:
        yield (*path, key)
        yield from places(child, (*path, key))


def spoiled(draws: random.Random) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(whole())
    for _ in range(draws.choice((1, 1, 2, 3))):
        *above, last = draws.choice(list(places(data)))
        inside = data
        for key in above:
            inside = inside[key]
        if draws.random() < 0.15:
            del inside[last]
        else:
            inside[last] = copy.deepcopy(draws.choice(ODD))
    return data


def use(data: object) -> None:
    """All that is done with a saved ranking."""
    inspection = RankingRecord.from_dict(data).beside(grades={"a": 1})
    render_inspection(inspection)
    QueryFindings.of(1, inspection)
    outcome = Outcome({})
    outcome.take(inspection)
    ranking = Ranking.from_dict(data)
    assert Ranking.from_dict(ranking.to_dict()).to_dict() == ranking.to_dict()
    choices: tuple[dict[str, Any], ...] = (
        {},
        {"ensemble": "reciprocal_rank"},
        {"missing_policy": "lowest"},
    )
    for options in choices:
        try:
            ranking.reensemble(**options)
        except (ConfigError, MissingScoreError):
            continue


def test_values_of_any_kind_in_any_place() -> None:
    draws, read = random.Random(12), 0
    for _ in range(scaled(800)):
        data = spoiled(draws)
        said = refusal(partial(use, data))
        read += said is None
        assert said is None or (len(said) < 1500 and "\n" not in said)
    assert read > scaled(800) / 20


def refusal(read: Callable[[], object]) -> str | None:
    """The project's own error that reading ends with; None if it does not."""
    try:
        read()
    except (SchemaError, InputError, RunFolderError) as error:
        return str(error)
    return None


def spoiled_bytes(draws: random.Random) -> bytes:
    text = bytearray(whole().encode())
    for _ in range(draws.choice((1, 1, 2, 5))):
        place = draws.randrange(len(text))
        match draws.randrange(5):
            case 0:
                del text[place:]
            case 1:
                text[place : place + 1] = bytes([draws.randrange(256)])
            case 2:
                del text[place : place + draws.randrange(40)]
            case 3:
                text[place:place] = draws.choice((b"\0", b"\xff", b'"', b"[" * 5000, b"1e999,"))
            case _:
                text[place:place] = text[draws.randrange(len(text)) :][:60]
        if not text:
            break
    return bytes(text)


def test_bytes_of_any_kind(tmp_path: Path) -> None:
    draws = random.Random(13)
    path = tmp_path / "rankings.jsonl"
    for _ in range(scaled(800)):
        data = spoiled_bytes(draws)
        assert len(refusal(partial(use, data)) or "") < 1500
        path.write_bytes(data)
        said = refusal(lambda: [index_rankings(path, finished=True), *read_rankings(path)])
        assert said is None or str(path) in said


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"version":' * 50_000,
        b'{"version": 1, "query": {"text": "\\ud800", "id": ""}}',
        b'{"version": NaN}',
        b'{"version": 1e999}',
        b'{"version": "' + b"9" * 100_000 + b'"}',
        b'{"version": ' + b"9" * 100_000 + b"}",
    ],
)
def test_no_ranking_at_all(data: bytes) -> None:
    for read in (StoredHead.read, RankingRecord.from_dict):
        with pytest.raises(SchemaError) as caught:
            read(data)
        assert len(str(caught.value)) < 500
