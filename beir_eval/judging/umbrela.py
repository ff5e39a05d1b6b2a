"""UMBRELA's judge: one prompt, which asks for intent, match, trust and a grade from 0 to 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from mcranker.config import RankerConfig
from mcranker.method.annotator import ScorePrompt
from mcranker.method.session import Session
from mcranker.rankers.direct import DirectRanker
from mcranker.rankers.judge import refuse
from mcranker.replies.schemas import UMBRELA_SCHEMA
from mcranker.replies.scoring import IntegerScoring
from personas import Member, PromptSet
from personas.templates import OPTIONAL_PROMPTS

HIGHEST = 3
"""The best grade: of a passage that is about the query alone and holds the exact answer."""


class UmbrelaRanker(DirectRanker):
    """DIRECT with four grades, asked in the manner of UMBRELA (Upadhyay et al. 2024)."""

    name: ClassVar[str] = "umbrela"
    prompt = "umbrela"
    takes_team = takes_instruction = False
    defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({"scale": HIGHEST})

    def _prepare(self, config: Any) -> Any:
        only: dict[str, Any] = {
            "scale": HIGHEST,
            "labels": (),
            "questions": None,
            "passages_per_call": None,
        }
        only |= {"with_criteria": False}
        refuse(config, only, "does not go with UMBRELA's prompt; leave it out")
        return super()._prepare(config)

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        own = self.prompts.hashes_of(OPTIONAL_PROMPTS["umbrela"])
        return {**super().hashes_for(config), **own}

    def _score_prompt(self, judges: Sequence[Member], session: Session) -> ScorePrompt:
        config, prompts = session.config, session.prompts
        answer = UmbrelaScoring(config, prompts) if config.scoring == "integer" else None
        return ScorePrompt(prompts[self.prompt], session, None, answer=answer)


class UmbrelaScoring(IntegerScoring):
    """The grade under ``Score``, written after intent, match and trust."""

    def __init__(self, config: RankerConfig, prompts: PromptSet) -> None:
        super().__init__(config, prompts, None)
        self._take(prompts, "answer_umbrela")
        self.schema = UMBRELA_SCHEMA
