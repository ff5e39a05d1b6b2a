"""The answer to a question from the passages of a context, in a style of `AnswerStage`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from mcranker.encoders.open_encoder import SIMILARITIES, by_name
from mcranker.encoders.term_coverage import Cover, statistics_of
from mcranker.errors import BudgetExceeded, ContextTooLong, ModelError, ReplyError
from mcranker.llm.chat import ChatReply
from mcranker.llm.local.encoder_judge import score
from mcranker.method.ask import Asking, text_of
from mcranker.rag.citations import (
    FEWEST_WORDS,
    SOFT_HYPHENS,
    Claim,
    marked_claims,
    sentence_spans,
    sentences_of,
    without_forged,
)
from mcranker.rag.config import FLOOR, AnswerStage
from mcranker.rag.passages import ChunkLike
from mcranker.rag.result import SourcePassage
from mcranker.replies.loose_json import CUT, LONGEST, Unreadable, find, fold, read_object
from mcranker.replies.schemas import claims_schema
from personas import PromptSet
from personas.ranking.types import Query
from personas.untrusted import Name, Own, encodable

if TYPE_CHECKING:
    from mcranker.retrieval.embedders import Embedder

DONT_KNOW = "I don't know."  # the text of an answer that abstains without a call
EXTRACTS = 3  # sentences of an answer of style "extract"
_MOST_CLAIMS = 200
_LONGEST_EXTRACT = 60  # words
_MOST_CANDIDATES = 2_000  # sentences to choose extracts from
_MOST_EMBEDDED = 50  # of them, those with the most of the question's words
_LONGEST_ABSTENTION = 30  # words
_FAILURES = (ModelError, BudgetExceeded)
_NOT_KNOWN = re.compile(
    r"\A\W*+(?:i'm |i am )?(?:sorry\W+)?(?:but )?i do(?:n't| not) know\b(?!.*\b(?:but|however)\b)",
    re.IGNORECASE | re.DOTALL,
)
_ECHO = re.compile(r"\A(?:Question:[^\n]*+\s*+)?Answer:\s*+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer from the first `seen` passages, with the claims that its sentences are."""

    text: str = ""
    kind: Literal["answer", "extract", "abstained", "none"] = "none"
    sentences: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    seen: int = 0
    notes: tuple[str, ...] = ()
    failure: str = ""


async def write_answer(
    question: str | Query,
    passages: Sequence[SourcePassage],
    stage: AnswerStage,
    asking: Asking | None,
    embedder: Embedder | None = None,
) -> Answer:
    """Answer a question from passages; a model that fails leaves `Answer.failure`."""
    query = question if isinstance(question, Query) else Query(question)
    if stage.style == "extract":
        return await _extract(query.conversation, passages, stage, asking, embedder)
    if not passages and stage.abstain:
        return _abstained("No passage was left to answer from.")
    assert asking is not None
    writer = _Writer(query, stage, asking)
    write = writer.cited if stage.style == "cited" else writer.plain
    try:
        answer = await _with_room(passages, write)
    except _FAILURES as error:
        return Answer(failure=str(error))
    return await writer.shortened(answer)


@dataclass(frozen=True, slots=True)
class _Writer:
    query: Query
    stage: AnswerStage
    asking: Asking

    async def plain(self, passages: Sequence[SourcePassage]) -> Answer:
        """Write an answer in prose; its claims are the sentences with marks."""
        style, most = self.stage.style, self.stage.max_tokens
        prompt, values = f"rag_answer_{style}", self._values(passages)
        if style == "rankrag" and self.query.turns:
            prompt, values["question"] = f"{prompt}_turns", self.query.text
            values["turns"] = self.asking.prompts.turns(self.query.turns)
        text, cut = await self.asking.read(prompt, values, _read_text, max_tokens=most)
        notes = (f"The answer was cut at {most} tokens.",) if cut else ()
        return replace(_of_text(text, len(passages)), notes=notes)

    async def shortened(self, answer: Answer) -> Answer:
        """The answer, written again in fewer words if it has too many and no quotes."""
        most, length = self.stage.max_words, len(answer.text.split())
        quoted = any(claim.quote for claim in answer.claims)
        if answer.kind != "answer" or quoted or most is None or length <= most:
            return answer
        values = {"question": self.query.conversation, "draft": answer.text, "words": str(most)}
        note = f"The answer has {length} words, and was not shortened"
        try:
            text = await self.asking.text("rag_shorten", values, max_tokens=self.stage.max_tokens)
        except _FAILURES as error:
            return replace(answer, notes=(*answer.notes, f"{note}: {error}"))
        if (words := len(text.split())) >= length:
            return replace(answer, notes=(*answer.notes, f"{note}: the new one has {words}."))
        note = f"The answer was shortened from {length} to {words} words."
        return replace(_of_text(text, answer.seen), notes=(*answer.notes, note))

    async def cited(self, passages: Sequence[SourcePassage]) -> Answer:
        """Write an answer in claims with quotes."""
        try:
            claims, notes = await self.asking.read(
                "rag_answer_cited",
                self._values(passages),
                _read_claims,
                max_tokens=self.stage.max_tokens,
                schema=claims_schema(len(passages) or 1),
            )
        except ReplyError as error:
            # A small model that keeps no form has answered, after all.
            text = error.reply.strip()
            if not any(map(str.isalnum, text)) or "{" in text or len(text) > LONGEST:
                raise
            note = "The writer did not give its claims one by one, with a quote each."
            return replace(_of_text(text, len(passages)), notes=(note,))
        claims, forged = without_forged(claims, passages)
        if forged:
            notes += (f"{forged} claims were left out: a passage has them in the form of a reply.",)
        if not claims:
            answer = _abstained("The writer found no answer in the passages.")
            return replace(answer, seen=len(passages), notes=(*answer.notes, *notes))
        sentences = tuple(dict.fromkeys(claim.text for claim in claims))
        return Answer(" ".join(sentences), "answer", sentences, tuple(claims), len(passages), notes)

    def _values(self, passages: Sequence[SourcePassage]) -> dict[str, str]:
        question, numbered = self.query.conversation, ((each.number, each) for each in passages)
        context = context_text(numbered, question, self.stage.style, self.asking.prompts)
        return {"question": question, "context": context}


async def _with_room(
    passages: Sequence[SourcePassage], write: Callable[[Sequence[SourcePassage]], Awaitable[Answer]]
) -> Answer:
    """Write from all passages, or from the first half of them while they are too long."""
    seen = passages
    while True:
        try:
            answer = await write(seen)
        except ContextTooLong:
            if len(seen) < 2:
                raise
            seen = seen[: len(seen) // 2]
            continue
        note = f"The writer saw the first {len(seen)} of {len(passages)} passages: with more the "
        notes = (f"{note}prompt was too long for it.",) if len(seen) < len(passages) else ()
        return replace(answer, notes=(*answer.notes, *notes))


def context_text(
    numbered: Iterable[tuple[int, ChunkLike]], question: str, style: str, prompts: PromptSet
) -> str:
    """Return passages with their numbers as the prompt of a style shows them."""
    rankrag = style.startswith("rankrag")
    piece = "rag_passage_numbered" if rankrag else "rag_passage_document"
    entries = [
        prompts.piece(
            "compared_passage" if style == "cited" else piece,
            {
                "number": str(number),
                "name": str(number),
                "title": Name(passage.title),
                "passage": prompts.passage(passage.text, query=question),
                "passage_text": Name(passage.text),
            },
        )
        for number, passage in numbered
    ]
    return Own(("\n" if rankrag else "\n\n").join(entries))


def _of_text(text: str, seen: int) -> Answer:
    """The answer that a model's prose is."""
    sentences = tuple(sentences_of(text))
    plain = text.replace("\u2019", "'")
    if _NOT_KNOWN.match(plain) and len(text.split()) <= _LONGEST_ABSTENTION:
        return Answer(text, "abstained", sentences, seen=seen)
    claims = tuple(marked_claims(sentences)[:_MOST_CLAIMS])
    return Answer(text, "answer", sentences, claims, seen)


def _abstained(note: str) -> Answer:
    return Answer(DONT_KNOW, "abstained", (DONT_KNOW,), notes=(note,))


def _read_text(reply: ChatReply) -> tuple[str, bool]:
    text = _ECHO.sub("", text_of(reply))
    if not text:
        raise Unreadable("it has no answer behind the question.")
    return text, reply.finish_reason == "length"


def _read_claims(reply: ChatReply) -> tuple[list[Claim], tuple[str, ...]]:
    """The claims of a reply; of one that was cut, those that are whole. And notes."""
    text = text_of(reply)
    entries, notes = _entries(text, cut=reply.finish_reason == "length")
    claims: list[Claim] = []
    for entry in entries:
        fields = {fold(name): value for name, value in entry.items()}
        said, numbers, quote = (fields.get(key) for key in ("claim", "passage", "quote"))
        sentence = " ".join(encodable(said).split()) if isinstance(said, str) else ""
        if not any(map(str.isalnum, sentence)):
            raise Unreadable('each of "Claims" must be an object with a "Claim" in words.')
        quote = encodable(quote) if isinstance(quote, str) else ""
        named = numbers if isinstance(numbers, list) else [numbers]
        claims += [Claim(sentence, _number(number), quote) for number in named]
    if len(claims) > _MOST_CLAIMS:
        notes += (f"Of {len(claims)} claims, the first {_MOST_CLAIMS} were taken.",)
    return claims[:_MOST_CLAIMS], notes


def _entries(text: str, *, cut: bool) -> tuple[list[Mapping[str, Any]], tuple[str, ...]]:
    if not cut:
        entries = find(text, "Claims").value
        if not isinstance(entries, list) or not all(isinstance(each, Mapping) for each in entries):
            raise Unreadable('"Claims" must be a list of objects.')
        return entries, ()
    entries, at = [], text.find("[")
    while at >= 0 and (at := text.find("{", at)) >= 0:
        members, at = read_object(text, at)
        entries.append(members)
    if not (entries := [each for each in entries if CUT not in each.values()]):
        raise Unreadable("it breaks off before the end of its first claim.")
    return entries, ("The answer was cut at the token limit; its whole claims were taken.",)


def _number(value: Any) -> int:
    """The number of a passage; 0 for what is none."""
    text = str(value).strip("[] ") if isinstance(value, int | str) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0


async def _extract(
    question: str,
    passages: Sequence[SourcePassage],
    stage: AnswerStage,
    asking: Asking | None,
    embedder: Embedder | None,
) -> Answer:
    """The sentences that an encoder's judge finds most relevant; without vectors, by words."""
    candidates: dict[str, Claim] = {}
    for passage in passages:
        for start, end in _quotable(passage.text):
            quote = passage.text[start:end]
            sentence = " ".join("".join(c for c in quote if c not in SOFT_HYPHENS).split())
            candidates.setdefault(sentence.casefold(), Claim(sentence, passage.number, quote))
    claims = list(candidates.values())[:_MOST_CANDIDATES]
    if not claims:
        return _abstained("No passage was left to answer from.")
    texts = [claim.text for claim in claims]
    cover = Cover(question, statistics_of(question, texts))
    scores = [cover.of(text) for text in texts] if cover.known else [0.0] * len(texts)
    best = sorted(range(len(claims)), key=lambda place: -scores[place])[:_MOST_EMBEDDED]
    notes: tuple[str, ...] = ()
    least = 0.0
    if embedder is not None:
        usage = asking.usage if asking else None
        try:
            (query,) = await embedder.embed_queries([question], usage)
            near = await embedder.embed_passages([texts[place] for place in best], usage) @ query
        except _FAILURES as error:
            notes = (f"Sentences were chosen by their words: {error}",)
        else:
            scale = by_name(SIMILARITIES, embedder.name)
            for place, cosine in zip(best, near.tolist(), strict=True):
                scores[place] = score(cosine, scores[place] if cover.known else None, scale)
            best.sort(key=lambda place: -scores[place])
            least = FLOOR if stage.abstain else 0.0
    chosen: list[Claim] = []
    words = 0
    for place in best[:EXTRACTS]:
        words += len(texts[place].split())
        short = not chosen or stage.max_words is None or words <= stage.max_words
        if scores[place] > 0 and scores[place] >= least and short:
            chosen.append(claims[place])
    if not chosen:
        below = f": the best has relevance {scores[best[0]]:.2f}, below {least:g}" if least else ""
        return _abstained(f"No sentence of the passages is about the question{below}.")
    sentences = tuple(claim.text for claim in chosen)
    return Answer(" ".join(sentences), "extract", sentences, tuple(chosen), len(passages), notes)


def _quotable(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence that can be quoted; longer ones in parts."""
    for start, end in sentence_spans(text):
        found = re.finditer(r"\S+", text[start:end])
        words = [each.span() for each in found if any(map(str.isalnum, each[0]))]
        for first in range(0, len(words), _LONGEST_EXTRACT):
            part = words[first : first + _LONGEST_EXTRACT]
            if len(part) >= FEWEST_WORDS:
                yield start + part[0][0], start + part[-1][1]
