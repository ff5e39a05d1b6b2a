"""How a passage's title and text are shown to a model."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mcranker.config import RankerConfig
from mcranker.types import Passage
from personas.templates import fence

__all__ = ["PassageText"]

_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class PassageText:
    """Joins title and text, cuts, and fences passages as the configuration says."""

    title_separator: str
    max_words: int | None
    single_quotes: bool

    @classmethod
    def of(cls, config: RankerConfig) -> PassageText:
        """The form that `config` asks for."""
        return cls(config.title_separator, config.max_passage_words, config.single_quotes)

    def plain(self, passage: Passage) -> str:
        """Title, separator and text; the text cut to the limit, its white space kept."""
        body = self._cut(passage.text)
        text = f"{passage.title}{self.title_separator}{body}" if passage.title else body
        return text.replace('"', "'") if self.single_quotes else text

    def fenced(self, passage: Passage, query: str) -> str:
        """`plain` between markers that the passage cannot contain, see `personas.templates`."""
        return fence(self.plain(passage), query=query)

    def _cut(self, text: str) -> str:
        if self.max_words is None or len(text) <= self.max_words:
            return text
        for count, word in enumerate(_WORD.finditer(text), start=1):
            if count > self.max_words:
                return text[: word.start()].rstrip()
        return text
