"""All rankers, behind the one `Ranker` interface.

A new ranker is a file of its own and a line in `RANKERS`.
"""

from __future__ import annotations

import difflib
from importlib import import_module

from mcranker.errors import ConfigError
from mcranker.rankers.base import HOPELESS, RankedQuery, Ranker, Work

__all__ = ["HOPELESS", "RANKERS", "RankedQuery", "Ranker", "Work", "ranker_class"]

RANKERS = {
    "mcranker": "mcranker.rankers.mcranker:MCRanker",
    "direct": "mcranker.rankers.direct:DirectRanker",
}
"""Name -> module and class of every ranker."""


def ranker_class(name: str) -> type[Ranker]:
    """The ranker of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in RANKERS:
        close = difflib.get_close_matches(name, RANKERS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(RANKERS)}"
        raise ConfigError(f"there is no ranker {name!r}; {hint}")
    module, _, attribute = RANKERS[name].partition(":")
    found: type[Ranker] = getattr(import_module(module), attribute)
    return found
