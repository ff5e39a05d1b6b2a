"""Objects found by name: built-in ones, added ones, and what goes wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from personas.registry import Registry
from tests.support.plugins import installed


class NotFoundHere(Exception):
    """What the registry raises."""


@pytest.fixture
def added(tmp_path: Path) -> Iterator[Registry[int]]:
    registry: Registry[int] = Registry(
        "number",
        "tests.numbers",
        {"seven": "tests.personas.test_registry:SEVEN"},
        NotFoundHere,
        lambda found: isinstance(found, int),
    )
    source = "class Deep:\n    nine = 9\neight = 8\ntext = 'ten'\nseven = 0\n"
    names = {"nine": "Deep.nine", "eight": "eight", "seven": "seven", "text": "text", "no": "no"}
    with installed(tmp_path, registry, source, **names):
        yield registry


SEVEN = 7


def test_built_in_names_come_first_and_win(added: Registry[int]) -> None:
    assert added.names == ("seven", "eight", "nine", "no", "text")
    assert [added.get(name) for name in ("seven", "eight", "nine")] == [7, 8, 9]


def test_a_name_that_is_not_there(added: Registry[int]) -> None:
    with pytest.raises(NotFoundHere, match="no number 'sevn'; did you mean 'seven'"):
        added.get("sevn")
    with pytest.raises(NotFoundHere, match="no number 'x'; there are seven, eight, nine, no, text"):
        added.get("x")


def test_what_cannot_be_loaded_or_is_something_else(added: Registry[int], tmp_path: Path) -> None:
    with pytest.raises(NotFoundHere, match="the number 'no' cannot be loaded from 'own_plugin:no'"):
        added.get("no")
    with pytest.raises(NotFoundHere, match="'own_plugin:text' is a str and no number"):
        added.get("text")
    (tmp_path / "own_plugin.py").unlink()
    sys.modules.pop("own_plugin")
    with pytest.raises(NotFoundHere, match="No module named 'own_plugin'; install what it needs"):
        added.get("eight")
