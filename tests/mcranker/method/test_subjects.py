"""Picking from the library by the likelihood of subjects."""

from __future__ import annotations

import anyio
import pytest

from mcranker import Capabilities, ChatReply, ChatRequest, MCRanker, ScriptedChat
from mcranker.method.recruiter import CALIBRATION_QUERIES, first_words, lift_by_topic, suitability
from personas import Member, Persona, library

COOK = Member(persona=Persona(name="Cook", topics=("recipes", "Baking bread")))
LAWYER = Member(persona=Persona(name="Lawyer", topics=("contracts", "court rulings")))


def test_first_words_are_distinct_and_sorted() -> None:
    assert first_words([COOK, LAWYER, COOK]) == ("baking", "contracts", "court", "recipes")


def test_suitability_is_the_mean_lift_over_the_calibration_queries() -> None:
    here = {"recipes": -1.0, "baking": -2.0, "contracts": -5.0}
    usual = [
        {"recipes": -2.0, "baking": -2.0, "contracts": -1.0, "court": -3.0},
        {"recipes": -4.0, "baking": -4.0, "contracts": -3.0, "court": -3.0},
    ]
    # Cook: here (-1 - 2) / 2 = -1.5; usual (-2 - 2) / 2 = -2 and -4, mean -3; lift 1.5.
    # Lawyer: "court" is not listed here: 0.5 below the least, -5.5; (-5 - 5.5) / 2 = -5.25;
    # usual (-1 - 3) / 2 = -2 and -3, mean -2.5; lift -2.75.
    assert suitability([COOK, LAWYER], here, usual) == pytest.approx([1.5, -2.75])
    # The lift of recipes is -1 - (-2 - 4) / 2 = 2, that of baking -2 - (-2 - 4) / 2 = 1.
    assert lift_by_topic(COOK, here, usual) == [(2.0, "recipes"), (1.0, "Baking bread")]


def test_a_weak_model_recruits_by_likelihood_and_calibrates_once() -> None:
    asked: list[str] = []

    def answer(request: ChatRequest) -> ChatReply:
        if request.tag.stage != "recruit":
            return ChatReply("Yes", label_logprobs={"No": -1.0, "Yes": -0.5})
        prompt = request.messages[0].content
        asked.append(prompt)
        likely = "contracts" if "tenancy" in prompt else "nothing"
        topics = set(library.member("lawyer").persona.topics)
        words = {topic.split()[0].casefold() for topic in topics}
        about_law = likely == "contracts"
        return ChatReply(
            "",
            label_logprobs={w: -1.0 if about_law and w in words else -6.0 for w in request.labels},
        )

    model = ScriptedChat(
        answer, capabilities=Capabilities(label_logprobs=True, prefill=True, weak=True)
    )
    ranker = MCRanker(team_size=2, model=model)
    ranking = ranker.rank("may I end my tenancy early", ["a passage"])
    ranker.rank("another tenancy question", ["a passage"])

    assert ranking.personas == ("NLP scientist", "Lawyer")
    assert ranking.team is not None
    assert ranking.team.members[1].persona.reason.startswith("The query seems to be about ")
    assert len(asked) == len(CALIBRATION_QUERIES) + 2
    assert ranking.config["recruiting"] == "library"
    assert ranking.config["labels"] == ["No", "Yes"]


def test_queries_in_progress_together_do_not_calibrate_twice_over() -> None:
    async def answer(request: ChatRequest) -> ChatReply:
        await anyio.lowlevel.checkpoint()
        return ChatReply("", label_logprobs=dict.fromkeys(request.labels, -1.0))

    model = ScriptedChat(
        answer, capabilities=Capabilities(label_logprobs=True, prefill=True, weak=True)
    )
    with MCRanker(team_size=2, model=model, query_concurrency=4) as ranker:
        for ranked in ranker.rank_many((f"query {number}", ["a"]) for number in range(4)):
            ranked.result()
        assert len(ranker._memory.subject_baselines) == len(CALIBRATION_QUERIES)
