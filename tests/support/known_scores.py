"""Teams whose scores are known, so that they can be ranked by again and again."""

from __future__ import annotations

import math
import random
from typing import Any

from mcranker import Capabilities, ChatReply, ChatRequest, MCRanker, Passage, Ranking, ScriptedChat
from personas import Member, Persona

__all__ = ["MEDIAN", "POLICIES", "Judged"]

POLICIES = ("mean_of_team", "lowest", "constant")
MEDIAN = """
import numpy as np
from personas import Ensemble
MEDIAN = Ensemble(
    "median", lambda scores: np.median(scores, axis=1), "The median of the scores.", by_row=True
)
"""
"""A package that adds the ensemble ``median``."""
_NAMES = [f"Judge {number}" for number in range(12)]


class Judged:
    """Passages with known scores, judged by a team with or without some of its members.

    Args:
        seed: of everything that is by chance.
        weighted: members have the weights 1, 2, 3 and so on.
    """

    def __init__(self, seed: int, *, weighted: bool = False) -> None:
        self.weighted = weighted
        draws = random.Random(seed)
        self.names = _NAMES[: draws.randint(2, len(_NAMES))]
        contents = [f"text {number}" for number in range(draws.randint(2, 9))]
        grid = draws.choice([[0.5], [0.1, 0.2, 0.3, 0.7], [n / 100 for n in range(1, 100)]])
        gaps = draws.choice([0.0, 0.1, 0.4])
        self.scores = {
            (name, text): math.nan if draws.random() < gaps else draws.choice(grid)
            for name in self.names
            for text in contents
        }
        texts = [*contents, *draws.choices(contents, k=draws.randint(0, 3))]
        draws.shuffle(texts)
        self.docs = [
            Passage(f"d{place}", text, score=draws.choice([1.0, 2.0]))
            for place, text in enumerate(texts)
        ]
        self.config: dict[str, Any] = {
            "ensemble": draws.choice(["sum", "reciprocal_rank", "median"]),
            "missing_policy": draws.choice(POLICIES),
            "missing_constant": 0.45,
            "first_stage_weight": draws.choice([0.0, 0.0, 0.25]),
            "depth": draws.choice([None, len(texts) - 1]),
        }

    def rank(self, *left_out: str, docs: list[Passage] | None = None, **options: Any) -> Ranking:
        model = ScriptedChat(self._answer, capabilities=Capabilities(label_logprobs=True))
        team = [
            Member(persona=Persona(name=name), weight=place if self.weighted else 1)
            for place, name in enumerate(self.names, start=1)
            if name not in left_out
        ]
        config = {**self.config, **options}
        scoring: dict[str, Any] = {
            "criteria": "none",
            "scoring": "expected",
            "labels": ("No", "Yes"),
            "repair_attempts": 0,
        }
        with MCRanker(team=team, model=model, **scoring, **config) as ranker:
            return ranker.rank("q", self.docs if docs is None else docs)

    def _answer(self, request: ChatRequest) -> ChatReply:
        passage = self.docs[int(request.tag.doc_id[1:])]
        score = self.scores.get((request.tag.persona, passage.text), math.nan)
        if math.isnan(score):
            return ChatReply("no score")
        return ChatReply("", label_logprobs={"No": math.log1p(-score), "Yes": math.log(score)})
