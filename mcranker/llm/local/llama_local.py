"""Local models: llama.cpp's server inside this process, asked over loopback HTTP.

The server listens on 127.0.0.1 at a free port and wants a random key, so that no other program
can use it. The engine is imported at the first call.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import re
import secrets
import threading
from importlib import metadata
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import anyio.to_thread
import orjson

from mcranker.encoders.encoder import usable_threads
from mcranker.errors import ConfigError, ModelFileError, ModelNotFound
from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest
from mcranker.llm.local.catalogue import check_installed, find
from mcranker.llm.local.model_files import file_mark, resolve
from mcranker.llm.providers.openai_chat import CompatibleChat
from mcranker.logs import safe_logger
from mcranker.runtime.processes import abandon, renew_in_child

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_CONTEXT = 8192  # tokens of a call; bounds the memory
TIMEOUT = 600.0  # seconds a call; a long prompt on a slow processor takes minutes

_HEADER = 1 << 24  # bytes; the pooling is named near the beginning of a file
_POOLING = re.compile(rb"\.pooling_type\x04\0\0\0(.)\0\0\0", re.DOTALL)
_log = safe_logger("mcranker.llm.local.llama_local")


class LocalChat:
    """Answers requests with a GGUF model in this process."""

    def __init__(self, name: str) -> None:
        self.name = f"local:{name}"
        check_installed(self.name, {"xllamacpp": "the local engine"})
        self._path = path = resolve(name)
        _check_header(path, self.name)
        self.endpoint = f"{metadata.version('xllamacpp')} {file_mark(path)}"
        entry = find(name) or find(path.name)
        self._context = min(entry.context if entry else MAX_CONTEXT, MAX_CONTEXT)
        self.capabilities = Capabilities(
            json_schema=True, label_logprobs=True, prefill=True, prefix_slots=1
        )
        self._engine: _Engine | None = None
        self._client: CompatibleChat | None = None
        renew_in_child(self)

    def after_fork(self) -> None:
        abandon(self._engine)  # its threads are the parent's
        self._engine = self._client = None

    async def complete(self, request: ChatRequest) -> ChatReply:
        return await (await self.connected()).complete(request)

    async def cut(self, text: str, tokens: int) -> str:
        """Return the beginning of `text` that has up to `tokens` tokens."""
        body = orjson.dumps({"content": text, "with_pieces": True})
        listed = (await (await self.connected()).call("post", "tokenize", body))["tokens"]
        pieces = [token["piece"] for token in listed]
        return text if len(pieces) <= tokens else beginning(text, pieces[:tokens])

    async def connected(self) -> CompatibleChat:
        """Return a client of the model's server, which is started if need be."""
        client = self._client
        if client is None:
            engine = await anyio.to_thread.run_sync(
                _engines.take, self._path, self._context, self.name
            )
            client = CompatibleChat(
                self.name,
                name=self.name,
                base_url=engine.url,
                api_key=engine.key,
                timeout=TIMEOUT,
                concurrency=4,
                capabilities=self.capabilities,
            )
            self._engine, self._client = engine, client
        return client

    async def aclose(self) -> None:
        """Close the connections, and unload the model if it has no other user."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        self._engine = None


class _Engine:
    """A loaded model and its server, which stops when nothing refers to it."""

    def __init__(self, server: Any, key: str) -> None:
        self.server = server
        self.url = str(server.listening_address)
        self.key = key


class _Engines:
    """The engines of this process, by the path of their file."""

    def __init__(self) -> None:
        self.started = self.forked = False
        self._reset()
        renew_in_child(self)
        atexit.register(self.stop)

    def _reset(self) -> None:
        self.lock = threading.Lock()
        self.open: WeakValueDictionary[Path, _Engine] = WeakValueDictionary()

    def after_fork(self) -> None:
        self.forked = self.started
        self._reset()
        if self.started:
            # The engine's own cleanup waits for threads that a fork does not have.
            libc = ctypes.CDLL(None)
            with contextlib.suppress(AttributeError):  # glibc has it, others may not
                libc.on_exit(libc._exit, None)  # noqa: SLF001 - so it is called in C

    def take(self, path: Path, context: int, name: str) -> _Engine:
        """Return the engine of a file, loaded if that has not been done."""
        with self.lock:
            engine = self.open.get(path)
            if engine is None:
                self.started = True
                engine = self.open[path] = _load(path, context, name)
                if self.forked:
                    abandon(engine.server)  # to stop it, it would wait for the parent's threads
            return engine

    def stop(self) -> None:
        for engine in self.open.values():
            engine.server = None


_engines = _Engines()


def _load(path: Path, context: int, name: str) -> _Engine:
    # The engine's threads wait for each other hundreds of times a token: to sleep each time takes
    # twice as long, to spin for longer keeps the cores from other threads.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    try:
        import xllamacpp
    except ImportError as error:
        raise ConfigError(
            f"{name}: the local engine does not load ({error}); if it lacks libgomp, install the "
            "OpenMP runtime (Debian, Ubuntu: apt install libgomp1), else "
            "pip install --force-reinstall xllamacpp"
        ) from error
    parameters, key = xllamacpp.CommonParams(), secrets.token_urlsafe(24)
    parameters.model.path = str(path)
    parameters.model_alias = {name}
    parameters.n_parallel = 1
    parameters.n_ctx = context
    parameters.cpuparams.n_threads = usable_threads()
    parameters.cache_ram_mib = 512  # evaluated prompts that are kept
    parameters.fit_params = False
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [key]
    parameters.ui = False
    parameters.offline = True
    parameters.verbosity = 0
    _log.info("loading %s", path)
    try:
        return _Engine(xllamacpp.Server(parameters), key)
    except RuntimeError as error:
        raise ModelFileError(
            f"{str(path)!r} cannot be loaded ({error}): the file is broken, is made for a newer "
            "engine, or needs more memory than there is. Fetch it again or use another one.",
            model=name,
        ) from error


def _check_header(path: Path, name: str) -> None:
    """Refuse a file that is no GGUF model, or one of an encoder or a reranker."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER)
    except OSError as error:
        raise ModelNotFound(f"{str(path)!r} cannot be read: {error}.", model=name) from error
    if not head.startswith(b"GGUF"):
        raise ModelFileError(
            f"{str(path)!r} is not a GGUF file (it begins with {head[:4]!r}); local models are "
            "files of that format.",
            model=name,
        )
    if (found := _POOLING.search(head)) and found[1][0]:
        raise ModelFileError(
            f"{str(path)!r} is an encoder or a reranker, which llama.cpp serves for 'embed:NAME' "
            "or 'rerank-logits:NAME'; use a model that writes.",
            model=name,
        )


def beginning(text: str, pieces: Sequence[str | list[int]]) -> str:
    """Return the beginning of `text` whose tokens are these, without a character that they cut."""
    raw = b"".join(each.encode() if isinstance(each, str) else bytes(each) for each in pieces)
    said = raw.decode(errors="ignore")
    # Some tokenizers put a blank before the first word.
    return text[: len(said if text.startswith(said) else said.removeprefix(" "))]
