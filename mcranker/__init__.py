"""MCRanker: rerank passages with a team of LLM personas, and see why each ranks where it does.

The public names, in the order of the pipeline; each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcranker.comparing import ComparedRankings as ComparedRankings
    from mcranker.comparing import compare as compare
    from mcranker.config import CallOptions as CallOptions
    from mcranker.config import RankerConfig as RankerConfig
    from mcranker.errors import AuthenticationFailed as AuthenticationFailed
    from mcranker.errors import BudgetExceeded as BudgetExceeded
    from mcranker.errors import ConfigError as ConfigError
    from mcranker.errors import ConnectionFailed as ConnectionFailed
    from mcranker.errors import ContentRefused as ContentRefused
    from mcranker.errors import ContextTooLong as ContextTooLong
    from mcranker.errors import DownloadError as DownloadError
    from mcranker.errors import FormNotKept as FormNotKept
    from mcranker.errors import InputError as InputError
    from mcranker.errors import LedgerError as LedgerError
    from mcranker.errors import MCRankerError as MCRankerError
    from mcranker.errors import MissingScoreError as MissingScoreError
    from mcranker.errors import ModelError as ModelError
    from mcranker.errors import ModelFileError as ModelFileError
    from mcranker.errors import ModelNotFound as ModelNotFound
    from mcranker.errors import ModelTimeout as ModelTimeout
    from mcranker.errors import RateLimited as RateLimited
    from mcranker.errors import ReplyError as ReplyError
    from mcranker.errors import RequestRejected as RequestRejected
    from mcranker.errors import RunError as RunError
    from mcranker.errors import ServerFailed as ServerFailed
    from mcranker.errors import UnsupportedCapability as UnsupportedCapability
    from mcranker.estimate import Estimate as Estimate
    from mcranker.events import Event as Event
    from mcranker.events import PassageAssessed as PassageAssessed
    from mcranker.events import PassagesCompared as PassagesCompared
    from mcranker.events import PassageScored as PassageScored
    from mcranker.events import RankedQuery as RankedQuery
    from mcranker.events import RankingDone as RankingDone
    from mcranker.events import RankingStarted as RankingStarted
    from mcranker.events import RubricWritten as RubricWritten
    from mcranker.events import TeamRecruited as TeamRecruited
    from mcranker.llm.chat import Answer as Answer
    from mcranker.llm.chat import Capabilities as Capabilities
    from mcranker.llm.chat import ChatModel as ChatModel
    from mcranker.llm.chat import ChatReply as ChatReply
    from mcranker.llm.chat import ChatRequest as ChatRequest
    from mcranker.llm.chat import Judge as Judge
    from mcranker.llm.chat import Message as Message
    from mcranker.llm.chat import Option as Option
    from mcranker.llm.chat import Question as Question
    from mcranker.llm.chat import ReplySchema as ReplySchema
    from mcranker.llm.chat import State as State
    from mcranker.llm.chat import Tag as Tag
    from mcranker.llm.connect import connect as connect
    from mcranker.llm.provider import Provider as Provider
    from mcranker.llm.providers.openai_chat import CompatibleChat as CompatibleChat
    from mcranker.llm.scripted import ScriptedChat as ScriptedChat
    from mcranker.logs import WeakJudgeWarning as WeakJudgeWarning
    from mcranker.method.session import Job as Job
    from mcranker.rankers.base import Ranker as Ranker
    from mcranker.rankers.comparative import RankGPTConfig as RankGPTConfig
    from mcranker.rankers.comparative import RankGPTRanker as RankGPTRanker
    from mcranker.rankers.comparative import SetwiseConfig as SetwiseConfig
    from mcranker.rankers.comparative import SetwiseRanker as SetwiseRanker
    from mcranker.rankers.direct import DirectConfig as DirectConfig
    from mcranker.rankers.direct import DirectRanker as DirectRanker
    from mcranker.rankers.direct import RerankRanker as RerankRanker
    from mcranker.rankers.judge import MCRanker as MCRanker
    from mcranker.rankers.likelihood import PYesRanker as PYesRanker
    from mcranker.rankers.likelihood import QGRanker as QGRanker
    from mcranker.rankers.likelihood import RankRAGConfig as RankRAGConfig
    from mcranker.rankers.likelihood import RankRAGRanker as RankRAGRanker
    from mcranker.rankers.likelihood import RGSRanker as RGSRanker
    from mcranker.rankers.likelihood import RGYNRanker as RGYNRanker
    from mcranker.rankers.rebel import RebelConfig as RebelConfig
    from mcranker.rankers.rebel import RebelRanker as RebelRanker
    from mcranker.ranking import Ranking as Ranking
    from mcranker.replies.loose_json import Unreadable as Unreadable
    from mcranker.replies.scoring import Scoring as Scoring
    from mcranker.retrieval.fusion import fuse as fuse
    from personas import Criterion as Criterion
    from personas import Ensemble as Ensemble
    from personas import Member as Member
    from personas import Persona as Persona
    from personas import Rubric as Rubric
    from personas import Team as Team
    from personas.ranking.hit import Hit as Hit
    from personas.ranking.types import Comparisons as Comparisons
    from personas.ranking.types import MissingScore as MissingScore
    from personas.ranking.types import Passage as Passage
    from personas.ranking.types import Query as Query
    from personas.ranking.types import Score as Score
    from personas.ranking.types import WindowCounts as WindowCounts
    from personas.ranking.usage import Usage as Usage
    from personas.ranking.usage import UsageTable as UsageTable

_EXPORTS = {
    "personas.ranking.types": "Query Passage Score MissingScore Comparisons WindowCounts",
    "mcranker.logs": "WeakJudgeWarning",
    "personas": "Persona Criterion Rubric Member Team Ensemble",
    "mcranker.config": "CallOptions RankerConfig",
    "mcranker.method.session": "Job",
    "mcranker.comparing": "ComparedRankings compare",
    "mcranker.rankers.base": "Ranker",
    "mcranker.rankers.judge": "MCRanker",
    "mcranker.rankers.direct": "DirectConfig DirectRanker RerankRanker",
    "mcranker.rankers.likelihood": "RGYNRanker RGSRanker QGRanker PYesRanker "
    "RankRAGConfig RankRAGRanker",
    "mcranker.rankers.comparative": "RankGPTConfig RankGPTRanker SetwiseConfig SetwiseRanker",
    "mcranker.rankers.rebel": "RebelConfig RebelRanker",
    "mcranker.retrieval.fusion": "fuse",
    "mcranker.replies.scoring": "Scoring",
    "mcranker.replies.loose_json": "Unreadable",
    "personas.ranking.hit": "Hit",
    "mcranker.ranking": "Ranking",
    "mcranker.estimate": "Estimate",
    "mcranker.events": "Event RankingStarted TeamRecruited RubricWritten PassageScored "
    "PassageAssessed PassagesCompared RankingDone RankedQuery",
    "mcranker.llm.chat": "ChatModel ChatRequest ChatReply ReplySchema Message Question "
    "Tag Capabilities Answer Judge Option State",
    "mcranker.llm.connect": "connect",
    "mcranker.llm.provider": "Provider",
    "mcranker.llm.providers.openai_chat": "CompatibleChat",
    "mcranker.llm.scripted": "ScriptedChat",
    "mcranker.errors": "MCRankerError ConfigError InputError RunError MissingScoreError "
    "DownloadError LedgerError BudgetExceeded ModelError ConnectionFailed "
    "ModelTimeout AuthenticationFailed ModelNotFound ModelFileError RateLimited ServerFailed "
    "RequestRejected ContextTooLong ContentRefused UnsupportedCapability ReplyError FormNotKept",
    "personas.ranking.usage": "Usage UsageTable",
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__version__ = "0.1.0"

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
