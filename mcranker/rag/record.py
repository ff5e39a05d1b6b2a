"""The record of an answer: from the question to the sentences and the passages they rest on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from mcranker.errors import InputError
from personas.io.atomic import write_whole
from personas.io.lines import megabytes, parsed, read_text
from personas.ranking.stored import explain
from personas.sanitize import encodable, json_text

if TYPE_CHECKING:
    from mcranker.ranking import Ranking

StageName = Literal["query", "retrieval", "rerank", "context", "answer", "citations"]
Verdict = Literal["found", "misattributed", "stitched", "invented"]

LONGEST_FILE = 100_000_000
"""Bytes of a saved answer."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _encodable(cls, value: Any) -> Any:
        if isinstance(value, str):
            return encodable(value)
        if isinstance(value, Mapping):
            return {cls._encodable(key): cls._encodable(each) for key, each in value.items()}
        return [*map(cls._encodable, value)] if isinstance(value, list | tuple) else value


class SentQuery(_Record):
    """A query that was searched with.

    Attributes:
        text: as it was sent.
        origin: where it comes from.
    """

    text: str
    origin: Literal["question", "hypothetical answer", "variant", "rephrased", "sub-query"]


class SourcePassage(_Record):
    """A passage that was retrieved.

    Attributes:
        id: of the chunk, unique in the index.
        document: id of its document.
        title: of the document; may be empty.
        text: of the chunk.
        start: its first character in the document's text.
        end: the character behind its last.
        score: of retrieval, after fusion.
        found_by: places in `RAGResult.queries` of the queries that found it.
        rank: place among the passages that reranking left, from 1; 0 if it was dropped.
        relevance: by the ranker, 0 to 1; None if it gives none.
        number: its number in the context, from 1; 0 if the writer did not see it.
        dropped: why it went no further, as ``"rerank: relevance 0.21 is below 0.5"``; empty if it
            is in the context.
    """

    id: str
    document: str
    title: str = ""
    text: str
    start: int = 0
    end: int = 0
    score: float | None = None
    found_by: tuple[int, ...] = ()
    rank: int = 0
    relevance: float | None = None
    number: int = 0
    dropped: str = ""


class Citation(_Record):
    """A claim with the passage and the verbatim quote that the writer gave for it, checked.

    Attributes:
        claim: the sentence of the answer.
        passage: number of the passage in the context, as given; 0 if none was.
        quote: as given.
        verdict: ``"found"`` in that passage; ``"misattributed"``: in another one; ``"stitched"``:
            its parts are in the passage, apart; ``"invented"``: in none.
        start: its first character in the text of the passage that has it; None unless found or
            misattributed.
        end: the character behind its last.
        elsewhere: number of the passage that has it, if misattributed; else 0.
        note: what a reader should know of the verdict; may be empty.
        supports: whether a judge finds that the quote supports the claim, 0 to 1; None if not
            asked, or without an answer.
    """

    claim: str
    passage: int
    quote: str
    verdict: Verdict
    start: int | None = None
    end: int | None = None
    elsewhere: int = 0
    note: str = ""
    supports: float | None = None


class Sentence(_Record):
    """A sentence of the answer, with the places of its citations in `RAGResult.all_citations`."""

    text: str
    citations: tuple[int, ...] = ()


class Draft(_Record):
    """A persona's answer from its own order of the passages; `failure` says why there is none."""

    persona: str
    text: str = ""
    passages: tuple[int, ...] = ()
    failure: str = ""


class StageRecord(_Record):
    """A stage's effort.

    Attributes:
        seconds: from its beginning to its end.
        calls: of models, the ledger's answers left out.
        reused: answers that the ledger had.
        input_tokens: of `calls`.
        output_tokens: of `calls`.
        reused_tokens: of `reused`, in and out.
        cost: of `calls`, in US dollars; None if a price is not known.
        reused_cost: paid once for `reused`; None if a price is not known.
        failure: why it did not do its work, so that the pipeline went on without it; empty if it
            did.
        notes: what a reader should know, one sentence each.
    """

    name: StageName
    seconds: float = 0.0
    calls: int = 0
    reused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    reused_tokens: tuple[int, int] = (0, 0)
    cost: float | None = 0.0
    reused_cost: float | None = 0.0
    failure: str = ""
    notes: tuple[str, ...] = ()


class AnswerRecord(_Record):
    """An answer, with everything that led to it.

    Attributes:
        question: as asked.
        id: of the question; may be empty.
        text: the answer; empty if there is none.
        kind: ``"answer"``: written by a model; ``"extract"``: sentences of the passages;
            ``"abstained"``: nothing relevant was found, or the writer said so; ``"none"``: the
            answer failed, `failure` says why.
        failure: why there is no answer.
        sentences: the answer in sentences.
        all_citations: checked; `citations` has those that are found.
        queries: in the order in which they were sent.
        passages: all that were retrieved, in the order of retrieval.
        drafts: of the team's personas.
        stages: in their order.
        models: role -> model name.
        config: the pipeline's description.
        partial: whether the deadline cut it short.
        stored_ranking: the reranking, as `Ranking.to_dict` gives it; None without one.
        warnings: most severe first.
    """

    version: Literal[1] = 1
    question: str
    id: str = ""
    text: str = ""
    kind: Literal["answer", "extract", "abstained", "none"] = "none"
    failure: str = ""
    sentences: tuple[Sentence, ...] = ()
    all_citations: tuple[Citation, ...] = ()
    queries: tuple[SentQuery, ...] = ()
    passages: tuple[SourcePassage, ...] = ()
    drafts: tuple[Draft, ...] = ()
    stages: tuple[StageRecord, ...] = ()
    models: Mapping[str, str] = Field(default_factory=dict)
    config: Mapping[str, Any] = Field(default_factory=dict)
    partial: bool = False
    stored_ranking: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The citations whose quotes are in the passages they name."""
        return tuple(each for each in self.all_citations if each.verdict == "found")

    @property
    def context(self) -> Sequence[SourcePassage]:
        """The passages that the writer saw, by their number."""
        return sorted((each for each in self.passages if each.number), key=lambda each: each.number)

    @property
    def without(self) -> list[StageName]:
        """Stages that failed, so that the answer went on without them."""
        return [stage.name for stage in self.stages if stage.failure]

    @cached_property
    def ranking(self) -> Ranking | None:
        """The reranking, with its personas, scores and reasons; None without one."""
        from mcranker.ranking import Ranking

        return None if self.stored_ranking is None else Ranking.from_dict(self.stored_ranking)

    @model_validator(mode="after")
    def _check(self) -> Self:
        numbers = [each.number for each in self.passages if each.number]
        if len(set(numbers)) < len(numbers):
            raise ValueError("two passages have the same number in the context")
        cited = [place for each in self.sentences for place in each.citations]
        found_by = [place for each in self.passages for place in each.found_by]
        for what, places, there in (
            ("a sentence cites", cited, self.all_citations),
            ("a passage is found by query", found_by, self.queries),
        ):
            if any(not 0 <= place < len(there) for place in places):
                raise ValueError(f"{what} {max(places)}, and they are {len(there)}, from 0")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, stored: object) -> Self:
        """Read what `to_dict` gave.

        Raises:
            InputError: it is no such record, or of another version.
        """
        try:
            result = cls.model_validate(stored)
        except ValidationError as error:
            raise InputError(explain(error, "an answer", "this is no stored answer")) from error
        _ = result.ranking  # an error if it is damaged
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a JSON file, which appears whole or not at all.

        Raises:
            InputError: it is too large to be read again.
            OSError: it cannot be written.
        """
        data = json_text(self.to_dict()).encode()
        if len(data) > LONGEST_FILE:
            raise InputError(
                f"the answer takes {megabytes(len(data))}, and at most "
                f"{megabytes(LONGEST_FILE)} are read again; retrieve fewer or shorter passages"
            )
        write_whole(path, data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Raises:
            InputError: it cannot be read, is no such file, or of another version.
        """
        text = read_text(Path(path), InputError, LONGEST_FILE)
        stored = parsed(text, [str(path)], InputError)
        try:
            return cls.from_dict(stored)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
