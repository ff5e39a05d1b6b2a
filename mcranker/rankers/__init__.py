"""All rankers, behind the one `Ranker` interface.

A new ranker is a file of its own and a line in `RANKERS`, or in the entry points of the package
that has it.
"""

from __future__ import annotations

from mcranker.errors import ConfigError
from mcranker.events import RankedQuery
from mcranker.rankers.base import Ranker, Work
from personas.registry import Registry

__all__ = ["RANKERS", "RankedQuery", "Ranker", "Work"]

RANKERS: Registry[type[Ranker]] = Registry(
    "ranker",
    "mcranker.rankers",
    {
        "mcranker": "mcranker.rankers.judge:MCRanker",
        "direct": "mcranker.rankers.direct:DirectRanker",
        "rg_yn": "mcranker.rankers.likelihood:RGYNRanker",
        "rg_s": "mcranker.rankers.likelihood:RGSRanker",
        "p_yes": "mcranker.rankers.likelihood:PYesRanker",
        "rankrag": "mcranker.rankers.likelihood:RankRAGRanker",
        "qg": "mcranker.rankers.likelihood:QGRanker",
        "rerank": "mcranker.rankers.direct:RerankRanker",
        "rankgpt": "mcranker.rankers.comparative:RankGPTRanker",
        "setwise": "mcranker.rankers.comparative:SetwiseRanker",
        "rebel": "mcranker.rankers.rebel:RebelRanker",
    },
    ConfigError,
    lambda found: isinstance(found, type) and issubclass(found, Ranker),
)
"""Every ranker's class, by name."""
