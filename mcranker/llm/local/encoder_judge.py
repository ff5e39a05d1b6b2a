"""A judge that reads meaning: typed questions answered by how near texts are to one another.

It does not reason, writes nothing, and follows no instruction in any text.
"""

from __future__ import annotations

import importlib.util
import math
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from mcranker.errors import ConfigError, UnsupportedCapability
from mcranker.llm.chat import (
    Answer,
    Capabilities,
    ChatReply,
    ChatRequest,
    Question,
    State,
    Usage,
)
from mcranker.llm.local.catalogue import find, not_found
from mcranker.llm.local.encoder import Encoded, Encoder, encoder_of
from mcranker.llm.local.model_files import Progress, resolve_encoder

PACKAGES = ("onnxruntime", "tokenizers")
"""What encodes texts."""

HIGHEST = 0.8
"""The similarity that counts as fully relevant, see `relevance`."""

CHOICE_WIDTH = 0.05
"""Options whose similarity is that much lower are less likely by a factor of e."""

FIRST_STAGE_WEIGHT = 0.3
"""Share of the first stage's score where nobody sets one.

On SciFact's 809 training queries, 0.3 to 0.4 gave the highest nDCG@10 of all shares from 0 to 1,
alike within 0.002; the least of them leaves most to the judge."""

MAX_QUESTIONS = 10_000  # in one request; bounds its memory
_VERSION = 1  # another number where answers change, and the ledger asks anew


def is_encoder(name: str) -> bool:
    """Whether ``local:NAME`` means an encoder of the catalogue."""
    entry = find(name)
    return entry is not None and entry.tokenizer is not None


class EncoderJudge:
    """Answers typed questions about a state by the similarity of vectors. Make one with `open`.

    The answer to a ``yes_no`` or a ``score`` is the `relevance` of the mean similarity of the
    passage to the query as the judge sees it (`views`), of a score times `Question.top`. A
    ``choice`` falls on the option that is nearest to the query, by its name or by one of the
    phrases, parted by commas, of its description.

    A question about no passage in particular is about the nearest of all. Question texts and
    levels are not read. Judges of one model share it, see `Encoder`; it is loaded at the first text
    that is not known, and freed when the last of them is closed.
    """

    def __init__(self, encoder: Encoder, name: str) -> None:
        self._encoder = encoder
        self._name = name
        self._capabilities = Capabilities(
            prompts=False,
            reasons=False,
            max_questions=MAX_QUESTIONS,
            first_stage_weight=FIRST_STAGE_WEIGHT,
        )
        self._lease: weakref.finalize[..., EncoderJudge] | None = weakref.finalize(
            self, encoder.release
        )

    @classmethod
    def open(cls, name: str, *, progress: Progress | None = None) -> EncoderJudge:
        """Find the model's files, fetching them if need be. Loads nothing yet.

        Args:
            name: what stands after ``local:``: the name of an encoder of the catalogue.
            progress: told of a download, see `mcranker.llm.local.model_files.download`.

        Raises:
            ConfigError: onnxruntime or tokenizers is not installed.
            ModelNotFound: the catalogue has no encoder of that name.
            DownloadError: the files had to be fetched and could not.
        """
        entry = find(name)
        if entry is None or entry.tokenizer is None:
            raise not_found(name)
        absent = [each for each in PACKAGES if importlib.util.find_spec(each) is None]
        if absent:
            raise ConfigError(
                f"local:{name} needs {' and '.join(absent)}: pip install 'mcranker[local]'."
            )
        taken, model, tokenizer = resolve_encoder(entry, progress=progress)
        full_name = f"local:{entry.name}"
        return cls(encoder_of(model, tokenizer, full_name, taken.sha256), full_name)

    @property
    def name(self) -> str:
        return self._name

    @property
    def endpoint(self) -> str:
        """What answers: the model's file, and how its similarities become answers."""
        return f"{self._encoder.mark} {_VERSION}"

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer the questions.

        Raises:
            UnsupportedCapability: there is no state, or no question about it.
            ConfigError, ModelFileError: as `Encoder.encode`.
        """
        state = request.state
        if state is None or not request.questions:
            raise UnsupportedCapability(
                f"{self._name} answers typed questions about a query and its passages, and no "
                f"prompts; for {request.tag.stage!r} name a chat model",
                model=self._name,
            )
        texts = list(dict.fromkeys(_texts(request.questions, state)))
        encoded = await self._encoder.encode(texts)
        started = time.thread_time()
        rows = {text: row for row, text in enumerate(texts)}
        similar = _Similarities(rows, encoded.vectors)
        answers = tuple(_answer(question, state, similar) for question in request.questions)
        seconds = encoded.seconds + time.thread_time() - started
        return ChatReply(text="", usage=_usage(encoded, seconds), model=self._name, answers=answers)

    async def aclose(self) -> None:
        """Free the model if nobody else uses it, once what is new is in the cache of vectors."""
        lease, self._lease = self._lease, None
        if lease is not None and lease.detach() is not None:
            await anyio.to_thread.run_sync(self._release)

    def _release(self) -> None:
        self._encoder.release(wait=True)


def relevance(similarity: float) -> float:
    """How relevant a passage of this similarity (-1 to 1) is, 0 to 1.

    It rises evenly from 0, for texts that have nothing in common, to 1 at `HIGHEST`. On SciFact's
    809 training queries this gave an nDCG@10 of teams within 0.001 of the best of ten straight
    lines, and 0.01 more than a logistic curve fitted to their judgements, since a curve brings
    the best and the worst passages together.
    """
    return min(max(similarity / HIGHEST, 0.0), 1.0)


def views(question: Question, state: State) -> list[str]:
    """The query as the question's judge sees it: by the judge's name, and by its criteria's names.

    Short wordings that hold the query itself; the query alone where nobody judges.
    """
    judge, seen = question.judge, []
    if judge is not None and judge.name:
        seen.append(f"{judge.name}: {state.query}")
    if judge is not None and judge.criteria:
        names = ", ".join(name for name, _, _ in judge.criteria)
        seen.append(f"{state.query} ({names})")
    return seen or [state.query]


class _Similarities(NamedTuple):
    rows: dict[str, int]
    vectors: NDArray[np.float32]

    def of(self, text: str, other: str) -> float:
        """The cosine of the angle between two texts' vectors."""
        a, b = self.vectors[self.rows[text]], self.vectors[self.rows[other]]
        return float(a @ b)


def _texts(questions: Sequence[Question], state: State) -> Iterator[str]:
    """All texts that the answers are made from."""
    for question in questions:
        if question.kind == "choice":
            yield state.query
            for phrases in _phrases(question):
                yield from phrases
        else:
            yield from views(question, state)
            yield from _passages(question, state)


def _answer(question: Question, state: State, similar: _Similarities) -> Answer:
    if question.kind == "choice":
        nearest = [
            max(similar.of(state.query, phrase) for phrase in phrases)
            for phrases in _phrases(question)
        ]
        masses = [math.exp((each - max(nearest)) / CHOICE_WIDTH) for each in nearest]
        probabilities = tuple(mass / math.fsum(masses) for mass in masses)
        return Answer(float(nearest.index(max(nearest))), probabilities=probabilities)
    passages = _passages(question, state)
    if not passages:
        return Answer(None, problem="there is no passage to judge")
    seen = views(question, state)
    means = [math.fsum(similar.of(each, text) for each in seen) / len(seen) for text in passages]
    value = relevance(max(means))
    return Answer(value if question.kind == "yes_no" else value * question.top)


def _passages(question: Question, state: State) -> list[str]:
    if question.passage:
        return [state.passages[question.passage]] if question.passage in state.passages else []
    return list(state.passages.values())


def _phrases(question: Question) -> list[list[str]]:
    """What each option is known by."""
    return [
        [option.name, *filter(None, map(str.strip, option.description.split(",")))]
        for option in question.options
    ]


def _usage(encoded: Encoded, seconds: float) -> Usage:
    known = sum(n for n, there in zip(encoded.tokens, encoded.known, strict=True) if there)
    return Usage(
        calls=1, input_tokens=sum(encoded.tokens), cached_input_tokens=known, seconds=seconds
    )
