"""Rubrics of the library that criteria writers see: which, where they stand, who is told."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from mcranker import (
    Answer,
    Capabilities,
    ChatReply,
    ChatRequest,
    ConfigError,
    DirectRanker,
    MCRanker,
    RankGPTRanker,
    Ranking,
    RebelRanker,
    RGYNRanker,
    ScriptedChat,
    Team,
)
from personas import PromptSet, closeness, dumps, library, loads
from personas.library import closest_members
from tests.support.scripted import scripted

QUERY = "is honey safe for babies"
DOCS = {"a": "Honey is not for infants.", "b": "Bees make honey."}


def asked(ranker: Any = MCRanker, **options: Any) -> tuple[dict[str, str], Ranking]:
    """Persona -> what its criteria writer was asked, and the ranking."""
    seen: dict[str, str] = {}
    inner = scripted()

    class Watched(ScriptedChat):
        async def complete(self, request: ChatRequest) -> ChatReply:
            if request.tag.stage == "criteria":
                turns = [turn.content for turn in request.messages]
                seen[request.tag.persona] = "\n---\n".join(turns)
            return await inner.complete(request)

    model = Watched(lambda _: "")
    with ranker(model=model, ledger=None, **options) as made:
        return seen, made.rank(QUERY, DOCS)


def test_the_closest_share_the_rarest_words() -> None:
    assert [each.name for each in closest_members("Clinician", 1)] == ["Clinician"]
    assert closest_members("xyzzy what is the best", 5) == ()
    assert closest_members(QUERY, 2) == closest_members(QUERY, 70)[:2]
    text = "Patient with a heart disease and a prescription"
    assert closest_members(text, 3) == closest_members(text.upper(), 3)


def test_closeness_is_bm25() -> None:
    """For a word that k of n members have: idf = ln(1 + (n - k + 0.5) / (k + 0.5)), by hand."""
    members, words, idf = closeness._library()
    word = "diagnosi"  # "diagnosis" less its s
    k, n = sum(own[word] > 0 for own in words), len(members)
    assert 0 < k < n
    assert idf[word] == pytest.approx(math.log(1 + (n - k + 0.5) / (k + 0.5)))
    mean = sum(own.total() for own in words) / n

    def score(place: int) -> float:
        f, length = words[place][word], words[place].total()
        return idf[word] * f * 2.2 / (f + 1.2 * (0.25 + 0.75 * length / mean))

    best = max(range(n), key=score)
    assert closest_members("diagnosis", 1) == (members[best],)


def test_without_examples_prompts_hashes_and_records_are_as_they_were() -> None:
    plain, before = asked()
    again, ranking = asked(criteria_examples=0)
    assert again == plain
    assert ranking.prompt_hashes == before.prompt_hashes == PromptSet.load("paper").hashes
    assert "criteria_examples" not in ranking.config
    assert "rubric_examples" not in ranking.to_json()


def test_examples_stand_behind_the_prompt_and_in_the_provenance() -> None:
    plain, _ = asked()
    seen, ranking = asked(criteria_examples=2)
    assert set(seen) == {"NLP scientist", "Virologist", "Worried parent"}
    for persona, text in seen.items():
        assert text.startswith(f"{plain[persona]}\n\nTo compare, here are criteria that others")
    examples = closest_members(f"Worried parent  {QUERY}", 2)
    assert examples[0].name == "Parent"
    for example in examples:
        assert f"Criteria of a {example.name}:\n1. " in seen["Worried parent"]
        assert example.rubric is not None
        for criterion in example.rubric.criteria:
            assert f"{criterion.name} (weight {criterion.weight:.0f}%)" in seen["Worried parent"]
    assert ranking.team is not None
    member = ranking.team.members[2]
    assert member.rubric_examples == tuple(each.name for each in examples)
    assert loads(Team, dumps(ranking.team)) == ranking.team
    assert Ranking.from_dict(json.loads(ranking.to_json())).team == ranking.team
    assert ranking.config["criteria_examples"] == 2
    assert "criteria_examples" in ranking.prompt_hashes
    assert asked(criteria_examples=2)[0] == seen


def test_a_data_set_is_what_they_are_close_to() -> None:
    options: Any = {"criteria": "dataset", "dataset": "Statutes and case law for lawyers."}
    seen, ranking = asked(team=["Reader"], criteria_examples=1, **options)
    assert "Criteria of a Lawyer:" in seen["Reader"]
    assert ranking.team is not None
    assert ranking.team.members[0].rubric_examples == ("Lawyer",)


@pytest.mark.parametrize("placed", [False, True])
def test_a_folder_words_them_and_says_where_they_stand(placed: bool, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    PromptSet.load("paper").save(folder)
    (folder / "criteria_examples.txt").write_text("Look: {{examples}}", encoding="utf-8")
    text = "{{examples}}\n{{persona}}: {{query}}" if placed else "{{persona}}: {{query}}"
    (folder / "criteria.txt").write_text(f"{text}\n[assistant]\n{{", encoding="utf-8")
    seen, _ = asked(team=["Parent of two"], criteria_examples=1, prompts=str(folder))
    own = f"Parent of two: {QUERY}"
    user, _, prefill = seen["Parent of two"].partition("\n---\n")
    assert prefill in ("", "{")
    if placed:
        assert user.startswith("Look: Criteria of a Parent:\n")
        assert user.endswith(own)
    else:
        assert user.startswith(f"{own}\n\nLook: Criteria of a Parent:\n")
    plain, _ = asked(team=["Parent of two"], prompts=str(folder))
    assert plain["Parent of two"].partition("\n---\n")[0].strip() == own


def test_an_encoder_that_recruits_says_who_is_closest() -> None:
    """It gives the virologist 0.9, and the rest to the parent."""
    names = [each.name for each in library.members() if each.rubric is not None]
    likely = {"Virologist": 0.9, "Parent": 0.1}

    def chances(request: ChatRequest) -> ChatReply:
        (question,) = request.questions
        assert [each.name for each in question.options] == names
        assert request.state is not None
        assert request.state.query == f"Nurse: {QUERY}"
        probabilities = tuple(likely.get(name, 0.0) for name in names)
        return ChatReply("", answers=(Answer(0.0, probabilities=probabilities),))

    encoder = ScriptedChat(
        chances, capabilities=Capabilities(prompts=False, max_questions=10), name="encoder"
    )
    options: Any = {"recruiter_model": encoder, "team": ["Nurse"], "criteria_examples": 2}
    seen, ranking = asked(**options)
    assert ranking.team is not None
    assert ranking.team.members[0].rubric_examples == ("Virologist", "Parent")
    assert seen["Nurse"].index("Criteria of a Virologist") < seen["Nurse"].index(
        "Criteria of a Parent"
    )


@pytest.mark.parametrize(
    ("make", "options", "problem"),
    [
        (DirectRanker, {}, "none do for ranker='direct' as it is set up"),
        (RankGPTRanker, {}, "none do for ranker='rankgpt'"),
        (RebelRanker, {"variant": "two_turn"}, "none do for ranker='rebel'"),
        (RGYNRanker, {}, 'criteria="none" has none written'),
        (MCRanker, {"criteria": "none"}, 'criteria="none" has none written'),
        (MCRanker, {"team": "health_questions"}, "all personas of this team have some already"),
        (
            MCRanker,
            {"recruiting": "library", "criteria": "library"},
            "all personas of this team have some already",
        ),
    ],
)
def test_where_nobody_writes_criteria_they_are_refused(
    make: Any, options: dict[str, Any], problem: str
) -> None:
    able = Capabilities(label_logprobs=True)
    with pytest.raises(ConfigError, match=problem):
        make(model=scripted(capabilities=able), ledger=None, criteria_examples=1, **options)
