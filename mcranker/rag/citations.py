"""Citations, checked without a model: a quote is in the passage that it names, or it is not.

Quotes and passages are compared word by word. White space, quotation marks, dashes, hyphens at
line ends, soft hyphens, ligatures and case may differ; words and numbers may not, and a quote
neither begins nor ends inside one.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from typing import NamedTuple

from mcranker.inputs.tokens import STOP_WORDS, words
from mcranker.rag.result import Citation, Sentence, SourcePassage

FEWEST_WORDS = 3  # words of a quote, and of each part of a stitched one, that can be a source
SOFT_HYPHENS = frozenset("\xad\ufffe")
"""Hyphens that are seen at line ends only; the second is PDFium's."""

_MOST_PARTS = 8
_LONGEST_STITCHED = 400  # words
_TRIES = 50  # places of a quote in a passage that are inside of words
_GAPS = r"\s\xad\ufffe\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff"
_DASHES = r"\-\u2010-\u2015\u2212\ufe58\ufe63\uff0d"
_QUOTES = "\"'`\xb4\xab\xbb\u2018-\u201f\u2032\u2033\u2039\u203a\u300c-\u300f\uff02\uff07"
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u31f0-\u9fff\uf900-\ufaff"
_UNSPACED += "\uff66-\uff9f\U00020000-\U0003ffff"
_PIECE = re.compile(
    rf"(?P<gap>[{_GAPS}{_DASHES}]+)|(?P<marks>[{_QUOTES}]+)|[^{_GAPS}{_DASHES}{_QUOTES}]+"
)
_DASH = re.compile(f"[{_DASHES}]")
_SPACE = re.compile(r"\s")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_UNIT = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_ELLIPSIS = re.compile(r"\[\.\.\.\]|\(\.\.\.\)|\.\.\.")
_LEADING = re.compile(r"\A[-' ]+(?!\d)")
_AROUND = " '.,;:!?"
_MARK = (
    r"[\[\u3010](?:(?:documents?|passages?|sources?)\s)?"
    r"\d{1,4}(?:\s?[,;]\s?\d{1,4}){0,50}[\]\u3011]"
)
_MARKS = re.compile(_MARK, re.IGNORECASE)
_CLOSING = rf"[)\]\"'\xbb\u2019\u201d\u203a\u300d\u300f\uff09]*+(?:\s*+{_MARK})*"
_END = re.compile(
    rf"(?<![.!?\u2026])[.!?\u2026]++{_CLOSING}(?=\s|\Z)|[\u3002\uff01\uff1f]++{_CLOSING}"
    r"|\n(?=[^\S\n]*+(?:\n|[-*\u2022]\s|\d{1,3}[.)]\s))",
    re.IGNORECASE,
)
_LAST_WORD = re.compile(r"(?<!\w)\w{1,20}+\Z")
_ABBREVIATED = {"al", "approx", "cf", "dr", "eq", "eqs", "fig", "figs", "mr", "mrs", "ms", "pp"}
_ABBREVIATED |= {"prof", "sec", "vol", "vs"}


class Claim(NamedTuple):
    """A sentence of an answer with the passage and the quote that its writer gives."""

    text: str
    passage: int
    quote: str = ""


def check_citations(
    claims: Sequence[Claim], passages: Sequence[SourcePassage]
) -> tuple[Citation, ...]:
    """Return each claim's citation with its verdict, in their order."""
    texts = {each.number: _Text(each.text) for each in passages if each.number}
    return tuple(_checked(claim, texts) for claim in claims)


def marked_claims(sentences: Sequence[str]) -> list[Claim]:
    """Return a claim for each passage number that a sentence has in brackets, as ``[2]``."""
    return [
        Claim(sentence, number)
        for sentence in sentences
        for mark in _MARKS.findall(sentence)
        for number in dict.fromkeys(map(int, re.findall(r"\d+", mark)))
    ]


def without_forged(
    claims: Sequence[Claim], passages: Sequence[SourcePassage]
) -> tuple[list[Claim], int]:
    """Return the claims that no passage has in the form of a reply, and how many one has."""
    texts = [_Text(each.text).folded.replace(" ", "") for each in passages]
    texts = [text for text in texts if "claim" in text]

    def forged(claim: Claim) -> bool:
        said = re.escape(_Text(claim.text).folded.replace(" ", ""))
        return any(re.search(f"(?:'claim'|[{{,]claim)[:=]'?{said}", text) for text in texts)

    kept = [claim for claim in claims if not (texts and forged(claim))]
    return kept, len(claims) - len(kept)


def cited_sentences(
    sentences: Sequence[str], citations: Sequence[Citation]
) -> tuple[Sentence, ...]:
    """Return the sentences, each with the places of the citations whose claim it is."""
    places: dict[str, list[int]] = {}
    for place, citation in enumerate(citations):
        places.setdefault(citation.claim, []).append(place)
    return tuple(Sentence(text=text, citations=tuple(places.get(text, ()))) for text in sentences)


def sentences_of(text: str) -> list[str]:
    """Return the sentences and list entries of a text, with the marks behind them."""
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence begins, and the place behind its last character."""
    start = 0
    for found in (*_END.finditer(text), None):
        end = len(text) if found is None else found.end()
        if found is not None and found.group()[0] == "." and not _ends(text, start, found):
            continue
        sentence = text[start:end]
        if stripped := sentence.strip():
            first = start + len(sentence) - len(sentence.lstrip())
            yield first, first + len(stripped)
        start = end


def _ends(text: str, start: int, found: re.Match[str]) -> bool:
    """True if a full stop ends a sentence, and neither shortens a word nor numbers an entry."""
    before = _LAST_WORD.search(text, max(start, found.start() - 20), found.start())
    word = before.group() if before else ""
    numbers = word.isdigit() and not text[start : found.start() - len(word)].strip()
    behind = text[found.end() : found.end() + 20].lstrip()[:1]
    initial = len(word) == 1 and word.isalpha() and word != "I"
    return not (numbers or initial or word.lower() in _ABBREVIATED or behind.islower())


class _Text:
    """A text as it is compared; `places` are those of its characters in the original."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.places = array("I")
        parts = []
        for found in _PIECE.finditer(text):
            piece, start = found.group(), found.start()
            if found.lastgroup == "gap":
                dash = _DASH.search(piece)
                inside = (
                    text[start - 1 : start].isalpha()
                    and text[found.end() : found.end() + 1].isalpha()
                )
                piece = _gap(piece, dashed=dash is not None, inside=inside)
                start += dash.start() if dash else 0
                self.places.extend([start] * len(piece))
            elif found.lastgroup == "marks":
                piece = "'"
                self.places.append(start)
            elif piece.isascii():
                piece = piece.lower()
                self.places.extend(range(start, found.end()))
            else:
                chars = [_folded(char) for char in piece]
                piece = "".join(chars)
                self.places.extend(at for at, char in enumerate(chars, start) for _ in char)
            parts.append(piece)
        self.folded = "".join(parts)

    def find(self, quote: str) -> tuple[int, int] | None:
        """Return where the text has the folded quote, in whole words; None if nowhere."""
        at = -1
        for _ in range(_TRIES):
            at = self.folded.find(quote, at + 1)
            if at < 0 or not quote:
                return None
            end = at + len(quote)
            first, last = self.places[at], self.places[end - 1] + 1
            if not (self._cuts(at, first) or self._cuts(end, last)):
                return first, last
        return None

    def _cuts(self, at: int, place: int) -> bool:
        """True if a word, a number or a letter with its accents goes on across a place."""
        if 0 < at < len(self.folded) and (
            self.places[at - 1] == self.places[at] or unicodedata.combining(self.folded[at])
        ):
            return True
        before, left, right = (
            self.text[max(0, i) : max(0, i + 1)] for i in range(place - 2, place + 1)
        )
        if left.isalnum() and right.isalnum():
            return not (_IS_UNSPACED.match(left) and _IS_UNSPACED.match(right))
        if right.isdigit() and left:
            return left in ".," or (_DASH.match(left) is not None and not before.strip())
        return left.isdigit() and right in (".", ",") and self.text[place + 1 : place + 2].isdigit()

    def has_parts(self, quote: str) -> bool:
        """True if the text has all of the folded quote, in parts."""
        units = [found.span() for found in _UNIT.finditer(quote)]
        if len(units) > _LONGEST_STITCHED:
            return False

        def there(first: int, last: int) -> bool:
            return self.find(quote[units[first][0] : units[last - 1][1]].strip(_AROUND)) is not None

        def reach(first: int) -> int:
            low, high = first + FEWEST_WORDS, len(units)
            if low > high or not there(first, low):
                return 0
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if there(first, middle) else (low, middle - 1)
            return low

        begin, least = 0, 0
        for _ in range(_MOST_PARTS):
            # The part before may have taken the first words of this one.
            starts = range(max(least, begin - FEWEST_WORDS + 1), begin + 1)
            end, start = max((reach(start), start) for start in starts)
            if end == len(units):
                return True
            if end <= begin:
                return False
            begin, least = end, start + FEWEST_WORDS
        return False

    @cached_property
    def sentences(self) -> list[tuple[int, int, frozenset[str]]]:
        """Where each sentence begins and ends, and its words."""
        spans = sentence_spans(self.text)
        return [(start, end, terms_of(self.text[start:end])) for start, end in spans]

    def nearest(self, terms: frozenset[str]) -> tuple[int, int] | None:
        """Return where the sentence is that has most of the terms, at least half; None if none."""
        found = max(self.sentences, key=lambda each: len(terms & each[2]), default=None)
        shared = len(terms & found[2]) if found else 0
        if found is None or shared < max(1, min(2, len(terms)), len(terms) / 2):
            return None
        return found[:2]


def terms_of(text: str) -> frozenset[str]:
    """Return the words of a text in lower case, without stop words."""
    return frozenset(word.casefold() for word in words(text)) - STOP_WORDS


def _checked(claim: Claim, texts: dict[int, _Text]) -> Citation:
    named = texts.get(claim.passage)
    others = [number for number in texts if number != claim.passage]
    quote = _LEADING.sub("", _Text(claim.quote).folded).rstrip(_AROUND)
    if not quote:
        terms = terms_of(_MARKS.sub(" ", claim.text))
        for number in (claim.passage, *others) if named is not None else others:
            if place := texts[number].nearest(terms):
                return _cited(
                    claim._replace(quote=texts[number].text[slice(*place)]),
                    place,
                    number,
                    note="no quote given; closest sentence",
                )
        return _cited(claim, note="no quote given, and no sentence has half of its words")
    parts = [part for each in _ELLIPSIS.split(quote) if (part := each.strip(_AROUND))]
    if "..." in quote and len(parts) == 1:
        (quote,) = parts
    if len(list(islice(words(quote), FEWEST_WORDS))) < FEWEST_WORDS:
        whole = (each.folded.strip(_AROUND) == quote for each in texts.values())
        if not any(whole):
            return _cited(claim, note=f"a quote of fewer than {FEWEST_WORDS} words is no source")
    for number in (claim.passage, *others) if named is not None else others:
        if place := texts[number].find(quote):
            return _cited(claim, place, number)
    if named is not None and len(parts) <= _MOST_PARTS and all(map(named.has_parts, parts)):
        return Citation(
            claim=claim.text, passage=claim.passage, quote=claim.quote, verdict="stitched"
        )
    return _cited(claim)


def _cited(
    claim: Claim, place: tuple[int, int] | None = None, number: int = 0, note: str = ""
) -> Citation:
    """The citation of a claim whose quote is at a place in the passage of that number."""
    start, end = place or (None, None)
    here = number == claim.passage
    return Citation(
        claim=claim.text,
        passage=claim.passage,
        quote=claim.quote,
        verdict="invented" if place is None else "found" if here else "misattributed",
        start=start,
        end=end,
        elsewhere=0 if here else number,
        note=note,
    )


def _gap(run: str, *, dashed: bool, inside: bool) -> str:
    """A run of white space, dashes and what is not seen, as it is compared."""
    if inside and (dashed or not SOFT_HYPHENS.isdisjoint(run)):
        return ""
    if dashed:
        return "-"
    return " " if _SPACE.search(run) else ""


@lru_cache(maxsize=1 << 14)
def _folded(char: str) -> str:
    return "..." if char == "\u2026" else unicodedata.normalize("NFD", char.casefold())
