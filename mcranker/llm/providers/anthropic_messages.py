"""Anthropic's messages through Anthropic's own library: the only file that imports it."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import anyio

from mcranker.errors import (
    AuthenticationFailed,
    ModelError,
    RequestRejected,
    ServerFailed,
    UnsupportedCapability,
)
from mcranker.llm.batch.protocol import TRANSFER_SECONDS
from mcranker.llm.chat import REASONING_TOKENS, Capabilities, ChatReply, ChatRequest, Message, Usage
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
    reported_model,
    timed_out,
    transport_error,
    unreadable,
)
from mcranker.llm.providers.parameters import ParameterMemory
from mcranker.llm.providers.per_loop import PerLoop
from mcranker.llm.providers.token_counts import call_usage, token_count

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    import anthropic
    import httpx2

    from mcranker.llm.batch.protocol import Writer

__all__ = ["AnthropicMessages"]

DEFAULT_URL = "https://api.anthropic.com"
KEEP_ALIVE = 60.0  # seconds

# The last models that take a temperature; from 4.7 on it is an error.
_TAKES_TEMPERATURE = re.compile(r"claude-(3|[a-z]+-4-([0-6](?!\d)|\d{8}))")

# How long a prompt's beginning must be to be kept, in tokens; no shorter one is kept by any
# model. A mark on what is too short costs nothing, so unknown models count as the newest.
_LEAST_CACHED = (
    (re.compile(r"claude-(haiku-4|opus-4-[56])"), 4096),
    (re.compile(r"claude-(3-(5-)?haiku|opus-4-7)"), 2048),
    (re.compile(r"claude-(3|opus-4|sonnet-4|sonnet-5$)"), 1024),
)
_LEAST_CACHED_BY_NEWEST = 512
_BYTES_A_TOKEN = 3  # of English, by the newest tokenizers
_ASKED_OFTEN = ("score", "assess")  # writing to the cache costs a quarter more than not to


class AnthropicMessages:
    """Asks a model of Anthropic.

    Thinking is turned off, as scores are many and short; a model that refuses that thinks,
    and `REASONING_TOKENS` are added to the limit of its replies. Newer models take no
    temperature, so repeated calls may differ there. There is no seed and there are no
    log-probabilities.

    Args:
        model: e.g. ``claude-haiku-5-5``.
        api_key: None for ``ANTHROPIC_API_KEY``.
        base_url: another address of the same service, with or without ``/v1``; None for
            ``ANTHROPIC_BASE_URL``, else Anthropic's own.
        timeout: seconds allowed to one call, from asking for a connection to the last byte.
        concurrency: connections at most.

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
    ) -> None:
        checked_settings(timeout, concurrency)
        self._model = model
        self._name = f"anthropic:{model}"
        url = chosen_url(base_url, "ANTHROPIC_BASE_URL", DEFAULT_URL)
        self._base_url = url.removesuffix("/v1")
        self._timeout = timeout
        self._concurrency = concurrency
        self._memory = ParameterMemory(self._name)
        self._clients: PerLoop[anthropic.AsyncAnthropic] = PerLoop(self._open, _close)
        self._service = Service(
            model=self._name,
            where="Anthropic" if self._base_url == DEFAULT_URL else shown_url(self._base_url),
            key_advice=key_advice("ANTHROPIC_API_KEY"),
            model_advice="check the model's name at platform.claude.com/docs",
            connection_advice="check the network, and base_url= if you set one",
            timeout=timeout,
            key=find_key(api_key, "ANTHROPIC_API_KEY", model=self._name),
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
        return self._memory.within(Capabilities(json_schema=True))

    async def complete(self, request: ChatRequest) -> ChatReply:
        try:
            data = await self._memory.ask(self._message_body(request), self._send)
        except StatusError as failure:
            raise error_for(failure.problem, self._service) from failure
        return _reply(data, self._service)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        await self._clients.aclose()

    # What the batch API needs; see `mcranker.llm.batch.protocol.BatchableChat`.

    @property
    def service(self) -> Service:
        return self._service

    def writer(self) -> Writer:
        memory = copy.deepcopy(self._memory)
        return lambda request: _with_room(memory.adapt(self._message_body(request)))

    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        return _reply(data, self._service)

    def learn(self, problem: Problem, sent: Mapping[str, Any]) -> bool:
        return self._memory.learn(problem, sent)

    async def call(
        self, method: Literal["GET", "POST"], path: str, content: bytes | None = None
    ) -> dict[str, Any]:
        import httpx2

        async def send(client: anthropic.AsyncAnthropic) -> httpx2.Response:
            if method == "GET":
                return await client.get(path, cast_to=httpx2.Response)
            return await client.post(
                path,
                cast_to=httpx2.Response,
                content=content,
                options={"timeout": TRANSFER_SECONDS},
            )

        try:
            return await self._answer(send, replace(self._service, timeout=TRANSFER_SECONDS))
        except StatusError as failure:
            raise error_for(failure.problem, self._service) from failure

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        import anthropic
        import httpx2

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
        except anthropic.AnthropicError as error:
            raise sdk_error(error, self._service) from error
        except FOREIGN as error:
            raise transport_error(error, self._service) from error

    def _message_body(self, request: ChatRequest) -> dict[str, Any]:
        if request.labels:
            raise UnsupportedCapability(
                f"{self._name}: Anthropic gives no log-probabilities; "
                'use scoring="integer" or another model',
                model=self._name,
            )
        return _body(request, self._model)

    async def _send(self, body: dict[str, Any]) -> dict[str, Any]:
        import httpx2

        content = json_bytes(_with_room(body), self._service)

        async def send(client: anthropic.AsyncAnthropic) -> httpx2.Response:
            # The whole address, because the library takes its time to join two parts.
            url = f"{self._base_url}/v1/messages"
            return await client.post(url, cast_to=httpx2.Response, content=content)

        return await self._answer(send, self._service)

    async def _answer(
        self,
        send: Callable[[anthropic.AsyncAnthropic], Awaitable[httpx2.Response]],
        service: Service,
    ) -> dict[str, Any]:
        import anthropic

        from mcranker.llm.providers.sdk_bodies import FOREIGN

        try:
            with anyio.fail_after(service.timeout):
                response = await send(await self._clients.get())
        except TimeoutError as error:
            raise timed_out(service) from error
        except anthropic.APIStatusError as error:
            raise StatusError(_problem(error)) from error
        except anthropic.AnthropicError as error:
            raise sdk_error(error, service) from error
        except FOREIGN as error:
            raise transport_error(error, service) from error
        return parse_object(response.content, service)

    def _open(self) -> anthropic.AsyncAnthropic:
        import anthropic
        import httpx2

        from mcranker.llm.providers.sdk_bodies import bound_body

        return anthropic.AsyncAnthropic(
            api_key=self._service.key,
            base_url=self._base_url,
            max_retries=0,
            timeout=self._timeout,
            http_client=anthropic.DefaultAioHttpClient(
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


def sdk_error(error: anthropic.AnthropicError, service: Service) -> ModelError:
    """The error of this package that one of the library's stands for."""
    import anthropic

    if isinstance(error, anthropic.APIStatusError):
        return error_for(_problem(error), service)
    if isinstance(error, anthropic.APIConnectionError):
        return transport_error(error, service)
    if isinstance(error, anthropic.APIResponseValidationError):
        return unreadable(str(error), service)
    if isinstance(error, anthropic.RetryableError):
        return ServerFailed(
            f"{service.model}: Anthropic's library asks to retry; it is", model=service.model
        )
    if isinstance(error, anthropic.CredentialsError):
        return AuthenticationFailed(
            f"{service.model}: no credentials; {service.key_advice}", model=service.model
        )
    return RequestRejected(
        f"{service.model}: {type(error).__name__} in Anthropic's library; it is not retried",
        model=service.model,
    )


def _body(request: ChatRequest, model: str) -> dict[str, Any]:
    end = _end_of_prefix(request, model)
    system = "\n\n".join(m.content for m in request.messages if m.role == "system")
    turns = [
        {"role": m.role, "content": _split(m.content, m.shared) if m is end else m.content}
        for m in request.messages
        if m.role != "system"
    ]
    if turns and turns[-1]["role"] == "assistant":
        turns.pop()  # a prefill; newer models refuse it
    body: dict[str, Any] = {"model": model, "max_tokens": request.max_tokens, "messages": turns}
    if system:
        body["system"] = system
        if end is not None and end.role == "system":
            body["system"] = _split(system, end.shared)
    if request.temperature is not None and _TAKES_TEMPERATURE.match(model):
        body["temperature"] = request.temperature
    if request.schema is not None:
        schema = {"type": "json_schema", "schema": dict(request.schema.schema)}
        body["output_config"] = {"format": schema}
    body["thinking"] = {"type": "disabled"}
    return body


def _with_room(body: dict[str, Any]) -> dict[str, Any]:
    if "thinking" not in body:
        body["max_tokens"] += REASONING_TOKENS
    return body


def _end_of_prefix(request: ChatRequest, model: str) -> Message | None:
    """The last message of what many requests share, if that is long enough to be cached."""
    if request.tag.stage not in _ASKED_OFTEN:
        return None
    shared = [m for m in request.messages if m.shared]
    least = next((n for name, n in _LEAST_CACHED if name.match(model)), _LEAST_CACHED_BY_NEWEST)
    length = sum(len(m.content[: m.shared].encode()) for m in shared)
    return shared[-1] if length >= least * _BYTES_A_TOKEN else None


def _split(text: str, shared: int) -> list[dict[str, Any]]:
    """The text as blocks, the first `shared` characters to be kept in the prompt cache."""
    kept = {"type": "text", "text": text[:shared], "cache_control": {"type": "ephemeral"}}
    rest = text[shared:]
    return [kept, {"type": "text", "text": rest}] if rest else [kept]


def _reply(data: Mapping[str, Any], service: Service) -> ChatReply:
    stop, content = data.get("stop_reason"), data.get("content")
    if stop == "refusal":
        details = data.get("stop_details")
        said = details.get("explanation") if isinstance(details, dict) else None
        raise refusal(said if isinstance(said, str) else "", service)
    if not isinstance(content, list):
        raise unreadable("no content in it", service)
    texts = [b.get("text") for b in content if isinstance(b, dict) and b.get("type") == "text"]
    cut = stop in ("max_tokens", "model_context_window_exceeded")
    return ChatReply(
        text="".join(text for text in texts if isinstance(text, str)),
        usage=_usage(data.get("usage"), service),
        model=reported_model(data),
        finish_reason="length" if cut else "stop",
    )


def _usage(usage: Any, service: Service) -> Usage:
    counts = usage if isinstance(usage, dict) else {}
    fresh, read, written = (
        token_count(counts.get(name), service)
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    # Anthropic's input_tokens leaves out what went through the cache.
    return call_usage(
        tokens=fresh + read + written,
        cached=read,
        output=counts.get("output_tokens"),
        service=service,
    )


def _problem(error: anthropic.APIStatusError) -> Problem:
    response = error.response
    return read_problem(response.status_code, response.content, response.headers)


async def _close(client: anthropic.AsyncAnthropic) -> None:
    await client.close()
