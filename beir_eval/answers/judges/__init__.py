"""Judges of answers by name, each behind `AnswerJudge`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from beir_eval.answers.judges import asked, words
from beir_eval.answers.judges.base import Answered, AnswerJudge, Judgement
from beir_eval.answers.judges.team import team
from beir_eval.errors import SettingError

__all__ = ["JUDGES", "AnswerJudge", "Answered", "Judgement", "judge_of"]

_GOLDEN = ("golden_answers",)
_PASSAGES = ("golden_answers", "passages")

JUDGES: dict[str, AnswerJudge] = {
    "exact_match": AnswerJudge(words.exact_match, _GOLDEN),
    "f1": AnswerJudge(words.f1, _GOLDEN),
    "accuracy": AnswerJudge(words.accuracy, _GOLDEN),
    "answer_recall": AnswerJudge(words.answer_recall, ("golden_answers", "retrieved")),
    "citation_precision": AnswerJudge(words.citation_precision, ("citations",)),
    "citation_recall": AnswerJudge(words.citation_recall, ("citations",)),
    "abstention": AnswerJudge(words.abstention),
    "retrieval_precision": AnswerJudge(asked.retrieval_precision, ("passages",), asks=True),
    "answer_similarity": AnswerJudge(asked.answer_similarity, _GOLDEN, (0.0, 5.0), asks=True),
    "relevance": AnswerJudge(asked.relevance, _PASSAGES, (-1.0, 2.0), asks=True),
    "faithfulness": AnswerJudge(asked.faithfulness, _PASSAGES, (-1.0, 1.0), asks=True),
    "nuggets": AnswerJudge(asked.nuggets, _GOLDEN, asks=True),
    "team": AnswerJudge(team, asks=True),
}


def judge_of(name: str) -> AnswerJudge:
    """Return the judge of a name, which may be ``answer_recall@k`` with a whole number k from 1.

    Raises:
        SettingError: there is none.
    """
    kind, at, k = name.partition("@")
    if at and kind == "answer_recall" and k.isdecimal() and int(k):
        return replace(JUDGES[kind], find=partial(words.answer_recall, k=int(k)))
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
