"""A stand-in for a model that sends nothing, and tells what would have been asked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from mcranker.llm.chat import Answer, ChatModel, ChatReply, ChatRequest, Question, Usage
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.ledger.request_key import request_key
from mcranker.llm.limits.budget import prompt_bytes
from mcranker.llm.prices import billed_as
from mcranker.llm.wrapper import Wrapper

__all__ = ["Count", "EstimatingChat"]

Count = Callable[[str, ChatRequest, ChatReply], None]
"""Takes the model's name, what would be asked, and the answer, known or made up."""

BYTES_A_TOKEN = 4  # of prompts
BYTES_A_JSON_TOKEN = 3  # of replies; brackets and digits are tokens of their own
REPLY_TOKENS = 4  # that stand around a reply
CRITERIA = 4  # of a rubric
EXPLANATION = (
    "The passage deals with this side of the question in enough detail that somebody with "
    "this background could act on what it says."
)


class EstimatingChat(Wrapper):
    """Answers in place of `model`, without asking it.

    What the ledger has is answered from there. Everything else is made up: of the right form
    and the usual length, with numbers that mean nothing. Where there is a ledger, equal
    requests are counted once, since they share one answer.

    Args:
        model: whose name and capabilities are shown.
        ledger: where its answers are kept, if anywhere.
        team_size: how many people a made-up team has.
        count: told of every answer that is not a repetition.
        counted: keys of the requests that have been counted; added to.
    """

    def __init__(
        self,
        model: ChatModel,
        ledger: Ledger | None,
        *,
        team_size: int,
        count: Count,
        counted: set[bytes],
    ) -> None:
        super().__init__(model)
        self._ledger = ledger
        self._team_size = team_size
        self._count = count
        self._counted = counted

    async def complete(self, request: ChatRequest) -> ChatReply:
        reply = self._made_up(request)
        if any(
            turn.role == "assistant" and turn.content == reply.text for turn in request.messages
        ):
            return reply  # asked again because what was made up could not be read
        if self._ledger is not None:
            key = request_key(self._model, request)
            if key in self._counted:
                return reply
            found = self._ledger.find(key)
            if found is None:
                self._counted.add(key)
            else:
                reply = found
        self._count(billed_as(self.name, request), request, reply)
        return reply

    async def aclose(self) -> None:
        """Nothing to release: the model itself stays open."""

    def _made_up(self, request: ChatRequest) -> ChatReply:
        text = "" if request.labels or request.questions else EXPLANATION
        output_tokens = REPLY_TOKENS + len(request.questions)
        if request.schema is not None:
            text = json.dumps(_filled(request.schema.schema, self._team_size))
        output_tokens += math.ceil(len(text) / BYTES_A_JSON_TOKEN)
        return ChatReply(
            text,
            usage=Usage(
                calls=1,
                input_tokens=math.ceil(prompt_bytes(request) / BYTES_A_TOKEN),
                output_tokens=output_tokens,
            ),
            label_logprobs=dict.fromkeys(request.labels, -math.log(max(1, len(request.labels))))
            if request.labels
            else None,
            answers=tuple(map(_answered, request.questions)) or None,
        )


def _answered(question: Question) -> Answer:
    if question.kind == "choice":
        count = len(question.options)
        return Answer(0.0, probabilities=(1 / count,) * count)
    return Answer(0.5 if question.kind == "yes_no" else question.top / 2)


def _filled(schema: Mapping[str, Any], team_size: int) -> Any:
    """A value of the schema's form: a team and a rubric as they usually are, else the middle."""
    properties = schema.get("properties", {})
    if "Identities" in properties:
        listed = properties["Identities"]["items"].get("enum")
        names = listed or [f"Recruit {number}" for number in range(1, team_size + 1)]
        return {"Identities": names[:team_size], "Reason": EXPLANATION}
    if "Criteria" in properties:
        criterion = {"Explanation": EXPLANATION, "Weight": 100 // CRITERIA}
        criteria = [{"Criterion": f"Criterion {n}", **criterion} for n in range(1, CRITERIA + 1)]
        return {"Criteria": criteria, "Reason": EXPLANATION}
    if properties:
        return {name: _filled(each, team_size) for name, each in properties.items()}
    match schema:
        case {"enum": [*values]}:
            return values[len(values) // 2]
        case {"type": "integer" | "number"}:
            low = schema.get("minimum", 0)
            return (low + schema.get("maximum", low)) // 2
        case {"type": "array"}:
            return [_filled(schema.get("items", {}), team_size)]
    return EXPLANATION
