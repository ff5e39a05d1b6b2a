"""The whole method with scripted models: Eq. 1 to Eq. 4, presets, missing scores, errors."""

from __future__ import annotations

import gc
import json
import pickle
import weakref
from typing import Any

import pytest

from mcranker import (
    CallOptions,
    ChatRequest,
    ConfigError,
    DirectRanker,
    InputError,
    MCRanker,
    Passage,
    RankerConfig,
    RankingDone,
    RGYNRanker,
    ScriptedChat,
    SetwiseConfig,
    SetwiseRanker,
)
from tests.support.scripted import RUBRIC, by_table, scripted

DOCS = {"p1": "one", "p2": "two", "p3": "three", "p4": "four", "p5": "five"}
SCIENTIST = "NLP scientist"
TABLE = {
    #            p1 p2 p3 p4 p5
    SCIENTIST: {"p1": 4, "p2": 9, "p3": 4, "p4": 7, "p5": 0},
    "Virologist": {"p1": 8, "p2": 6, "p3": 8, "p4": 10, "p5": 1},
    "Worried parent": {"p1": 5, "p2": 3, "p3": 5, "p4": 1, "p5": 10},
}


def test_sum_is_the_left_of_equation_4() -> None:
    ranking = MCRanker(team_size=3, model=scripted(by_table(TABLE))).rank("masks", DOCS)

    # p1 4+8+5 = 17, p2 9+6+3 = 18, p3 4+8+5 = 17, p4 7+10+1 = 18, p5 0+1+10 = 11;
    # equal sums stay in first-stage order.
    assert [(hit.doc_id, hit.score) for hit in ranking] == [
        ("p2", 18.0),
        ("p4", 18.0),
        ("p1", 17.0),
        ("p3", 17.0),
        ("p5", 11.0),
    ]
    assert ranking.personas == (SCIENTIST, "Virologist", "Worried parent")
    assert ranking[0].scores == {SCIENTIST: 9, "Virologist": 6, "Worried parent": 3}
    assert [hit.moved for hit in ranking] == [1, 2, -2, -1, 0]


def test_reciprocal_rank_is_the_middle_of_equation_4() -> None:
    ranker = MCRanker(model=scripted(by_table(TABLE)), ensemble="reciprocal_rank")
    ranking = ranker.rank("masks", DOCS)

    # Ranks, the mean for ties:           p1  p2  p3  p4  p5
    #   NLP scientist  4 9 4 7 0    ->    3.5  1  3.5  2  5
    #   Virologist     8 6 8 10 1   ->    2.5  4  2.5  1  5
    #   Worried parent 5 3 5 1 10   ->    2.5  4  2.5  5  1
    tied = 1 / 3.5 + 1 / 2.5 + 1 / 2.5
    expected = {
        "p1": tied,
        "p2": 1 / 1 + 1 / 4 + 1 / 4,
        "p3": tied,
        "p4": 1 / 2 + 1 / 1 + 1 / 5,
        "p5": 1 / 5 + 1 / 5 + 1 / 1,
    }
    assert ranking.ids == ["p4", "p2", "p5", "p1", "p3"]
    assert {hit.doc_id: hit.score for hit in ranking} == pytest.approx(expected, abs=1e-12)


def test_assessor_is_the_right_of_equation_4_and_sees_every_score() -> None:
    seen: dict[str, str] = {}
    finals = {"p1": 3, "p2": 9, "p3": 3, "p4": 10, "p5": 0}

    def assess(request: ChatRequest) -> str:
        seen[request.tag.doc_id] = request.messages[-1].content
        return json.dumps({"Final score": finals[request.tag.doc_id]})

    ranker = MCRanker(model=scripted(by_table(TABLE), assess=assess), ensemble="assessor")
    ranking = ranker.rank("masks", DOCS)

    assert [(hit.doc_id, hit.score) for hit in ranking] == [
        ("p4", 10.0),
        ("p2", 9.0),
        ("p1", 3.0),
        ("p3", 3.0),
        ("p5", 0.0),
    ]
    assert (
        "Expert 1, Virologist: 6 (from 0 to 10)\n"
        "Expert 2, Worried parent: 3 (from 0 to 10)\n"
        "Expert 3, NLP scientist: 9 (from 0 to 10)\n"
    ) in seen["p2"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"team_size": 1}, [SCIENTIST]),
        ({"team_size": 2, "nlp_scientist": False}, ["Virologist", "Worried parent"]),
        ({"team_size": 1, "nlp_scientist": False}, ["Virologist"]),
        ({"team_size": 2}, [SCIENTIST, "Virologist"]),
    ],
)
def test_team_compositions_of_table_1(options: dict[str, Any], names: list[str]) -> None:
    assert list(MCRanker(model=scripted(), **options).rank("q", DOCS).personas) == names


def test_a_recruited_nlp_scientist_is_not_on_the_team_twice() -> None:
    recruit = '{"Identities": ["nlp scientist", "Nurse"], "Reason": ""}'
    ranking = MCRanker(model=scripted(recruit=recruit)).rank("q", DOCS)
    assert ranking.personas == (SCIENTIST, "Nurse")


def test_reference_preset_follows_the_authors_code() -> None:
    seen: dict[str, ChatRequest] = {}

    def answer(request: ChatRequest) -> str:
        seen[f"{request.tag.stage} {request.tag.doc_id}".strip()] = request
        if request.tag.stage == "recruit":
            return '{"Identities": ["Public Health Expert"], "Reason": ""}'
        if request.tag.stage == "criteria":
            return RUBRIC
        return "no score at all" if request.tag.doc_id == "d0" else '{"Score": 4}'

    docs = [
        {"_id": f"d{i}", "title": f"Title {i}", "text": f'says "yes" {i} ' + "word " * 600}
        for i in range(40)
    ]
    ranking = MCRanker(team_size=2, preset="reference", model=ScriptedChat(answer)).rank(
        "BEST Masks", docs
    )

    recruit = seen["recruit"].messages[-1].content
    assert "best masks" in recruit
    assert "BEST" not in recruit
    assert "Title 2. . .says 'yes' 2" in recruit
    assert recruit.count("word") == 512 - 3  # cut to 512 words: says, 'yes', 2, and these
    assert ranking.personas == (SCIENTIST, "public_health_expert")
    assert ranking.missing[0].doc_id == "d0"
    d0 = next(hit for hit in ranking if hit.doc_id == "d0")
    assert d0.score == 10.0  # 5 + 5 stand in for the two unreadable scores
    assert [hit.score for hit in ranking[30:]] == [None] * 10
    assert {value for hit in ranking[30:] for value in hit.scores.values()} == {None}
    assert all(missing.doc_id == "d0" for missing in ranking.missing)
    assert [hit.doc_id for hit in ranking[30:]] == [f"d{i}" for i in range(30, 40)]


def test_library_recruiting_by_constrained_choice() -> None:
    def answer(request: ChatRequest) -> str:
        if request.tag.stage == "recruit":
            assert request.schema is not None
            items = request.schema.schema["properties"]["Identities"]["items"]
            assert "Clinician" in items["enum"]
            return (
                '{"Identities": ["Clinician", "Nobody I know", "Patient"], "Reason": "They know."}'
            )
        return '{"Score": 3}'

    ranker = MCRanker(model=ScriptedChat(answer), recruiting="library", criteria="library")
    ranking = ranker.rank("q", DOCS)
    assert ranking.personas == (SCIENTIST, "Clinician", "Patient")
    assert ranking.usage.calls == 1 + 3 * 5  # the library's rubrics are used
    assert ranking.team is not None
    assert ranking.team.members[1].origin == "library"
    assert ranking.team.members[1].persona.reason == "They know."


def test_bad_input_is_refused_before_any_call() -> None:
    def never(request: ChatRequest) -> str:
        raise AssertionError("no call is due")

    ranker = MCRanker(model=ScriptedChat(never))
    with pytest.raises(InputError, match="the query is empty"):
        ranker.rank("  ", DOCS)
    with pytest.raises(InputError, match="two passages have the id 'x'"):
        ranker.rank("q", [Passage("x", "1"), Passage("x", "2")])
    with pytest.raises(InputError, match="docs is a str"):
        ranker.rank("q", "text")
    with pytest.raises(ConfigError, match="did you mean 'scoring'"):
        MCRanker(scorin="expected")


def test_a_base_url_goes_to_models_of_the_same_prefix_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, str | None]] = []

    def connect(spec: object, **options: Any) -> ScriptedChat:
        asked.append((spec, options["base_url"]))
        return scripted()

    monkeypatch.setattr("mcranker.llm.models.connect", connect)
    url = "http://127.0.0.1:1/v1"
    MCRanker(
        model="openai:a",
        scoring_model="openai:b",
        criteria_model="anthropic:c",
        assessor_model=scripted(),
        base_url=url,
    )
    assert [each[1] for each in asked] == [url, None, url, None]
    assert [each[0] for each in asked][:3] == ["openai:a", "anthropic:c", "openai:b"]


async def test_options_of_a_call_are_those_of_each_query_of_many() -> None:
    ranker = MCRanker(team=["Ann"], criteria="none", model=scripted(), depth=3)
    options: CallOptions = {"top_n": 1, "instruction": "Recent ones."}
    async with ranker:
        one = await ranker.arank("masks", DOCS, **options)
        many = [each.result() async for each in ranker.arank_many([("masks", DOCS)], **options)]
        events = [event async for event in ranker.astream("masks", DOCS, **options)]
        plain = await ranker.arank("masks", DOCS)
    last = events[-1]
    assert isinstance(last, RankingDone)
    for ranking in (one, *many, last.ranking):
        assert (len(ranking), ranking.config["instruction"]) == (1, "Recent ones.")
        assert ranking.config["depth"] == 3
    assert (len(plain), ranker.config.top_n, "instruction" in plain.config) == (5, None, False)


def test_a_ranker_that_is_not_closed_is_dropped() -> None:
    ranker = MCRanker(model=scripted())
    assert len(ranker.rank("masks", DOCS)) == 5
    left = weakref.ref(ranker)
    del ranker
    gc.collect()
    assert left() is None


def test_a_ranker_is_made_again_from_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    ranker = SetwiseRanker(RankerConfig(scale=10), model="openai:m", children=2, ledger=None)
    with ranker, pickle.loads(pickle.dumps(ranker)) as again:
        assert again.config == ranker.config
        assert again.config.model_fields_set == ranker.config.model_fields_set
        assert again.models.names == ranker.models.names


@pytest.mark.parametrize("call", ["arank", "aexplain", "aestimate", "astream", "arank_many"])
def test_another_event_loop_is_refused_in_a_sentence(call: str) -> None:
    with DirectRanker(model=scripted(), ledger=None) as ranker:
        ranking = ranker.rank("masks", DOCS)
        given: Any = {"aexplain": (ranking,), "arank_many": ([("masks", DOCS)],)}
        made = getattr(ranker, call)(*given.get(call, ("masks", DOCS)))
        with pytest.raises(ConfigError, match="asyncio"):  # by hand, as any other loop would
            (made if hasattr(made, "send") else made.__anext__()).send(None)


def test_options_of_another_ranker_are_refused() -> None:
    config = SetwiseConfig(children=2, top_n=3)
    assert SetwiseRanker(config, model=scripted(), ranks=1).config == config.replaced({"ranks": 1})
    assert SetwiseRanker(RankerConfig(top_n=3), model=scripted()).config == SetwiseConfig(top_n=3)
    with pytest.raises(ConfigError, match="SetwiseConfig"):
        MCRanker(config, model=scripted())
    wrong: tuple[dict[str, Any], ...] = ({"children": 2}, {"config": 3})
    for options in wrong:
        with pytest.raises(ConfigError):
            MCRanker(model=scripted(), **options)
    with pytest.raises(ConfigError, match="takes no team"):
        RGYNRanker(model=scripted(), team="clinician")
