"""The answer to a question from the passages of a context, in a style of `AnswerStage`."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from mcranker.config import NO_YES
from mcranker.encoders.term_coverage import Cover, statistics_of
from mcranker.errors import BudgetExceeded, ContextTooLong, ModelError, ReplyError
from mcranker.llm.chat import ChatReply
from mcranker.method.ask import Asking, text_of
from mcranker.rag.citations import (
    FEWEST_WORDS,
    SOFT_HYPHENS,
    Claim,
    marked_claims,
    sentence_spans,
    sentences_of,
    terms_of,
    without_forged,
)
from mcranker.rag.config import AnswerStage
from mcranker.rag.passages import ChunkLike
from mcranker.rag.record import Citation, Draft, SourcePassage
from mcranker.ranking import Ranking
from mcranker.replies.json import LONGEST, find, fold
from mcranker.replies.loose_json import CUT, Unreadable, read_object
from mcranker.replies.schemas import claims_schema
from mcranker.replies.scoring import expected_value
from mcranker.runtime.bridge import task_group
from personas import PromptSet
from personas.ranking.types import Query
from personas.sanitize import encodable
from personas.untrusted import Name, Own

if TYPE_CHECKING:
    from mcranker.retrieval.embedders import Embedder

DONT_KNOW = "I don't know."
"""The text of an answer that abstains without a call."""

EXTRACTS = 3
"""Sentences of an answer of style ``"extract"``."""

REBEL_SENTENCES, REBEL_CHARACTERS = 2, 250
"""Length of REBEL's answers."""

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
_YES_NO = re.compile(r"\A\W*(yes|no)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, with the claims whose citations are to be checked.

    Attributes:
        text: the answer; empty if there is none.
        kind: as in `RAGResult`.
        sentences: the answer in sentences; a claim's text is one of them.
        claims: in the order of the sentences.
        seen: how many passages of the context the writer saw, from the first.
        notes: what a reader should know, one sentence each.
        failure: why there is no answer.
    """

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


async def write_team_answer(
    question: str,
    ranking: Ranking | None,
    passages: Sequence[SourcePassage],
    stage: AnswerStage,
    asking: Asking,
) -> tuple[Answer, tuple[Draft, ...]]:
    """Answer a question from the drafts of a ranking's personas; a draft that fails is left out."""
    orders = {} if ranking is None else _own_orders(ranking, passages)
    if not orders:
        answer = await write_answer(question, passages, stage, asking)
        note = "No persona has an order of these passages, so the team drafted nothing."
        return replace(answer, notes=(*answer.notes, note)), ()
    writer = _Writer(Query(question), stage, asking)
    drafts: dict[str, Draft] = {}

    async def draft(persona: str, order: Sequence[SourcePassage]) -> None:
        drafts[persona] = await writer.draft(persona, _description(ranking, persona), order)

    async with task_group() as group:
        for persona, order in orders.items():
            group.start_soon(draft, persona, order)
    in_order = tuple(drafts[persona] for persona in orders)
    written = [each for each in in_order if not each.failure]
    notes = [
        f"The draft of {each.persona} is missing: {each.failure}"
        for each in in_order
        if each.failure
    ]
    if not written:
        answer = await write_answer(question, passages, stage, asking)
        return replace(answer, notes=(*answer.notes, *notes)), in_order
    try:
        answer = await _with_room(passages, lambda seen: writer.team(seen, written))
    except _FAILURES as error:
        first = written[0]
        notes.append(f"This is the draft of {first.persona}; the team's answer failed: {error}")
        answer = _of_text(first.text, len(first.passages))
    answer = await writer.shortened(answer)
    return replace(answer, notes=(*answer.notes, *notes)), in_order


async def check_support(
    question: str, citations: Sequence[Citation], asking: Asking
) -> tuple[tuple[Citation, ...], tuple[str, ...]]:
    """Ask a judge of each found citation whether its quote supports the claim."""
    labels = ("Yes", "No") if asking.model.capabilities.label_logprobs else ()
    asking = replace(asking, stage="support")
    found = [each for each in citations if each.verdict == "found"]
    supports = dict.fromkeys((each.claim, each.quote) for each in found)
    failures: list[str] = []

    async def judge(claim: str, quote: str) -> None:
        values = {"question": question, "claim": claim, "quote": quote}
        try:
            supports[claim, quote] = await asking.read(
                "rag_support", values, _read_support, max_tokens=4, labels=labels
            )
        except _FAILURES as error:
            failures.append(str(error))

    async with task_group() as group:
        for pair in supports:
            group.start_soon(judge, *pair)
    judged = [
        each.model_copy(update={"supports": supports.get((each.claim, each.quote))})
        for each in citations
    ]
    notes = (f"{len(failures)} citations were not judged: {failures[0]}",) if failures else ()
    return tuple(judged), notes


@dataclass(frozen=True, slots=True)
class _Writer:
    query: Query
    stage: AnswerStage
    asking: Asking

    async def plain(
        self, passages: Sequence[SourcePassage], prompt: str = "", **values: str
    ) -> Answer:
        """Write an answer in prose; its claims are the sentences with marks."""
        style = "cited" if prompt else self.stage.style
        prompt = prompt or f"rag_answer_{style}"
        values |= self._values(passages, style)
        if style == "rankrag" and self.query.turns:
            prompt, values["question"] = f"{prompt}_turns", self.query.text
            values["turns"] = self.asking.prompts.turns(self.query.turns)
        text, cut = await self.asking.read(
            prompt,
            values,
            _read_text,
            max_tokens=self.stage.max_tokens,
            persona=values.get("persona", ""),
        )
        notes = [f"The answer was cut at {self.stage.max_tokens} tokens."] if cut else []
        if style == "rebel" and len(short := _rebel(text)) < len(text):
            notes.append(
                f"The answer was cut to {REBEL_SENTENCES} sentences and "
                f"{REBEL_CHARACTERS} characters."
            )
            text = short
        if len(once := _once(text)) < len(text):
            notes.append("The writer repeated itself; each sentence is shown once.")
            text = once
        return replace(_of_text(text, len(passages)), notes=tuple(notes))

    async def draft(self, persona: str, description: str, order: Sequence[SourcePassage]) -> Draft:
        """Write a persona's draft from the passages in its order."""

        async def write(seen: Sequence[SourcePassage]) -> Answer:
            return await self.plain(
                seen, "rag_draft", persona=Name(persona), description=description
            )

        numbers = tuple(each.number for each in order)
        try:
            answer = await _with_room(order, write)
        except _FAILURES as error:
            return Draft(persona=persona, passages=numbers, failure=str(error))
        return Draft(persona=persona, passages=numbers[: answer.seen], text=answer.text)

    async def cited(self, passages: Sequence[SourcePassage]) -> Answer:
        """Write an answer in claims with quotes."""
        return await self._claims(passages, "rag_answer_cited")

    async def team(self, passages: Sequence[SourcePassage], drafts: Iterable[Draft]) -> Answer:
        """Write an answer in claims with quotes from drafts."""
        piece = self.asking.prompts.piece
        pieces = [
            piece("rag_team_draft", {"persona": Name(each.persona), "draft": each.text})
            for each in drafts
        ]
        return await self._claims(passages, "rag_team_answer", drafts=Own("\n\n".join(pieces)))

    async def shortened(self, answer: Answer) -> Answer:
        """The answer, written again in fewer words if it has too many; its claims go along."""
        most, length = self.stage.max_words, len(answer.text.split())
        if answer.kind != "answer" or most is None or length <= most:
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
        short = replace(_of_text(text, answer.seen), notes=(*answer.notes, note))
        if any(claim.quote for claim in answer.claims):
            short = replace(short, claims=tuple(_carried(short.sentences, answer.claims)))
        return short

    async def _claims(
        self, passages: Sequence[SourcePassage], prompt: str, **values: str
    ) -> Answer:
        try:
            claims, notes = await self.asking.read(
                prompt,
                {**values, **self._values(passages, "cited")},
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

    def _values(self, passages: Sequence[SourcePassage], style: str) -> dict[str, str]:
        numbered = ((each.number, each) for each in passages)
        context = context_text(numbered, self.query.conversation, style, self.asking.prompts)
        return {"question": self.query.conversation, "context": context}


async def _with_room(
    passages: Sequence[SourcePassage],
    write: Callable[[Sequence[SourcePassage]], Awaitable[Answer]],
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
        if len(seen) == len(passages):
            return answer
        note = (
            f"The writer saw the first {len(seen)} of {len(passages)} passages: with more the "
            "prompt was too long for it."
        )
        return replace(answer, notes=(*answer.notes, note))


def context_text(
    numbered: Iterable[tuple[int, ChunkLike]], question: str, style: str, prompts: PromptSet
) -> str:
    """Return passages with their numbers as the prompt of a style shows them."""
    rankrag = style.startswith("rankrag")
    numbered_as = "rag_passage_numbered" if rankrag else "rag_passage_document"
    entries = [
        prompts.piece(
            "compared_passage" if style == "cited" else numbered_as,
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


def _carried(sentences: Iterable[str], claims: Sequence[Claim]) -> Iterator[Claim]:
    """Each sentence with the sources of the claim that has most of its words, at least half."""
    words = [terms_of(claim.text) for claim in claims]
    for sentence in sentences:
        terms = terms_of(sentence)
        shared = [len(terms & each) for each in words]
        best = claims[shared.index(max(shared))].text
        if 2 * max(shared) >= max(1, len(terms)):
            yield from (each._replace(text=sentence) for each in claims if each.text == best)


def _rebel(text: str) -> str:
    """The first sentences of a text within REBEL's limits, cut behind a word if need be."""
    spans = list(sentence_spans(text))[:REBEL_SENTENCES]
    while len(spans) > 1 and spans[-1][1] - spans[0][0] > REBEL_CHARACTERS:
        spans.pop()
    kept = text[spans[0][0] : spans[-1][1]]
    if len(kept) > REBEL_CHARACTERS:
        kept = kept[: REBEL_CHARACTERS - 1].rsplit(None, 1)[0] + "\u2026"
    return kept


def _once(text: str) -> str:
    """The text without the sentences that it has said before."""
    said: set[str] = set()
    parts: list[str] = []
    before = 0
    for start, end in sentence_spans(text):
        if (sentence := text[start:end].casefold()) not in said:
            parts.append(text[before:end])
            said.add(sentence)
        before = end
    return "".join(parts).rstrip()


def _own_orders(
    ranking: Ranking, passages: Sequence[SourcePassage]
) -> dict[str, list[SourcePassage]]:
    """Persona -> the passages in its order; those that it did not score follow as they are."""
    hits = {hit.doc_id: hit for hit in ranking.hits}

    def rank(name: str, passage: SourcePassage) -> float | None:
        if (hit := hits.get(passage.id)) is None:
            return None
        if ranking.orders:
            return hit.ranks.get(name)
        score = hit.scores[name]
        return None if score is None else -score

    def order(name: str) -> list[SourcePassage] | None:
        ranks = {each.id: rank(name, each) for each in passages}
        if all(each is None for each in ranks.values()):
            return None
        last = math.inf
        return sorted(passages, key=lambda each: last if (r := ranks[each.id]) is None else r)

    names = ranking.orders or ranking.personas
    return {name: found for name in names if (found := order(name)) is not None}


def _description(ranking: Ranking | None, persona: str) -> str:
    members = ranking.team.members if ranking is not None and ranking.team is not None else ()
    return next((each.persona.description for each in members if each.name == persona), "")


def _read_support(reply: ChatReply) -> float:
    if reply.label_logprobs is not None:
        return expected_value(reply.label_logprobs, NO_YES)
    if said := _YES_NO.match(text_of(reply)):
        return float(said.group(1).lower() == "yes")
    raise Unreadable('it is neither "Yes" nor "No".')


async def _extract(
    question: str,
    passages: Sequence[SourcePassage],
    stage: AnswerStage,
    asking: Asking | None,
    embedder: Embedder | None,
) -> Answer:
    """The sentences of the passages that have most of the question's words and meaning."""
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
    if embedder is not None:
        usage = asking.usage if asking else None
        try:
            (query,) = await embedder.embed_queries([question], usage)
            near = await embedder.embed_passages([texts[place] for place in best], usage) @ query
        except _FAILURES as error:
            notes = (f"Sentences were chosen by their words: {error}",)
        else:
            for place, cosine in zip(best, near.tolist(), strict=True):
                scores[place] += cosine
            best.sort(key=lambda place: -scores[place])
    chosen: list[Claim] = []
    words = 0
    for place in best[:EXTRACTS]:
        words += len(texts[place].split())
        if scores[place] > 0 and (
            not chosen or stage.max_words is None or words <= stage.max_words
        ):
            chosen.append(claims[place])
    if not chosen:
        return _abstained("No sentence of the passages is about the question.")
    sentences = tuple(claim.text for claim in chosen)
    return Answer(" ".join(sentences), "extract", sentences, tuple(chosen), len(passages), notes)


def _quotable(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence that can be quoted; longer ones in parts."""
    for start, end in sentence_spans(text):
        words = [
            found.span()
            for found in re.finditer(r"\S+", text[start:end])
            if any(map(str.isalnum, found[0]))
        ]
        for first in range(0, len(words), _LONGEST_EXTRACT):
            part = words[first : first + _LONGEST_EXTRACT]
            if len(part) >= FEWEST_WORDS:
                yield start + part[0][0], start + part[-1][1]
