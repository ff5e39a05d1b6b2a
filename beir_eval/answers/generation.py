"""Questions with answers, written by a model from a user's documents and checked by it.

A question's categories are drawn as LiveRAG 2025 drew them with DataMorgana (arXiv 2501.12789), its
passages at random; the seed and the question's number decide both.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from beir_eval.answers.judges import token_f1, verdict_of
from beir_eval.answers.questions import Question
from beir_eval.errors import DatasetError
from mcranker.errors import FATAL_ERRORS, BudgetExceeded, ModelError
from mcranker.llm.chat import ChatReply
from mcranker.method.ask import Asking, text_of
from mcranker.replies.loose_json import Unreadable, find
from mcranker.replies.schemas import QUESTION_SCHEMA, verdict_schema
from mcranker.retrieval.bm25 import BM25
from mcranker.retrieval.chunks import Chunk
from mcranker.runtime.service import dispatch
from personas.untrusted import Own

ALIKE = 0.8
"""Token F1 from which two questions are taken as the same."""

AT_ONCE = 8
"""Questions in progress."""

ATTEMPTS = 3
"""Questions that are written for one that is wanted, at most."""

_VERDICTS = ("good", "not answerable", "wrong answer")
_CHECK = verdict_schema("verdict", _VERDICTS, "evaluation_notes")

CATEGORIES: Mapping[str, Mapping[str, tuple[float, str]]] = {
    "user": {
        "expert": (0.5, "an expert of the subject asks it, in its terms"),
        "novice": (0.5, "a beginner in the subject asks it, in everyday words"),
    },
    "factuality": {
        "factoid": (0.5, "it asks for one fact, such as a name, a number or a date"),
        "open": (0.5, "it asks for an explanation of two or three sentences"),
    },
    "premise": {
        "direct": (0.5, "it asks at once, without saying anything of the person who asks"),
        "with premise": (0.5, "it says in a clause why the person asks"),
    },
    "phrasing": {
        "concise": (0.25, "it is a natural question of at most 10 words"),
        "verbose": (0.25, "it is a natural question of more than 10 words"),
        "short query": (0.25, "it is a search query of at most 6 words, no sentence"),
        "long query": (0.25, "it is a search query of more than 6 words, no sentence"),
    },
    "wording": {
        "similar": (0.5, "it uses words of the documents"),
        "distant": (0.5, "it uses other words than the documents where it can"),
    },
    "documents": {
        "single": (0.4, "it is answered from the document"),
        "comparison": (0.2, "it compares two things, one of each document"),
        "multi-aspect": (0.3, "it asks about two aspects of one thing, one in each document"),
        "three documents": (0.1, "it can only be answered with all three documents"),
    },
}
"""Category -> value -> its probability, and the words of the prompt."""

_NEEDED = {"single": 1, "comparison": 2, "multi-aspect": 2, "three documents": 3}


@dataclass(slots=True)
class Generated:
    """Questions, and how many were refused for which reason."""

    questions: list[Question] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    fault: str = ""
    stopped: Exception | None = None


def drawn_categories(seed: int, number: int) -> dict[str, str]:
    """Draw a value of each category for the question of that number."""
    draw = _draw("categories", seed, number)
    return {
        name: draw.choices([*values], [share for share, _ in values.values()])[0]
        for name, values in CATEGORIES.items()
    }


class QuestionWriter:
    """Writes questions about passages."""

    def __init__(self, asking: Asking, chunks: Sequence[Chunk], *, seed: int = 0) -> None:
        if not chunks:
            raise DatasetError("there is no passage to ask about")
        self.asking = asking
        self.seed = seed
        self._chunks = {each.id: each for each in chunks}
        self._ids = sorted(self._chunks)
        self._words = BM25({each.id: each.text for each in chunks})

    def passages(self, number: int, count: int) -> list[Chunk]:
        """Return passages of as many different documents, or of all if there are fewer."""
        first = self._chunks[_draw("passages", self.seed, number).choice(self._ids)]
        alike = self._words.search(" ".join(first.text.split()[:60]), 200) if count > 1 else ()
        found = {first.document: first}
        for name, _ in alike:
            found.setdefault(self._chunks[name].document, self._chunks[name])
        return [*found.values()][:count]

    async def write(self, number: int) -> Question | str:
        """Write and check the question of that number; return it, or why it is refused."""
        categories, asking = drawn_categories(self.seed, number), self.asking
        needed = _NEEDED[categories["documents"]]
        if len(chunks := self.passages(number, needed)) < needed:
            return "too few documents"
        texts = Own("\n\n".join(asking.prompts.passage(each.text, query="") for each in chunks))
        properties = Own("\n".join(f"- {CATEGORIES[k][v][1]}" for k, v in categories.items()))
        text, answer = await asking.read(
            "question_write",
            {"passages": texts, "properties": properties},
            _read_question,
            max_tokens=400,
            schema=QUESTION_SCHEMA,
        )
        reference = asking.prompts.passage(answer, query=text)
        values = {"passages": texts, "question": text, "reference": reference}
        read = verdict_of("verdict", _VERDICTS)
        verdict, _ = await asking.read(
            "question_check", values, read, max_tokens=300, schema=_CHECK
        )
        if verdict != "good":
            return str(verdict)
        about = {**categories, "passages": [each.id for each in chunks]}
        documents = tuple(each.document for each in chunks)
        return Question(f"g{self.seed}-{number}", text, (answer,), about, documents)

    async def many(self, count: int) -> AsyncIterator[Generated]:
        """Yield what there is after each round, until there are `count` questions."""
        made, number = Generated(), 0

        async def one(_: int, each: int) -> tuple[int, Question | str | Exception]:
            try:
                return each, await self.write(each)
            except FATAL_ERRORS:
                raise
            except (ModelError, BudgetExceeded) as error:
                return each, error

        while len(made.questions) < count and number < ATTEMPTS * count and not made.stopped:
            size = min(count - len(made.questions), ATTEMPTS * count - number)
            async with dispatch(range(number, number + size), one, AT_ONCE) as stream:
                rows = dict([each async for each in stream])
            number += size
            faults: list[Exception] = []
            for _, found in sorted(rows.items()):
                if isinstance(found, Exception):
                    faults.append(found)
                    made.refused["failed"] += 1
                elif isinstance(found, str):
                    made.refused[found] += 1
                elif any(token_f1(found.text, each.text) >= ALIKE for each in made.questions):
                    made.refused["like another"] += 1
                else:
                    made.questions.append(found)
            made.fault = made.fault or "".join(map(str, faults[:1]))
            spent = [each for each in faults if isinstance(each, BudgetExceeded)]
            if spent or len(faults) == size:
                made.stopped = (spent or faults)[0]
            yield made


def _draw(what: str, seed: int, number: int) -> random.Random:
    return random.Random(f"{what} {seed} {number}")  # noqa: S311 - no secret


def _read_question(reply: ChatReply) -> tuple[str, str]:
    record = find(text_of(reply), "question").record
    texts = [record.get(name) for name in ("question", "answer")]
    if not all(isinstance(each, str) and each.strip() for each in texts):
        raise Unreadable('"question" and "answer" must be texts that are not empty.')
    question, answer = (" ".join(str(each).split()) for each in texts)
    return question, answer
