"""Training examples of RankRAG (arXiv 2407.02485, section 4, appendix B) from a user's data.

A recipe is a TOML file:

```toml
size = 211_200                  # examples of stage II, rounded by source; each one once without
seed = 0
test = ["nq_test.jsonl"]        # questions that must not be trained on

[[sources]]                     # a data set
name = "squad"                  # in counts and examples
kind = "answer"                 # from a context; "retrieve": the numbers of all relevant passages;
                                # "rank": one passage True or False
questions = "squad.jsonl"       # as `beir_eval.answers.questions` reads them
passages = "wikipedia"          # a folder or file, in passages of 150 words
relevant = "documents"          # passages of the question's documents: those with a golden answer,
                                # if there are some; "answer": those with one among the first by
                                # BM25; "overlap": of the documents, or without any of the first,
                                # those with more than half of a golden answer's 4-grams
instruction = "short"           # of "answer", a phrase; "full" sentences; a "number"; "either" of
                                # the first two; without: full in a conversation, else short
weight = 0.09                   # its share in stage II, divided by the sum of all
negatives = 1                   # of "rank", for each relevant passage; the paper is silent

[[sources]]
name = "dolly"
kind = "chat"                   # {"messages": […]} a line: stage I, and part of stage II
file = "dolly.jsonl"
weight = 0.2
```

Files are looked for beside the recipe. An example is trl's: ``{"prompt": [messages], "completion":
[message], "source": …, "kind": …}``.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from beir_eval.answers.judges import is_in, normalised
from beir_eval.answers.questions import Question, messages_of, read_questions, records
from beir_eval.errors import DatasetError, SettingError
from beir_eval.files import beside, read_toml
from mcranker.rag.answer import context_text
from mcranker.retrieval.bm25 import BM25
from mcranker.retrieval.chunks import Chunk, chunks_of
from mcranker.retrieval.readers import OnSkip, read_documents
from personas import PromptSet
from personas.io.lines import read_text
from personas.untrusted import Name, Own

Example: TypeAlias = dict[str, Any]

PASSAGES = 5
"""Passages of an example's context."""
RELEVANT, NOT_RELEVANT = 0.5, 0.1
"""Share of an answer's 4-grams above which a passage is relevant, and below which it is not."""

_IN_TEST = "in the test questions"
_DEPTH = 100  # passages that are looked at for one with the answer
_GRAM = 4


class Source(BaseModel):
    """A data set of a recipe; the keys are explained above."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    kind: Literal["answer", "retrieve", "rank", "chat"]
    questions: str = ""
    passages: str = ""
    file: str = ""
    relevant: Literal["documents", "answer", "overlap"] = "documents"
    instruction: Literal["short", "full", "number", "either"] | None = None
    weight: float = Field(1.0, gt=0, allow_inf_nan=False)
    negatives: int = Field(1, ge=1, le=100)


class Recipe(BaseModel):
    """Sources with their weights; the keys are explained above."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: list[Source] = Field(min_length=1)
    size: int | None = Field(None, ge=1)
    seed: int = 0
    test: list[str] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """Counts of one source."""

    source: str
    kind: str
    made: int
    drawn: int
    left_out: dict[str, int]


@dataclass(slots=True)
class Built:
    """Examples of both stages, shuffled, with counts; the first are chats, the second the blend."""

    stage1: list[Example] = field(default_factory=list)
    stage2: list[Example] = field(default_factory=list)
    counts: list[SourceCounts] = field(default_factory=list)


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe; its paths become whole paths."""
    place = Path(path).expanduser()
    text = read_text(place, SettingError, 1_000_000)
    recipe = read_toml(text, Recipe, str(path), SettingError)
    sources = []
    for each in recipe.sources:
        where = f"{path}: source {each.name!r}"
        needed = ("file",) if each.kind == "chat" else ("questions", "passages")
        for name in needed:
            if not getattr(each, name):
                raise SettingError(f"{where} of kind {each.kind!r}: no {name}")
        if each.instruction and each.kind != "answer":
            raise SettingError(f"{where}: instruction is for kind 'answer'")
        paths = {name: beside(getattr(each, name), place.parent) for name in needed}
        sources.append(each.model_copy(update=paths))
    if len({each.name for each in sources}) < len(sources):
        raise SettingError(f"{path}: two sources have the same name")
    test = [beside(each, place.parent) for each in recipe.test]
    return recipe.model_copy(update={"sources": sources, "test": test})


def build_examples(
    recipe: Recipe,
    prompts: PromptSet,
    *,
    on_skip: OnSkip = lambda each: None,
) -> Built:
    """Make the examples of both stages. The same recipe and files give the same examples."""
    held_out = {
        normalised(each.query.all_texts) for path in recipe.test for each in read_questions(path)
    }
    corpora = cache(lambda path: _Passages(path, on_skip))
    built = Built()
    total = sum(each.weight for each in recipe.sources)
    for source in recipe.sources:
        if source.kind == "chat":
            made = _chats(source, held_out)
        else:
            made = _Maker(source, corpora(source.passages), prompts, recipe.seed).made(held_out)
        pool, left_out = list[Example](), Counter[str]()
        for each in made:
            if isinstance(each, str):
                left_out[each] += 1
            else:
                pool.append(each)
        if not pool:
            why = ", ".join(f"{number} {reason}" for reason, number in left_out.items())
            raise DatasetError(f"source {source.name!r} gives no example: {why or 'it is empty'}")
        if source.kind == "chat":
            built.stage1 += pool
        count = round(recipe.size * source.weight / total) if recipe.size else len(pool)
        built.counts.append(
            SourceCounts(source.name, source.kind, len(pool), count, dict(left_out))
        )
        draw = _draw(recipe.seed, source.name)
        while count > 0:  # each one once before one is there twice
            built.stage2 += draw.sample(pool, min(count, len(pool)))
            count -= len(pool)
    _draw(recipe.seed, "stage 1").shuffle(built.stage1)
    _draw(recipe.seed, "stage 2").shuffle(built.stage2)
    return built


def gram_recall(answer: str, passage: str) -> float:
    """Return the share of the answer's 4-grams that the passage has."""
    words, of = normalised(answer).split(), normalised(passage).split()
    size = min(_GRAM, len(words))
    if not size:
        return 0.0
    grams = [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]
    there = {tuple(of[at : at + size]) for at in range(len(of) - size + 1)}
    return sum(each in there for each in grams) / len(grams)


class _Passages:
    """Passages of one corpus, searched by words."""

    def __init__(self, path: str, on_skip: OnSkip) -> None:
        documents = read_documents(path, on_skip=on_skip)
        self.of_document = {each.id: [*chunks_of(each, "words")] for each in documents}
        chunks = [*chain.from_iterable(self.of_document.values())]
        if not chunks:
            raise DatasetError(f"{path}: there is no passage")
        self._chunks = {each.id: each for each in chunks}
        self._words = BM25((each.id, each.text) for each in chunks)

    def found(self, query: str) -> list[Chunk]:
        """The passages that are most like the query, best first."""
        return [self._chunks[name] for name, _ in self._words.search(query, _DEPTH)]


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the examples of one source."""

    source: Source
    passages: _Passages
    prompts: PromptSet
    seed: int

    def made(self, held_out: set[str]) -> Iterator[Example | str]:
        """Yield the examples of all questions, or why a question has none."""
        needed = self.source.kind == "answer" or self.source.relevant != "documents"
        for question in read_questions(self.source.questions):
            if normalised(question.query.all_texts) in held_out:
                yield _IN_TEST
            elif needed and not question.golden_answers:
                yield "without a golden answer"
            else:
                yield from self._of(question)

    def _of(self, question: Question) -> Iterator[Example | str]:
        kind, turns = self.source.kind, self.prompts.turns(question.turns)
        gold, others = self._divided(question)
        if not gold:
            yield "without a relevant passage"
        elif kind == "rank" and not others:
            yield "without a passage that is not relevant"
        elif kind == "rank":
            prompt = "rag_rankrag_rank_turns" if turns else "rag_rankrag_rank"
            for each in (gold[0], *others[: self.source.negatives]):
                values = {"query": question.text, "turns": turns, "passage_text": Name(each.text)}
                yield self._example(prompt, values, f"{each is gold[0]}")
        else:
            context = [*gold[: PASSAGES if kind == "retrieve" else 1], *others][:PASSAGES]
            _draw(self.seed, f"{self.source.name} {question.id}").shuffle(context)
            shown = context_text(enumerate(context, 1), question.text, "rankrag", self.prompts)
            own = Own("\n\n".join(filter(None, (shown, turns))))
            wanted = self.source.instruction or ("full" if turns else "short")
            prompt = "rag_answer_rankrag" + ("" if wanted == "short" else f"_{wanted}")
            said = question.golden_answers[0] if kind == "answer" else ""
            if kind == "retrieve":
                prompt = "rag_rankrag_retrieve"
                places = (place for place, each in enumerate(context, 1) if each in gold)
                said = ", ".join(f"Passage {place}" for place in places)
            yield self._example(prompt, {"question": question.text, "context": own}, said)

    def _divided(self, question: Question) -> tuple[list[Chunk], list[Chunk]]:
        """Relevant passages, and those that are not though they are like the question."""
        golden, of_document = question.golden_answers, self.passages.of_document
        found = self.passages.found(question.query.all_texts)
        own = [each for name in question.documents for each in of_document.get(name, ())]
        if self.source.relevant == "overlap":
            near = own or found
            recall = {each.id: max(gram_recall(one, each.text) for one in golden) for each in near}
            best = sorted(near, key=lambda each: -recall[each.id])
            gold = [each for each in best if recall[each.id] > RELEVANT]
            return gold, [each for each in near if recall[each.id] < NOT_RELEVANT]
        with_answer = [each for each in found if is_in(golden, each.text)]
        if self.source.relevant == "answer":
            gold = with_answer
        else:
            gold = [each for each in own if is_in(golden, each.text)] or own
        taken = [*own, *with_answer]
        return gold, [each for each in found if each not in taken]

    def _example(self, prompt: str, values: Mapping[str, str], completion: str) -> Example:
        turns = self.prompts[prompt].render(values)
        messages = [{"role": each.role, "content": each.text} for each in turns]
        return _example(self.source, [*messages, {"role": "assistant", "content": completion}])


def _chats(source: Source, held_out: set[str]) -> Iterator[Example | str]:
    for place, record in records(source.file):
        turns = messages_of(record, place, last="assistant")
        if len(turns) < 2:
            raise DatasetError(f'{place}: "messages" has a reply and nothing that it replies to')
        tested = any(normalised(each["content"]) in held_out for each in turns[:-1])
        yield _IN_TEST if tested else _example(source, turns)


def _example(source: Source, turns: Sequence[Mapping[str, str]]) -> Example:
    about = {"source": source.name, "kind": source.kind}
    return {"prompt": [*turns[:-1]], "completion": [turns[-1]], **about}


def _draw(seed: int, what: str) -> random.Random:
    return random.Random(f"{what} {seed}")  # noqa: S311 - no secret
