"""The latest rankings, for their pages; a bounded number of them in a bounded space."""

from __future__ import annotations

from collections import OrderedDict

from mcranker.ranking import Ranking

_OF_A_SCORE = 100  # bytes, about
_OF_A_PASSAGE = 1_000


class Explanations:
    """Rankings by id; the oldest make room for new ones.

    Args:
        most: rankings that are kept.
        most_bytes: of their texts and scores, about. One that is larger by itself is not kept.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, tuple[Ranking, str, int]] = OrderedDict()
        self._bytes = 0

    def put(self, name: str, ranking: Ranking, holder: str) -> None:
        """Keep a ranking under an id; `holder` names the key with which it was asked for."""
        # Python takes up to four bytes for a character.
        texts = sum(4 * (len(each.text) + len(each.title)) for each in ranking.passages)
        scores = _OF_A_PASSAGE + _OF_A_SCORE * len(ranking.personas)
        size = texts + scores * len(ranking.passages)
        if size > self._most_bytes:
            return
        self._kept[name] = ranking, holder, size
        self._bytes += size
        while len(self._kept) > self._most or self._bytes > self._most_bytes:
            self._bytes -= self._kept.popitem(last=False)[1][2]

    def get(self, name: str, holder: str) -> Ranking | None:
        """The ranking, if it is still kept and was asked for with the same key."""
        ranking, owner, _ = self._kept.get(name, (None, "", 0))
        return ranking if owner == holder else None
