"""Judges that compare words and citations, and ask no model."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from beir_eval.answers.judges.base import Answered, Judgement

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


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
