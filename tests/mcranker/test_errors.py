"""The tree that is drawn in `mcranker.errors` is the tree that is there."""

from __future__ import annotations

import inspect
import pickle
import re
from types import ModuleType

import pytest

import mcranker.errors
import personas.errors
from mcranker.errors import MCRankerError, ModelError, RateLimited

MODULES = [(mcranker.errors, "MCRankerError"), (personas.errors, "PersonasError")]


def _drawn(module: ModuleType) -> dict[str, str | None]:
    """Class -> parent, by the depth at which a line of the drawing names it."""
    parents: dict[str, str | None] = {}
    path: list[tuple[int, str]] = []
    for line in inspect.cleandoc(module.__doc__ or "").splitlines():
        match = re.match(r"([ │]*[├└]── |\s*)([A-Z]\w+)(?=\s|$)", line)
        if match is None or (not match.group(1).strip() and line.strip() != match.group(2)):
            continue
        depth, name = len(match.group(1)), match.group(2)
        while path and path[-1][0] >= depth:
            path.pop()
        parents[name] = path[-1][1] if path else None
        path.append((depth, name))
    return parents


def _classes(module: ModuleType) -> dict[str, type[BaseException]]:
    return {
        name: each
        for name, each in vars(module).items()
        if isinstance(each, type)
        and issubclass(each, BaseException)
        and each.__module__ == module.__name__
    }


@pytest.mark.parametrize(("module", "root"), MODULES)
def test_the_drawn_tree_is_the_tree(module: ModuleType, root: str) -> None:
    classes = _classes(module)
    real = {
        name: next((base.__name__ for base in each.__bases__ if base in classes.values()), None)
        for name, each in classes.items()
    }
    assert _drawn(module) == real
    assert [name for name, parent in real.items() if parent is None] == [root]


def test_what_may_be_retried() -> None:
    retryable = {
        name for name, each in _classes(mcranker.errors).items() if getattr(each, "retryable", 0)
    }
    assert retryable == {*("ConnectionFailed", "ModelTimeout", "RateLimited", "ServerFailed")}


@pytest.mark.parametrize(
    "error",
    [MCRankerError("x"), ModelError("x", model="m"), RateLimited("x", model="m", retry_after=1.5)],
)
def test_errors_survive_another_process(error: MCRankerError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
