"""Passages as the page of a query shows them: what its template asks for beside the record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from markupsafe import Markup

from personas.format import decimals, fixed, percent
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from personas.ranking.suspicions import keywords_of
from personas.report.formats import escaped, tersely, tooltip

MISSING = "\N{EN DASH}"
"""In place of a score that did not come."""

_LEVELS = 10
_LABEL = 160
_SNIPPET = 130
_BEGINNING = 90
_SEARCHED = 20_000  # characters of a text in which words of the query are looked for
_MOST_WORDS, _MOST_PLACES = 20, 400  # of the query, and of them in a text
_FINE = 3.0


class Snippet(NamedTuple):
    """One line of why a passage is relevant; `who` is the persona that says so, if one does."""

    who: str
    text: Markup


class Cell(NamedTuple):
    """A persona's score of a passage, as its cells of the table and of the details show it."""

    persona: str
    number: int  # its place on the team, from 1; 0 where it is no member
    kind: str  # class of the cell: h0 to h10 with a score; else missing or none
    text: str
    value: str  # by which the column is sorted; empty without a score
    title: str
    without: int | None  # rank of the passage without the persona, if it is known
    effect: int  # ranks by which the persona raised (positive) or sank (negative) the passage
    moved_most: bool  # no other one raised, or sank, it more


class PassageFormat:
    """Options of the passages of one query."""

    def __init__(self, record: RankingRecord) -> None:
        hits = record.hits
        known = [score for hit in hits for score in hit.known_scores]
        self.record = record
        self.several = len(record.personas) > 1
        self._top = record.top
        self.known = (min(known), max(known)) if known else None
        self.score_places = decimals(known)
        others = (hit.other.score for hit in hits if hit.other)
        self.final_places = decimals([hit.score for hit in hits if hit.score is not None])
        self.other_places = decimals([score for score in others if score is not None])
        self.apart_places = 3 if known and max(known) <= _FINE else 2
        members = record.team.names if record.team else ()
        self.names = {name: tersely(name, 80) for name in record.personas}
        self._numbers = {name: number for number, name in enumerate(members, start=1)}
        self.last_rank = record.last_sure_rank or len(hits)
        self.columns = 2 + (not record.unscored) + len(record.personas) + self.several
        self.columns += (record.grades is not None) + (record.other is not None)
        self._words = words = keywords_of(record.query.text[:2000])[:_MOST_WORDS]
        self._marked = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)

    def shown(
        self, hits: Sequence[Hit], limit: int
    ) -> Iterator[
        tuple[Hit, Markup, list[Cell], list[tuple[tuple[str, ...], str]], Snippet | None, Markup]
    ]:
        """Each passage with its label, cells, movers, snippet, and text of `limit` characters."""
        for hit in hits:
            raised, sunk = hit.raised_most_by, hit.sunk_most_by
            moves = [each for each in ((raised, "raised"), (sunk, "sank")) if each[0]]
            cells = self._cells(hit, raised + sunk)
            label, snippet = self._label(hit), self._snippet(hit, raised)
            yield hit, label, cells, moves, snippet, self._text(hit, limit)

    def _cells(self, hit: Hit, movers: Sequence[str]) -> list[Cell]:
        """Results of each persona for the passage, in the order of the columns."""
        effects, without = hit.effects, hit.rank_without
        confidence = hit.confidence
        cells = []
        for name, score in hit.scores.items():
            if score is None:
                kind, text, title = self._absent(hit, name)
                value = ""
            else:
                kind, title = f"h{self._level(score)}", f"{score:.6g}"
                value, text = title, fixed(score, self.score_places)
                if name in confidence:
                    title += f"; {percent(confidence[name])} sure"
            number = self._numbers.get(name, 0)
            at, by = without.get(name), effects.get(name, 0)
            cells.append(Cell(name, number, kind, text, value, title, at, by, name in movers))
        return cells

    def _level(self, score: float) -> int:
        """The step of the colours for a score, 0 to 10."""
        return min(_LEVELS, max(0, round(_LEVELS * score / self._top)))

    def _absent(self, hit: Hit, name: str) -> tuple[str, str, str]:
        """Kind, text and tooltip of the cell of a persona that gave no score."""
        if name in hit.missing:
            why = f"missing: {tooltip(hit.missing[name]) or 'no reason is known'}"
            instead = hit.imputed.get(name)
            if instead is None:
                return "missing", MISSING, why
            return "missing", f"({instead:.4g})", f"{instead:.4g} is imputed; {why}"
        return "none", "", ""

    def weights(self, persona: str) -> Mapping[str, float]:
        """Criterion -> its weight, of a persona of the team."""
        member = self.record.member(persona)
        rubric = member.rubric if member else None
        return {each.name: each.weight for each in rubric.criteria} if rubric else {}

    def _label(self, hit: Hit) -> Markup:
        """The title, or the beginning of the text."""
        said = escaped(hit.title.strip() or _beginning(hit.text), _LABEL, quote=False)
        return said or Markup("(no text)")

    def has_more_title(self, hit: Hit) -> bool:
        """True if the label does not hold the whole title."""
        return len(hit.title.strip()) > _LABEL

    def _snippet(self, hit: Hit, raised: Sequence[str]) -> Snippet | None:
        """Why the passage is relevant: a persona's reason, or its text around the query's words."""
        reasons = hit.reasons
        for name in (*raised, *reasons):
            if name in reasons and reasons[name].kind == "said":
                said = " ".join(reasons[name].text.split())
                return Snippet(name, escaped(said, _SNIPPET, quote=False))
        text = hit.text[:_SEARCHED]
        start = self._start(text)
        if not start and not hit.title.strip():
            return None
        line = " ".join(text[start : start + 2 * _SNIPPET].split())
        return Snippet("", self.marked(f"{'…' if start else ''}{line}", _SNIPPET)) if line else None

    def marked(self, text: str, limit: int) -> Markup:
        """The text with the query's decisive words in bold."""
        shown = text if len(text) <= limit else f"{text[:limit]}…"
        if not self._words:
            return escaped(shown, len(shown), quote=False)
        parts, done = [], 0
        plain = partial(escaped, limit=limit, quote=False)
        for found in self._words_in(shown):
            parts += [plain(shown[done : found.start()]), "<b>", plain(found[0]), "</b>"]
            done = found.end()
        return Markup("".join([*parts, plain(shown[done:])]))  # noqa: S704 - escaped

    def _words_in(self, text: str) -> Iterator[re.Match[str]]:
        """The query's decisive words, where they begin a word of the text."""
        for found in self._marked.finditer(text):
            if not found.start() or not text[found.start() - 1].isalnum():
                yield found

    def _text(self, hit: Hit, limit: int) -> Markup:
        """The beginning of the text, with the quotes of reasons marked."""
        text = hit.text
        quotes = [each.quote for each in hit.reasons.values() if each.quote and each.quote in text]
        parts, done = [], 0
        plain = partial(escaped, limit=limit, quote=False)
        for start, end in sorted((at := text.index(each), at + len(each)) for each in quotes):
            if done <= start and end <= limit:
                parts += [plain(text[done:start]), "<mark>", plain(text[start:end]), "</mark>"]
                done = end
        rest = plain(text[done:], limit=limit - done)
        return Markup("".join([*parts, rest])) if parts else rest  # noqa: S704 - escaped

    def _start(self, line: str) -> int:
        """Where the part of the text begins that has most of the query's words; 0 for the first."""
        found = islice(self._words_in(line), _MOST_PLACES) if self._words else ()
        places = [(each.start(), each[0].lower()) for each in found]
        best, start = 0, 0
        for at, _ in places:
            words = {word for other, word in places if at <= other < at + _SNIPPET - 30}
            if len(words) > best:
                best, start = len(words), at
        if start < _BEGINNING:
            return 0
        # From the beginning of the sentence, or of a word, near before it.
        before = line.rfind(". ", start - 60, start)
        return before + 2 if before >= 0 else line.find(" ", start - 30) + 1


def _beginning(text: str) -> str:
    """The beginning of a text on one line, cut between words and with an ellipsis."""
    line = " ".join(text[: 4 * _BEGINNING].split())
    if len(line) <= _BEGINNING and len(text) <= 4 * _BEGINNING:
        return line
    kept = line[: _BEGINNING + 1].rpartition(" ")[0][:_BEGINNING]
    # Without blanks, as in Chinese, a word may be cut.
    return f"{kept if 2 * len(kept) > _BEGINNING else line[:_BEGINNING]}…"
