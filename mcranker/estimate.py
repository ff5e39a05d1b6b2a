"""Estimate calls, tokens and cost without sending anything."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mcranker.config import RankerConfig
from mcranker.llm.chat import (
    Answer,
    ChatModel,
    ChatReply,
    ChatRequest,
    Question,
    Wrapper,
    billed_as,
    most_used,
    prompt_bytes,
)
from mcranker.llm.ledger.ledger import Ledger, Ledgered
from mcranker.llm.ledger.rows import request_key
from mcranker.llm.models import ROLES, Models
from mcranker.llm.prices import cost
from personas.ranking.usage import Usage, UsageTable

REPAIR_TOKENS = 128  # of the turn that asks again for a reply that could not be read
Count = Callable[[str, ChatRequest, ChatReply], None]
"""Receives the model's name, the request, and the answer, known or made up."""

BYTES_A_TOKEN = 4  # of prompts
BYTES_A_JSON_TOKEN = 3  # of replies; brackets and digits are tokens of their own
REPLY_TOKENS = 4  # around a reply
CRITERIA = 4  # of a rubric
PROPERTIES = 4  # that REBEL infers for a query
EXPLANATION = (
    # english: sent to models
    "The passage deals with this side of the question in enough detail that somebody with "
    "this background could act on what it says."
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated effort of ranking; two add up with ``+``.

    The number of calls follows from the same steps as the ranking itself, with a made-up team
    and made-up rubrics: it is exact as long as recruiters find as many personas as they are asked
    for and replies can be read. With ``criteria="dataset"`` for recruited personas all queries
    count as if they had one team. Tokens are guesses: four bytes of text each, without thoughts.

    Attributes:
        table: calls and tokens expected, by stage, persona and model; ``table.reused`` has those
            of answers that are in the ledger already.
        calls_at_least: the fewest calls there may be, of rankers whose comparisons depend on the
            answers.
        cost_at_most: US dollars, if nothing is cached, all replies are as long as they may
            be, and each is asked for again as often as ``resample`` and ``repair_attempts``
            allow; None if a model's price is not known.
    """

    table: UsageTable = field(default_factory=UsageTable)
    calls_at_least: int = 0
    cost_at_most: float | None = 0.0

    @property
    def calls(self) -> int:
        """Calls to be made."""
        return self.table.total.calls

    @property
    def reused(self) -> int:
        """Answers that are in the ledger already."""
        return self.table.reused.total.calls

    @property
    def input_tokens(self) -> int:
        """Tokens of all prompts."""
        return self.table.total.input_tokens

    @property
    def output_tokens(self) -> int:
        """Tokens of all replies."""
        return self.table.total.output_tokens

    @property
    def cost(self) -> float | None:
        """US dollars expected; None if a model's price is not known."""
        return cost_of(self.table)

    def __add__(self, other: Estimate) -> Estimate:
        table = UsageTable()
        table.add_all(self.table)
        table.add_all(other.table)
        return Estimate(
            table,
            self.calls_at_least + other.calls_at_least,
            _total([self.cost_at_most, other.cost_at_most]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold."""
        figures = ("calls", "calls_at_least", "reused", "input_tokens", "output_tokens", "cost")
        return {
            **{name: getattr(self, name) for name in (*figures, "cost_at_most")},
            "by_stage": _rows(self.table),
            "reused_by_stage": _rows(self.table.reused),
        }


class Estimator:
    """Takes down what a ranker would ask, query by query."""

    def __init__(self, config: RankerConfig, counted: set[bytes] | None = None) -> None:
        self._config = config
        self._counted = set() if counted is None else counted
        self._table = UsageTable()
        self._at_most: dict[str, Usage] = {}
        self._calls_at_least = 0
        self._judges: set[str] = set()
        self._new_scores = 0
        self._known_scores = 0

    def models(self, models: Models) -> Models:
        """Replace the models by ones that send nothing and report here."""

        def stand_in(model: ChatModel) -> ChatModel:
            ledger = models.ledger if isinstance(model, Ledgered) else None
            return EstimatingChat(model, ledger, self.count, self._config.team_size, self._counted)

        recruiter, criteria, scoring, assessor = (stand_in(getattr(models, r)) for r in ROLES)
        return Models(recruiter, criteria, scoring, assessor)

    def end_query(self, fewest: int | None = None) -> None:
        """Count every call of a query; `fewest` comparisons a judge, if that depends on answers."""
        scores = self._new_scores
        if fewest is not None:
            # What the ledger has may be what other answers lead to.
            scores = 0 if self._known_scores else min(scores, fewest * len(self._judges))
        self._calls_at_least += scores
        self._judges.clear()
        self._new_scores = self._known_scores = 0

    def estimate(self) -> Estimate:
        """The sum of all queries that have ended."""
        at_most = [cost(model, usage) for model, usage in self._at_most.items()]
        return Estimate(self._table, self._calls_at_least, _total(at_most))

    def count(self, model: str, request: ChatRequest, reply: ChatReply) -> None:
        """Count a call by the model's name, the request, and the answer, known or made up."""
        tag = request.tag
        self._table.add(tag.stage, tag.persona, model, reply.usage, reused=reply.reused)
        if tag.stage == "score":
            self._judges.add(tag.persona)
            self._known_scores += reply.reused
            self._new_scores += not reply.reused
        elif not reply.reused:
            self._calls_at_least += 1
        if not reply.reused:
            most = most_used(request)
            if not (request.labels or request.continuation or request.questions):
                again = self._config.resamples(tag.stage), self._config.repair_attempts
                repaired = most + Usage(input_tokens=request.max_tokens + REPAIR_TOKENS)
                most = sum([most] * again[0] + [repaired] * again[1], start=most)
            self._at_most[model] = self._at_most.get(model, Usage()) + most


def cost_of(table: UsageTable) -> float | None:
    """US dollars of calls; None if a model's price is not known."""
    return _total([cost(model, usage) for (_, _, model), usage in table.items()])


def _total(costs: Sequence[float | None]) -> float | None:
    known = [each for each in costs if each is not None]
    return math.fsum(known) if len(known) == len(costs) else None


def _rows(table: UsageTable) -> list[dict[str, Any]]:
    return [
        {"stage": stage, "persona": persona, "model": model, **asdict(usage)}
        for (stage, persona, model), usage in table.items()
    ]


class EstimatingChat(Wrapper):
    """Answers in place of `model`, without asking it."""

    def __init__(
        self,
        model: ChatModel,
        ledger: Ledger | None,
        count: Count,
        team_size: int,
        counted: set[bytes],
    ) -> None:
        super().__init__(model)
        self._ledger, self._count = ledger, count
        self._team_size, self._counted = team_size, counted

    async def complete(self, request: ChatRequest) -> ChatReply:
        reply = self._made_up(request)
        if ("assistant", reply.text) in ((each.role, each.content) for each in request.messages):
            return reply  # asked again because what was made up could not be read
        if self._ledger is not None:
            key = request_key(self._model, request)
            if key in self._counted:
                return reply
            found = await self._ledger.find(key)
            if found is None:
                self._counted.add(key)
            else:
                reply = found
        self._count(billed_as(self.name, request), request, reply)
        return reply

    async def aclose(self) -> None:
        """Nothing to release: the model itself stays open."""

    def _made_up(self, request: ChatRequest) -> ChatReply:
        labels, questions = request.labels, request.questions
        text = "" if labels or request.continuation or questions else EXPLANATION
        if request.schema is not None:
            text = json.dumps(_filled(request.schema.schema, self._team_size, request.schema.items))
        input_tokens = math.ceil(prompt_bytes(request) / BYTES_A_TOKEN)
        output_tokens = REPLY_TOKENS + len(questions) + math.ceil(len(text) / BYTES_A_JSON_TOKEN)
        return ChatReply(
            text,
            usage=Usage(calls=1, input_tokens=input_tokens, output_tokens=output_tokens),
            label_logprobs={each: -math.log(len(labels)) for each in labels} or None,
            continuation_logprobs=(-1.0,) if request.continuation else None,
            answers=tuple(map(_answered, questions)) or None,
        )


def _answered(question: Question) -> Answer:
    if question.kind == "choice":
        count = len(question.options)
        return Answer(0.0, probabilities=(1 / count,) * count)
    return Answer(0.5 if question.kind == "yes_no" else question.top / 2)


def _filled(schema: Mapping[str, Any], team_size: int, items: int) -> Any:
    """A value of the schema's form: teams, rubrics and properties as usual, else the middle."""
    properties = schema.get("properties", {})
    if "Identities" in properties:
        listed = properties["Identities"]["items"].get("enum")
        names = listed or [f"Recruit {number}" for number in range(1, team_size + 1)]
        return {"Identities": names[:team_size], "Reason": EXPLANATION}
    if "Criteria" in properties:
        criterion = {"Explanation": EXPLANATION, "Weight": 100 // CRITERIA}
        criteria = [{"Criterion": f"Criterion {n}", **criterion} for n in range(1, CRITERIA + 1)]
        return {"Criteria": criteria, "Reason": EXPLANATION}
    if "Properties" in properties:
        listed = {"Explanation": EXPLANATION, "Weight": 0.5}
        named = [{"Property": f"Property {n}", **listed} for n in range(1, PROPERTIES + 1)]
        return {"Reason": EXPLANATION, "Relevance": EXPLANATION, "Properties": named}
    if properties:
        return {name: _filled(each, team_size, items) for name, each in properties.items()}
    match schema:
        case {"enum": [*values]}:
            return values[len(values) // 2]
        case {"type": "integer" | "number"}:
            low = schema.get("minimum", 0)
            return (low + schema.get("maximum", low)) // 2
        case {"type": "array"}:
            return [_filled(schema.get("items", {}), team_size, items)] * items
    return EXPLANATION
