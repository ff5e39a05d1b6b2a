"""Judges of answers by name, each behind `AnswerJudge`."""

from __future__ import annotations

from collections.abc import Sequence

from beir_eval.answers.judges.asked import (
    AnswerSimilarity,
    Faithfulness,
    Nuggets,
    Relevance,
    RetrievalPrecision,
)
from beir_eval.answers.judges.base import Answered, AnswerJudge, Judgement
from beir_eval.answers.judges.team import TeamJudge
from beir_eval.answers.judges.words import (
    Abstention,
    Accuracy,
    AnswerRecall,
    CitationPrecision,
    CitationRecall,
    ExactMatch,
    TokenF1,
)
from beir_eval.errors import SettingError

__all__ = ["JUDGES", "AnswerJudge", "Answered", "Judgement", "judge_class"]

JUDGES: dict[str, type[AnswerJudge]] = {
    kind.name: kind
    for kind in (
        *(ExactMatch, TokenF1, Accuracy, AnswerRecall, CitationPrecision, CitationRecall),
        *(Abstention, RetrievalPrecision, AnswerSimilarity, Relevance, Faithfulness, Nuggets),
        TeamJudge,
    )
}


def judge_class(name: str) -> tuple[type[AnswerJudge], int | None]:
    """Return the judge of a name, and the k of ``answer_recall@k``.

    Raises:
        SettingError: there is none.
    """
    kind, at, k = name.partition("@")
    if kind in JUDGES and (not at or (kind == AnswerRecall.name and k.isdecimal() and int(k))):
        return JUDGES[kind], int(k) if at else None
    raise SettingError(f"there is no judge {name!r}; name some of {', '.join(JUDGES)}")


def names_of(text: str | Sequence[str]) -> list[str]:
    """Return the judges that a list, or a text with commas, names, each once.

    Raises:
        SettingError: there is no such judge, or none is named.
    """
    names = text.split(",") if isinstance(text, str) else text
    found = list(dict.fromkeys(each.strip() for each in names if each.strip()))
    for name in found:
        judge_class(name)
    if not found:
        raise SettingError(f"name at least one judge of {', '.join(JUDGES)}")
    return found
