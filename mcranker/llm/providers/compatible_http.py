"""A lean client for servers that speak OpenAI's chat protocol: vLLM, Ollama, llama.cpp.

It does without an SDK: a few times less processor time a call, which is what limits the
throughput against a server of one's own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from mcranker.errors import ConfigError
from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest
from mcranker.llm.masking import shown_url
from mcranker.llm.providers.http_chat import (
    KEEP_ALIVE,
    MOST_ERROR,
    MOST_REPLY,
    PLAIN,
    Exchange,
    HttpChat,
    checked_settings,
    checked_url,
    environment_proxy,
    find_key,
    key_advice,
)
from mcranker.llm.providers.http_errors import (
    BodyTooLong,
    Service,
    StatusError,
    error_for,
    json_bytes,
    parse_object,
    read_problem,
    timed_out,
    transport_error,
)
from mcranker.llm.providers.openai_decisions import DECISION
from mcranker.llm.providers.openai_protocol import ECHO, chat_body, chat_reply

if TYPE_CHECKING:
    from collections.abc import Mapping

    import aiohttp


class CompatibleChat(HttpChat):
    """Asks a server that speaks OpenAI's chat protocol.

    Args:
        model: the model's name as the server knows it.
        base_url: the address before ``/chat/completions``, e.g. ``http://localhost:8000/v1``.
        api_key: sent as bearer token; None for the one in `key_variable`, if it is set.
        timeout: seconds allowed to one call, from asking for a connection to the last byte.
        concurrency: connections at most.
        key_variable: the environment variable that may hold the key; empty for none.
        name: how the model is named in rankings; by default ``openai:MODEL``.
        capabilities: what the model offers; by default JSON schemas and log-probabilities,
            and what the server then refuses is left out. Those of a given text it is only known
            not to give once it has been asked.
        extra_body: fields added to the body of every chat completion, e.g. vLLM's ``top_k``.
        questions: how typed questions are asked; by default as OpenAI's decisions.

    Raises:
        ConfigError: an argument that cannot be.
        AuthenticationFailed: the key cannot be one.
    """

    _continuation = ECHO

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        key_variable: str = "",
        timeout: float = 120.0,
        concurrency: int = 64,
        name: str | None = None,
        capabilities: Capabilities | None = None,
        extra_body: Mapping[str, Any] | None = None,
        questions: Exchange = DECISION,
    ) -> None:
        checked_settings(timeout, concurrency)
        name, url = name or f"openai:{model}", checked_url(base_url)
        service = Service(
            model=name,
            where=(shown := shown_url(url)),
            key_advice=key_advice(key_variable),
            model_advice=(
                f"check the model's name with GET {shown}/models, and base_url=, "
                "which usually ends in /v1"
            ),
            connection_advice="check that the server runs and that base_url= is right",
            timeout=timeout,
            key=find_key(api_key, key_variable, model=name, required=False),
            url=url,
        )
        super().__init__(
            model,
            service,
            capabilities
            or Capabilities(json_schema=True, label_logprobs=True, continuation_logprobs=True),
            concurrency=concurrency,
        )
        self._questions = questions
        self._extra_body = dict(extra_body or {})
        try:
            orjson.dumps(self._extra_body)
        except orjson.JSONEncodeError as error:
            raise ConfigError(
                f"extra_body={extra_body!r} cannot be sent as JSON: {error}"
            ) from error

    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        prefill = self._capabilities.prefill
        return chat_reply(data, request, service=self.service, prefill=prefill)

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a JSON object to a path below the base URL, and return the object it answers.

        Raises:
            ModelError: the server cannot be reached, is too slow, refuses, or answers
                something other than a JSON object.
        """
        try:
            return parse_object(await self._post(path, body), self.service)
        except StatusError as failure:
            raise error_for(failure.problem, self.service) from failure

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body = chat_body(request, self._model, capabilities=self._capabilities)
        return body | self._extra_body

    async def _post(self, path: str, body: Mapping[str, Any]) -> bytes:
        import aiohttp

        content = json_bytes(body, self.service)
        try:
            # Half the processor time of anyio's, which counts at a thousand calls a second.
            async with asyncio.timeout(self.service.timeout):
                session = await self._clients.get()
                async with session.post(
                    f"{self.service.url}/{path}",
                    data=content,
                    allow_redirects=False,  # it would take the prompt elsewhere
                ) as response:
                    answer = await _body_of(response)
        except TimeoutError as error:
            raise timed_out(self.service) from error
        # A ValueError is a name that no host has.
        except (aiohttp.ClientError, OSError, ValueError, BodyTooLong) as error:
            raise transport_error(error, self.service) from error
        self._note_limits(response.headers)
        if not 200 <= response.status < 300:
            raise StatusError(read_problem(response.status, answer, response.headers))
        return answer

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        headers = {"Content-Type": "application/json", "User-Agent": "mcranker", **PLAIN}
        if self.service.key:
            headers["Authorization"] = f"Bearer {self.service.key}"
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._concurrency, keepalive_timeout=KEEP_ALIVE),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            proxy=environment_proxy(self.service.url),
            timeout=aiohttp.ClientTimeout(total=None),
        )


async def _body_of(response: aiohttp.ClientResponse) -> bytes:
    """The whole body of an answer, or the beginning of it if the status is an error."""
    most = MOST_REPLY if 200 <= response.status < 300 else MOST_ERROR
    pieces: list[bytes] = []
    size = 0
    while piece := await response.content.readany():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            if most == MOST_ERROR:
                break
            raise BodyTooLong(most)
    return b"".join(pieces)
