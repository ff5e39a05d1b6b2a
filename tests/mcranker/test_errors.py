"""The tree that is drawn in `mcranker.errors` is the tree that is there."""

from __future__ import annotations

import pickle
from types import ModuleType

import pytest

import mcranker.errors
from mcranker.errors import MCRankerError, ModelError, RateLimited


def _classes(module: ModuleType) -> dict[str, type[BaseException]]:
    return {
        name: each
        for name, each in vars(module).items()
        if isinstance(each, type)
        and issubclass(each, BaseException)
        and each.__module__ == module.__name__
    }


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
