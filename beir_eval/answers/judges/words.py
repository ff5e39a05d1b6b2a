"""Judges that compare words and citations, and ask no model."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from beir_eval.answers.judges.base import Answered, AnswerJudge, Judgement

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Return a text as SQuAD's evaluation compares it.

    In lower case, without punctuation (ASCII), without a, an and the, blanks squeezed
    (https://rajpurkar.github.io/SQuAD-explorer, evaluate-v2.0).
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def token_f1(answer: str, golden: str) -> float:
    """F1 of an answer's words with a golden answer's, as SQuAD counts them.

    Where one of the two has no word left, it is 1 if both have none, else 0.
    """
    said, right = normalised(answer).split(), normalised(golden).split()
    if not said or not right:
        return float(said == right)
    common = (Counter(said) & Counter(right)).total()
    if not common:
        return 0.0
    precision, recall = common / len(said), common / len(right)
    return 2 * precision * recall / (precision + recall)


class ExactMatch(AnswerJudge):
    """1 if the answer is one of the golden ones after `normalised`, else 0."""

    name: ClassVar[str] = "exact_match"
    needs: ClassVar[Sequence[str]] = ("golden_answers",)

    async def _judge(self, answered: Answered) -> Judgement:
        said = normalised(answered.text)
        right = map(normalised, answered.question.golden_answers)
        return Judgement(float(said in right))


class TokenF1(AnswerJudge):
    """The highest `token_f1` with a golden answer."""

    name: ClassVar[str] = "f1"
    needs: ClassVar[Sequence[str]] = ("golden_answers",)

    async def _judge(self, answered: Answered) -> Judgement:
        golden = answered.question.golden_answers
        return Judgement(max(token_f1(answered.text, each) for each in golden))


class Accuracy(AnswerJudge):
    """1 if a golden answer is part of the answer, word by word after `normalised`, else 0."""

    name: ClassVar[str] = "accuracy"
    needs: ClassVar[Sequence[str]] = ("golden_answers",)

    async def _judge(self, answered: Answered) -> Judgement:
        golden = answered.question.golden_answers
        return Judgement(float(is_in(golden, answered.text)))


class AnswerRecall(AnswerJudge):
    """Recall@k of the answer: 1 if a golden answer is in one of the first k passages found.

    It is the recall of RankRAG's table 6. `k` is 5, or that of a name such as ``answer_recall@20``.
    """

    name: ClassVar[str] = "answer_recall"
    needs: ClassVar[Sequence[str]] = ("golden_answers", "retrieved")
    k: int = 5

    async def _judge(self, answered: Answered) -> Judgement:
        found = (answered.retrieved or ())[: self.k]
        golden = answered.question.golden_answers
        return Judgement(float(any(is_in(golden, each) for each in found)))


class CitationPrecision(AnswerJudge):
    """The share of an answer's citations whose quote is in the passage that they name.

    An answer without citations has no precision.
    """

    name: ClassVar[str] = "citation_precision"
    needs: ClassVar[Sequence[str]] = ("citations",)

    async def _judge(self, answered: Answered) -> Judgement:
        citations = answered.citations or ()
        if not citations:
            return Judgement(None, "it cites nothing", undefined=True)
        verdicts = Counter[str](each.verdict for each in citations)
        return Judgement(verdicts["found"] / len(citations), parts=dict(verdicts))


class CitationRecall(AnswerJudge):
    """The share of an answer's claims that have a citation whose quote is found."""

    name: ClassVar[str] = "citation_recall"
    needs: ClassVar[Sequence[str]] = ("citations",)

    async def _judge(self, answered: Answered) -> Judgement:
        citations = answered.citations or ()
        claims = {each.claim for each in citations}
        if not claims:
            return Judgement(None, "it makes no claim with a citation", undefined=True)
        found = {each.claim for each in citations if each.verdict == "found"}
        return Judgement(len(found) / len(claims))


class Abstention(AnswerJudge):
    """1 if the answer says that it does not know, else 0; by itself neither good nor bad."""

    name: ClassVar[str] = "abstention"

    async def _judge(self, answered: Answered) -> Judgement:
        return Judgement(float(answered.abstained))


def is_in(golden: Sequence[str], text: str) -> bool:
    """Return whether a golden answer is in the text, both normalised, word by word."""
    words = f" {normalised(text)} "
    return any((each := normalised(one)) and f" {each} " in words for one in golden)
