"""Contracts of every adapter, with the real libraries where they are installed."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import anyio
import pytest

from mcranker import (
    ChatRequest,
    ConfigError,
    MCRanker,
    ScriptedChat,
    ServerFailed,
)
from mcranker.integrations.reranking import KEY
from tests.support.adapting import ADAPTERS, Adapter, by_word, scripted_options

IMPORTED = {
    "langchain": "langchain_core.documents",
    "llamaindex": "llama_index.core.schema",
    "haystack": "haystack",
    "pyterrier": "pyterrier",
}


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.__name__)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    made: Adapter = request.param()
    pytest.importorskip(made.package)
    return made


@pytest.fixture
def ranker() -> Iterator[MCRanker]:
    with MCRanker(**scripted_options()) as made:
        yield made


def ranked(
    adapter: Adapter, answer: Any = by_word, *, deadline: float | None = None, **options: Any
) -> Any:
    """The few documents, ranked by an adapter of a scripted model, which is closed."""
    made = adapter.make(options=scripted_options(answer, **options), deadline=deadline)
    try:
        return adapter.read(adapter.rank(made, adapter.few(secret="never shown")))
    finally:
        made.close()


def test_documents_come_back_best_first_with_what_they_had(
    adapter: Adapter, ranker: MCRanker
) -> None:
    given = adapter.few(source="a.pdf", page=7)
    before = pickle.dumps(given)
    found = adapter.read(adapter.rank(adapter.make(ranker=ranker), given))
    assert pickle.dumps(given) == before
    assert [name for name, _, _ in found] == ["n", "c", "g"]
    assert [relevance for _, relevance, _ in found] == pytest.approx([0.9, 0.4, 0.1])
    assert all(told["source"] == "a.pdf" and told["page"] == 7 for _, _, told in found)


def test_each_document_is_told_why(adapter: Adapter, ranker: MCRanker) -> None:
    why = adapter.read(adapter.rank(adapter.make(ranker=ranker), adapter.few()))[0][2][KEY]
    assert json.loads(json.dumps(why)) == why
    first_stage = why.pop("first_stage_score")
    assert first_stage == (None if adapter.package == "langchain_core" else 0.5)
    assert why == {
        "rank": 1,
        "score": 27.0,  # 9 of each of three
        "relevance": 0.9,
        "first_stage_rank": 2,
        "scores": {"NLP scientist": 9.0, "Virologist": 9.0, "Worried parent": 9.0},
        "missing": {},
        "partial": False,
        "failure": "",
    }


def test_limits_are_passed_on(adapter: Adapter, ranker: MCRanker) -> None:
    def ids(**limits: Any) -> list[str]:
        made = adapter.make(ranker=ranker, **limits)
        return [name for name, _, _ in adapter.read(adapter.rank(made, adapter.few()))]

    assert ids(top_n=1) == ["n"]
    assert ids(min_relevance=0.3) == ["n", "c"]


def test_the_deadline_gives_what_is_known_and_says_so(adapter: Adapter) -> None:
    async def slow(request: ChatRequest) -> str:
        if "N95" in request.messages[-1].content or request.tag.stage != "score":
            return by_word(request)
        await anyio.sleep_forever()
        raise AssertionError

    found = ranked(adapter, slow, deadline=0.2)
    assert [name for name, _, _ in found] == ["n", "c", "g"]
    assert found[0][1] == pytest.approx(0.9)
    assert [relevance for _, relevance, _ in found[1:]] == [None, None]
    assert all(told[KEY]["partial"] for _, _, told in found)
    assert set(found[1][2][KEY]["missing"].values()) == {"deadline"}


def test_a_model_that_is_down_leaves_the_order_and_says_why(adapter: Adapter) -> None:
    def down(_: ChatRequest) -> str:
        raise ServerFailed("the server is down")

    found = ranked(adapter, down, on_failure="keep_order")
    assert [each[:2] for each in found] == [("c", None), ("n", None), ("g", None)]
    assert "the server is down" in found[0][2][KEY]["failure"]
    with pytest.raises(ServerFailed):
        ranked(adapter, down)


def test_impossible_arguments_are_refused_at_once(adapter: Adapter, ranker: MCRanker) -> None:
    with pytest.raises(ConfigError, match="top_n"):
        adapter.make(ranker=ranker, top_n=0)
    for options in ({"no_such_option": 1}, {"deadline": -1}, {"config": {"scale": 5}}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            adapter.make(options=options)
    with pytest.raises(ConfigError, match="are for a ranker that is made here"):
        adapter.make(ranker=ranker, options={"team_size": 2})
    with pytest.raises(ConfigError) as error:
        adapter.make(ranker=ranker, options={"api_key": "sk-secret"})
    assert "sk-secret" not in str(error.value)
    with pytest.raises(ConfigError, match="is no Ranker"):
        adapter.make(ranker="mcranker")


@pytest.mark.parametrize("options", [None, {"team_size": 2, "ledger": None}])
def test_a_copy_made_of_options_makes_its_own_ranker(
    adapter: Adapter, options: dict[str, Any] | None
) -> None:
    made = adapter.make(options=options, top_n=2)
    copy = pickle.loads(pickle.dumps(made))
    assert copy._source is not made._source
    assert copy._source.options == (options or {})
    assert copy._source._made is None
    limits = getattr(copy, "_limits", None)  # PyTerrier's keeps them as they are passed on
    assert (limits["top_n"] if isinstance(limits, dict) else copy.top_n) == 2


def test_a_ranker_that_was_given_is_not_pickled(adapter: Adapter, ranker: MCRanker) -> None:
    with pytest.raises(ConfigError, match="give the arguments of MCRanker as options="):
        pickle.dumps(adapter.make(ranker=ranker))
    # A copy without its options would have another ranker.
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        pickle.dumps(adapter.make(options={"model": ScriptedChat(lambda _: "")}))


def test_only_what_was_made_here_is_closed(
    adapter: Adapter, ranker: MCRanker, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[MCRanker] = []
    close = MCRanker.close

    def noted(self: MCRanker) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(MCRanker, "close", noted)
    adapter.make(ranker=ranker).close()
    assert closed == []
    made = adapter.make(options=scripted_options())
    made.close()  # none was made yet
    assert closed == []
    adapter.rank(made, adapter.few())
    first = made._source.get()
    made.close()
    assert closed == [first]
    assert len(adapter.read(adapter.rank(made, adapter.few()))) == 3
    assert made._source.get() is not first
    made.close()


@pytest.mark.parametrize("extra", IMPORTED)
def test_without_the_library_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, extra: str
) -> None:
    monkeypatch.delitem(sys.modules, f"mcranker.integrations.{extra}", raising=False)
    monkeypatch.setitem(sys.modules, IMPORTED[extra], None)
    with pytest.raises(ImportError) as error:
        import_module(f"mcranker.integrations.{extra}")
    assert str(error.value) == (
        f"mcranker.integrations.{extra} needs {IMPORTED[extra]}: pip install 'mcranker[{extra}]'"
    )
