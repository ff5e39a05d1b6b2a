"""The latest rankings, for their pages; a bounded number of them in a bounded space."""

from __future__ import annotations

import uuid
from collections import OrderedDict

from mcranker.ranking import Ranking
from mcranker.serve.problems import Problem
from mcranker.serve.settings import Limits

_OF_A_SCORE = 100  # bytes, about
_OF_A_PASSAGE = 1_000


class Explanations:
    """Rankings by id; the oldest make room for new ones.

    One that is larger by itself than ``limits.explanations_bytes`` is not kept.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: OrderedDict[str, tuple[Ranking, str, int]] = OrderedDict()
        self._bytes = 0

    def put(self, ranking: Ranking, holder: str = "") -> str:
        """Keep a ranking and return its id; `holder` names the key with which it was asked for."""
        name, most = uuid.uuid4().hex, self._limits.explanations_bytes
        # Python takes up to four bytes for a character.
        texts = sum(4 * (len(each.text) + len(each.title)) for each in ranking.passages)
        scores = _OF_A_PASSAGE + _OF_A_SCORE * len(ranking.personas)
        size = texts + scores * len(ranking.passages)
        if size <= most:
            self._kept[name] = ranking, holder, size
            self._bytes += size
        while len(self._kept) > self._limits.explanations or self._bytes > most:
            self._bytes -= self._kept.popitem(last=False)[1][2]
        return name

    def get(self, name: str, holder: str = "") -> Ranking:
        """The ranking with that id.

        Raises:
            Problem: it is not kept, or was asked for with another key.
        """
        ranking, owner, _ = self._kept.get(name, (None, "", 0))
        if ranking is None or owner != holder:
            said = f"there is no ranking {name[:100]!r}, or it is no longer kept; rank again"
            raise Problem("not_found", said)
        return ranking
