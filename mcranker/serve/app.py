"""The routes of the service, as an ASGI application."""

from __future__ import annotations

import asyncio
import difflib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from mcranker import __version__
from mcranker.errors import LedgerError
from mcranker.events import Emit, RankingDone
from mcranker.logs import safe_logger
from mcranker.rag.result import EmitAnswer, RAGEvent, RAGResult
from mcranker.ranking import Ranking
from mcranker.serve import playground
from mcranker.serve.bodies import ClientDisconnected, Problem, problem_of, read_body, until_gone
from mcranker.serve.dialects import DIALECTS, GENERAL, ROUTES, ApiDialect, dialect_of
from mcranker.serve.events import CLIENT_GONE, EventQueue, EventStream, event_data
from mcranker.serve.metrics import CONTENT_TYPE, Metrics
from mcranker.serve.rankers import ANSWER, Answering, Job, ServedRanker, ServedRankers
from mcranker.serve.requests import QuestionRequest, RankRequest, RerankRequest
from mcranker.serve.results import (
    NOT_ABSOLUTE,
    Explanations,
    answer_headers,
    headers_of,
    meta_of,
    public_answer,
    public_form,
    scores_of,
    size_of,
    warnings_of,
)
from mcranker.serve.settings import Settings, holder_of
from personas import library
from personas.format import counted
from personas.ranking.types import Passage
from personas.report import render_inspection
from personas.report.page import ReportFooter
from personas.sanitize import plain

access = safe_logger("mcranker.serve.access")

_LOOPBACK_NAMES = {"localhost", "127.0.0.1", "[::1]"}
_OPENED_BY_BROWSERS = {"/v1/explain/{id}", *playground.FILES}
_ALIVE = ("/healthz", "/health", "/ping", "/v1/health/live")
_READY = ("/readyz", "/v1/health/ready")
_PROBES = {*_ALIVE, *_READY, "/metrics"}
_LEDGER_SECONDS = 2.0  # within which a ledger has to answer
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@dataclass(slots=True)
class _Call:
    """A request that is being answered, counted under `route`."""

    request: Request
    route: str
    dialect: ApiDialect = GENERAL
    holder: str = ""  # name of the key it was sent with
    about: list[str] = field(default_factory=list)  # parts of its line in the access log
    began: float = field(default_factory=time.perf_counter)


_Handler = Callable[[_Call], Awaitable[Response]]
_Make = Callable[[EmitAnswer | None], Awaitable[tuple[dict[str, Any], Mapping[str, str]]]]
_Prepare = Callable[[_Call], Awaitable[_Make]]  # body and headers of an answer, events on the way


def create_app(settings: Settings | None = None) -> Starlette:
    """Return the service as an ASGI application; its rankers are made now and closed with it.

    Args:
        settings: what it offers; None for one MCRanker with its defaults.

    Returns:
        The application. Its ``state.drain()`` refuses requests that come from now on, and returns
        how many are under way, health checks not counted; ``state.give_up()`` cancels all requests,
        answers their clients, and returns how many there were.

    Raises:
        MCRankerError, PersonasError: a ranker cannot be made as it is set up.
    """
    service = _Service(settings or Settings())
    app = Starlette(
        routes=service.routes(),
        exception_handlers={HTTPException: service.no_route},
        lifespan=service.lifespan,
    )
    app.state.drain, app.state.give_up = service.drain, service.give_up
    app.state.described = service.rankers.described
    return app


class _Service:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limits = settings.limits
        self._metrics = Metrics()
        self.rankers = ServedRankers(settings, self._metrics)
        self._answering = Answering(settings, self._metrics)
        self._kept = Explanations[Ranking | bytes](self._limits)  # answers as JSON
        self._began = int(time.time())
        found = [*self.rankers.ledgers, self._answering.ledger]
        self._stores = {each.name: each.store for each in found if each is not None}
        self._ready = self._draining = False
        self._under_way: set[anyio.CancelScope] = set()
        self._probed = 0  # of these, health checks
        self._look: asyncio.Task[bool] | None = None  # at the ledgers, for all health checks

    def drain(self) -> int:
        self._draining = True
        return len(self._under_way) - self._probed

    def give_up(self) -> int:
        scopes = list(self._under_way)
        self._ready = False
        for scope in scopes:
            scope.cancel()
        return len(scopes)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._ready = True
        try:
            yield
        finally:
            self._ready = False
            await self.rankers.aclose()
            await self._answering.aclose()

    def routes(self) -> list[Route]:
        posted = {path: self._endpoint(path, self._rerank) for path in ROUTES}
        for path, prepare, last in (
            ("/v1/rank", self._rank, "ranking_done"),
            ("/v1/answer", self._answer, "answer_done"),
        ):
            whole = partial(self._whole_answer, prepare=prepare)
            stream = partial(self._streamed, prepare=prepare, last=last)
            posted[path] = self._endpoint(path, whole)
            posted[f"{path}/stream"] = self._endpoint(f"{path}/stream", stream)
        for each in DIALECTS:
            for path in (*each.routes, f"/{each.name}/{{rest:path}}"):
                rerank = partial(self._rerank, dialect=each)
                posted[path] = self._endpoint(path, rerank, each)
        # Clients add their own /v1 to a base that has one already.
        again = {f"/v1{path}": each for path, each in posted.items() if "{" not in path}
        open_: dict[str, _Handler] = {
            **dict.fromkeys(_ALIVE, _value_of(lambda _: {"status": "ok"})),
            **dict.fromkeys(_READY, self._readiness),
            # Xinference's clients send a key only if this asks for one.
            "/v1/cluster/auth": _value_of(lambda _: {"auth": bool(self._settings.keys)}),
        }
        guarded: dict[str, _Handler] = {
            "/metrics": self._show_metrics,
            **dict.fromkeys(("/v1/models", "/models"), _value_of(self._models)),
            "/v1/models/{uid:path}": _value_of(self._model),
            "/info": _value_of(self._info),
            "/v1/explain/{id}": self._explain,
            "/playground.json": self._playground,
            **dict.fromkeys(playground.FILES, self._file),
        }
        if self._settings.open_metrics:
            open_["/metrics"] = guarded.pop("/metrics")
        got = {path: self._endpoint(path, each) for path, each in guarded.items()}
        got |= {path: self._endpoint(path, each, open_=True) for path, each in open_.items()}
        return [
            *(Route(path, each, methods=["POST"]) for path, each in (again | posted).items()),
            *(Route(path, each, methods=["GET"]) for path, each in got.items()),
        ]

    # Every request

    def _endpoint(
        self, route: str, handler: _Handler, dialect: ApiDialect = GENERAL, *, open_: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            call = _Call(request, route, dialect)
            try:
                with self._stoppable():
                    if not open_:
                        self._admit(call)
                    response = await handler(call)
            except ClientDisconnected:
                response = Response(status_code=CLIENT_GONE)
                call.about.append("the client disconnected")
            except Exception as error:  # noqa: BLE001 - the supervisor reports whatever it was
                response = self._refused(call, error)
            if not isinstance(response, EventStream):  # which reports its end by itself
                self._answered(call, response.status_code)
            return response

        return endpoint

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Cancel the block, with a `Problem`, when the service gives up."""
        with anyio.CancelScope() as scope:
            self._under_way.add(scope)
            try:
                yield
            finally:
                self._under_way.discard(scope)
        if scope.cancelled_caught:
            raise _stopping()

    def _admit(self, call: _Call) -> None:
        settings, headers = self._settings, call.request.headers
        if self._draining:
            raise _stopping()
        if len(self._under_way) > (most := self._limits.connections):
            said = f"{most} requests are being served, the most; try again later"
            raise Problem("unavailable", said, retry_after=1.0)
        if settings.hosts or (settings.loopback and not settings.keys):
            # A page whose name was made to lead here has that name as its host.
            host = headers.get("host", "")
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name.lower() not in {*_LOOPBACK_NAMES, settings.host, *settings.hosts}:
                said = f"the service is not addressed as {name[:100]!r}; the operator can add that"
                raise Problem("forbidden", f"{said} to hosts")
        if settings.keys:
            given = headers.get("authorization") or f"Bearer {headers.get('api-key', '')}"
            holder = holder_of(given, settings.keys)
            if holder is None:
                raise Problem("no_key", "invalid api token: send Authorization: Bearer KEY")
            call.holder = holder

    def _problem(self, call: _Call, error: Exception) -> Problem:
        problem = problem_of(error, call.route)
        call.about.append(plain(problem.message, 200))
        return problem

    def _refused(self, call: _Call, error: Exception) -> Response:
        problem = self._problem(call, error)
        headers = problem.headers
        if problem.kind == "no_key" and call.route in _OPENED_BY_BROWSERS:
            headers["WWW-Authenticate"] = 'Basic realm="mcranker", charset="UTF-8"'
        return _json(call.dialect.problem(problem), call.dialect.status_of(problem), headers)

    def _answered(self, call: _Call, status: int) -> None:
        seconds = time.perf_counter() - call.began
        self._metrics.request(call.route, status, seconds)
        about = [f"{seconds:.3f} s", *call.about, *([f"key {call.holder}"] * bool(call.holder))]
        level = logging.DEBUG if call.route in _PROBES and status == 200 else logging.INFO
        asked = f"{call.request.method} {plain(call.request.url.path, 200)}"
        access.log(level, "%s %d %s", asked, status, ", ".join(about))

    async def no_route(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path, given = request.url.path[:200], dict(error.headers or {})
        if error.status_code == 405:
            said = f"{path!r} takes {given.get('Allow')}, not {request.method[:20]!r}"
            problem = Problem("method", said)
        else:
            near = difflib.get_close_matches(path, (*ROUTES, "/v1/rank", "/v1/answer"), n=1)
            instead = f"did you mean {near[0]!r}?" if near else f"rerank clients ask {ROUTES[0]}"
            problem = Problem("not_found", f"there is no route {path!r}; {instead}")
        self._answered(_Call(request, "other"), error.status_code)
        return _json(GENERAL.problem(problem), error.status_code, given)

    # Routes

    async def _rerank(self, call: _Call, dialect: ApiDialect | None = None) -> Response:
        def read(body: dict[str, Any]) -> tuple[RerankRequest, tuple[Passage, ...]]:
            call.dialect = dialect or dialect_of((*body, *call.request.headers))
            request = RerankRequest.read(body, self._limits)
            return request, request.passages()

        request, passages = await read_body(call.request, self._limits, read)
        served = self.rankers.find(request.model)
        ranker, policy, warnings = served.ranker, served.settings.unscored, request.warnings
        if policy == "error" and not ranker.absolute:
            raise Problem("invalid", f"the ranker {served.name!r}: {NOT_ABSOLUTE}")
        if request.max_tokens:
            if cutting := served.cutting(request.max_tokens):
                ranker = cutting
            else:
                warnings += ("documents are not cut: the model's tokenizer is not known here",)
        job = Job(ranker, request, passages)
        async with until_gone(call.request.receive):
            name, ranking = await self._ranked(call, served, job)
        scored = scores_of(ranking, policy, raw=request.raw, level=served.settings.fail_open)
        warnings = (*warnings_of(ranking, request.reasons), *scored.warnings, *warnings)
        answer = call.dialect.answer(
            request,
            zip(ranking, scored.scores, strict=True),
            name=name,
            model=served.name,
            meta=meta_of(ranking, scored, warnings),
            seconds=time.perf_counter() - call.began,
        )
        return _json(answer, headers=headers_of(name, ranking, scored.unscored, warnings))

    async def _rank(self, call: _Call) -> _Make:
        def read(body: dict[str, Any]) -> tuple[RankRequest, tuple[Passage, ...]]:
            request = RankRequest.read(body, self._limits)
            return request, request.passages()

        asked, passages = await read_body(call.request, self._limits, read)
        served = self.rankers.find(asked.ranker)
        job = Job(served.with_options(asked.options), asked, passages)

        async def make(emit: EmitAnswer | None) -> tuple[dict[str, Any], Mapping[str, str]]:
            name, ranking = await self._ranked(call, served, job, emit)
            return await anyio.to_thread.run_sync(_whole, served, name, ranking, asked.reasons)

        return make

    async def _answer(self, call: _Call) -> _Make:
        self._answering.ready()
        call.about.append(ANSWER)
        read = partial(QuestionRequest.read, limits=self._limits)
        asked = await read_body(call.request, self._limits, read)
        question = asked.asked(self._limits)

        async def make(emit: EmitAnswer | None) -> tuple[dict[str, Any], Mapping[str, str]]:
            result = await self._answering.answer(question, asked.timeout, emit)
            calls = sum(stage.calls for stage in result.stages)
            call.about.append(counted(calls, "model call"))
            form = await anyio.to_thread.run_sync(public_answer, result)
            kept = orjson.dumps(form)
            name = self._kept.put(kept, len(kept), call.holder)
            return {"id": name, "answer": form}, answer_headers(name, result)

        return make

    async def _whole_answer(self, call: _Call, *, prepare: _Prepare) -> Response:
        make = await prepare(call)
        async with until_gone(call.request.receive):
            body, headers = await make(None)
        return _json(body, headers=headers)

    async def _streamed(self, call: _Call, *, prepare: _Prepare, last: str) -> Response:
        """Stream the events on the way, and what is made as an event named `last`."""
        make, queue = await prepare(call), EventQueue()

        async def emit(event: RAGEvent) -> None:
            if not isinstance(event, RankingDone):  # what is made has it
                queue.put(*event_data(event))

        async def work() -> None:
            try:
                with self._stoppable():
                    body, _ = await make(emit)
                queue.put(last, body)
            except Exception as error:  # noqa: BLE001 - the reader gets it
                queue.put("error", GENERAL.problem(self._problem(call, error)))
            finally:
                queue.end()

        ended = partial(self._answered, call)
        return EventStream(queue, work, stalled=self._limits.reader, ended=ended)

    def _models(self, _: _Call) -> dict[str, Any]:
        data = [self._described(served, served.name) for served in self.rankers.all]
        # Cohere's client reads `models`, all others `data`.
        models = [{"name": each["id"], "endpoints": ["rerank"]} for each in data]
        return {"object": "list", "data": data, "models": models}

    def _model(self, call: _Call) -> dict[str, Any]:
        uid = call.request.path_params["uid"]
        return self._described(self.rankers.find(uid), uid)

    def _described(self, served: ServedRanker, uid: str) -> dict[str, Any]:
        """Describe a ranker to OpenAI's and Xinference's clients."""
        openai = {"id": uid, "object": "model", "created": self._began, "owned_by": "mcranker"}
        return {**openai, "model_type": "rerank", "model_name": served.name, "model_uid": uid}

    def _info(self, _: _Call) -> dict[str, Any]:
        return {
            "model_id": self.rankers.all[0].name,
            "model_type": {"reranker": {"id2label": {"0": "0"}, "label2id": {"0": 0}}},
            "max_concurrent_requests": self._limits.rankings,
            "max_client_batch_size": self._limits.documents,
            "version": __version__,
        }

    async def _playground(self, _: _Call) -> Response:
        examples = await anyio.to_thread.run_sync(playground.examples)
        return _json(
            {
                "rankers": [playground.ranker_of(served) for served in self.rankers.all],
                "members": [
                    library.member(name).model_dump(mode="json") for name in library.member_names()
                ],
                "examples": examples,
                "answers": self._answering.pipeline is not None,
            }
        )

    async def _file(self, call: _Call) -> Response:
        _, kind = playground.FILES[call.route]
        headers = _HEADERS | playground.HEADERS
        return Response(playground.file_of(call.route), headers=headers, media_type=kind)

    async def _explain(self, call: _Call) -> Response:
        kept = self._kept.get(call.request.path_params["id"], call.holder)

        def page() -> str:
            if isinstance(kept, bytes):
                return RAGResult.from_dict(orjson.loads(kept)).to_html()
            return render_inspection(public_form(kept), footer=ReportFooter(__version__))

        return HTMLResponse(await anyio.to_thread.run_sync(page), headers=_HEADERS)

    async def _show_metrics(self, _: _Call) -> Response:
        return Response(self._metrics.text(), headers=_HEADERS, media_type=CONTENT_TYPE)

    async def _readiness(self, _: _Call) -> Response:
        if not self._ready or self._draining:
            return _json({"status": "stopping"}, 503)
        look = self._look
        if look is None or look.done():
            look = self._look = asyncio.create_task(self._ledgers_answer())
        self._probed += 1
        try:
            await asyncio.wait([look], timeout=_LEDGER_SECONDS)
        finally:
            self._probed -= 1
        ready = look.done() and look.result()
        return _json({"status": "ready" if ready else "no ledger"}, 200 if ready else 503)

    async def _ledgers_answer(self) -> bool:
        try:
            with anyio.fail_after(_LEDGER_SECONDS):
                for store in self._stores.values():
                    await store.claim_many(())
        except (LedgerError, TimeoutError):
            return False
        return True

    async def _ranked(
        self, call: _Call, served: ServedRanker, job: Job, emit: Emit | None = None
    ) -> tuple[str, Ranking]:
        """Rank, count and keep it; return its id too."""
        call.about += [served.name, counted(len(job.passages), "document")]
        ranking = await served.rank(job, emit)
        call.about.append(counted(ranking.usage.calls, "model call"))
        return self._kept.put(ranking, size_of(ranking), call.holder), ranking


def _stopping() -> Problem:
    return Problem("unavailable", "the service stops; try again elsewhere", retry_after=1.0)


def _value_of(make: Callable[[_Call], dict[str, Any]]) -> _Handler:
    async def handler(call: _Call) -> Response:
        return _json(make(call))

    return handler


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        orjson.dumps(value), status, {**_HEADERS, **(headers or {})}, media_type="application/json"
    )


def _whole(
    served: ServedRanker, name: str, ranking: Ranking, reasons: int
) -> tuple[dict[str, Any], Mapping[str, str]]:
    scored, warnings = scores_of(ranking, "null"), warnings_of(ranking, reasons)
    body = {
        "id": name,
        "ranker": served.name,
        "returned": ranking.ids,
        "meta": meta_of(ranking, scored, warnings),
        "suspicions": {
            hit.doc_id: [each.sentence for each in hit.suspicions]
            for hit in ranking
            if hit.suspicions
        },
        "ranking": public_form(ranking),
    }
    return body, headers_of(name, ranking, scored.unscored, warnings)
