"""What every ranker keeps, from tables: rankings by hand, local models, odd replies, refusals.

A new ranker is an entry of `ENTRIES`.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from beir_eval import load
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
from personas import Criterion, Member, Persona, Rubric, Team, library
from personas.ranking.record import RankingRecord
from personas.report.warnings import warnings
from tests.mcranker.replies import test_orders
from tests.support.comparing import best, in_order, shown_in
from tests.support.scale import scaled
from tests.support.shallow_model import FULL, shallow_model

__all__ = ["shallow_model"]

CASES = 500
PLAIN = Capabilities(json_schema=True)
TEAM = Team(members=library.team("health_questions").members[:2])
SCIENTIST = TEAM.members[0].name
JUDGED = {"team": TEAM, "criteria": "library"}
DOCS = {"a": "text 1", "b": "text 2", "c": "text 3"}

Noise = Callable[[random.Random], tuple[Any, float | None]]


class Unclear(float):
    """The value of a reply of which a reader may make a score, or none."""


UNCLEAR = Unclear(math.nan)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """How a ranker is tried.

    Attributes:
        options: of the ranker.
        offers: what the scripted model offers.
        by_hand: takes a request about passages whose texts end with a number, and answers it.
        expected: document -> score of `DOCS`, best first; None for a ranker that gives none.
        top: the highest score.
        malformed: makes a reply about one passage: what is said, and the score that this is, None
            if it is none, `UNCLEAR` if it may be either. None for rankers whose malformed replies
            are tried in `tests.mcranker.replies.test_orders`, or many to a call.
        reply: from what is said to a reply.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    offers: Capabilities = PLAIN
    by_hand: Callable[[ChatRequest], Any]
    expected: Mapping[str, float | None]
    top: float = 10
    malformed: Noise | None = None
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


def prose(rng: random.Random) -> tuple[str, float | None]:
    """What should be an object with a score from 0 to 10."""
    if rng.random() < 0.3:
        value = rng.randint(0, 10)
        form = rng.choice(['{"Score": %d}', ' {"Score":%d}\n', '```json\n{"Score": %d}\n```'])
        return form % value, float(value)
    none = [
        *("", " ", "{", "}", "[]", "null", "I cannot say.", '{"Score": null}', '{"Score": "high"}'),
        *('{"Score": 11}', '{"Score": -1}', '{"Score": {}}', '{"Score": [', "\x00", "\ud800", "🤷"),
    ]
    if rng.random() < 0.5:
        return rng.choice(none), None
    pieces = ['{"Score": ', "7", "3", "}", "{", '"', "Score", ": ", "NaN", "1e999", ",", "/10"]
    return "".join(rng.choices(pieces, k=rng.randint(1, 12))), UNCLEAR


def logprobs(rng: random.Random) -> float:
    odd = [math.nan, math.inf, -math.inf, 0.0, 1e308, -1e308, 5.0]
    return rng.choice(odd) if rng.random() < 0.4 else -rng.expovariate(0.3)


def labels_of(*labels: str, peak: bool = False) -> Noise:
    """What should be probabilities of labels: the i-th counts i, or the last of two alone."""

    def malformed(rng: random.Random) -> tuple[Any, float | None]:
        if rng.random() < 0.3:
            masses = [rng.random() for _ in labels]
            mean = sum(place * mass for place, mass in enumerate(masses)) / sum(masses)
            listed = dict(zip(labels, map(math.log, masses), strict=True))
            return listed, masses[-1] if peak else mean
        unknown = {name: logprobs(rng) for name in rng.choices(["", "Maybe", "yes!", "99"], k=2)}
        if rng.random() < 0.5:
            nothing = {label: rng.choice([math.nan, math.inf, -math.inf]) for label in labels}
            return rng.choice([None, {}, unknown, nothing]), None
        known = {label: logprobs(rng) for label in rng.choices(labels, k=2)}
        return unknown | known, UNCLEAR

    return malformed


def tokens(rng: random.Random) -> tuple[Any, float | None]:
    """What should be the log-probabilities of the query's tokens."""
    good = [-rng.expovariate(0.3) for _ in range(rng.randint(1, 5))]
    if rng.random() < 0.3:
        return tuple(good), math.exp(sum(good) / len(good))
    if rng.random() < 0.1:
        return (*good, -math.inf), 0.0
    odd = (*good, rng.choice([math.nan, math.inf, 0.5, 1e308]))
    return rng.choice([None, (), odd, odd[::-1]]), None


ENTRIES = {
    "mcranker": Entry(
        options=JUDGED,
        # The scientist says 2g, the other 9 - 3g; their sum is 9 - g.
        by_hand=lambda request: scored(
            2 * grade(request) if request.tag.persona == SCIENTIST else 9 - 3 * grade(request)
        ),
        expected={"a": 8, "b": 7, "c": 6},
        malformed=prose,
    ),
    "direct": Entry(
        by_hand=lambda request: scored(10 - 3 * grade(request)),
        expected={"a": 7, "b": 4, "c": 1},
        malformed=prose,
    ),
    "rg_yn": Entry(
        offers=Capabilities(label_logprobs=True),
        by_hand=lambda request: labelled(likely(Yes=grade(request) / 10, No=0.1)),  # g / (g + 1)
        expected={"c": 3 / 4, "b": 2 / 3, "a": 1 / 2},
        top=1,
        malformed=labels_of("No", "Yes"),
        reply=labelled,
    ),
    "p_yes": Entry(
        offers=Capabilities(label_logprobs=True),
        by_hand=lambda request: labelled(likely(Yes=grade(request) / 10, No=0.1)),
        expected={"c": 0.3, "b": 0.2, "a": 0.1},
        top=1,
        malformed=labels_of("No", "Yes", peak=True),
        reply=labelled,
    ),
    "rankrag": Entry(
        offers=Capabilities(label_logprobs=True),
        by_hand=lambda request: labelled({"True": math.log(grade(request) / 10), "False": -1}),
        expected={"c": 0.3, "b": 0.2, "a": 0.1},
        top=1,
        malformed=labels_of("False", "True", peak=True),
        reply=labelled,
    ),
    "rg_s": Entry(
        offers=Capabilities(label_logprobs=True),
        # 0 and g are as likely as each other: g / 2
        by_hand=lambda request: labelled({"0": -1.0, str(grade(request)): -1.0}),
        expected={"c": 1.5, "b": 1.0, "a": 0.5},
        top=4,
        malformed=labels_of("0", "1", "2", "3", "4"),
        reply=labelled,
    ),
    "qg": Entry(
        offers=Capabilities(continuation_logprobs=True),
        by_hand=lambda request: followed((-1.0 * grade(request), -3.0 * grade(request))),
        expected={"a": math.exp(-2), "b": math.exp(-4), "c": math.exp(-6)},
        top=1,
        malformed=tokens,
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
    assert (again.comparisons, again.windows, again.orders) == (
        *(ranking.comparisons, ranking.windows, ranking.orders),
    )
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
    judges = ranking.judges or (name,)
    for hit in explained:
        assert {judge: each.text for judge, each in hit.reasons.items()} == {
            judge: f"{judge} says" for judge in judges
        }
    assert planned == len(asked) == len(judges)
    for member in ranking.team.members if ranking.team else ():
        for criterion in member.rubric.criteria if member.rubric else ():
            assert any(criterion.name in each.messages[-1].content for each in asked)


SHORT = {"scoring": "integer", "max_score_tokens": 24}
LISTED = {"max_score_tokens": 8, "repair_attempts": 0}
LOCAL: tuple[tuple[str, Mapping[str, Any], bool], ...] = (
    ("mcranker", {**JUDGED, **SHORT}, True),
    ("rg_yn", {}, False),
    ("rankgpt", LISTED, True),
    ("setwise", {"ranks": 1, "children": 1}, False),
    ("rebel", {"top_n": None, "min_relevance_score": 0, "max_score_tokens": 600}, True),
)
"""Ranker, options, and whether a model that means nothing will do: it answers in no time."""


@pytest.mark.local_model
@pytest.mark.parametrize(("name", "options", "shallow"), LOCAL)
def test_a_local_model_ranks_a_query_of_the_mini_collection(
    name: str, options: Mapping[str, Any], shallow: bool, shallow_model: Path
) -> None:
    pytest.importorskip("xllamacpp")
    data = load("mini")
    query, text = next(iter(data.queries.items()))
    docs = {each: data.corpus[each].text for each in list(data.qrels[query])[:2]}
    model = f"local:{shallow_model if shallow else FULL}"
    short = {"max_passage_words": 12, "on_failure": "keep_order", **options}
    with made(name, model, **short) as ranker:
        ranking = ranker.rank(text, docs)
        estimated = ranker.estimate(text, docs).calls
    assert sorted(ranking.ids) == sorted(docs)
    assert not ranking.missing
    assert 0 < ranking.usage.calls <= estimated
    assert ranking.usage.input_tokens > 0
    assert ("no list of numbers" in ranking.failure) == (options is LISTED)
    most = 10 + 5 * 0.5 * 5 if name == "rebel" else ranker.config.top
    assert all(0 <= score <= most for score in ranking.matrix.flat)


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.malformed])
def test_malformed_replies_shift_and_invent_nothing(name: str) -> None:
    entry, rng = ENTRIES[name], random.Random(5)
    assert entry.malformed is not None
    noise, meant, replies = entry.malformed, {}, 0

    def answer(request: ChatRequest) -> ChatReply:
        nonlocal replies
        replies += 1
        said, meant[request.tag.doc_id, request.tag.persona] = noise(rng)
        return entry.reply(said)

    model = ScriptedChat(answer, capabilities=entry.offers)
    with made(name, model, repair_attempts=0, **entry.options) as ranker:
        while replies < scaled(CASES):
            meant.clear()
            docs = {str(place): f"text {place}" for place in range(rng.randint(1, 6))}
            ranking = ranker.rank("masks", docs)
            assert sorted(ranking.ids) == sorted(docs)
            assert len(meant) == len(docs) * len(ranking.personas)
            for hit in ranking:
                for judge, value in hit.scores.items():
                    check(value, meant[hit.doc_id, judge], entry.top)
                    assert (judge in hit.missing) == (value is None)


def check(value: float | None, meant: float | None, top: float) -> None:
    """A score is what was said; where that is unclear, it is on the scale, or none."""
    if isinstance(meant, Unclear):
        assert value is None or 0 <= value <= top
    elif meant is None:
        assert value is None
    else:
        assert value == pytest.approx(meant)


COMPARING: Mapping[str, tuple[str, Mapping[str, Any], Capabilities, Any]] = {
    "rankgpt": ("rankgpt", {"window": 4, "step": 2}, PLAIN, in_order),
    "rankgpt, two passes": ("rankgpt", {"window": 4, "step": 2, "passes": 2}, PLAIN, in_order),
    "setwise": ("setwise", {"ranks": 3}, PLAIN, best),
    "setwise by bubbles": ("setwise", {"ranks": 3, "sort": "bubble"}, PLAIN, best),
    "setwise by pairs": ("setwise", {"ranks": 3, "children": 1}, PLAIN, best),
    "setwise by bubbles of pairs": (
        "setwise",
        {"ranks": 3, "children": 1, "sort": "bubble"},
        PLAIN,
        best,
    ),
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
    for _ in range(40):
        model = ScriptedChat(at_times, capabilities=offers)
        with made(name, model, repair_attempts=0, on_failure="keep_order", **options) as ranker:
            ranking = ranker.rank("masks", FALLING)
        assert ranking.ids == list(FALLING)
        if ranking.comparisons is not None:
            failed += ranking.comparisons.failed
    assert failed > 40


@pytest.mark.parametrize("label", COMPARING)
def test_a_model_that_goes_by_place_alone_looks_like_what_it_is(label: str) -> None:
    """It names the first place first, whatever stands there."""
    name, options, offers, _ = COMPARING[label]

    def answer(request: ChatRequest) -> Any:
        names = list(shown_in(request))
        return " > ".join(names) if name == "rankgpt" else names[0]

    with made(name, ScriptedChat(answer, capabilities=offers), **options) as ranker:
        ranking = ranker.rank("masks", RISING)
    counts = ranking.comparisons
    assert counts is not None
    assert counts.as_shown == counts.asked
    assert not counts.failed
    page = "".join(each.sentence for each in warnings(RankingRecord.of(ranking.to_dict())))
    assert "the model may go by place alone" in page


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
        assert "is given up, as 0 of" in str(caught.value)
    with made(name, model, concurrency=concurrency, on_failure="keep_order", **options) as ranker:
        ranking = ranker.rank("masks", docs, top_n=100)
    assert [hit.passage.text for hit in ranking] == docs
    assert ranking.failure


@pytest.mark.parametrize("label", ["setwise", "direct"])
def test_one_readable_reply_is_not_enough_to_go_on_for_ever(label: str) -> None:
    """The eleventh that cannot be read for the one that can is the last; each is asked twice."""
    name, options, offers = HOPELESS[label]
    seen: list[ChatRequest] = []

    def answer(request: ChatRequest) -> str:
        seen.append(request)
        if len(seen) > 1:
            return "They are all about masks."
        return scored(4) if name == "direct" else "B"

    docs = {f"d{number}": f"text {number}" for number in range(100)}
    with made(name, ScriptedChat(answer, capabilities=offers), concurrency=1, **options) as ranker:
        ranking = ranker.rank("masks", docs)
    assert 1 + 2 * 11 <= len(seen) <= 1 + 2 * 12
    if name == "direct":
        assert len(ranking.missing) == 99
        assert "is given up, as 1 of 12 replies" in ranking.missing[-1].reason
    else:
        assert ranking.comparisons is not None
        assert ranking.comparisons.asked - ranking.comparisons.failed == 1
        # The first reply alone has moved a passage.
        assert len([hit for hit in ranking if hit.moved > 1]) <= 1


COMPARERS = ("rankgpt", "setwise")
FORTY_ONE = Rubric(criteria=tuple(Criterion(name=f"C{n}", weight=1) for n in range(41)))
PEDANT = Member(persona=Persona(name="Pedant"), rubric=FORTY_ONE)
OF_SCORES = {"scoring": "expected", "first_stage_weight": 0.5, "min_relevance": 0.5}
ABLE = Capabilities(label_logprobs=True, continuation_logprobs=True)
REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    *((name, {option: OF_SCORES[option]}) for name in COMPARERS for option in OF_SCORES),
    *((name, {"ensemble": "reciprocal_rank"}) for name in ("direct", "rg_s", "qg", "rerank")),
    *((name, {"ensemble": "assessor", "team_size": 2}) for name in COMPARERS),
    ("rg_s", {"labels": ("A", "B"), "scale": 3}),
    *((name, {"scale": 5}) for name in ("rebel", "rg_yn", "qg", "rerank", "p_yes")),
    *((name, {"scoring": "integer"}) for name in ("rerank", "rg_yn", "rg_s", "rankrag")),
    *((name, {"scoring": "peak"}) for name in ("rg_yn", "qg", "p_yes")),
    ("p_yes", {"probability": "sure"}),
    ("rankrag", {"labels": ("No", "Yes")}),
    *((name, {"questions": "per_persona", "scoring": "expected"}) for name in ("rg_yn", "qg")),
    *((name, {"labels": ("A", "B"), "scoring": "expected"}) for name in ("rg_yn", "qg")),
    *(("setwise", {"ranks": ranks}) for ranks in (0, 1.5)),
    *(("rankgpt", {"window": window}) for window in (1, 101)),
    *(("rankgpt", each) for each in ({"step": 20}, {"passes": 0})),
    ("rankgpt", {"criteria_model": "openai:m"}),
    ("setwise", {"team": "health_questions", "team_size": 1}),
    ("setwise", {"children": 26}),
    ("setwise", {"sort": "sliding"}),
    ("direct", {"scoring": "per_criterion"}),
    ("rebel", {"variant": "three_turn"}),
    ("rebel", {"variant": "one_turn", "team": "clinician"}),
    ("rebel", {"team": [PEDANT], "criteria": "library"}),
    ("rebel", {"team": "clinician", "criteria": "none"}),
    ("rebel", {"window": 0}),
    ("rebel", {"min_relevance_score": 11}),
    ("rebel", {"scoring": "expected"}),
    ("rebel", {"passages_per_call": 5}),
    ("rg_yn", {"assessor_model": "openai:m"}),
    ("mcranker", {"windw": 3}),
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


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in ("rg_yn", "rg_s", "p_yes")), ("mcranker", {"scoring": "expected"})],
)
def test_a_model_without_log_probabilities_is_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedCapability):
        made(name, ScriptedChat(lambda _: "", capabilities=PLAIN), **options)
