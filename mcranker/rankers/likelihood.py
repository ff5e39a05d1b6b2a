"""QG, RG-YN and RG-S(0, k): passages scored by how likely a model finds the query, or each answer.

Query generation of Sachan et al. 2022 (arXiv 2204.07496), and relevance generation of Liang et al.
2022 (arXiv 2211.09110) and Zhuang et al. 2024 (arXiv 2310.14122). The prompts have the form of the
sources', with the passage between markers; where there are more answers than two, they say that the
reply must be one of them, since servers list the likeliest tokens only.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from typing import Any, ClassVar

from mcranker.config import NO_YES, RankerConfig
from mcranker.errors import ConfigError
from mcranker.llm.chat import ChatReply
from mcranker.method.annotator import ScorePrompt
from mcranker.method.session import Session
from mcranker.method.team import score_by_judge
from mcranker.models import check_capabilities
from mcranker.rankers.base import demand, refuse
from mcranker.rankers.direct import DirectJudge
from mcranker.rankers.pointwise import NO_TEAM, PointwiseRanker
from mcranker.ranking import Ranking
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.scoring import Scoring
from personas.ranking.types import Score
from personas.sanitize import encodable
from personas.templates import Template
from personas.untrusted import Cleaner

DEFAULT_SCALE = 4
"""k of RG-S(0, k); the best of Zhuang et al."""

_HEADINGS = ("Query", "Passage", "Output")
_QG_HEADINGS = ("Passage", "Question")


class _LikelihoodRanker(PointwiseRanker):
    defaults: ClassVar[Mapping[str, Any]] = {"scoring": "expected"}

    only: ClassVar[Mapping[str, Any]] = {}
    """Option -> the only value that has a meaning; None for none."""

    fixed: ClassVar[Mapping[str, Any]] = {}

    def _prepare(self, config: RankerConfig) -> RankerConfig:
        of_others = {"questions": None, "passages_per_call": None, "ensemble": "sum"}
        why = f"has no meaning for ranker={self.name!r}; leave it out, or use ranker='direct'"
        refuse(config, {**of_others, **self.only}, why)
        config = RankerConfig.of(config, {**NO_TEAM, **self.fixed})
        self._file = self._template_name(config)
        template = Template.parse(self._file, _text(self._file))
        self._prompt = replace(template, cleaner=Cleaner(_HEADINGS))
        return super()._prepare(config)

    def _template_name(self, config: RankerConfig) -> str:
        return self.name

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        return {self._file: hashlib.sha256(_text(self._file).encode()).hexdigest()}

    def _check_models(self) -> None:
        lack = (
            f"gives no log-probabilities, by which ranker={self.name!r} scores; name a model that "
            "does, such as openai:gpt-4.1-mini or one of vLLM, or use ranker='direct'"
        )
        demand(self.models.scoring, "label_logprobs", lack)
        super()._check_models()

    def _score_prompt(self, session: Session) -> ScorePrompt:
        return ScorePrompt(self._prompt, session, None)

    async def _run(self, session: Session) -> Ranking:
        prompt = self._score_prompt(session)
        judge = self.name.upper().replace("_", "-")
        scored = await score_by_judge(
            session, judge, lambda ensembler: DirectJudge(prompt, judge, session, ensembler)
        )
        return self.build_ranking(session, scored)


class RGYNRanker(_LikelihoodRanker):
    """RG-YN (Liang et al. 2022): p(Yes) / (p(Yes) + p(No)), from 0 to 1.

    >>> RGYNRanker(model="openai:gpt-4.1-mini")

    Its `model` gives log-probabilities: OpenAI's models that do, vLLM, llama.cpp, ``local:NAME``.
    Other keywords are those of `Ranker`.

    Raises:
        ConfigError: an option that has no meaning here, such as ``scale``.
        UnsupportedCapability: the model gives no log-probabilities.
        ModelError: as `MCRanker`.
    """

    name: ClassVar[str] = "rg_yn"
    only: ClassVar[Mapping[str, Any]] = {"scoring": "expected", "labels": NO_YES, "scale": None}
    fixed: ClassVar[Mapping[str, Any]] = {"scoring": "expected", "labels": NO_YES}


class RGSRanker(_LikelihoodRanker):
    """RG-S(0, k) (Zhuang et al. 2024): the relevance that the answers' likelihoods amount to.

    | scoring | score of a passage |
    |---|---|
    | ``"expected"`` (default) | sum of i · p(i), p normalised over the answers: 0 to k |
    | ``"peak"`` | k · p(k), by the likelihood of the highest answer alone: 0 to k |

    >>> RGSRanker()                                   # RG-S(0, 4), expected relevance
    >>> RGSRanker(scale=10, scoring="peak")           # RG-S(0, 10), peak relevance likelihood
    >>> RGSRanker(labels=("Not Relevant", "Somewhat Relevant", "Highly Relevant"))  # RG-3L

    Keywords are those of `RGYNRanker`; ``labels`` are answers in words, least relevant first.

    Raises:
        ConfigError, UnsupportedCapability, ModelError: as `RGYNRanker`.
    """

    name: ClassVar[str] = "rg_s"

    def _prepare(self, config: RankerConfig) -> RankerConfig:
        if config.scoring not in ("expected", "peak"):
            raise ConfigError(
                f"scoring={config.scoring!r} reads no likelihoods, by which ranker='rg_s' scores; "
                'use scoring="expected" or "peak"'
            )
        if not {"scale", "labels"} & config.model_fields_set:
            config = RankerConfig.of(config, {"scale": DEFAULT_SCALE})
        return super()._prepare(config)

    def _template_name(self, config: RankerConfig) -> str:
        return "rg_labels" if config.labels else "rg_s"


class QGRanker(_LikelihoodRanker):
    """QG (Sachan et al. 2022): how likely the passage makes the query, from 0 to 1.

    The score is exp of the paper's, the mean of log p(token) over the query's tokens, each given
    the passage and the tokens before it. So it is the geometric mean of their probabilities, and
    the order is the paper's.

    >>> QGRanker(model="local:smollm2-135m")
    >>> QGRanker(model="openai:NAME", base_url="http://localhost:8000/v1")  # vLLM

    Its `model` gives the log-probabilities of a given text: ``local:NAME`` of a chat model, or
    ``openai:NAME`` of a server that echoes prompts with log-probabilities, as vLLM does. Other
    keywords are those of `Ranker`.

    Raises:
        ConfigError: an option that has no meaning here: of a team, or of the scale.
        UnsupportedCapability: the model gives no such log-probabilities; of a server that is known
            once it has been asked.
        ModelError: as `MCRanker`.
    """

    name: ClassVar[str] = "qg"
    unexplained: ClassVar[str] = "its score is how likely the query's words are, and no judgement"
    absolute = False  # how likely a query is depends on its own words

    only: ClassVar[Mapping[str, Any]] = {"scoring": "expected", "labels": (), "scale": 1}
    fixed: ClassVar[Mapping[str, Any]] = {"scoring": "expected", "scale": 1}

    def _check_models(self) -> None:
        lack = (
            "does not give the likelihood of a text, by which ranker='qg' scores; name a chat "
            "model of the embedded engine (local:NAME), or a server that echoes prompts with "
            "log-probabilities, such as vLLM (openai:NAME with base_url=), or use ranker='rg_yn'"
        )
        demand(self.models.scoring, "continuation_logprobs", lack)
        # No label is read.
        check_capabilities(
            RankerConfig.of(self.config, {"scoring": "integer"}), self.models, recruits=0
        )

    def _score_prompt(self, session: Session) -> ScorePrompt:
        prompt = replace(self._prompt, cleaner=Cleaner(_QG_HEADINGS))
        return ScorePrompt(prompt, session, None, answer=QueryLikelihood(session))


class QueryLikelihood(Scoring):
    """The geometric mean of the probabilities of the query's tokens, 0 to 1."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.config, session.prompts, None)
        self.instruction = ""
        self.continuation = encodable(session.query.text.strip())

    def read(self, reply: ChatReply) -> Score:
        listed = reply.continuation_logprobs
        if not listed:
            raise Unreadable("it has no log-probabilities of the query's tokens.")
        odd = next((each for each in listed if not each <= 0), None)
        if odd is not None:
            raise Unreadable(f"{odd!r} is no log-probability.")
        return Score(math.exp(math.fsum(listed) / len(listed)))


def _text(prompt: str) -> str:
    path = resources.files("personas") / "prompts" / "likelihood" / f"{prompt}.txt"
    return path.read_text(encoding="utf-8")
