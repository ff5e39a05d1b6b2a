"""The waits before another try, and the setting that changes them."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest

from mcranker import ChatRequest, Message, RankerConfig, RateLimited, ServerFailed
from mcranker.errors import ConfigError
from mcranker.llm.chat import Tag
from mcranker.llm.limits.limits import Limits
from mcranker.llm.scripted import ScriptedChat
from mcranker.models import Roles, connect_roles
from tests.support.virtual_time import now, simulate

REQUEST = ChatRequest((Message("user", "q"),), Tag("score"))


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When a model was asked that fails three times; it is connected by name."""
    asked: list[float] = []

    def answer(_: ChatRequest) -> str:
        asked.append(now())
        errors = {1: ServerFailed("out of order"), 2: RateLimited("too many"), 3: ServerFailed("")}
        if error := errors.get(len(asked)):
            raise error
        return "5"

    monkeypatch.setattr("mcranker.models.connect", lambda *_, **__: ScriptedChat(answer))
    monkeypatch.setattr("mcranker.models.Limits", partial(Limits, clock=now))
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    return asked


def ask() -> None:
    async def main() -> None:
        models = connect_roles(Roles("openai:m"), config=RankerConfig(), ledger=None)
        await models.scoring.complete(REQUEST)

    simulate(main())


@pytest.mark.parametrize("factor", ["1", "0.1", ""])
def test_the_waits_are_multiplied(
    factor: str, times: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCRANKER_BACKOFF", factor)
    ask()
    by = float(factor or 1)
    waits = [later - earlier for earlier, later in pairwise(times)]
    # 0.5 s doubled each time; a refusal without a time stops all calls for 1 s.
    assert waits == pytest.approx([0.5 * by, 1.0 * by, 2.0 * by], abs=1e-3)


def test_nothing_is_waited_for_in_tests(times: list[float]) -> None:
    ask()
    assert len(times) == 4
    assert times[-1] == pytest.approx(times[0], abs=1e-3)


@pytest.mark.parametrize("value", ["none", "-1", "inf", "nan"])
def test_what_is_no_factor_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCRANKER_BACKOFF", value)
    with pytest.raises(ConfigError, match=f"MCRANKER_BACKOFF='{value}' must be a number of at"):
        connect_roles(Roles("openai:m"), config=RankerConfig(), ledger=None)
