"""Contracts of every ranker, from tables: rankings by hand, odd replies, refusals.

A new ranker is an entry of `ENTRIES`.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker import (
    Answer,
    BudgetExceeded,
    Capabilities,
    ChatReply,
    ChatRequest,
    ConfigError,
    FormNotKept,
    PassagesCompared,
    PassageScored,
    Query,
    Ranker,
    Ranking,
    RankingDone,
    RankingStarted,
    ReplyError,
    ScriptedChat,
    ServerFailed,
    UnsupportedCapability,
)
from mcranker.rankers import RANKERS
from personas import Team, library
from tests.mcranker.replies import test_orders
from tests.support.comparing import best, in_order, shown_in

PLAIN = Capabilities(json_schema=True)
TEAM = Team(members=library.team("health_questions").members[:2])
SCIENTIST = TEAM.members[0].name
OF_TEAMS: list[dict[str, Any]] = [
    *({"team_size": 3}, {"require": ("x",)}, {"criteria": "library"}, {"dataset": "papers"}),
    *({"example_rank": 3}, {"snake_case_personas": True}),
]
JUDGED = {"team": TEAM, "criteria": "library"}
DOCS = {"a": "text 1", "b": "text 2", "c": "text 3"}

Said = Sequence[tuple[Any, float | None]]
"""Replies about one passage: what is said, and the score that this is, None if it is none."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """How a ranker is tried.

    Attributes:
        by_hand: takes a request about passages whose texts end with a number, and answers it.
        expected: document -> score of `DOCS`, best first; None for a ranker that gives none.
        malformed: replies, if each is about one passage; others are tried in
            `tests.mcranker.replies.test_orders`.
        reply: from what is said to a reply.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    offers: Capabilities = PLAIN
    by_hand: Callable[[ChatRequest], Any]
    expected: Mapping[str, float | None]
    malformed: Said = ()
    reply: Callable[[Any], ChatReply] = ChatReply


def grade(request: ChatRequest) -> int:
    (number,) = re.findall(r"(?:^|: )text (\d)$", request.messages[-1].content, re.MULTILINE)
    return int(number)


def scored(value: int) -> str:
    return json.dumps({"Score": value})


def labelled(listed: Mapping[str, float] | None) -> ChatReply:
    return ChatReply("", label_logprobs=listed)


def likely(**p: float) -> dict[str, float]:
    return {label.strip("_"): math.log(each) for label, each in p.items()}


def followed(listed: tuple[float, ...] | None) -> ChatReply:
    return ChatReply("", continuation_logprobs=listed)


def relevant(request: ChatRequest) -> ChatReply:
    assert request.state is not None
    texts = [request.state.passages[question.passage] for question in request.questions]
    return ChatReply("", answers=tuple(Answer(int(text[-1]) / 4) for text in texts))


NOTHING = [
    *("", " ", "{", "}", "[]", "null", "I cannot say.", '{"Score": null}', '{"Score": "high"}'),
    *('{"Score": 11}', '{"Score": -1}', '{"Score": {}}', '{"Score": [', "\x00", "\ud800", "🤷"),
]
PROSE: Said = [
    ('{"Score": 4}', 4.0),
    (' {"Score":10}\n', 10.0),
    ('```json\n{"Score": 0}\n```', 0.0),
    *((each, None) for each in NOTHING),
]
TOKENS: Said = [
    ((-1.0, -3.0), math.exp(-2)),
    ((-1.0, -math.inf), 0.0),
    *((each, None) for each in (None, (), (-1.0, math.nan), (0.5,), (math.inf, -1.0))),
]


def of_labels(low: str, high: str, third: float) -> Said:
    """Probabilities of labels; `third` is the score where the higher one has 0.1 of 0.3."""
    none = [None, {}, {"": -0.1, "Maybe": -0.1}, {low: -math.inf, high: math.nan}]
    listed = {low: math.log(0.2), high: math.log(0.1), "yes!": math.nan}
    return [(listed, third), *((each, None) for each in none)]


ENTRIES = {
    "mcranker": Entry(
        options=JUDGED,
        # The scientist says 2g, the other 9 - 3g; their sum is 9 - g.
        by_hand=lambda request: scored(
            2 * grade(request) if request.tag.persona == SCIENTIST else 9 - 3 * grade(request)
        ),
        expected={"a": 8, "b": 7, "c": 6},
        malformed=PROSE,
    ),
    "direct": Entry(
        by_hand=lambda request: scored(10 - 3 * grade(request)),
        expected={"a": 7, "b": 4, "c": 1},
        malformed=PROSE,
    ),
    "rg_yn": Entry(
        offers=Capabilities(label_logprobs=True),
        by_hand=lambda request: labelled(likely(Yes=grade(request) / 10, No=0.1)),  # g / (g + 1)
        expected={"c": 3 / 4, "b": 2 / 3, "a": 1 / 2},
        malformed=of_labels("No", "Yes", 1 / 3),
        reply=labelled,
    ),
    "p_yes": Entry(
        offers=Capabilities(label_logprobs=True),
        by_hand=lambda request: labelled(likely(Yes=grade(request) / 10, No=0.1)),
        expected={"c": 0.3, "b": 0.2, "a": 0.1},
        malformed=of_labels("No", "Yes", 0.1),
        reply=labelled,
    ),
    "rankrag": Entry(
        offers=Capabilities(label_logprobs=True),
        by_hand=lambda request: labelled({"True": math.log(grade(request) / 10), "False": -1}),
        expected={"c": 0.3, "b": 0.2, "a": 0.1},
        malformed=of_labels("False", "True", 0.1),
        reply=labelled,
    ),
    "rg_s": Entry(
        offers=Capabilities(label_logprobs=True),
        # 0 and g are as likely as each other: g / 2
        by_hand=lambda request: labelled({"0": -1.0, str(grade(request)): -1.0}),
        expected={"c": 1.5, "b": 1.0, "a": 0.5},
        malformed=of_labels("0", "4", 4 / 3),
        reply=labelled,
    ),
    "qg": Entry(
        offers=Capabilities(continuation_logprobs=True),
        by_hand=lambda request: followed((-1.0 * grade(request), -3.0 * grade(request))),
        expected={"a": math.exp(-2), "b": math.exp(-4), "c": math.exp(-6)},
        malformed=TOKENS,
        reply=followed,
    ),
    "rerank": Entry(
        offers=Capabilities(max_questions=2, prompts=False),
        by_hand=relevant,
        expected={"c": 0.75, "b": 0.5, "a": 0.25},
    ),
    "rankgpt": Entry(
        options={"window": 2, "step": 1},
        by_hand=in_order,  # a [b c] -> a c b; [a c] b -> c a b
        expected={"c": None, "a": None, "b": None},
    ),
    "setwise": Entry(
        options={"ranks": 2}, by_hand=best, expected={"c": None, "b": None, "a": None}
    ),
    "rebel": Entry(
        # Relevance g, and 1 for each of five properties of weight 0.5: g + 2.5; a is dropped.
        options={"top_n": None, "min_relevance_score": 2},
        by_hand=lambda request: json.dumps(
            {
                "Passages": {
                    number: {"Relevance": int(text[-1]), **{f"P{each}": 1 for each in range(1, 6)}}
                    for number, text in shown_in(request).items()
                }
            }
        ),
        expected={"c": 5.5, "b": 4.5},
    ),
}
TRIED_ELSEWHERE = {
    *(kind.name for kind, _ in test_orders.RANKERS),
    "rebel",  # tests.mcranker.replies.test_windows
}


UNEXPLAINED = ("qg", "rerank")


def made(name: str, model: Any, **options: Any) -> Ranker:
    make: Any = RANKERS.get(name)
    ranker: Ranker = make(model=model, **{"ledger": None, **options})
    return ranker


def test_every_ranker_is_tried() -> None:
    for name in RANKERS._builtin:
        assert name in ENTRIES, (
            f"ranker {name!r} has no entry in ENTRIES of {__file__}: add a ranking computed by "
            "hand, and what malformed replies of its form look like"
        )
        assert ENTRIES[name].malformed or name == "rerank" or name in TRIED_ELSEWHERE, (
            f"no malformed replies are tried with ranker {name!r}: give its entry malformed=, or "
            "add it to RANKERS of tests/mcranker/replies/test_orders.py"
        )
    assert ENTRIES.keys() <= set(RANKERS._builtin)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_ranking_by_hand(name: str) -> None:
    entry = ENTRIES[name]
    model = ScriptedChat(entry.by_hand, capabilities=entry.offers)
    with made(name, model, **entry.options) as ranker:
        ranking = ranker.rank("masks", DOCS)
    assert ranking.ids == list(entry.expected)
    for hit in ranking:
        assert hit.score == pytest.approx(entry.expected[hit.doc_id])
    assert not ranking.missing
    assert ranking.usage.calls > 0


def told(name: str, **options: Any) -> tuple[Ranker, list[ChatRequest]]:
    """The ranker of an entry, and the requests that its model got."""
    entry, asked = ENTRIES[name], list[ChatRequest]()

    def answer(request: ChatRequest) -> Any:
        asked.append(request)
        return entry.by_hand(request)

    model = ScriptedChat(answer, capabilities=entry.offers)
    return made(name, model, **{**entry.options, **options}), asked


@pytest.mark.parametrize("name", ENTRIES)
def test_the_ledger_answers_again_and_the_budget_holds(name: str, tmp_path: Path) -> None:
    ranker, asked = told(name, ledger=tmp_path / "ledger.db")
    with ranker:
        estimated = ranker.estimate("masks", DOCS)
        assert not asked
        first, calls = ranker.rank("masks", DOCS), len(asked)
        again = ranker.rank("masks", DOCS)
        known = ranker.estimate("masks", DOCS)
    assert estimated.calls >= first.usage.calls == calls == len(asked) > 0
    assert (again.usage.calls, again.reused.calls, again.ids) == (0, calls, first.ids)
    assert known.calls < estimated.calls
    ranker, asked = told(name, max_calls=calls - 1)
    with ranker, pytest.raises(BudgetExceeded):
        ranker.rank("masks", DOCS)
    assert len(asked) < calls


@pytest.mark.parametrize("name", ENTRIES)
def test_equal_passages_are_judged_once_and_those_beyond_depth_follow(name: str) -> None:
    ranker, asked = told(name, depth=4)
    with ranker:
        alone, calls = ranker.rank("masks", DOCS), len(asked)
        docs = DOCS | {"again": "text 2", "beyond": "text 9"}
        ranking = ranker.rank("masks", docs)
        assert len(asked) == 2 * calls
        assert ranker.rank("masks", {}).ids == []
    place = alone.ids.index("b") + 1
    assert ranking.ids == [*alone.ids[:place], "again", *alone.ids[place:], "beyond"]
    assert ranking[place].score == ranking[place - 1].score
    assert (ranking.ids[-1], ranking[-1].score) == ("beyond", None)
    assert not ranking.missing


@pytest.mark.parametrize("name", ENTRIES)
def test_a_ranking_reads_back_as_it_was(name: str) -> None:
    with told(name)[0] as ranker:
        ranking = ranker.rank(Query("masks", "q1"), DOCS)
    again = Ranking.from_dict(json.loads(ranking.to_json()))
    assert again.to_dict() == ranking.to_dict()
    assert list(again) == list(ranking)
    assert (again.comparisons, again.windows) == (ranking.comparisons, ranking.windows)
    assert [line.split()[2] for line in again.to_trec().splitlines()] == ranking.ids


@pytest.mark.parametrize("name", ENTRIES)
def test_a_model_that_is_down_is_an_error_or_keeps_the_order(name: str) -> None:
    def down(_: ChatRequest) -> str:
        raise ServerFailed("down for today")

    entry = ENTRIES[name]
    model = ScriptedChat(down, capabilities=entry.offers)
    with made(name, model, **entry.options) as ranker, pytest.raises(ServerFailed):
        ranker.rank("masks", DOCS)
    with made(name, model, on_failure="keep_order", **entry.options) as ranker:
        ranking = ranker.rank("masks", DOCS)
    assert (ranking.ids, "down for today" in ranking.failure) == (list(DOCS), True)
    assert all(hit.score is None for hit in ranking)


@pytest.mark.parametrize("name", ENTRIES)
async def test_events_and_the_deadline(name: str) -> None:
    ranker, _ = told(name)
    async with ranker, ranker.astream("masks", DOCS) as stream:
        events = [event async for event in stream]
    assert isinstance(events[0], RankingStarted)
    assert isinstance(events[-1], RankingDone)
    steps = [each for each in events if isinstance(each, PassageScored | PassagesCompared)]
    assert all(former.done < later.done for former, later in pairwise(steps))
    assert all(each.done <= each.total for each in steps)

    async def silent(_: ChatRequest) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    entry = ENTRIES[name]
    model = ScriptedChat(silent, capabilities=entry.offers)
    async with made(name, model, deadline=0.05, **entry.options) as ranker:
        ranking = await ranker.arank("masks", DOCS)
    assert (ranking.ids, ranking.partial) == (list(DOCS), True)


@pytest.mark.parametrize("name", ENTRIES)
def test_reasons_for_what_each_judge_gave_or_an_error_that_says_why_there_are_none(
    name: str,
) -> None:
    entry, asked = ENTRIES[name], list[ChatRequest]()

    def answer(request: ChatRequest) -> Any:
        if request.tag.stage != "explain":
            return entry.by_hand(request)
        asked.append(request)
        said = {"Quote": "", "Reason": f"{request.tag.persona} says"}
        return json.dumps({"Passages": {str(number): said for number in range(1, 4)}})

    with made(name, ScriptedChat(answer, capabilities=entry.offers), **entry.options) as ranker:
        ranking = ranker.rank("masks", DOCS)
        if name in UNEXPLAINED:
            with pytest.raises(ConfigError, match="gives no reasons"):
                ranker.explain(ranking)
            return
        planned = ranker.estimate("masks", DOCS, reasons=10).calls
        planned -= ranker.estimate("masks", DOCS).calls
        explained = ranker.explain(ranking)
    judges = ranking.personas or (name,)
    for hit in explained:
        assert {judge: each.text for judge, each in hit.reasons.items()} == {
            judge: f"{judge} says" for judge in judges
        }
    assert planned == len(asked) == len(judges)
    for member in ranking.team.members if ranking.team else ():
        for criterion in member.rubric.criteria if member.rubric else ():
            assert any(criterion.name in each.messages[-1].content for each in asked)


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.malformed])
def test_malformed_replies_shift_and_invent_nothing(name: str) -> None:
    entry, rng = ENTRIES[name], random.Random(5)
    meant: dict[tuple[str, str], float | None] = {}

    def answer(request: ChatRequest) -> ChatReply:
        said, meant[request.tag.doc_id, request.tag.persona] = rng.choice(entry.malformed)
        return entry.reply(said)

    model = ScriptedChat(answer, capabilities=entry.offers)
    with made(name, model, repair_attempts=0, **entry.options) as ranker:
        for _ in range(40):
            meant.clear()
            docs = {str(place): f"text {place}" for place in range(rng.randint(1, 6))}
            ranking = ranker.rank("masks", docs)
            assert sorted(ranking.ids) == sorted(docs)
            assert len(meant) == len(docs) * len(ranking.personas)
            for hit in ranking:
                for judge, value in hit.scores.items():
                    said = meant[hit.doc_id, judge]
                    assert value == (None if said is None else pytest.approx(said))
                    assert (judge in hit.missing) == (value is None)


COMPARING: Mapping[str, tuple[str, Mapping[str, Any], Capabilities, Any]] = {
    "rankgpt": ("rankgpt", {"window": 4, "step": 2}, PLAIN, in_order),
    "setwise": ("setwise", {"ranks": 3}, PLAIN, best),
    "setwise by pairs": ("setwise", {"ranks": 3, "children": 1}, PLAIN, best),
}
"""Ranker, options, what the model offers, and what it answers if it makes no error."""
FALLING = {f"d{grade}": f"text {grade}" for grade in range(12, 0, -1)}
RISING = {f"d{grade}": f"text {grade}" for grade in range(1, 13)}


@pytest.mark.parametrize("label", COMPARING)
def test_every_way_to_compare_finds_the_first_ranks_within_its_estimate(
    label: str, tmp_path: Path
) -> None:
    name, options, offers, answer = COMPARING[label]
    model = ScriptedChat(answer, capabilities=offers)
    for docs in (RISING, FALLING):
        with made(name, model, **options) as ranker:
            ranking = ranker.rank("masks", docs)
            estimated = ranker.estimate("masks", docs).calls
        # A single pass of windows of 4 by steps of 2 finds two ranks.
        found = 2 if label.startswith("rankgpt") else 3
        assert ranking.ids[:found] == ["d12", "d11", "d10"][:found]
        assert 0 < ranking.usage.calls <= estimated
        if label.startswith("rankgpt"):
            assert ranking.usage.calls == estimated
        sorted_out = ranking.undecided[0][0] - 1 if ranking.undecided else len(docs)
        assert sorted_out == options.get("ranks", len(docs))
        again = Ranking.from_dict(json.loads(ranking.to_json()))
        assert (again.undecided, again.comparisons) == (ranking.undecided, ranking.comparisons)
        make: Any = RANKERS.get(name)
        with make(model=model, ledger=tmp_path / "ledger.db", **options) as ranker:
            assert ranker.estimate("masks", docs).calls >= ranking.usage.calls


@pytest.mark.parametrize("label", COMPARING)
def test_a_failed_reply_moves_no_passage_against_the_first_stage(label: str) -> None:
    """The first stage is right, and so are the replies, but for some that cannot be read."""
    name, options, offers, answer = COMPARING[label]
    rng = random.Random(label)

    def at_times(request: ChatRequest) -> Any:
        if rng.random() < 0.3:
            return labelled({}) if request.labels else "I would rather not say."
        return answer(request)

    failed = 0
    for _ in range(12):
        model = ScriptedChat(at_times, capabilities=offers)
        with made(name, model, repair_attempts=0, on_failure="keep_order", **options) as ranker:
            ranking = ranker.rank("masks", FALLING)
        assert ranking.ids == list(FALLING)
        if ranking.comparisons is not None:
            failed += ranking.comparisons.failed
    assert failed > 12


HOPELESS = {
    **{label: (name, options, PLAIN) for label, (name, options, _, _) in COMPARING.items()},
    "mcranker": ("mcranker", JUDGED, PLAIN),
    "mcranker, packed": ("mcranker", {**JUDGED, "passages_per_call": 10}, PLAIN),
    "direct": ("direct", {}, PLAIN),
    "direct, packed": ("direct", {"passages_per_call": 10}, PLAIN),
    "rebel": ("rebel", {}, PLAIN),
}


@pytest.mark.parametrize("label", HOPELESS)
def test_a_judge_that_does_not_keep_the_form_is_given_up(label: str) -> None:
    """Of 100 passages. Windows of 10 are asked, and one of them in halves; each call twice.

    Comparisons: 3 calls. Scores: 10 calls a judge. Windows: 10, and then 5, 3, 2 and 1 of the
    first.
    """
    name, options, offers = HOPELESS[label]
    docs = [f"text {number}" for number in range(100)]
    seen: list[ChatRequest] = []

    def answer(request: ChatRequest) -> str:
        seen.append(request)
        return "They are all about masks."

    concurrency = 10
    model = ScriptedChat(answer, capabilities=offers)
    with (
        made(name, model, concurrency=concurrency, **options) as ranker,
        pytest.raises(ReplyError) as caught,
    ):
        ranker.rank("masks", docs)
    most = {"mcranker": 2 * 2 * 20, "direct": 2 * 20, "setwise": 8}
    assert len(seen) <= most.get(label, 2 * 14)
    if name != "rankgpt":
        assert isinstance(caught.value, FormNotKept)
        assert "stopped: 0 of" in str(caught.value)
    with made(name, model, concurrency=concurrency, on_failure="keep_order", **options) as ranker:
        ranking = ranker.rank("masks", docs, top_n=100)
    assert [hit.passage.text for hit in ranking] == docs
    assert ranking.failure


COMPARERS = ("rankgpt", "setwise")
OF_SCORES = {"scoring": "expected", "first_stage_weight": 0.5, "min_relevance": 0.5}
ABLE = Capabilities(label_logprobs=True, continuation_logprobs=True)
REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    *((name, {option: OF_SCORES[option]}) for name in COMPARERS for option in OF_SCORES),
    *((name, {"ensemble": "reciprocal_rank"}) for name in ("direct", "rg_s", "qg", "rerank")),
    *((name, {"ensemble": "assessor"}) for name in COMPARERS),
    ("rg_s", {"labels": ("A", "B"), "scale": 3}),
    *((name, {"scale": 5}) for name in ("rebel", "rg_yn", "qg", "rerank", "p_yes")),
    *((name, {"scoring": "integer"}) for name in ("rerank", "rg_yn", "rg_s", "rankrag")),
    *((name, {"scoring": "peak"}) for name in ("rg_yn", "qg")),
    ("rankrag", {"labels": ("No", "Yes")}),
    *((name, {"questions": "per_persona", "scoring": "expected"}) for name in ("rg_yn", "qg")),
    *((name, {"labels": ("A", "B"), "scoring": "expected"}) for name in ("rg_yn", "qg")),
    *(("setwise", {"ranks": ranks}) for ranks in (0, 1.5)),
    *(("rankgpt", {"window": window}) for window in (1, 101)),
    ("rankgpt", {"step": 20}),
    ("rankgpt", {"criteria_model": "openai:m"}),
    ("setwise", {"children": 26}),
    ("direct", {"scoring": "per_criterion"}),
    ("rebel", {"variant": "three_turn"}),
    ("rebel", {"team": "clinician"}),
    ("rebel", {"criteria_model": "openai:m"}),
    ("rebel", {"variant": None}),
    ("rebel", {"window": 0}),
    ("rebel", {"min_relevance_score": 11}),
    ("rebel", {"scoring": "expected"}),
    ("rebel", {"passages_per_call": 5}),
    ("rg_yn", {"assessor_model": "openai:m"}),
    ("mcranker", {"windw": 3}),
    ("direct", {"criteria_model": "openai:m"}),
    *((name, {"team": "clinician"}) for name in COMPARERS),
    *product(("direct", "rebel", "rerank", "rg_s", *COMPARERS), OF_TEAMS),
)


@pytest.mark.parametrize(("name", "options"), REFUSED)
def test_impossible_options_are_refused_before_any_call(name: str, options: dict[str, Any]) -> None:
    def never(_: ChatRequest) -> str:
        raise AssertionError("no call is due")

    with (
        pytest.raises(ConfigError) as refused,
        made(name, ScriptedChat(never, capabilities=ABLE), **options) as ranker,
    ):
        ranker.rank("masks", DOCS)
    assert any(option in str(refused.value) for option in options)


@pytest.mark.parametrize("name", [*COMPARERS, "rebel", "rg_yn", "rg_s"])
def test_a_model_that_answers_no_prompts_is_refused(name: str) -> None:
    model = ScriptedChat(lambda _: "", capabilities=Capabilities(prompts=False, max_questions=9))
    with pytest.raises(UnsupportedCapability, match=name):
        made(name, model)
