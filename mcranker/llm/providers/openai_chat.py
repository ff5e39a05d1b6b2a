"""OpenAI's models through OpenAI's own library: the only file that imports it.

The library does authentication, connections and errors; the bodies are written and read
here (`openai_protocol`, `openai_decisions`), which takes a third of the processor time of its
typed calls.
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import anyio

from mcranker.errors import AuthenticationFailed, ModelError, ReplyError, RequestRejected
from mcranker.llm.batch.protocol import TRANSFER_SECONDS
from mcranker.llm.chat import REASONING_TOKENS, Capabilities, ChatReply, ChatRequest
from mcranker.llm.masking import shown_url, url_secrets
from mcranker.llm.providers.bodies import MOST_RESULTS, PLAIN
from mcranker.llm.providers.endpoint import (
    checked_settings,
    chosen_url,
    find_key,
    key_advice,
)
from mcranker.llm.providers.http_errors import (
    Problem,
    Service,
    StatusError,
    error_for,
    json_bytes,
    parse_object,
    read_problem,
    refusal,
    timed_out,
    transport_error,
    unreadable,
)
from mcranker.llm.providers.openai_decisions import (
    DECISIONS,
    decides,
    decision_body,
    decision_reply,
)
from mcranker.llm.providers.openai_protocol import chat_body, chat_reply
from mcranker.llm.providers.parameters import RENAMED, ParameterMemory
from mcranker.llm.providers.per_loop import PerLoop
from mcranker.llm.typed_answers import check_limits

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    import httpx2
    import openai

    from mcranker.llm.batch.protocol import Writer

__all__ = ["OpenAIChat"]

DEFAULT_URL = "https://api.openai.com/v1"
KEEP_ALIVE = 60.0  # seconds

# These think before they answer, and pay for it from the limit of the reply.
_REASONS = re.compile(r"o\d|gpt-([5-9]|\d\d)")
# Of those, the ones documented to give log-probabilities when they do not think.
_LOGPROBS_WITHOUT_REASONING = re.compile(r"gpt-5\.[12]")


class OpenAIChat:
    """Asks a model of OpenAI.

    Models that think first are told not to (``reasoning_effort="none"``), as scores are many
    and short; where a model refuses, the least effort it takes is used, and
    `REASONING_TOKENS` are added to the limit of the reply.

    A request with questions goes to the decisions endpoint, any other one to the chat
    completions.

    Args:
        model: e.g. ``gpt-6-luna``.
        api_key: None for ``OPENAI_API_KEY``.
        base_url: another address of the same service; None for ``OPENAI_BASE_URL``, else
            OpenAI's own.
        timeout: seconds allowed to one call, from asking for a connection to the last byte.
        concurrency: connections at most.
        capabilities: what the model offers; None to tell by its name. What the service then
            refuses is left out.

    Raises:
        AuthenticationFailed: there is no key, or it cannot be one.
        ConfigError: an argument that cannot be.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 120.0,
        concurrency: int = 64,
        capabilities: Capabilities | None = None,
    ) -> None:
        checked_settings(timeout, concurrency)
        self._model = model
        self._name = f"openai:{model}"
        self._base_url = chosen_url(base_url, "OPENAI_BASE_URL", DEFAULT_URL)
        self._timeout = timeout
        self._concurrency = concurrency
        self._reasons = _REASONS.match(model) is not None and "chat" not in model
        self._capabilities = capabilities or Capabilities(
            json_schema=True,
            label_logprobs=not self._reasons
            or (
                _LOGPROBS_WITHOUT_REASONING.match(model) is not None
                and "pro" not in model
                and "codex" not in model
            ),
        )
        if capabilities is None and decides(model):
            self._capabilities = replace(
                DECISIONS,
                json_schema=self._capabilities.json_schema,
                label_logprobs=self._capabilities.label_logprobs,
            )
        self._memory = ParameterMemory(self._name)
        self._clients: PerLoop[openai.AsyncOpenAI] = PerLoop(self._open, _close)
        self._service = Service(
            model=self._name,
            where="OpenAI" if self._base_url == DEFAULT_URL else shown_url(self._base_url),
            key_advice=key_advice("OPENAI_API_KEY"),
            model_advice="check the model's name at platform.openai.com/docs/models",
            connection_advice="check the network, and base_url= if you set one",
            timeout=timeout,
            key=find_key(api_key, "OPENAI_API_KEY", model=self._name),
            hidden=url_secrets(self._base_url),
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def endpoint(self) -> str:
        """The service's base URL."""
        return self._base_url

    @property
    def capabilities(self) -> Capabilities:
        return self._memory.within(self._capabilities)

    async def complete(self, request: ChatRequest) -> ChatReply:
        try:
            if request.questions:
                check_limits(request, self._capabilities, self._name)
                data = await self._post("/decisions", decision_body(request, self._model))
                return decision_reply(data, request, service=self._service)
            data = await self._memory.ask(self._chat_body(request), self._send_chat)
            return chat_reply(data, request, service=self._service)
        except StatusError as failure:
            raise error_for(failure.problem, self._service) from failure

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        await self._clients.aclose()

    # What the batch API needs; see `mcranker.llm.batch.protocol.BatchableChat`.

    @property
    def service(self) -> Service:
        return self._service

    def writer(self) -> Writer:
        memory = copy.deepcopy(self._memory)
        return lambda request: self._with_room(memory.adapt(self._chat_body(request)))

    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        return chat_reply(data, request, service=self._service)

    def learn(self, problem: Problem, sent: Mapping[str, Any]) -> bool:
        return self._memory.learn(problem, sent)

    async def call(
        self, method: Literal["GET", "POST"], path: str, content: bytes | None = None
    ) -> dict[str, Any]:
        import httpx2

        async def send(client: openai.AsyncOpenAI) -> httpx2.Response:
            if method == "GET":
                return await client.get(path, cast_to=httpx2.Response)
            return await client.post(
                path,
                cast_to=httpx2.Response,
                content=content,
                options={"timeout": TRANSFER_SECONDS},
            )

        return await self._transfer(send)

    async def upload(self, name: str, content: bytes) -> dict[str, Any]:
        """Send a file of requests for a batch; otherwise like `call`."""
        import httpx2

        async def send(client: openai.AsyncOpenAI) -> httpx2.Response:
            return await client.post(
                "/files",
                cast_to=httpx2.Response,
                body={"purpose": "batch"},
                files={"file": (name, content, "application/jsonl")},
                options={
                    "headers": {"Content-Type": "multipart/form-data"},
                    "timeout": TRANSFER_SECONDS,
                },
            )

        return await self._transfer(send)

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        import httpx2
        import openai

        from mcranker.llm.providers.sdk_bodies import FOREIGN, widen_body

        try:
            client = await self._clients.get()
            response = await client.get(path, cast_to=httpx2.Response, stream=True)
            widen_body(response, MOST_RESULTS)
            try:
                async for chunk in response.aiter_bytes():
                    yield chunk
            finally:
                await response.aclose()
        except openai.OpenAIError as error:
            raise sdk_error(error, self._service) from error
        except FOREIGN as error:
            raise transport_error(error, self._service) from error

    def _chat_body(self, request: ChatRequest) -> dict[str, Any]:
        body = chat_body(
            request,
            self._model,
            capabilities=self._capabilities,
            limit_name="max_completion_tokens",
        )
        if self._reasons:
            body["reasoning_effort"] = "none"
        return body

    def _with_room(self, body: dict[str, Any]) -> dict[str, Any]:
        if self._reasons and body.get("reasoning_effort") != "none":
            for limit in RENAMED.keys() & body.keys():
                body[limit] += REASONING_TOKENS
        return body

    async def _send_chat(self, body: dict[str, Any]) -> dict[str, Any]:
        return await self._post("/chat/completions", self._with_room(body))

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        import httpx2

        content = json_bytes(body, self._service)

        async def send(client: openai.AsyncOpenAI) -> httpx2.Response:
            # The whole address, because the library takes its time to join two parts.
            url = f"{self._base_url}{path}"
            return await client.post(url, cast_to=httpx2.Response, content=content)

        return await self._answer(send, self._service)

    async def _transfer(
        self, send: Callable[[openai.AsyncOpenAI], Awaitable[httpx2.Response]]
    ) -> dict[str, Any]:
        """Like `_answer`, for what may be large and has time."""
        try:
            return await self._answer(send, replace(self._service, timeout=TRANSFER_SECONDS))
        except StatusError as failure:
            raise error_for(failure.problem, self._service) from failure

    async def _answer(
        self, send: Callable[[openai.AsyncOpenAI], Awaitable[httpx2.Response]], service: Service
    ) -> dict[str, Any]:
        import openai

        from mcranker.llm.providers.sdk_bodies import FOREIGN

        try:
            with anyio.fail_after(service.timeout):
                response = await send(await self._clients.get())
        except TimeoutError as error:
            raise timed_out(service) from error
        except openai.APIStatusError as error:
            raise StatusError(_problem(error)) from error
        except openai.OpenAIError as error:
            raise sdk_error(error, service) from error
        except FOREIGN as error:
            raise transport_error(error, service) from error
        return parse_object(response.content, service)

    def _open(self) -> openai.AsyncOpenAI:
        import httpx2
        import openai

        from mcranker.llm.providers.sdk_bodies import bound_body

        return openai.AsyncOpenAI(
            api_key=self._service.key,
            base_url=self._base_url,
            max_retries=0,
            timeout=self._timeout,
            http_client=openai.DefaultAioHttpClient(
                limits=httpx2.Limits(
                    max_connections=self._concurrency,
                    max_keepalive_connections=self._concurrency,
                    keepalive_expiry=KEEP_ALIVE,
                ),
                timeout=self._timeout,
                headers=PLAIN,
                event_hooks={"response": [bound_body]},
                follow_redirects=False,  # one would take the prompt elsewhere
            ),
        )


def sdk_error(error: openai.OpenAIError, service: Service) -> ModelError:
    """The error of this package that one of the library's stands for."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return error_for(_problem(error), service)
    if isinstance(error, openai.APIConnectionError):
        return transport_error(error, service)
    if isinstance(error, openai.APIResponseValidationError):
        return unreadable(str(error), service)
    if isinstance(error, openai.ContentFilterFinishReasonError):
        return refusal("content filter", service)
    if isinstance(error, openai.LengthFinishReasonError):
        return ReplyError(
            f"{service.model}: the reply was cut off at its limit; raise max_tokens",
            reply="",
            model=service.model,
        )
    if "Token" in type(error).__name__:  # its token providers: no key could be obtained
        return AuthenticationFailed(
            f"{service.model}: no token; {service.key_advice}", model=service.model
        )
    return RequestRejected(
        f"{service.model}: {type(error).__name__} in OpenAI's library; it is not retried",
        model=service.model,
    )


def _problem(error: openai.APIStatusError) -> Problem:
    response = error.response
    return read_problem(response.status_code, response.content, response.headers)


async def _close(client: openai.AsyncOpenAI) -> None:
    await client.close()
