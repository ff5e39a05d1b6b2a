"""RankRAG's training examples, checked by hand on a small corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from beir_eval.errors import DatasetError, SettingError
from beir_eval.rankrag import Built, build_examples, gram_recall, read_recipe
from mcranker.cli.group import cli
from personas import PromptSet

DOCUMENTS = {
    "nile": "The Nile flows through Egypt and ends in the Mediterranean Sea.",
    "rhine": "The Rhine flows through Germany and ends in the North Sea.",
    "po": "The Po flows through Italy and ends in the Adriatic Sea.",
    "amazon": "The Amazon flows through Brazil and ends in the Atlantic Ocean.",
    "elbe": "The Elbe flows through Germany and ends in the North Sea.",
    "onega": "The Onega flows through Russia and ends in the White Sea.",
}
ASKED = {
    "nile": ("Where does the Nile end?", "Mediterranean Sea"),
    "rhine": ("Which flows through Germany and ends in a sea?", "North Sea"),
    "po": ("Where does the Po end?", "Adriatic Sea"),
}
QUESTIONS: list[dict[str, Any]] = [
    {"id": name, "question": question, "golden_answers": [golden], "documents": [name]}
    for name, (question, golden) in ASKED.items()
]
QUESTIONS.append({"id": "4", "question": "Where is no answer?"})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    corpus = [{"_id": name, "text": text} for name, text in DOCUMENTS.items()]
    for name, rows in (("corpus", corpus), ("questions", QUESTIONS)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return tmp_path


def build(place: Path, sources: str, first: str = "") -> Built:
    (place / "recipe.toml").write_text(f"{first}\n{sources}")
    return build_examples(read_recipe(place / "recipe.toml"), PromptSet.load("paper"))


def source(kind: str, **more: Any) -> str:
    given = {"name": kind, "kind": kind, "questions": "questions.jsonl", "passages": "corpus.jsonl"}
    rows = (f"{name} = {json.dumps(value)}" for name, value in {**given, **more}.items())
    return "\n".join(["[[sources]]", *rows, ""])


def parts(example: dict[str, Any]) -> tuple[str, str]:
    return example["prompt"][-1]["content"], example["completion"][0]["content"]


def test_an_answer_has_five_passages_with_the_gold_one(place: Path) -> None:
    built = build(place, source("answer"))
    (counts,) = built.counts
    assert (counts.source, counts.made, counts.drawn) == ("answer", 3, 3)
    assert counts.left_out == {"without a golden answer": 1}
    for example in built.stage2:
        asked, answer = parts(example)
        assert asked.count("flows through") in (5, 6)  # a question has the words as well
        assert f"in the {answer}" in asked
        assert asked.endswith("Answer the above question with a short phrase.\n\nAssistant:")
        assert "Passage 5: " in asked
        assert "Passage 6: " not in asked


SYSTEM = (
    "A user talks with an AI assistant. The assistant answers the user's questions from the "
    "context: helpfully, politely and in detail. If the answer is not in the context, the "
    "assistant says so."
)
TURNS = [
    {"role": "user", "content": "Tell me of the Nile."},
    {"role": "assistant", "content": "It flows through Egypt."},
    {"role": "user", "content": "Where does it end?"},
]


@pytest.mark.parametrize(
    ("instruction", "sentence"),
    [
        (None, "Answer the above question with a short phrase."),
        ("short", "Answer the above question with a short phrase."),
        ("full", "Answer the above question in full sentences, and completely."),
        (
            "number",
            "Answer the above question with a number from the context, or calculate it with "
            "+ - * /.",
        ),
        (
            "either",
            "Answer the above question with a short phrase, or in full sentences where it takes "
            "them.",
        ),
    ],
)
def test_the_instruction_is_the_data_sets(
    place: Path, instruction: str | None, sentence: str
) -> None:
    more = {} if instruction is None else {"instruction": instruction}
    for example in build(place, source("answer", **more)).stage2:
        question = next(text for text, _ in ASKED.values() if text in parts(example)[0])
        assert parts(example)[0].endswith(f"\n\nUser: {question} {sentence}\n\nAssistant:")


@pytest.mark.parametrize(
    ("kind", "expected", "replies"),
    [
        (
            "answer",
            "Passage 1: {nile}\n\nUser: Tell me of the Nile.\n\nAssistant: It flows through Egypt."
            "\n\nUser: Where does it end? Answer the above question in full sentences, and "
            "completely.\n\nAssistant:",
            ["In the Mediterranean Sea."],
        ),
        (
            "retrieve",
            "Passage 1: {nile}\n\nUser: Tell me of the Nile.\n\nAssistant: It flows through Egypt."
            "\n\nUser: For the question Where does it end?, find all the passages from the context "
            "that are relevant to the question.\n\nAssistant:",
            ["Passage 1"],
        ),
        (
            "rank",
            "Passage: {nile}\n\nUser: Tell me of the Nile.\n\nAssistant: It flows through Egypt."
            "\n\nUser: For the question Where does it end?, access whether the passage is relevant "
            "to the question. Return True if relevant, otherwise False.\n\nAssistant:",
            ["True", "False"],
        ),
    ],
)
def test_earlier_turns_are_before_the_question(
    place: Path, kind: str, expected: str, replies: list[str]
) -> None:
    row = {"messages": TURNS, "answers": ["In the Mediterranean Sea."], "documents": ["nile"]}
    (place / "questions.jsonl").write_text(json.dumps(row))
    passages = {"nile": DOCUMENTS["nile"], "moon": "Tell it to the moon."}
    wanted = passages if kind == "rank" else {"nile": passages["nile"]}
    (place / "corpus.jsonl").write_text(
        "".join(f"{json.dumps({'_id': name, 'text': text})}\n" for name, text in wanted.items())
    )
    built = build(place, source(kind))
    assert sorted((parts(each)[1] for each in built.stage2), reverse=True) == replies
    (example,) = (each for each in built.stage2 if parts(each)[1] == replies[0])
    assert example["prompt"] == [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": expected.format(nile=DOCUMENTS["nile"])},
    ]


@pytest.mark.parametrize(
    "messages",
    [[], "text", TURNS[:2], [*TURNS[:2], {"role": "user"}], [{"role": "x", "content": "?"}]],
)
def test_messages_that_ask_nothing_are_an_error(place: Path, messages: Any) -> None:
    (place / "questions.jsonl").write_text(json.dumps({"messages": messages}))
    with pytest.raises(DatasetError, match=r'questions\.jsonl:1: .*"messages"'):
        build(place, source("rank"))


def test_ranking_pairs_are_true_and_false(place: Path) -> None:
    built = build(place, source("rank", negatives=2))
    verdicts = [parts(each)[1] for each in built.stage2]
    assert (verdicts.count("True"), verdicts.count("False")) == (3, 6)
    for example in built.stage2:
        asked, verdict = parts(example)
        assert "access whether the passage is relevant" in asked
        if "the Nile end" in asked:
            assert (verdict == "True") == (DOCUMENTS["nile"] in asked)
        if "Germany and ends in a sea" in asked:  # the Elbe's has the answer: it is no negative
            assert DOCUMENTS["elbe"] not in asked


def test_retrieval_names_all_relevant_passages(place: Path) -> None:
    built = build(place, source("retrieve", relevant="answer"))
    for example in built.stage2:
        asked, named = parts(example)
        golden = next(
            each["golden_answers"][0] for each in QUESTIONS if str(each["question"]) in asked
        )
        lines = [line for line in asked.splitlines() if line.startswith("Passage ")]
        right = [line.partition(":")[0] for line in lines if golden in line]
        assert named.split(", ") == right
    assert any(", " in parts(each)[1] for each in built.stage2)  # two passages name the North Sea


def test_overlap_is_by_four_grams() -> None:
    # Five words are two 4-grams, of which the passage has the first.
    assert gram_recall("b c d e f", "a b c d e x") == 0.5
    assert gram_recall("north sea", "In the North Sea.") == 1
    assert gram_recall("", "text") == 0


def test_questions_of_a_test_set_are_left_out(place: Path) -> None:
    (place / "test.jsonl").write_text('{"question": "where does the NILE end"}\n')
    built = build(place, source("rank"), 'test = ["test.jsonl"]')
    assert built.counts[0].left_out["in the test questions"] == 1
    assert not any("the Nile end" in parts(each)[0] for each in built.stage2)


def test_the_blend_has_its_weights_and_repeats_evenly(place: Path) -> None:
    reply = {"role": "assistant", "content": "Hello"}
    chats = [{"messages": [{"role": "user", "content": f"Hi {n}"}, reply]} for n in range(4)]
    (place / "chat.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in chats))
    chat = '[[sources]]\nname = "chat"\nkind = "chat"\nfile = "chat.jsonl"\nweight = 1\n'
    text = chat + source("answer", weight=3)
    built = build(place, text, "size = 40")
    assert [each.drawn for each in built.counts] == [10, 30]
    assert len(built.stage1) == 4
    counts = [sum(one == other for other in built.stage2) for one in built.stage1]
    assert sorted(counts) == [2, 2, 3, 3]
    assert build(place, text, "size = 40").stage2 == built.stage2
    assert build(place, text, "size = 40\nseed = 1").stage2 != built.stage2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sources = []", "sources"),
        ('[[sources]]\nname = "a"\nkind = "rank"', "no questions"),
        ('[[sources]]\nname = "a"\nkind = "fame"', "'answer', 'retrieve'"),
        (source("rank") + source("rank"), "same name"),
        (source("rank", instruction="full"), "instruction is for kind 'answer'"),
        (source("rank") + "weight = inf", "weight must be a finite number"),
        ('[[sources]]\nkind = "rank"', "the key 'sources 1.name' is missing; add it"),
        ("no TOML", "not TOML"),
    ],
)
def test_a_wrong_recipe_is_an_error(place: Path, text: str, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        build(place, text)


def test_a_source_without_examples_is_an_error(place: Path) -> None:
    (place / "questions.jsonl").write_text('{"question": "?", "golden_answers": ["x"]}\n')
    with pytest.raises(DatasetError, match="1 without a relevant passage"):
        build(place, source("rank"))


def test_the_command_writes_both_stages(place: Path) -> None:
    (place / "recipe.toml").write_text(source("rank") + source("answer"))
    args = ["rankrag", str(place / "recipe.toml"), "--out", str(place / "out")]
    (place / "out").mkdir()
    (place / "out" / "stage1.jsonl").write_text("of another recipe")
    found = CliRunner().invoke(cli, [*args, "--output", "json"])
    assert found.exit_code == 0, found.output
    assert [each["made"] for each in json.loads(found.stdout)["sources"]] == [6, 3]
    assert len((place / "out" / "stage2.jsonl").read_text().splitlines()) == 9
    assert not (place / "out" / "stage1.jsonl").exists()
    table = CliRunner().invoke(cli, args).stdout
    assert "1 question left out: without a golden answer" in table
    assert "1 question left out: without a relevant passage" in table
