"""Judges of answers by name, each behind `AnswerJudge`.

Some compare words and citations, the others ask a model. A reply that cannot be read is a missing
value, never a low one.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from beir_eval.answers.questions import Question
from beir_eval.errors import SettingError
from mcranker.errors import FATAL_ERRORS, BudgetExceeded, ModelError
from mcranker.llm.chat import ChatReply
from mcranker.method.ask import Asking, text_of
from mcranker.rag.result import Citation
from mcranker.replies.loose_json import Unreadable, find
from mcranker.replies.read import by_number
from mcranker.replies.schemas import NUGGETS_SCHEMA, support_schema, verdict_schema
from mcranker.runtime.bridge import task_group
from personas.ranking.types import Passage, Query
from personas.sanitize import plain

if TYPE_CHECKING:
    from mcranker.rankers import Ranker
    from personas.ranking.usage import UsageTable

INSTRUCTION = "The passage is an answer to the query: judge whether it is right and complete."
"""Option of the `MCRanker` that judges."""
LONGEST_CONTEXT = 200_000
"""Characters of the passages that a judge is shown."""
MOST_NUGGETS = 20
"""Facts that are taken of a golden answer; AutoNuggetizer (arXiv 2411.09607) takes as many."""
LONGEST_WHY = 1_000  # characters

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
# The one word that the papers ask for is read as well as the object.
_NUMBER = re.compile(r"\A[\s*\"'`]*(\d{1,2}(?:\.\d{1,6})?)[\s*\"'`.]*\Z")
_TRUE_FALSE = re.compile(r"\A\W*(true|false)\W*\Z", re.IGNORECASE)
_SIMILARITY = verdict_schema("similarity", [half / 2 for half in range(11)])
_RELEVANT = verdict_schema("relevant", [True, False])
_SUPPORT = ("support", "partial", "no")


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, from a pipeline or from anything else; None for what is not known."""

    question: Question
    text: str
    abstained: bool = False
    failure: str = ""  # why there is no answer
    passages: tuple[str, ...] | None = None  # texts that the writer saw, best first
    retrieved: tuple[str, ...] | None = None  # texts that were found, seen by the writer or not
    citations: tuple[Citation, ...] | None = None  # checked; None for a form without any
    extract: bool = False  # whether it is sentences of the passages, which quote themselves
    models: frozenset[str] = frozenset()  # that wrote it


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's value for one answer."""

    # On the judge's scale, the lowest if there is no answer; None if it is missing or undefined.
    value: float | None
    why: str = ""  # there is no value, or no answer
    # True if the judge would have no value if it was asked again, e.g. the precision of no passages
    undefined: bool = False
    notes: str = ""  # what the judge wrote
    parts: Mapping[str, Any] = field(default_factory=dict)  # finer values, e.g. one a passage


def failed(scale: tuple[float, float], why: str) -> Judgement:
    """The judgement of an answer that is not there: the lowest value."""
    return Judgement(scale[0], plain(f"there is no answer: {why}", LONGEST_WHY))


@dataclass(frozen=True, slots=True)
class AnswerJudge:
    """A judge; `dataclasses.replace` gives it what it asks."""

    find: Callable[..., Awaitable[Judgement]]  # takes an answer, and `by` if there is one
    needs: Sequence[str] = ()  # "golden_answers", "passages", "retrieved", "citations"
    scale: tuple[float, float] = (0.0, 1.0)
    asks: bool = False  # whether it asks a model
    by: Any = None  # an `Asking`, or the `MCRanker` of a team
    asked_model: str = ""

    async def judge(self, answered: Answered) -> Judgement:
        """Return the judgement; a reply that cannot be read is a missing value with its reason."""
        if answered.failure:
            return failed(self.scale, answered.failure)
        if lack := self.lack(answered):
            return Judgement(None, f"it has no {lack}", undefined=True)
        try:
            return await self.find(answered, *([] if self.by is None else [self.by]))
        except FATAL_ERRORS:
            raise
        except (ModelError, BudgetExceeded) as error:
            return Judgement(None, plain(str(error), LONGEST_WHY))

    def lack(self, answered: Answered) -> str:
        """Name what the judge needs and the answer has not; empty if it has everything."""
        golden = answered.question.golden_answers or None
        if answered.extract and "citations" in self.needs:
            return "quotes that a writer chose"
        for need in self.needs:
            if (golden if need == "golden_answers" else getattr(answered, need)) is None:
                return need.replace("_", " ").replace("retrieved", "passages")
        return ""


def normalised(text: str) -> str:
    """Return a text as SQuAD's evaluation compares it."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def token_f1(answer: str, golden: str) -> float:
    """F1 of an answer's words with a golden answer's, as SQuAD counts them."""
    said, right = normalised(answer).split(), normalised(golden).split()
    if not said or not right:
        return float(said == right)
    common = (Counter(said) & Counter(right)).total()
    if not common:
        return 0.0
    precision, recall = common / len(said), common / len(right)
    return 2 * precision * recall / (precision + recall)


async def exact_match(answered: Answered) -> Judgement:
    """Return 1 if the answer is one of the golden ones after `normalised`, else 0."""
    right = map(normalised, answered.question.golden_answers)
    return Judgement(float(normalised(answered.text) in right))


async def f1(answered: Answered) -> Judgement:
    """Return the highest `token_f1` with a golden answer."""
    golden = answered.question.golden_answers
    return Judgement(max(token_f1(answered.text, each) for each in golden))


async def accuracy(answered: Answered) -> Judgement:
    """Return 1 if a golden answer is part of the answer as `is_in` has it, else 0."""
    return Judgement(float(is_in(answered.question.golden_answers, answered.text)))


async def answer_recall(answered: Answered, *, k: int = 5) -> Judgement:
    """Return Recall@k: 1 if a golden answer is in one of the first k passages found, else 0."""
    golden, found = answered.question.golden_answers, answered.retrieved or ()
    return Judgement(float(any(is_in(golden, each) for each in found[:k])))


async def citation_precision(answered: Answered) -> Judgement:
    """Return the share of an answer's citations whose quote is in the passage that they name."""
    verdicts = Counter[str](each.verdict for each in answered.citations or ())
    if not verdicts:
        return Judgement(None, "it cites nothing", undefined=True)
    return Judgement(verdicts["found"] / verdicts.total(), parts=dict(verdicts))


async def citation_recall(answered: Answered) -> Judgement:
    """Return the share of an answer's claims that have a citation whose quote is found."""
    claims = {each.claim for each in answered.citations or ()}
    if not claims:
        return Judgement(None, "it makes no claim with a citation", undefined=True)
    found = {each.claim for each in answered.citations or () if each.verdict == "found"}
    return Judgement(len(found) / len(claims))


async def abstention(answered: Answered) -> Judgement:
    """Return 1 if the answer says that it does not know, else 0; neither is good by itself."""
    return Judgement(float(answered.abstained))


def is_in(golden: Sequence[str], text: str) -> bool:
    """Return whether a golden answer is in the text, both normalised, word by word."""
    words = f" {normalised(text)} "
    return any((each := normalised(one)) and f" {each} " in words for one in golden)


async def answer_similarity(answered: Answered, asking: Asking) -> Judgement:
    """Return likeness with the golden answer, 0 to 5, as REBEL has it (Tonic Validate's prompt)."""
    values = _texts(answered, asking, "reference", "response")
    found = await asking.read(
        "judge_similarity", values, _read_number, max_tokens=32, schema=_SIMILARITY
    )
    return Judgement(found)


async def retrieval_precision(answered: Answered, asking: Asking) -> Judgement:
    """Return the share of relevant passages of the writer's, one true/false call each (REBEL)."""
    passages, question = answered.passages or (), answered.question.query.conversation
    if not passages:
        return Judgement(None, "no passage was left for the writer", undefined=True)
    verdicts: list[bool | None] = [None] * len(passages)
    faults: list[str] = []

    async def one(place: int, text: str) -> None:
        shown = asking.prompts.passage(text, query=question)
        values = {"question": question, "passage": shown}
        try:
            verdicts[place] = await asking.read(
                "judge_passage", values, _read_true, max_tokens=32, schema=_RELEVANT
            )
        except FATAL_ERRORS:
            raise
        except (ModelError, BudgetExceeded) as error:
            faults.append(str(error))

    async with task_group() as group:
        for place, text in enumerate(passages):
            group.start_soon(one, place, text)
    parts = {"passages": verdicts}
    if faults:
        why = f"{len(faults)} of {len(passages)} verdicts are missing: {faults[0]}"
        return Judgement(None, why, parts=parts)
    return Judgement(sum(map(bool, verdicts)) / len(verdicts), parts=parts)


async def relevance(answered: Answered, asking: Asking) -> Judgement:
    """Return LiveRAG 2025's grade of relevance, with notes (G-RAG, arXiv 2506.14516)."""
    return await _graded(answered, asking, "relevance", range(-1, 3))


async def faithfulness(answered: Answered, asking: Asking) -> Judgement:
    """Return LiveRAG's grade of faithfulness: 1, all is in the passages; 0, a part; -1, nothing."""
    return await _graded(answered, asking, "faithfulness", range(-1, 2))


async def nuggets(answered: Answered, asking: Asking) -> Judgement:
    """Return the share of the vital facts of the golden answers that the answer holds in full."""
    values = {**_texts(answered, asking, "reference"), "most": str(MOST_NUGGETS)}
    facts = await asking.read(
        "judge_nuggets", values, _read_nuggets, max_tokens=2000, schema=NUGGETS_SCHEMA
    )
    listed = "\n".join(f"{place}. {text}" for place, text in enumerate(facts, 1))
    values = {**_texts(answered, asking, "response"), "nuggets": listed}
    schema, read = support_schema(len(facts), _SUPPORT), _support_of(len(facts))
    support = await asking.read("judge_nugget_support", values, read, max_tokens=800, schema=schema)
    found = [
        each == "support" for each, vital in zip(support, facts.values(), strict=True) if vital
    ]
    rows = [
        {"nugget": text, "vital": vital, "support": each}
        for (text, vital), each in zip(facts.items(), support, strict=True)
    ]
    if not found:
        return Judgement(None, "no fact is vital", undefined=True, parts={"nuggets": rows})
    return Judgement(sum(found) / len(found), parts={"nuggets": rows})


def verdict_of(key: str, options: Sequence[Any]) -> Callable[[ChatReply], tuple[Any, str]]:
    """Return a reader of replies: which of the options is under `key`, and the notes beside it."""

    def read(reply: ChatReply) -> tuple[Any, str]:
        found = find(text_of(reply), key)
        if type(found.value) is not type(options[0]) or found.value not in options:
            raise Unreadable(f'"{key}" must be one of {", ".join(map(str, options))}.')
        return found.value, str(found.record.get("evaluation_notes", ""))

    return read


async def team(answered: Answered, ranker: Ranker, *, usage: UsageTable | None = None) -> Judgement:
    """Return the relevance, 0 to 1, that a team gives the answer as its question's only passage."""
    ranking = await ranker.arank(*as_ranking(answered))
    if usage is not None:
        usage.add_all(ranking.calls)
    (hit,) = ranking.hits
    parts = dict(hit.scores)
    if hit.relevance is None:
        reasons = [each.reason for each in ranking.missing]
        return Judgement(None, reasons[0] if reasons else ranking.failure, parts=parts)
    return Judgement(hit.relevance, parts=parts)


def as_ranking(answered: Answered) -> tuple[Query, list[Passage]]:
    """Return the query and the passage that an answer is to a team."""
    question = answered.question
    text = question.query.conversation
    if question.golden_answers:
        text += f"\n\nA right answer: {question.golden_answers[0]}"
    return Query(text, question.id), [Passage("answer", answered.text or "(no text)")]


_GOLDEN, _PASSAGES = ("golden_answers",), ("golden_answers", "passages")

JUDGES: dict[str, AnswerJudge] = {
    "exact_match": AnswerJudge(exact_match, _GOLDEN),
    "f1": AnswerJudge(f1, _GOLDEN),
    "accuracy": AnswerJudge(accuracy, _GOLDEN),
    "answer_recall": AnswerJudge(answer_recall, ("golden_answers", "retrieved")),
    "citation_precision": AnswerJudge(citation_precision, ("citations",)),
    "citation_recall": AnswerJudge(citation_recall, ("citations",)),
    "abstention": AnswerJudge(abstention),
    "retrieval_precision": AnswerJudge(retrieval_precision, ("passages",), asks=True),
    "answer_similarity": AnswerJudge(answer_similarity, _GOLDEN, (0.0, 5.0), asks=True),
    "relevance": AnswerJudge(relevance, _PASSAGES, (-1.0, 2.0), asks=True),
    "faithfulness": AnswerJudge(faithfulness, _PASSAGES, (-1.0, 1.0), asks=True),
    "nuggets": AnswerJudge(nuggets, _GOLDEN, asks=True),
    "team": AnswerJudge(team, asks=True),
}


def judge_of(name: str) -> AnswerJudge:
    """Return the judge of a name, which may be ``answer_recall@k`` with a whole number k from 1."""
    kind, at, k = name.partition("@")
    if at and kind == "answer_recall" and k.isdecimal() and int(k):
        return replace(JUDGES[kind], find=partial(answer_recall, k=int(k)))
    if name in JUDGES:
        return JUDGES[name]
    raise SettingError(f"there is no judge {name!r}; name some of {', '.join(JUDGES)}")


def names_of(names: Iterable[str]) -> list[str]:
    """Return the judges that are named, each once."""
    found = list(dict.fromkeys(filter(None, map(str.strip, names))))
    for name in found:
        judge_of(name)
    if not found:
        raise SettingError(f"name at least one judge of {', '.join(JUDGES)}")
    return found


async def _graded(answered: Answered, asking: Asking, name: str, grades: range) -> Judgement:
    key, values = f"{name}_score", _texts(answered, asking, "reference", "response", "context")
    schema = verdict_schema(key, grades, "evaluation_notes")
    grade, notes = await asking.read(
        f"judge_{name}", values, verdict_of(key, grades), max_tokens=400, schema=schema
    )
    return Judgement(float(grade), notes=notes)


def _texts(answered: Answered, asking: Asking, *names: str) -> dict[str, str]:
    """The question, and of an answer those that are named, between markers."""
    question, prompts = answered.question.query.conversation, asking.prompts
    texts = {
        "response": answered.text,
        "reference": "\n\n".join(answered.question.golden_answers),
        "context": "\n\n".join(answered.passages or ())[:LONGEST_CONTEXT],
    }
    shown = {name: prompts.passage(texts[name], query=question) for name in names}
    return {"question": question, **shown}


def _read_number(reply: ChatReply) -> float:
    text = text_of(reply)
    said = _NUMBER.match(text)
    found: Any = find(text, "similarity").value if said is None else float(said[1])
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found <= 5:
        raise Unreadable('"similarity" must be a number from 0 to 5.')
    return float(found)


def _read_true(reply: ChatReply) -> bool:
    text = text_of(reply)
    if (said := _TRUE_FALSE.match(text)) is not None:
        return said[1].lower() == "true"
    if not isinstance(found := find(text, "relevant").value, bool):
        raise Unreadable('"relevant" must be true or false.')
    return found


def _read_nuggets(reply: ChatReply) -> dict[str, bool]:
    """Fact -> whether it is vital."""
    entries = find(text_of(reply), "Nuggets").value
    found: dict[str, bool] = {}
    for entry in entries if isinstance(entries, list) else ():
        text = entry.get("Nugget") if isinstance(entry, Mapping) else None
        importance = str(entry.get("Importance", "")).lower() if text else ""
        if not isinstance(text, str) or importance not in ("vital", "okay"):
            raise Unreadable('each of "Nuggets" must have a "Nugget" and "vital" or "okay".')
        found.setdefault(" ".join(text.split()), importance == "vital")
    if not found:
        raise Unreadable('"Nuggets" must be a list of at least one.')
    return dict([*found.items()][:MOST_NUGGETS])


def _support_of(count: int) -> Callable[[ChatReply], list[str]]:
    def read(reply: ChatReply) -> list[str]:
        under: Any = find(text_of(reply), "Support").value
        values = by_number(under, count) if isinstance(under, Mapping) else None
        if values is None:
            raise Unreadable(f'"Support" must have the numbers 1 to {count}, each once.')
        support = [str(value).lower() for value in values]
        if not {*support} <= {*_SUPPORT}:
            raise Unreadable('each must be "support", "partial" or "no".')
        return support

    return read
