"""Passages scored by how likely a model finds the query (QG), or each answer (all others).

Query generation of Sachan et al. 2022 (arXiv 2204.07496), relevance generation of Liang et al.
2022 (arXiv 2211.09110) and Zhuang et al. 2024 (arXiv 2310.14122), and the rankers of the pipelines
G-RAG (arXiv 2506.14516) and RankRAG (arXiv 2407.02485). The prompts have the form of the
sources', with the passage between markers; where there are more answers than two, they say that the
reply must be one of them, since servers list the likeliest tokens only.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar

from mcranker.config import NO_YES, RankerConfig
from mcranker.errors import ConfigError
from mcranker.llm.chat import ChatReply
from mcranker.llm.models import check_capabilities
from mcranker.method.annotator import ScorePrompt
from mcranker.method.questions import QuestionSheet
from mcranker.method.session import Session
from mcranker.rankers.judge import NO_TEAM, OneJudgeRanker, demand, refuse
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.scoring import Scoring
from personas import Member
from personas.ranking.types import Query, Score
from personas.templates import OPTIONAL_PROMPTS, Template
from personas.untrusted import Cleaner, encodable

DEFAULT_SCALE = 4
"""k of RG-S(0, k); the best of Zhuang et al."""

_HEADINGS = ("Query", "Passage", "Output")
_QG_HEADINGS = ("Passage", "Question")


class _LikelihoodRanker(OneJudgeRanker):
    defaults: ClassVar[Mapping[str, Any]] = {"scoring": "expected"}
    _no_team = NO_TEAM

    only: ClassVar[Mapping[str, Any]] = {}
    """Option -> the only value that has a meaning; None for none."""

    file: ClassVar[str] = ""
    """Of its prompt, without ``.txt``; empty if it has the ranker's name."""

    def _prepare(self, config: Any) -> Any:
        of_others = {"questions": None, "passages_per_call": None, "ensemble": "sum"}
        why = f"has no meaning for ranker={self.name!r}; leave it out, or use ranker='direct'"
        refuse(config, {**of_others, **self.only}, why)
        fixed = {name: value for name, value in self.only.items() if value}
        config = config.replaced(fixed)
        self._file = self._template_name(config)
        return super()._prepare(config)

    def _template_name(self, config: Any) -> str:
        return self.file or self.name

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        return {self._file: hashlib.sha256(_text(self._file).encode()).hexdigest()}

    def _check_models(self) -> None:
        lack = (
            f"gives no log-probabilities, by which ranker={self.name!r} scores; name a model that "
            "does, such as openai:gpt-4.1-mini or one of vLLM, or use ranker='direct'"
        )
        demand(self.models.scoring, "label_logprobs", lack)
        super()._check_models()

    def _asks(self, session: Session, members: Sequence[Member]) -> ScorePrompt | QuestionSheet:
        return ScorePrompt(self._template(_HEADINGS), session)

    def _template(self, headings: Sequence[str]) -> Template:
        return Template.parse(self._file, _text(self._file), Cleaner(headings))


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


class PYesRanker(_LikelihoodRanker):
    """p(Yes) of G-RAG (Ran et al. 2025): does the passage help to answer the question?

    >>> PYesRanker(model="openai:gpt-4.1-mini", min_relevance=0.5)  # drops as G-RAG does

    A Yes that a server does not list is less likely than the last token that it lists, so below
    0.5, and counts as 0. Where No is not listed either the score is missing, and `min_relevance`
    drops the passage likewise. Models of typed questions, which show no words' probabilities, are
    asked a yes/no question, and its answer, 0 to 1, is the score.

    Its options are those of `RGYNRanker`.

    Raises:
        ConfigError, UnsupportedCapability, ModelError: as `RGYNRanker`.
    """

    name: ClassVar[str] = "p_yes"
    defaults: ClassVar[Mapping[str, Any]] = {}
    only: ClassVar[Mapping[str, Any]] = {"scoring": "peak", "labels": NO_YES, "scale": None}
    file: ClassVar[str] = "rag_p_yes"

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        return self.prompts.hashes_of(
            OPTIONAL_PROMPTS["typed"] if config.questions else [self._file]
        )

    def _for_models(self, config: RankerConfig) -> RankerConfig:
        offers = self.models.scoring.capabilities
        if offers.max_questions and not offers.label_logprobs:
            typed = {"scoring": "expected", "labels": NO_YES, "questions": "per_persona"}
            config = config.replaced(typed)
        return super()._for_models(config)

    def _check_models(self) -> None:
        if self.config.questions:
            check_capabilities(self.config, self.models, recruits=0)
        else:
            super()._check_models()

    def _asks(self, session: Session, members: Sequence[Member]) -> ScorePrompt | QuestionSheet:
        if session.config.questions:
            return QuestionSheet(members, session)
        return ScorePrompt(self.prompts[self._file], session)


class RankRAGConfig(RankerConfig):
    """Options of `RankRAGRanker`."""

    claims: bool = False
    """Queries are claims to verify, as in FEVER, and no questions."""


class RankRAGRanker(PYesRanker):
    """RankRAG (Yu et al. 2024): p(True), by the words that its models are trained on.

    >>> RankRAGRanker(model="openai:NAME", base_url="http://localhost:8000/v1")  # vLLM

    A query's earlier turns are shown before it, as its models are trained.

    Its options are those of `RankRAGConfig` and `PYesRanker`, with True and False for Yes and No.

    Raises:
        ConfigError, UnsupportedCapability, ModelError: as `PYesRanker`.
    """

    name: ClassVar[str] = "rankrag"
    config: RankRAGConfig
    config_class = RankRAGConfig
    only: ClassVar[Mapping[str, Any]] = {**PYesRanker.only, "labels": ("False", "True")}
    file: ClassVar[str] = "rag_rankrag_rank"

    def _template_name(self, config: Any) -> str:
        return f"{self.file}_claim" if config.claims else self.file

    def _shown(self, query: Query) -> Query:
        return super()._shown(query) if self.config.claims or self.config.questions else query

    def _asks(self, session: Session, members: Sequence[Member]) -> ScorePrompt | QuestionSheet:
        if session.config.questions or not session.query.turns:
            return super()._asks(session, members)
        turns = self.prompts.turns(session.query.turns)
        return ScorePrompt(self.prompts[f"{self.file}_turns"].bind({"turns": turns}), session)


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

    def _prepare(self, config: Any) -> Any:
        if config.scoring not in ("expected", "peak"):
            raise ConfigError(
                f"scoring={config.scoring!r} reads no likelihoods, by which ranker='rg_s' scores; "
                'use scoring="expected" or "peak"'
            )
        if not {"scale", "labels"} & config.model_fields_set:
            config = config.replaced({"scale": DEFAULT_SCALE})
        return super()._prepare(config)

    def _template_name(self, config: Any) -> str:
        return "rg_labels" if config.labels else "rg_s"


class QGRanker(_LikelihoodRanker):
    """QG (Sachan et al. 2022): how likely the passage makes the query, from 0 to 1.

    The score is exp of the paper's, the mean of log p(token) over the query's tokens, each given
    the passage and the tokens before it. So it is the geometric mean of their probabilities, and
    the order is the paper's.

    >>> QGRanker(model="openai:NAME", base_url="http://localhost:8000/v1")  # vLLM

    Its `model` gives the log-probabilities of a given text: ``openai:NAME`` of a server that
    echoes prompts with log-probabilities, as vLLM does. Other keywords are those of `Ranker`.

    Raises:
        ConfigError: an option that has no meaning here: of a team, or of the scale.
        UnsupportedCapability: the model gives no such log-probabilities; of a server that is known
            once it has been asked.
        ModelError: as `MCRanker`.
    """

    name: ClassVar[str] = "qg"
    _unexplained: ClassVar[str] = "its score is how likely the query's words are, and no judgement"
    absolute = False  # how likely a query is depends on its own words

    only: ClassVar[Mapping[str, Any]] = {"scoring": "expected", "labels": (), "scale": 1}

    def _check_models(self) -> None:
        lack = (
            "does not give the likelihood of a text, by which ranker='qg' scores; name a server "
            "that echoes prompts with log-probabilities, such as vLLM (openai:NAME with "
            "base_url=), or use ranker='rg_yn'"
        )
        demand(self.models.scoring, "continuation_logprobs", lack)
        # No label is read.
        check_capabilities(self.config.replaced({"scoring": "integer"}), self.models, recruits=0)

    def _asks(self, session: Session, members: Sequence[Member]) -> ScorePrompt | QuestionSheet:
        answer = QueryLikelihood(session)
        return ScorePrompt(self._template(_QG_HEADINGS), session, answer=answer)


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
