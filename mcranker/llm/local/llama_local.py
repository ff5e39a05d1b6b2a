"""Local models: llama.cpp's server inside this process, spoken to over loopback HTTP.

This is the only file that imports the engine, and it does so at the first call. The server
listens on 127.0.0.1 at a free port and wants a random key, so that no other program can use it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import threading
import weakref
from dataclasses import replace
from functools import lru_cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio.to_thread

from mcranker.errors import ConfigError, ModelFileError, ReplyError, RequestRejected
from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest, Message
from mcranker.llm.local.catalogue import find
from mcranker.llm.local.context_room import ContextRoom
from mcranker.llm.local.engine import check_installed, engine_service, release_apart
from mcranker.llm.local.gguf_header import Kind, kind_of
from mcranker.llm.local.label_paths import LabelPaths, TokenPath
from mcranker.llm.local.model_files import Progress, file_mark, resolve
from mcranker.llm.providers.compatible_http import CompatibleChat
from mcranker.llm.providers.http_errors import unreadable
from mcranker.llm.providers.openai_protocol import LEAST, chat_body, chat_reply
from mcranker.llm.providers.rerank import FORMS, rerank_body, rerank_reply
from mcranker.llm.typed_answers import check_limits
from mcranker.logs import safe_logger
from mcranker.retrieval.encoder import usable_threads
from mcranker.runtime.forks import abandon, renew_in_child
from personas.ranking.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SLOTS = 4  # prompts evaluated at once
MAX_CONTEXT = 8192  # tokens, shared by the slots; bounds the memory
TIMEOUT = 600.0  # seconds a call; a long prompt on a slow processor takes minutes
PROMPT_CACHE_MIB = 512  # evaluated prefixes kept aside while a slot does something else
TOP_LOGPROBS = 200  # the labels of a scale are found among these; more cost time
TOP_LOGPROBS_FOR_MANY = 4000  # where there are more than MANY_LABELS
RERANKED = 2048  # tokens of a query and a passage together; the memory grows by their square
FORCED = 1000.0  # added to the logit of a token that is to come next, whatever the others have
MANY_LABELS = 20
NEGLIGIBLE = 0.01  # share of all labels' probability below which it is not traced any further

LONGEST_TEXT = 300  # characters of one text
LONGEST_LIST = 12  # entries of one list
_RERANKING = FORMS["rerank-logits"]
_log = safe_logger("mcranker.llm.local.llama_local")


def loading() -> str:
    """Return the name of the model that is being loaded; empty if none is."""
    return _engines.loading


class ServerAddress(NamedTuple):
    """Of a server on this machine: ``url`` without a path, and the ``key`` it wants."""

    url: str
    key: str


class LocalChat:
    """Answers requests with a GGUF model in this process. Make one with `open`.

    Several `LocalChat`s of one file share one loaded model; it is loaded at the first call
    and unloaded when the last of them is closed. Loading takes a second per 100 MB or so and
    stops the whole process meanwhile. May be used from several event loops and threads. A
    forked process loads the model again, into memory of its own.

    Scoring and assessing requests all go to the same slot, one after the other, so what their
    prompts share at the beginning is evaluated once. Labels are read from the probabilities
    of the next tokens, before any constraint, with and without a space in front. A beginning
    that several labels share ("1" and "10") takes a further call of one token; where it has
    less than a hundredth of their probability, they get equal parts of it without a call.

    A continuation is tokenized by itself and follows what the chat template begins a reply with.
    It is forced token by token, each in a call to the engine, which gives the probability that the
    model itself gave to it.

    A reranker answers with the relevance of passages, see `mcranker.llm.providers.rerank`.

    Attributes:
        endpoint: identity of the model: the engine's version and the file.
    """

    def __init__(
        self, path: Path, name: str, *, context: int, kind: Kind, concurrency: int
    ) -> None:
        self.name = name
        self.endpoint = f"{metadata.version('xllamacpp')} {file_mark(path)}"
        self._path = path
        self._context = min(context, MAX_CONTEXT)
        self._concurrency = concurrency
        self._kind = kind
        if kind == "reranker":
            self.capabilities = Capabilities(prompts=False, max_questions=_RERANKING.most)
        else:
            self.capabilities = Capabilities(
                json_schema=True,
                label_logprobs=True,
                continuation_logprobs=True,
                prefill=True,
                prefix_slots=1,
            )
        self._service = engine_service(name, "the local engine", timeout=TIMEOUT)
        self._lock = threading.Lock()
        self._client: CompatibleChat | None = None
        self._lease: weakref.finalize[..., LocalChat] | None = None
        self._engine: _Engine
        self._label_paths: dict[tuple[str, ...], LabelPaths] = {}
        renew_in_child(self)

    def after_fork(self) -> None:
        if self._lease is not None:
            self._lease.detach()
        self._lock = threading.Lock()
        self._client = self._lease = None

    @classmethod
    def open(
        cls, name: str, *, concurrency: int = SLOTS, progress: Progress | None = None
    ) -> LocalChat:
        """Find the model's file, fetching it if need be. Loads nothing yet.

        Args:
            name: the part after ``local:``: a catalogue name or the path of a GGUF file.
            concurrency: calls in flight at most.
            progress: called during a download, see `mcranker.llm.local.model_files.download`.

        Raises:
            ConfigError: the engine is not installed, or `concurrency` is below 1.
            ModelNotFound: no such file and no such name.
            ModelFileError: the file is not a GGUF file.
            DownloadError: the file had to be fetched and could not.
        """
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency!r} must be at least 1")
        full_name = f"local:{name}"
        check_installed(full_name, {"xllamacpp": "the local engine"})
        path = resolve(name, progress=progress)
        kind = kind_of(path, full_name)
        entry = find(name) or find(path.name)
        return cls(
            path,
            full_name,
            context=entry.context if entry else MAX_CONTEXT,
            kind=kind,
            concurrency=concurrency,
        )

    async def complete(self, request: ChatRequest) -> ChatReply:
        if self._kind == "reranker":
            return await self._rerank(request)
        client = await self._connected()
        if request.labels:
            return await self._choose_label(client, request)
        if request.continuation:
            return await self._follow(client, request)
        body = self._body(request)
        if request.schema is not None:
            # The server's own way from schema to grammar leaves white space free, and small
            # models spend a quarter of their tokens on it.
            del body["response_format"]
            body["grammar"] = _compact_grammar(json.dumps(dict(request.schema.schema)))
        data = await self._post(client, request, body)
        return chat_reply(data, request, service=self._service, prefill=True)

    async def _rerank(self, request: ChatRequest) -> ChatReply:
        body = rerank_body(request, self.name, _RERANKING, self.name)
        check_limits(request, self.capabilities, self.name)
        client = await self._connected()
        # Each slot evaluates one passage with the query.
        longest = max(len(text.encode(errors="surrogatepass")) for text in body["documents"])
        query = len(body["query"].encode(errors="surrogatepass"))
        async with self._engine.room.hold(SLOTS * (longest + query) // 3):
            data = await client.post("v1/rerank", body)
        return rerank_reply(data, request, logits=_RERANKING.logits, service=self._service)

    async def cut(self, text: str, tokens: int) -> str:
        """The beginning of `text` that has up to `tokens` tokens.

        Raises:
            ModelFileError, ConnectionFailed: the model cannot be loaded or has stopped.
        """
        client = await self._connected()
        pieces = [token["piece"] for token in await self._tokens(client, text)]
        return text if len(pieces) <= tokens else beginning(text, pieces[:tokens])

    async def server(self) -> ServerAddress:
        """Address of the model over HTTP, for any OpenAI or Anthropic client.

        The server ends with this object; each process has its own key.
        """
        await self._connected()
        url = await anyio.to_thread.run_sync(self._engine.start)
        return ServerAddress(url, self._engine.key)

    async def aclose(self) -> None:
        """Close the connections, and unload the model if it has no other user."""
        with self._lock:
            client, self._client = self._client, None
            lease, self._lease = self._lease, None
        if client is not None:
            await client.aclose()
        if lease is not None and lease.detach() is not None:
            self._engine.release()

    async def _connected(self) -> CompatibleChat:
        with self._lock:
            if self._client is not None:
                return self._client
            if self._lease is None:
                self._engine = _engine_of(
                    self._path, self._context, self.name, reranks=self._kind == "reranker"
                )
                self._lease = weakref.finalize(self, release_apart, self._engine.release)
            engine = self._engine
        _engines.loading = self.name
        try:
            address = await anyio.to_thread.run_sync(engine.start)
        finally:
            _engines.loading = ""
        with self._lock:
            if self._client is None:
                self._client = CompatibleChat(
                    self.name,
                    base_url=address,
                    api_key=engine.key,
                    timeout=TIMEOUT,
                    concurrency=self._concurrency,
                    name=self.name,
                )
            return self._client

    async def _follow(self, client: CompatibleChat, request: ChatRequest) -> ChatReply:
        body = self._body(request)
        rendered = await client.post("apply-template", {"messages": body.pop("messages")})
        prompt = await self._tokens(client, rendered["prompt"], add_special=True)
        following = await self._tokens(client, request.continuation, parse_special=False)
        pieces = [token["piece"] for token in following]
        if any(isinstance(piece, list) for piece in pieces):
            raise RequestRejected(
                f"{self.name} writes some characters of {request.continuation[:80]!r} as several "
                "tokens, whose probabilities the engine does not give; use another model, or "
                "ranker='rg_yn'",
                model=self.name,
            )
        body |= {"max_tokens": 1, "temperature": 0, "n_probs": 1}
        ids, logprobs = [token["id"] for token in prompt], []
        for token in (token["id"] for token in following):
            # The probability is the model's own; the bias only forces the token.
            forced = body | {"prompt": ids, "logit_bias": [[token, FORCED]]}
            data = await self._post(client, request, forced, "completion")
            try:
                (found,) = data["completion_probabilities"]
                if found["id"] != token:
                    raise ValueError(found["id"])
                logprobs.append(min(0.0, max(float(found["logprob"]), LEAST)))
            except (KeyError, TypeError, ValueError) as error:
                raise unreadable(f"no log-probability of token {token}", self._service) from error
            ids = [*ids, token]
        return ChatReply(
            text="",
            usage=Usage(calls=1, input_tokens=len(ids)),
            model=self.name,
            continuation_logprobs=tuple(logprobs),
        )

    async def _tokens(
        self, client: CompatibleChat, text: str, **options: bool
    ) -> list[dict[str, Any]]:
        body = {"content": text, "with_pieces": True, **options}
        tokens: list[dict[str, Any]] = (await client.post("tokenize", body))["tokens"]
        return tokens

    async def _post(
        self,
        client: CompatibleChat,
        request: ChatRequest,
        body: dict[str, Any],
        path: str = "v1/chat/completions",
    ) -> dict[str, Any]:
        # Three bytes a token is on the safe side for most languages and tokenizers.
        prompt = sum(len(m.content.encode(errors="surrogatepass")) for m in request.messages) // 3
        async with self._engine.room.hold(prompt + int(body["max_tokens"])):
            return await client.post(path, body)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body = chat_body(request, self.name, capabilities=self.capabilities)
        body["cache_prompt"] = True
        if request.tag.stage in ("score", "assess"):
            body["id_slot"] = 0
        return body

    async def _choose_label(self, client: CompatibleChat, request: ChatRequest) -> ChatReply:
        paths = self._label_paths.get(request.labels)
        if paths is None:
            paths = await self._find_paths(client, request.labels)
            self._label_paths[request.labels] = paths
        mass: dict[TokenPath, float] = {(): 1.0}
        total, usage = 0.0, Usage()
        for node in sorted(paths.children, key=len):
            if node not in mass:
                continue
            if mass[node] <= NEGLIGIBLE * total:
                paths.share_equally(node, mass)
                continue
            listed, used = await self._next_tokens(client, request, paths.texts[node])
            usage += used
            for child in paths.children[node]:
                if child[-1] in listed:
                    mass[child] = mass[node] * math.exp(listed[child[-1]])
            total = total or sum(mass.get(child, 0.0) for child in paths.children[node])
        logprobs = paths.label_logprobs(mass)
        if not logprobs:
            raise ReplyError(
                f"{self.name} gives none of the labels {request.labels[:20]!r} a place among the "
                "most likely next tokens; begin the reply for it, or use a larger model.",
                reply="",
                model=self.name,
            )
        best = max(logprobs, key=lambda label: logprobs[label])
        return ChatReply(best, replace(usage, calls=1), self.name, label_logprobs=logprobs)

    async def _next_tokens(
        self, client: CompatibleChat, request: ChatRequest, added: str
    ) -> tuple[dict[int, float], Usage]:
        """Log-probabilities of the likeliest next tokens, once `added` has been written."""
        many = len(request.labels) > MANY_LABELS and not added
        tokens = TOP_LOGPROBS_FOR_MANY if many else TOP_LOGPROBS
        if added:
            messages = list(request.messages)
            if messages and messages[-1].role == "assistant":
                added = messages.pop().content + added
            request = replace(request, messages=(*messages, Message("assistant", added)))
        body = self._body(request) | {"max_tokens": 1, "top_logprobs": tokens}
        data = await self._post(client, request, body)
        usage = chat_reply(data, replace(request, labels=()), service=self._service).usage
        try:
            listed = data["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
            return {item["id"]: float(item["logprob"]) for item in listed}, usage
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise unreadable("no log-probabilities in it", self._service) from error

    async def _find_paths(self, client: CompatibleChat, labels: tuple[str, ...]) -> LabelPaths:
        paths = LabelPaths()
        for label in labels:
            for text in (label, f" {label}"):
                tokens = await self._tokens(client, text)
                paths.add(label, [(token["id"], token["piece"]) for token in tokens])
        return paths


# --- the engine -------------------------------------------------------------------------


class _Engine:
    """One loaded model file and its server, shared by all `LocalChat`s of that file."""

    def __init__(self, path: Path, context: int, name: str, *, reranks: bool) -> None:
        self.key = secrets.token_urlsafe(24)
        self.room = ContextRoom(context)
        self.users = 0
        self._path = path
        self._context = context
        self._name = name
        self._reranks = reranks
        self._lock = threading.Lock()
        self._server: Any = None

    def start(self) -> str:
        """The server's address; loads the model if that has not been done. Blocks.

        Raises:
            ConfigError: the engine cannot be imported.
            ModelFileError: the engine cannot load the file.
        """
        with self._lock:
            if self._server is None:
                self._server = self._load()
            return str(self._server.listening_address)

    def release(self) -> None:
        """One user less; the last one stops the server and frees the memory."""
        with _engines.lock:
            self.users -= 1
            if self.users > 0:
                return
            _engines.open.pop(self._path, None)
        with self._lock:
            if _engines.started_in_parent:
                abandon(self._server)  # to stop it, it would wait for the parent's threads
            self._server = None

    def _load(self) -> Any:
        xllamacpp = _import_engine(self._name)
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self._path)
        parameters.model_alias = {self._name}
        parameters.n_parallel = SLOTS
        parameters.kv_unified = True
        parameters.n_ctx = self._context
        parameters.cpuparams.n_threads = usable_threads()
        parameters.cache_ram_mib = PROMPT_CACHE_MIB
        parameters.fit_params = False
        parameters.hostnames = ["127.0.0.1"]
        parameters.port = 0
        parameters.api_keys = [self.key]
        parameters.ui = False
        parameters.offline = True
        parameters.verbosity = 0
        if self._reranks:
            parameters.embedding = True
            parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_RANK
            # A text is evaluated in one batch.
            parameters.n_batch = parameters.n_ubatch = min(RERANKED, self._context)
        _log.info("loading %s", self._path)
        _engines.started = True
        try:
            return xllamacpp.Server(parameters)
        except RuntimeError as error:
            raise ModelFileError(
                f"{str(self._path)!r} cannot be loaded ({error}): the file is broken, is made "
                "for a newer engine, or needs more memory than there is. Fetch it again or use "
                "another one.",
                model=self._name,
            ) from error


class _Engines:
    """The engines of this process, by the path of their file."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[Path, _Engine] = {}
        self.started = self.started_in_parent = False
        self.loading = ""
        renew_in_child(self)

    def after_fork(self) -> None:
        abandon(self.open)  # their threads are the parent's
        self.started_in_parent = self.started
        if self.started:
            _exit_at_once()
        self.lock = threading.Lock()
        self.open = {}


_engines = _Engines()


def _exit_at_once() -> None:
    """Exit without the engine's cleanup, which waits for threads that a fork does not have."""
    import ctypes

    libc = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError):  # glibc has it, others may not
        libc.on_exit(libc._exit, None)  # noqa: SLF001 - so it is called in C


def _engine_of(path: Path, context: int, name: str, *, reranks: bool) -> _Engine:
    with _engines.lock:
        engine = _engines.open.setdefault(path, _Engine(path, context, name, reranks=reranks))
        engine.users += 1
        return engine


def _import_engine(name: str) -> Any:
    # The engine's threads wait for each other hundreds of times a token: to sleep each time takes
    # twice as long, to spin for longer keeps the cores from other threads.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    try:
        import xllamacpp
    except ImportError as error:
        fix = (
            "install the OpenMP runtime (Debian, Ubuntu: apt install libgomp1)"
            if "gomp" in str(error)
            else "pip install --force-reinstall 'mcranker[local]'"
        )
        raise ConfigError(f"{name}: the local engine does not load ({error}); {fix}.") from error
    return xllamacpp


@lru_cache(maxsize=64)
def _compact_grammar(schema: str) -> str:
    import xllamacpp

    spaced = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    tight = _bounded(json.loads(schema)) | {"x-guidance": spaced}
    return str(xllamacpp.json_schema_to_grammar(json.dumps(tight)))


def _bounded(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with limits on all unlimited texts and lists."""
    limited = {
        key: _bounded(value) if isinstance(value, dict) else value for key, value in schema.items()
    }
    if schema.get("type") == "string" and "enum" not in schema:
        limited.setdefault("maxLength", LONGEST_TEXT)
    if schema.get("type") == "array":
        limited.setdefault("maxItems", LONGEST_LIST)
    return limited


def beginning(text: str, pieces: Sequence[str | list[int]]) -> str:
    """The beginning of `text` whose tokens are these; a character that they cut is left out.

    Args:
        text: what was tokenized.
        pieces: text of each token, or its bytes where they are no whole characters.
    """
    raw = b"".join(each.encode() if isinstance(each, str) else bytes(each) for each in pieces)
    said = raw.decode(errors="ignore")
    # Some tokenizers put a blank before the first word.
    return text[: len(said if text.startswith(said) else said.removeprefix(" "))]
