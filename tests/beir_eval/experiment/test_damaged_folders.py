"""Run folders that are cut, garbled, in use, or no folders: an error that names the file."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beir_eval.experiment.run_folder import RunFolder
from beir_eval.files import LOCK, locked
from tests.beir_eval.data.test_damaged_files import garbled
from tests.support.beir_folder import write_folder
from tests.support.cli_support import scripted
from tests.support.commands import call, refused, unsafe, written
from tests.support.scale import scaled

RUN = ("beir-eval", "run", "--dataset", "tiny", "--depth", "5", "--out", "o", "--ranker")
TEAM, DIRECT = "o/tiny/mcranker", "o/tiny/direct"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("beir-eval", "report", "o"),
    ("beir-eval", "report", "o", "--measure", "R@5"),
    ("mcranker", "compare", DIRECT, TEAM),
    ("mcranker", "compare", TEAM, DIRECT, "--measure", "R@2", "--output", "json"),
    ("personas", "report", "o", "--out", "pages"),
    (*RUN, "mcranker"),
    (*RUN, "direct", "--measures", "R@5"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**22, 2.5, 1e308, "", "x", "10", [], {}, [None], {"a": None}),
    *(float("nan"), float("inf"), "\u202e\x1b", {"a": {"a": {"a": 1}}}),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set, and two finished runs over it."""
    place = tmp_path_factory.mktemp("whole")
    write_folder(place / "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        scripted(patch, place)
        for ranker in ("direct", "mcranker"):
            assert call(*RUN, ranker).exit_code == 0
    return place


@pytest.fixture
def here(whole: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of it, in which the test runs."""
    place = shutil.copytree(whole, tmp_path / "here", ignore=shutil.ignore_patterns("cache"))
    monkeypatch.chdir(place)
    scripted(monkeypatch, tmp_path)
    return place


def changed(content: bytes, chance: random.Random) -> bytes:
    """JSON with another value, or none, in one place; or the bytes garbled."""
    lines = content.split(b"\n")
    at = chance.randrange(len(lines))
    by_line = len(lines) > 3 and lines[0].startswith(b'{"')
    try:
        data = json.loads(lines[at] if by_line else content)
    except ValueError:
        return garbled(content, chance)
    *above, last = chance.choice([path for path in _paths(data) if path])
    target = data
    for key in above:
        target = target[key]
    if chance.random() < 0.1:
        del target[last]
    else:
        target[last] = chance.choice(VALUES)
    lines[at] = json.dumps(data).encode()
    return b"\n".join(lines) if by_line else lines[at]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield from _paths(value[key], (*path, key))


def test_damaged_files_are_named_or_read(here: Path) -> None:
    """Nothing else than one line that names the file or its folder, or a result."""
    files = sorted(path for path in Path("o").rglob("*") if path.is_file() and path.name != LOCK)
    assert len(files) == 14
    contents = {path: path.read_bytes() for path in files}
    chance = random.Random(0)
    refusals = 0
    for _ in range(scaled(40)):
        path, command = chance.choice(files), chance.choice(COMMANDS)
        damage = changed if chance.random() < 0.6 else garbled
        path.write_bytes(damage(contents[path], chance))
        result = call(*command)
        assert not unsafe(result.stderr)
        if result.exit_code in (1, 2):
            refusals += 1
            said = refused(*command)
            assert any(str(each) in said for each in (path, path.parent, DIRECT, TEAM)), said
        else:
            assert result.exit_code in (0, 3), (path, result)
        if command[1] == "run":
            shutil.rmtree("o")
            for each, content in contents.items():
                written(each, content)
        path.write_bytes(contents[path])
    assert refusals > scaled(40) / 10


def test_a_dry_run_leaves_a_torn_line_as_it_is(here: Path) -> None:
    """It may be one that another program is just writing."""
    path = Path(TEAM, "rankings.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    before = path.read_bytes()
    assert call(*RUN, "mcranker", "--dry-run").exit_code == 0
    assert path.read_bytes() == before
    assert call(*RUN, "mcranker").exit_code == 0
    ids = [ranking.query.id for ranking in RunFolder.open(TEAM).rankings()]
    assert ids == ["q1", "q2", "q3", "q4"]


# --- two runs into one folder -----------------------------------------------------------------


def names(folder: str) -> set[str]:
    return {path.name for path in Path(folder).iterdir()}


@pytest.mark.usefixtures("here")
def test_the_second_run_says_who_has_the_folder() -> None:
    before = names(TEAM)
    with locked(Path(TEAM)):
        said = refused(*RUN, "mcranker")
        assert said.startswith(f"{TEAM} is being written to by process {os.getpid()} on ")
        assert said.endswith("; wait until it ends, or choose another --out")
        # Other folders are free, and nobody who only reads is held up.
        assert call(*RUN, "direct").exit_code == 0
        for command in COMMANDS[:-2]:
            assert call(*command).exit_code == 0, command
    assert call(*RUN, "mcranker").exit_code == 0
    assert names(TEAM) == before
