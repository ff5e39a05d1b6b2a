"""MCRanker: rerank passages with a team of LLM personas, and see why each ranks where it does.

The public names, in the order of the pipeline; each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcranker.comparing import ComparedRankings, compare
    from mcranker.config import CallOptions, RankerConfig
    from mcranker.errors import (
        AuthenticationFailed,
        BudgetExceeded,
        ConfigError,
        ConnectionFailed,
        ContentRefused,
        ContextTooLong,
        DownloadError,
        FormNotKept,
        InputError,
        LedgerError,
        MCRankerError,
        MissingScoreError,
        ModelError,
        ModelFileError,
        ModelNotFound,
        ModelTimeout,
        RateLimited,
        ReplyError,
        RequestRejected,
        RunError,
        ServerFailed,
        UnsupportedCapability,
    )
    from mcranker.estimate import Estimate
    from mcranker.events import (
        Event,
        PassageAssessed,
        PassagesCompared,
        PassageScored,
        RankedQuery,
        RankingDone,
        RankingStarted,
        RubricWritten,
        TeamRecruited,
    )
    from mcranker.llm.chat import (
        Answer,
        Capabilities,
        ChatModel,
        ChatReply,
        ChatRequest,
        Judge,
        Message,
        Option,
        Question,
        ReplySchema,
        State,
        Tag,
    )
    from mcranker.llm.connect import connect
    from mcranker.llm.provider import Provider
    from mcranker.llm.providers.compatible_http import CompatibleChat
    from mcranker.llm.scripted import ScriptedChat
    from mcranker.logs import WeakJudgeWarning
    from mcranker.method.session import Job
    from mcranker.rankers.base import Ranker
    from mcranker.rankers.comparative import (
        RankGPTConfig,
        RankGPTRanker,
        SetwiseConfig,
        SetwiseRanker,
    )
    from mcranker.rankers.direct import DirectConfig, DirectRanker, RerankRanker
    from mcranker.rankers.judge import MCRanker
    from mcranker.rankers.likelihood import (
        PYesRanker,
        QGRanker,
        RankRAGConfig,
        RankRAGRanker,
        RGSRanker,
        RGYNRanker,
    )
    from mcranker.rankers.rebel import RebelConfig, RebelRanker
    from mcranker.ranking import Ranking
    from mcranker.replies.loose_json import Unreadable
    from mcranker.replies.scoring import Scoring
    from mcranker.retrieval.fusion import fuse
    from personas import Criterion, Ensemble, Member, Persona, Rubric, Team
    from personas.ranking.hit import Hit
    from personas.ranking.types import (
        Comparisons,
        MissingScore,
        Passage,
        PersonaOrder,
        Query,
        Score,
        WindowCounts,
    )
    from personas.ranking.usage import Usage, UsageTable

_EXPORTS = {
    "personas.ranking.types": "Query Passage Score MissingScore Comparisons PersonaOrder "
    "WindowCounts",
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
    "mcranker.llm.providers.compatible_http": "CompatibleChat",
    "mcranker.llm.scripted": "ScriptedChat",
    "mcranker.errors": "MCRankerError ConfigError InputError RunError MissingScoreError "
    "DownloadError LedgerError BudgetExceeded ModelError ConnectionFailed "
    "ModelTimeout AuthenticationFailed ModelNotFound ModelFileError RateLimited ServerFailed "
    "RequestRejected ContextTooLong ContentRefused UnsupportedCapability ReplyError FormNotKept",
    "personas.ranking.usage": "Usage UsageTable",
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AuthenticationFailed",
    "BudgetExceeded",
    "CallOptions",
    "Capabilities",
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "ComparedRankings",
    "Comparisons",
    "CompatibleChat",
    "ConfigError",
    "ConnectionFailed",
    "ContentRefused",
    "ContextTooLong",
    "Criterion",
    "DirectConfig",
    "DirectRanker",
    "DownloadError",
    "Ensemble",
    "Estimate",
    "Event",
    "FormNotKept",
    "Hit",
    "InputError",
    "Job",
    "Judge",
    "LedgerError",
    "MCRanker",
    "MCRankerError",
    "Member",
    "Message",
    "MissingScore",
    "MissingScoreError",
    "ModelError",
    "ModelFileError",
    "ModelNotFound",
    "ModelTimeout",
    "Option",
    "PYesRanker",
    "Passage",
    "PassageAssessed",
    "PassageScored",
    "PassagesCompared",
    "Persona",
    "PersonaOrder",
    "Provider",
    "QGRanker",
    "Query",
    "Question",
    "RGSRanker",
    "RGYNRanker",
    "RankGPTConfig",
    "RankGPTRanker",
    "RankRAGConfig",
    "RankRAGRanker",
    "RankedQuery",
    "Ranker",
    "RankerConfig",
    "Ranking",
    "RankingDone",
    "RankingStarted",
    "RateLimited",
    "RebelConfig",
    "RebelRanker",
    "ReplyError",
    "ReplySchema",
    "RequestRejected",
    "RerankRanker",
    "Rubric",
    "RubricWritten",
    "RunError",
    "Score",
    "Scoring",
    "ScriptedChat",
    "ServerFailed",
    "SetwiseConfig",
    "SetwiseRanker",
    "State",
    "Tag",
    "Team",
    "TeamRecruited",
    "Unreadable",
    "UnsupportedCapability",
    "Usage",
    "UsageTable",
    "WeakJudgeWarning",
    "WindowCounts",
    "compare",
    "connect",
    "fuse",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
