"""Rerank services: the relevance of passages to a query at ``POST /rerank``.

| name | request | scores | servers |
|---|---|---|---|
| ``rerank:NAME`` | ``query``, ``documents`` | 0 to 1 | Cohere, Jina, Voyage, vLLM, LiteLLM |
| ``rerank-tei:NAME`` | ``query``, ``texts`` | 0 to 1 | Text Embeddings Inference |
| ``rerank-logits:NAME`` | ``query``, ``documents`` | any number | llama.cpp |

They answer the `Question`s of a `State` that are about one passage each, a score or a yes and
no, by the passage's relevance alone: texts and levels of questions are not sent. The one
criterion of a judge without a name is sent as ``instruction`` where the protocol has that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mcranker.errors import ConfigError, UnsupportedCapability
from mcranker.llm.chat import Answer, Capabilities, ChatModel, ChatReply, ChatRequest, Judge
from mcranker.llm.provider import Provider
from mcranker.llm.providers.http_chat import Exchange
from mcranker.llm.providers.http_errors import Problem, Service, error_for, unreadable
from mcranker.llm.providers.openai_chat import CompatibleChat
from mcranker.llm.providers.reply_fields import reported_model, usage_in
from mcranker.llm.typed_answers import (
    ROUNDED,
    finite_number,
    missing,
    shown_value,
    whole_number,
)

KEY_VARIABLE = "RERANK_API_KEY"


@dataclass(frozen=True, slots=True)
class RerankForm:
    """Request and answer format of a kind of service."""

    texts: str = "documents"  # the field that holds the passages
    names_model: bool = True  # in the request
    logits: bool = False  # scores are any numbers, of which the logistic function makes 0 to 1
    most: int = 100  # passages of one request
    instruction: str = ""  # the field that holds an instruction; empty where there is none


FORMS: Mapping[str, RerankForm] = {
    # Cohere's price is for a search of up to 100 documents.
    "rerank": RerankForm(instruction="instruction"),
    # 32 is the default of its --max-client-batch-size.
    "rerank-tei": RerankForm(texts="texts", names_model=False, most=32),
    "rerank-logits": RerankForm(logits=True),
}
"""Prefix of a model's name -> the form of its service."""


def _connect(kind: str, name: str, /, *, base_url: str | None = None, **options: Any) -> ChatModel:
    if base_url is None:
        raise ConfigError(
            f"model='{kind}:{name}' is a service's and needs base_url=, the address before "
            "/rerank, e.g. https://api.cohere.com/v2 or http://localhost:8000/v1"
        )
    form, full = FORMS[kind], f"{kind}:{name}"

    def explain(problem: Problem, service: Service) -> UnsupportedCapability | None:
        error = error_for(problem, service)
        if form.texts != "documents" or "`texts`" not in str(error):
            return None
        return UnsupportedCapability(
            f"{error}; the server is one of Text Embeddings Inference: name the model "
            f"'rerank-tei:{name}'",
            model=full,
        )

    return CompatibleChat(
        name,
        name=full,
        base_url=base_url,
        key_variable=KEY_VARIABLE,
        capabilities=Capabilities(
            prompts=False, max_questions=form.most, instructions=bool(form.instruction)
        ),
        questions=Exchange(
            "rerank",
            lambda request, model: rerank_body(request, model, form, full),
            partial(rerank_reply, logits=form.logits),
            explain,
            "results",
        ),
        **options,
    )


RERANK, RERANK_TEI, RERANK_LOGITS = (
    Provider(
        connect=partial(_connect, kind),
        note=f"a rerank service: {servers}; needs base_url=",
        key_variable=KEY_VARIABLE,
    )
    for kind, servers in {
        "rerank": "Cohere, Jina, Voyage, vLLM, LiteLLM",
        "rerank-tei": "Text Embeddings Inference",
        "rerank-logits": "llama.cpp",
    }.items()
)


def rerank_body(request: ChatRequest, model: str, form: RerankForm, name: str) -> dict[str, Any]:
    """The JSON body: the query, and the passages that the questions are about, in their order."""
    state = request.state
    if state is None or not request.questions:
        raise UnsupportedCapability(
            f"{name} gives the relevance of passages and answers no prompts, as the stage "
            f"{request.tag.stage!r} has; use ranker='rerank', or name a chat model for it",
            model=name,
        )
    told = ""
    for question in request.questions:
        judge = question.judge or Judge("")
        told = judge.instruction
        by_persona = bool(judge.name or judge.criteria or (told and not form.instruction))
        if question.kind == "choice" or by_persona or question.passage not in state.passages:
            raise UnsupportedCapability(
                f"{name} gives the relevance of a passage, by no persona's view, and cannot answer "
                f"the question {question.name!r}; use ranker='rerank', or another scoring_model=",
                model=name,
            )
    named = {"model": model} if form.names_model else {}
    texts = [state.passages[passage] for passage in _asked_about(request)]
    instruction = {form.instruction: told} if told else {}
    return {**named, "query": state.query, form.texts: texts, **instruction}


def rerank_reply(
    data: Mapping[str, Any], request: ChatRequest, *, logits: bool, service: Service
) -> ChatReply:
    """The relevance of each passage, on the scale of its questions."""
    passages = _asked_about(request)
    results = data.get("results", data.get("data"))
    if not isinstance(results, list):
        raise unreadable("no list of results in it", service)
    found: dict[int, list[Any]] = {}
    for result in results:
        given = result.get("index") if isinstance(result, dict) else None
        index = whole_number(given)
        if index is None or not 0 <= index < len(passages):
            last = len(passages) - 1
            what = f"a result with the index {shown_value(given)}, of passages 0 to {last}"
            raise unreadable(what, service)
        found.setdefault(index, []).append(result.get("relevance_score", result.get("score")))
    if not found:
        raise unreadable(f"none of the {len(passages)} passages has a result", service)
    by_passage = {
        passage: _relevance(found.get(index, ()), logits=logits, service=service)
        for index, passage in enumerate(passages)
    }
    answers: list[Answer] = []
    for question in request.questions:
        answer, top = by_passage[question.passage], question.top if question.kind == "score" else 1
        answers.append(answer if answer.value is None else Answer(answer.value * top))
    if not isinstance(data.get("usage"), dict):  # Cohere's place for it
        meta = data.get("meta")
        data = {**data, "usage": meta.get("tokens") if isinstance(meta, dict) else None}
    return ChatReply(
        text="",
        usage=usage_in(data, service),
        model=reported_model(data),
        answers=tuple(answers),
    )


def _asked_about(request: ChatRequest) -> list[str]:
    """Names of the passages that are sent, in the state's order."""
    wanted = {question.passage for question in request.questions}
    return [each for each in request.state.passages if each in wanted] if request.state else []


def _relevance(scores: Sequence[Any], *, logits: bool, service: Service) -> Answer:
    if len(scores) != 1:
        return missing(f"{len(scores) or 'no'} score{'s' * bool(scores)} for this passage")
    (score,) = scores
    number = finite_number(score)
    if number is None:
        return missing(f"odd answer: its score is {shown_value(score)}, not a finite number")
    if logits:
        small = math.exp(-abs(number))
        return Answer(1 / (1 + small) if number >= 0 else small / (1 + small))
    if not -ROUNDED <= number <= 1 + ROUNDED:
        raise UnsupportedCapability(
            f"{service.model}: the relevance {shown_value(score)} from {service.where} is not from "
            "0 to 1; if the server gives logits, as llama.cpp does, name the model "
            f"'rerank-logits:{service.model.partition(':')[2]}'",
            model=service.model,
        )
    return Answer(min(max(number, 0.0), 1.0))
