"""Signs that a passage was written to be ranked high, found by rules and without a model.

The rules follow the attacks of Alaofi et al. 2025, "LLMs can be Fooled into Labelling a Document
as Relevant" (arXiv 2501.17969): instructions to the judge, the query as a whole, and keywords over
and over; besides, characters that people do not see and models read. A sign is no proof, and a
passage without one is not safe: scattered single keywords, and instructions in other languages
than English, are not found. docs/report.md states the rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from personas.sanitize import plain
from personas.untrusted import without_tokens

Sign: TypeAlias = Literal["addresses the judge", "hidden characters", "query copied", "keywords"]

LONG_QUERY = 6  # words of a query that a text does not hold by chance
SHORT_QUERY = 3  # words of a query that must occur twice; shorter ones are names and topics
IN_A_ROW = 3  # times a keyword, or all keywords of a query, occur side by side
OFTEN, CROWDED = 12, 0.3  # keywords, and their share of the words
IN_TITLE, CROWDED_TITLE = 5, 0.6  # keywords of a title that repeats two, and their share
SPLIT_WORDS = 2  # words with characters of no width within
LOOKED_AT = 50_000  # characters of a passage, its title included

_EXCERPT = 100
_BEFORE = 20
_NAMED = 5
_HIDDEN = re.compile("[\x00-\x08\x0e-\x1f\x7f\u202d\u202e\ufff9-\ufffb\U000e0020-\U000e007f]")
_FLAGS = re.compile("\U0001f3f4[\U000e0020-\U000e007f]+")  # of England, Scotland and Wales
_WIDTHLESS = "\u200b\u2060\u2061\u2062\u2063\u2064\ufeff"
_SPLIT = re.compile(f"(?<=[A-Za-z\u00c0-\u04ff])[{_WIDTHLESS}]+(?=[A-Za-z\u00c0-\u04ff])")
_WORD = re.compile(r"\w+")
_PARTED = r"\W+"
_TEXT = "(?:passage|document|text|paper|article|answer|result|abstract|page|content|snippet)"
_MODEL = "(?:assessor|annotator|rater|ranker|reranker|grader|evaluator|llm|ai|language model)"
_VERBS = "rate|score|mark|label|rank|grade|give|assign|award"
_PRAISE = "perfectly|highly|most|extremely|fully|completely|totally|exactly|100%|very|absolutely"
_INSTRUCTIONS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (words, re.compile(pattern, re.IGNORECASE))
    for words, pattern in (
        (
            ("ignore", "disregard", "forget", "override"),
            r"\b(?:ignore|disregard|forget|override)\b[^.!?\n]{0,40}\b(?:previous|above|prior|"
            r"earlier|other|all|any|your|these|those)\b[^.!?\n]{0,40}\b(?:instructions?|prompts?|"
            r"rules|guidelines|passages|documents)\b",
        ),
        (
            ("relevan",),
            rf"\b(?:this|the (?:following|above)|my) {_TEXT}\b[^.!?\n]{{0,80}}?(?<=\s)(?:is|are|"
            rf"must be|should be|deserves to be)\b[^.!?\n]{{0,40}}?\b(?:(?:{_PRAISE}) relevant|"
            r"relevant to (?:the|this|your|any|every) (?:query|question|search|topic)|(?:rated|"
            r"marked|judged|labell?ed|ranked|scored)[^.!?\n]{0,20} relevant)",
        ),
        (
            tuple(f"{verb} {what}" for verb in _VERBS.split("|") for what in ("it ", "th")),
            rf"\b(?:{_VERBS}) (?:it|this|(?:this|the) (?:one|{_TEXT}))\b[^.!?\n]{{0,40}}?\b(?:"
            r"(?:as (?:\w+ ){0,2})?relevant|first|highest|top|perfect|full|maximum|the (?:"
            r"best|highest|maximum|top)|(?:an?|with|at|as|score of) \d+|\d+ ?(?:/|out of|points))",
        ),
        (
            ("you are", "as an ai", "as a language"),
            rf"\b(?:you are (?:now )?an? (?:\w+ )?{_MODEL}\b|as an ai (?:language )?model\b|as a "
            r"language model\b)",
        ),
        (
            ("note to", "note for", "instruction", "message", "attention", "dear"),
            rf"\b(?:(?:note|instructions?|message) (?:to|for)|attention[,:]|dear) (?:the |all |"
            rf"any )?(?:\w+ )?(?:{_MODEL}|relevance judge)s?\b",
        ),
        (('score"', 'relevance"', "score'"), r"[\"'](?:final )?(?:score|relevance)[\"'] ?: ?\d"),
        (("system prompt", "### inst", "### resp"), r"\bsystem prompt\b|### ?(?:inst|resp)"),
    )
)
_COMMON = frozenset(
    """
    a about after all an and any are as at be been best but by can could did do does for from
    get had has have how i if in into is it its many may me more most much my no not of on or
    our over should so some such than that the their them then there these they this those to
    under up us use used using was we were what when where which while who whom why will with
    would you your
    """.split()  # noqa: SIM905 - a list would take a hundred lines
)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One sign: which rule, and what was found, on one line of up to some 100 characters."""

    sign: Sign
    found: str

    @property
    def sentence(self) -> str:
        """Finding about the passage."""
        return f"{_SENTENCES[self.sign]}: {self.found}"


_SENTENCES: dict[Sign, str] = {
    "addresses the judge": "It seems to speak to the judge",
    "hidden characters": "It holds characters that readers do not see",
    "query copied": "It holds the query word for word",
    "keywords": "It repeats words of the query",
}


def keywords_of(query: str) -> tuple[str, ...]:
    """Return the query's words in small letters, each once, without short and common ones."""
    words = dict.fromkeys(_WORD.findall(query.lower()))
    return tuple(word for word in words if len(word) > 2 and word not in _COMMON)


class SuspicionDetector:
    """Finds signs in the passages of one query."""

    def __init__(self, query: str) -> None:
        words = _WORD.findall(query.lower())
        self._words = words
        self._keywords = keywords_of(query)
        self._query = _sequence(words) if len(words) >= SHORT_QUERY else None
        self._times = 1 if len(words) >= LONG_QUERY else 2
        one = "|".join(map(re.escape, self._keywords))
        self._row = re.compile(rf"\b({one})(?:\W+\1\b){{{IN_A_ROW - 1}}}")
        self._any = re.compile(rf"\b(?:{one})\b")
        several = len(self._keywords) > 1
        self._block = _sequence([*self._keywords] * IN_A_ROW) if several else None

    def suspicions(self, title: str, text: str) -> tuple[Suspicion, ...]:
        """The signs of a passage, one of a kind at most, in the order of the rules."""
        whole = f"{title}\n{text}"[:LOOKED_AT]
        low = whole.lower()
        found: tuple[tuple[Sign, str], ...] = (
            ("addresses the judge", _addressed(whole, low)),
            ("hidden characters", _hidden(whole)),
            ("query copied", self._copied(title, low)),
            ("keywords", self._listed(title.lower()) or self._stuffed(low)),
        )
        return tuple([Suspicion(sign, what) for sign, what in found if what])

    def _copied(self, title: str, low: str) -> str:
        if self._query is None or not all(word in low for word in self._words):
            return ""
        times = len(self._query.findall(low))
        # A text about a question may well have it as the title.
        if times and self._times == 1 and self._query.search(title.lower()):
            times -= 1
        if times < self._times:
            return ""
        return "once" if times == 1 else f"{times:,} times"

    def _listed(self, title: str) -> str:
        words = _WORD.findall(title)
        keywords = [word for word in words if word in self._keywords]
        if len(keywords) < max(IN_TITLE, CROWDED_TITLE * len(words)):
            return ""
        repeated = len(keywords) - len(set(keywords)) >= 2
        return f"“{plain(title[:_EXCERPT])}”" if repeated else ""

    def _stuffed(self, low: str) -> str:
        counts = [low.count(word) for word in self._keywords]
        if sum(counts) < IN_A_ROW:
            return ""
        if max(counts) >= IN_A_ROW and (row := self._row.search(low)):
            return _excerpt(low, row)
        if self._block and min(counts) >= IN_A_ROW and (block := self._block.search(low)):
            return _excerpt(low, block)
        # Quick and too high: parts of longer words are counted, and words that blanks part.
        if sum(counts) < max(OFTEN, CROWDED * len(low.split())):
            return ""
        words, keywords = len(_WORD.findall(low)), len(self._any.findall(low))
        if keywords < OFTEN or keywords < CROWDED * words:
            return ""
        return f"{keywords:,} of its {words:,} words"


def _sequence(words: list[str]) -> re.Pattern[str]:
    return re.compile(rf"\b{_PARTED.join(map(re.escape, words))}\b")


def _addressed(text: str, low: str) -> str:
    for triggers, pattern in _INSTRUCTIONS:
        if any(trigger in low for trigger in triggers) and (match := pattern.search(text)):
            return _excerpt(text, match)
    if ("<" in text or "[" in text) and (cleaned := without_tokens(text)) != text:
        pairs = enumerate(zip(text, cleaned, strict=False))
        start = next((place for place, (one, other) in pairs if one != other), 0)
        return plain(text[max(0, start - _BEFORE) : start + _EXCERPT - _BEFORE])
    return ""


def _hidden(text: str) -> str:
    if _HIDDEN.search(text):
        marks = _HIDDEN.findall(_FLAGS.sub("", text))
        names = ", ".join(f"U+{ord(mark):04X}" for mark in sorted(set(marks))[:_NAMED])
        return f"{len(marks):,} ({names})" if marks else ""
    if text.isascii() or not any(mark in text for mark in _WIDTHLESS):
        return ""
    split = len(_SPLIT.findall(text))
    return f"{split:,} words are split by characters of no width" if split >= SPLIT_WORDS else ""


def _excerpt(text: str, match: re.Match[str]) -> str:
    start = max(0, match.start() - _BEFORE)
    shown = plain(text[start : start + _EXCERPT])
    return f"“{'…' if start else ''}{shown}{'…' if start + _EXCERPT < len(text) else ''}”"
