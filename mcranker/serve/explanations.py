"""The latest rankings, for their pages; a bounded number of them in a bounded space."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import Generic, TypeVar

from mcranker.ranking import Ranking
from mcranker.serve.problems import Problem
from mcranker.serve.settings import Limits

T = TypeVar("T")

_OF_A_SCORE = 100  # bytes, about
_OF_A_PASSAGE = 1_000


class Explanations(Generic[T]):
    """Rankings, or what else has a page, by id; the oldest make room for new ones."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: OrderedDict[str, tuple[T, str, int]] = OrderedDict()
        self._bytes = 0

    def put(self, made: T, size: int, holder: str = "") -> str:
        """Keep one of `size` bytes and return its id; `holder` names the key it was asked with."""
        name, most = uuid.uuid4().hex, self._limits.explanations_bytes
        if size <= most:
            self._kept[name] = made, holder, size
            self._bytes += size
        while len(self._kept) > self._limits.explanations or self._bytes > most:
            self._bytes -= self._kept.popitem(last=False)[1][2]
        return name

    def get(self, name: str, holder: str = "") -> T:
        """The one with that id."""
        made, owner, _ = self._kept.get(name, (None, "", 0))
        if made is None or owner != holder:
            said = f"there is no ranking {name[:100]!r}, or it is no longer kept; rank again"
            raise Problem("not_found", said)
        return made


def size_of(ranking: Ranking) -> int:
    """Return the bytes that a ranking takes, about."""
    # Python takes up to four bytes for a character.
    texts = sum(4 * (len(each.text) + len(each.title)) for each in ranking.passages)
    scores = _OF_A_PASSAGE + _OF_A_SCORE * len(ranking.personas)
    return texts + scores * len(ranking.passages)
