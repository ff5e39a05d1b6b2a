"""A judge that compares meaning: typed questions answered by how near texts are, and by words.

It does not reason, writes nothing, reads no criteria, and follows no instruction in any text.
"""

from __future__ import annotations

import math
import re
import time
import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from mcranker.encoders.encoder import MAX_CHARACTERS, Encoder
from mcranker.encoders.term_coverage import Cover
from mcranker.errors import UnsupportedCapability
from mcranker.llm.chat import Answer, Capabilities, ChatReply, ChatRequest, Judge, Question, State
from mcranker.llm.local.catalogue import release_apart
from personas.ranking.usage import Usage

CHOICE_WIDTH = 0.05  # difference of similarity that makes an option less likely by a factor of e
COVER_SHARE = 0.5  # weight of shared words beside meaning
QUERY_SHARE = 0.5  # of the query beside a persona; with less, teams rank worse than it alone
WINDOW_WORDS = 100  # of the windows of a long passage
LONG = 400  # words from which on a passage is read in windows too: the encoder reads some 180
_WORD = re.compile(r"\S+")
MAX_QUESTIONS = 10_000  # in one request; bounds its memory
_VERSION = 3  # another number where answers change, so that the ledger asks again


class EncoderJudge:
    """Answers typed questions about a state, by any `Encoder`."""

    def __init__(self, encoder: Encoder, scale: tuple[float, float] = (0.0, 1.0)) -> None:
        self.name = encoder.name
        self.endpoint = f"{encoder.mark} {_VERSION} {scale}"
        self.capabilities = Capabilities(
            prompts=False, reasons=False, max_questions=MAX_QUESTIONS, statistics=True
        )
        self._encoder, self._scale = encoder, scale
        self._lease = weakref.finalize(self, release_apart, encoder.release)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer the questions."""
        state = request.state
        if state is None or not request.questions:
            raise UnsupportedCapability(
                f"{self.name} answers typed questions about a query and its passages, and no "
                f"prompts; for {request.tag.stage!r} name a chat model",
                model=self.name,
            )
        reading = _Reading(state, self._encoder, self._scale)
        await reading.prepare(request.questions)
        started = time.thread_time()
        answers = tuple(reading.answer(question) for question in request.questions)
        usage = reading.usage + Usage(seconds=time.thread_time() - started)
        return ChatReply(text="", usage=usage, model=self.name, answers=answers)

    async def aclose(self) -> None:
        """Free the model if it has no other user, once what is new is in the cache of vectors."""
        if self._lease.detach() is not None:
            await anyio.to_thread.run_sync(partial(self._encoder.release, wait=True))


def score(similarity: float, cover: float | None, scale: tuple[float, float]) -> float:
    """Return a passage's relevance, 0 to 1: half by its words, half by its meaning."""
    meaning = max((similarity - scale[0]) / scale[1], 0.0)
    mixed = meaning if cover is None else COVER_SHARE * cover + (1 - COVER_SHARE) * meaning
    return min(mixed, 1.0)


def windows(text: str) -> list[str]:
    """Split a long passage into pieces of `WINDOW_WORDS` words, the last may overlap; else none."""
    words = list(_WORD.finditer(text[:MAX_CHARACTERS]))
    if len(words) < LONG:
        return []
    last = len(words) - WINDOW_WORDS
    starts = dict.fromkeys([*range(0, last, WINDOW_WORDS), last])
    return [text[words[at].start() : words[at + WINDOW_WORDS - 1].end()] for at in starts]


def views(judge: Judge | None, query: str) -> list[tuple[str, float]]:
    """The query as a judge sees it: texts, and their shares in the similarity."""
    by_judge = []
    if judge is not None and judge.name:
        by_judge.append(f"{judge.name}: {query}")
    if judge is not None and judge.instruction:
        by_judge.append(f"{query} ({judge.instruction})")
    if not by_judge:
        return [(query, 1.0)]
    rest = (1 - QUERY_SHARE) / len(by_judge)
    return [(query, QUERY_SHARE), *((text, rest) for text in by_judge)]


class _Reading:
    """The texts of one request, as vectors, and the answers that follow from them."""

    def __init__(self, state: State, encoder: Encoder, scale: tuple[float, float]) -> None:
        self.usage = Usage(calls=1)
        self._state = state
        self._encoder, self._scale = encoder, scale
        self._vectors: dict[str, NDArray[np.float32]] = {}  # of texts with their prefixes
        self._tokens: dict[str, int] = {}
        self._views: dict[Judge | None, list[tuple[str, float]]] = {}
        self._parts: dict[str, list[str]] = {}  # passage -> its windows, if it is long
        self._cover: Cover | None = None
        self._covers: dict[str, float] = {}

    async def prepare(self, questions: Sequence[Question]) -> None:
        """Read all texts that the answers are made from."""
        before, before_passage = self._encoder.prefixes
        texts: list[str] = []
        for question in questions:
            if question.kind == "choice":
                phrases = [self._state.query, *chain.from_iterable(_phrases(question))]
                texts += [before + phrase for phrase in phrases]
                continue
            seen = self._views[question.judge] = views(question.judge, self._state.query)
            texts += [before + text for text, _ in seen]
            texts += [before_passage + text for text in self._passages(question)]
        await self._read(texts)
        most = self._encoder.max_tokens
        self._parts = {
            text: windows(text)
            for text in self._state.passages.values()
            if self._tokens.get(before_passage + text, 0) >= most
        }
        parts = chain.from_iterable(self._parts.values())
        await self._read(before_passage + part for part in parts)

    async def _read(self, texts: Iterable[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._tokens]
        if not new:
            return
        found = await self._encoder.encode(new)
        self._vectors.update(zip(new, found.vectors, strict=True))
        self._tokens.update(zip(new, found.tokens, strict=True))
        cached = sum(n for n, there in zip(found.tokens, found.known, strict=True) if there)
        self.usage += Usage(
            input_tokens=sum(found.tokens), cached_input_tokens=cached, seconds=found.usage.seconds
        )

    def answer(self, question: Question) -> Answer:
        if question.kind == "choice":
            nearest = [
                max(self._similarity(self._state.query, each, before=0) for each in phrases)
                for phrases in _phrases(question)
            ]
            masses = [math.exp((each - max(nearest)) / CHOICE_WIDTH) for each in nearest]
            probabilities = tuple(mass / math.fsum(masses) for mass in masses)
            return Answer(float(nearest.index(max(nearest))), probabilities=probabilities)
        passages = self._passages(question)
        if not passages:
            return Answer(None, problem="there is no passage to judge")
        value = max(self._score(text, self._views[question.judge]) for text in passages)
        return Answer(value if question.kind == "yes_no" else value * question.top)

    def _score(self, passage: str, seen: Sequence[tuple[str, float]]) -> float:
        if self._cover is None:
            self._cover = Cover(self._state.query, self._state.statistics)
        if self._cover.known and passage not in self._covers:
            self._covers[passage] = self._cover.of(passage)
        near = math.fsum(share * self._near(text, passage) for text, share in seen)
        return score(near, self._covers.get(passage), self._scale)

    def _near(self, view: str, passage: str) -> float:
        whole = self._similarity(view, passage)
        parts = self._parts.get(passage)
        if not parts:
            return whole
        return (whole + max(self._similarity(view, part) for part in parts)) / 2

    def _similarity(self, view: str, other: str, *, before: int = 1) -> float:
        """The cosine of a query's vector and of a passage's; with `before` 0, another query's."""
        prefixes = self._encoder.prefixes
        return float(self._vectors[prefixes[0] + view] @ self._vectors[prefixes[before] + other])

    def _passages(self, question: Question) -> list[str]:
        passages = self._state.passages
        if not question.passage:
            return list(passages.values())
        return [passages[question.passage]] if question.passage in passages else []


def _phrases(question: Question) -> list[list[str]]:
    """Return the phrases that each option is compared by."""
    return [
        [option.name, *filter(None, map(str.strip, option.description.split(",")))]
        for option in question.options
    ]
