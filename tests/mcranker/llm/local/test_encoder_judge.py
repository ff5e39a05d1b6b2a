"""The embedded judge, with a tiny encoder whose vectors are drawn by chance."""

import importlib.util
import math

import pytest

from mcranker import MCRanker, Ranking
from mcranker.encoders.open_encoder import SIMILARITIES, by_name
from mcranker.encoders.term_coverage import Cover, statistics_of
from mcranker.errors import ConfigError, UnsupportedCapability
from mcranker.llm.chat import ChatRequest, Judge, Message, Option, Question, State, Tag
from mcranker.llm.connect import connect
from mcranker.llm.local.encoder_judge import score, views
from personas import Criterion, Member, Persona, Rubric, Team
from tests.support.tiny_encoder import TinyEngine, judge, similarity, use

pytestmark = pytest.mark.anyio

QUERY = "masks against viruses"
NEAR, FAR = "which masks help against viruses", "how bread is baked"
STATE = State(QUERY, {"near": NEAR, "far": FAR})
NURSE = Judge("Nurse", "A kind one", "Prefer reviews.")


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> TinyEngine:
    return use(monkeypatch)


def request(*questions: Question, state: State | None = STATE) -> ChatRequest:
    return ChatRequest((), Tag("score"), questions=questions, state=state)


def yes_no(passage: str, judged_by: Judge | None = None, kind: str = "yes_no") -> Question:
    assert kind in ("yes_no", "score")
    name = f"q_{passage}"
    if kind == "score":
        return Question(name, "?", 10, passage=passage, judge=judged_by)
    return Question(name, "?", kind="yes_no", passage=passage, judge=judged_by)


async def answers(*questions: Question, state: State = STATE) -> list[float | None]:
    asked = judge()
    reply = await asked.complete(request(*questions, state=state))
    await asked.aclose()
    assert reply.answers is not None
    return [answer.value for answer in reply.answers]


@pytest.mark.parametrize(
    ("similar", "cover", "expected"),
    [
        (-1.0, None, 0.0),
        (0.2, None, 0.25),
        (0.8, None, 1.0),
        (1.0, None, 1.0),
        (-0.1, 0.5, 0.25),
        (0.4, 0.5, 0.5),
        (0.8, 0.5, 0.75),
        (0.9, 0.5, 0.25 + 0.9 / 1.6),  # above 0.8 it rises on, up to 1 in all
        (1.0, 0.9, 1.0),
    ],
)
def test_a_score_is_half_meaning_and_half_words(
    similar: float, cover: float | None, expected: float
) -> None:
    assert score(similar, cover, (0.0, 0.8)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("spec", "similar", "expected"),
    [
        ("local:minilm", 0.4, 0.4 / 0.8),
        ("local:minilm-fp32", 0.4, 0.4 / 0.8),
        ("local:sentence-transformers/all-MiniLM-L6-v2", 0.4, 0.4 / 0.8),
        ("local:BAAI/bge-small-en-v1.5", 0.6, (0.6 - 0.5) / 0.4),
        ("local:/models/bge-large-zh/", 0.4, 0.0),
        ("embed:intfloat/multilingual-e5-small", 0.85, (0.85 - 0.7) / 0.3),
        ("embed:BAAI/bge-m3", 0.4, 0.4),
        ("embed:nomic-embed-text", 0.4, 0.4),
        ("local:any", -0.4, 0.0),
    ],
)
def test_a_scale_is_its_models_and_without_one_a_cosine_is_the_relevance(
    spec: str, similar: float, expected: float
) -> None:
    assert score(similar, None, by_name(SIMILARITIES, spec)) == pytest.approx(expected)


def test_a_judge_sees_the_query_itself_and_by_its_name_and_an_instruction() -> None:
    told = f"{QUERY} (Prefer reviews.)"
    assert views(NURSE, QUERY) == [(QUERY, 0.5), (f"Nurse: {QUERY}", 0.25), (told, 0.25)]
    assert views(Judge("Nurse"), QUERY) == [(QUERY, 0.5), (f"Nurse: {QUERY}", 0.5)]
    assert views(None, QUERY) == [(QUERY, 1.0)]
    assert views(Judge("", instruction="Prefer reviews."), QUERY) == [(QUERY, 0.5), (told, 0.5)]


def expected(passage: str, *seen: tuple[str, float], statistics: bool = True) -> float:
    """The score by hand, of these views with their shares."""
    texts = STATE.passages.values()
    cover = Cover(QUERY, statistics_of(QUERY, texts) if statistics else None)
    near = sum(share * similarity(view, passage) for view, share in seen)
    return min(0.5 * cover.of(passage) + 0.5 * max(near / 0.8, 0.0), 1.0)


async def test_answers_by_hand() -> None:
    near, far = await answers(yes_no("near"), yes_no("far"))
    assert near == pytest.approx(expected(NEAR, (QUERY, 1.0), statistics=False), abs=2e-3)
    assert far == pytest.approx(expected(FAR, (QUERY, 1.0), statistics=False), abs=2e-3)
    assert near is not None
    assert far is not None
    assert near > far
    counted = State(QUERY, STATE.passages, {}, statistics_of(QUERY, STATE.passages.values()))
    (value,) = await answers(yes_no("near", NURSE), state=counted)
    by_hand = expected(NEAR, *views(NURSE, QUERY))
    assert value == pytest.approx(by_hand, abs=2e-3)


async def test_where_no_word_is_known_meaning_alone_decides() -> None:
    query = "ποιες μάσκες"
    (value,) = await answers(yes_no("near"), state=State(query, {"near": NEAR}))
    assert value == pytest.approx(max(similarity(query, NEAR) / 0.8, 0.0), abs=2e-3)


async def test_the_nearest_window_of_a_long_passage_counts_half() -> None:
    # The encoder reads 255 words; what the query is about comes after those.
    window = " ".join(NEAR.split() * 20)
    long = f"{'how bread is baked by bakers ' * 80}{window}"
    statistics = statistics_of(QUERY, [long])
    (value,) = await answers(yes_no("long"), state=State(QUERY, {"long": long}, {}, statistics))
    beginning, nearest = similarity(QUERY, long), similarity(QUERY, window)
    assert nearest > 2 * beginning
    near = (beginning + nearest) / 2
    cover = Cover(QUERY, statistics).of(long)
    assert value == pytest.approx(score(near, cover, (0.0, 0.8)), abs=2e-3)


async def test_a_question_about_no_passage_is_about_the_nearest() -> None:
    every, near, none = await answers(
        Question("q", "?", kind="yes_no"), yes_no("near"), yes_no("other")
    )
    assert near is not None
    assert every == near
    assert none is None


async def test_a_choice_falls_on_the_option_with_the_nearest_name_or_phrase() -> None:
    options = (Option("Baker", "bread, cakes"), Option("Doctor", "fever, viruses"), Option("Poet"))
    asked = judge()
    reply = await asked.complete(
        request(Question("who", "?", kind="choice", options=options), state=State(QUERY, {}))
    )
    await asked.aclose()
    assert reply.answers is not None
    (answer,) = reply.answers
    assert answer.value == 1.0  # "viruses" is a word of the query
    assert answer.probabilities is not None
    assert math.fsum(answer.probabilities) == pytest.approx(1.0)
    assert max(answer.probabilities) == answer.probabilities[1]


async def test_a_prompt_is_refused_with_what_to_do() -> None:
    asked = judge()
    prompt = ChatRequest((Message("user", "Who?"),), Tag("criteria"))
    with pytest.raises(UnsupportedCapability, match="for 'criteria' name a chat model"):
        await asked.complete(prompt)
    with pytest.raises(UnsupportedCapability):
        await asked.complete(request(yes_no("near"), state=None))
    await asked.aclose()


def test_without_its_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "tokenizers" else found(name)
    )
    with pytest.raises(
        ConfigError, match=r"local:minilm needs tokenizers: pip install 'mcranker\[local\]'"
    ):
        connect("local:minilm")


def ranked(docs: object, **options: object) -> Ranking:
    with MCRanker(model=judge(), **options) as ranker:  # type: ignore[arg-type]  # of tests
        return ranker.rank(QUERY, docs)  # type: ignore[arg-type]  # of tests


DOCS = {"far": FAR, "near": NEAR, "half": "masks help", "copy": NEAR, "long": "of bread " * 250}


def test_a_whole_ranking_by_default_prefers_the_meaning_to_the_order() -> None:
    ranking = ranked({"far": FAR, "near": NEAR})
    assert ranking.ids == ["near", "far"]
    assert ranking.team is not None
    assert [member.name for member in ranking.team.members][:1] == ["NLP scientist"]
    assert len(ranking.team.members) == 3
    assert ranking.usage.calls == 3  # one to recruit, and one a passage for the whole team
    assert not ranking.missing
    assert ranking.config["questions"] == "per_persona"
    assert ranking.config["first_stage_weight"] == 0


def test_criteria_are_not_read_and_nothing_shows_one() -> None:
    def of(*criteria: str) -> Ranking:
        rubric = Rubric(criteria=[Criterion(name=name) for name in criteria]) if criteria else None
        member = Member(persona=Persona(name="Nurse"), rubric=rubric)
        return ranked(DOCS, team=Team(members=(member,)), criteria="library")

    bananas, safe = of("Bananas"), of("Safe", "Cheap")
    assert bananas.run == safe.run
    assert not any(hit.criteria for hit in bananas)
    assert "does not read criteria" in bananas.judge_note
    assert bananas.to_dict()["criteria_used"] is False
    assert "criteria_used" not in of().to_dict()
    with pytest.raises(ConfigError, match="does not read criteria"):
        ranked(DOCS, questions="per_criterion")
    told = ranked(DOCS, team=safe.team, instruction="how bread is baked")
    assert told.run != safe.run  # an instruction is read
