"""The routes of the service, as an ASGI application."""

from __future__ import annotations

import contextlib
import difflib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from mcranker import __version__
from mcranker.events import Emit, Event, RankingDone
from mcranker.inputs import as_passages, as_query
from mcranker.logs import safe_logger
from mcranker.ranking import Ranking
from mcranker.runtime.bridge import task_group
from mcranker.serve import playground
from mcranker.serve.answers import NOT_ABSOLUTE, headers_of, meta_of, scores_of, warnings_of
from mcranker.serve.bodies import ClientDisconnected, read_body
from mcranker.serve.dialects import (
    DIALECTS,
    GENERAL,
    ROUTES,
    ApiDialect,
    RerankResponse,
    dialect_of,
)
from mcranker.serve.events import CLIENT_GONE, EventQueue, EventStream, event_data
from mcranker.serve.explanations import Explanations
from mcranker.serve.keys import holder_of
from mcranker.serve.metrics import CONTENT_TYPE, Metrics
from mcranker.serve.problems import Problem, problem_of
from mcranker.serve.requests import RANK_FIELDS, RerankRequest, cut_to_bytes, read_fields
from mcranker.serve.served import Job, ServedRanker, ServedRankers, public_form
from mcranker.serve.settings import Settings
from personas import library
from personas.format import counted
from personas.ranking.types import Passage, Query
from personas.report import render_inspection
from personas.report.site import ReportFooter
from personas.sanitize import plain

T = TypeVar("T")
logger = safe_logger("mcranker.serve")
access = safe_logger("mcranker.serve.access")

_LOOPBACK_NAMES = {"localhost", "127.0.0.1", "[::1]"}
_OPENED_BY_BROWSERS = {"/v1/explain/{id}", *playground.FILES}
_ALIVE = ("/healthz", "/health", "/ping", "/v1/health/live")
_READY = ("/readyz", "/v1/health/ready")
_PROBES = {*_ALIVE, *_READY, "/metrics"}
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@dataclass(slots=True)
class _Call:
    """A request that is being answered.

    Attributes:
        request: as it came.
        route: the name it is counted under.
        dialect: the form of its answer.
        holder: name of the key it was sent with.
        about: what the access log adds to its path, status and seconds.
        began: start, by `time.perf_counter`.
    """

    request: Request
    route: str
    dialect: ApiDialect = GENERAL
    holder: str = ""
    about: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began


_Handler = Callable[[_Call], Awaitable[Response]]


def create_app(settings: Settings | None = None) -> Starlette:
    """Return the service as an ASGI application; its rankers are made now and closed with it.

    Args:
        settings: what it offers; None for one MCRanker with its defaults.

    Returns:
        The application. Its ``state.give_up()`` cancels all requests, answers their clients, and
        returns how many there were.

    Raises:
        MCRankerError, PersonasError: a ranker cannot be made as it is set up.
    """
    service = _Service(settings or Settings())
    app = Starlette(
        routes=service.routes(),
        exception_handlers={HTTPException: service.no_route},
        lifespan=service.lifespan,
    )
    app.state.give_up, app.state.described = service.give_up, service.rankers.described
    return app


class _Service:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limits = settings.limits
        self._metrics = Metrics()
        self.rankers = ServedRankers.open(settings, self._metrics)
        self._kept = Explanations(self._limits.explanations, self._limits.explanations_bytes)
        self._began = int(time.time())
        self._ready = False
        self._under_way: set[anyio.CancelScope] = set()

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

    def routes(self) -> list[Route]:
        found: list[Route] = []

        def add(
            method: str,
            paths: Sequence[str],
            handler: _Handler,
            dialect: ApiDialect = GENERAL,
            *,
            open_: bool = False,
        ) -> None:
            for path in paths:
                endpoint = self._endpoint(path, handler, dialect, open_=open_)
                found.append(Route(path, endpoint, methods=[method]))

        add("POST", ROUTES, self._rerank)
        add("POST", ("/v1/rank",), self._rank)
        add("POST", ("/v1/rank/stream",), self._stream)
        for dialect in DIALECTS:
            own = (*dialect.routes, f"/{dialect.name}/{{rest:path}}")
            add("POST", own, partial(self._rerank, dialect=dialect), dialect)
        add("GET", _ALIVE, self._alive, open_=True)
        add("GET", _READY, self._readiness, open_=True)
        add("GET", ("/v1/cluster/auth",), self._needs_keys, open_=True)
        add("GET", ("/metrics",), self._show_metrics, open_=self._settings.open_metrics)
        add("GET", ("/v1/models", "/models"), self._models)
        add("GET", ("/v1/models/{uid:path}",), self._model)
        add("GET", ("/info",), self._info)
        add("GET", ("/v1/teams",), self._teams)
        add("GET", ("/v1/explain/{id}",), self._explain)
        add("GET", ("/playground.json",), self._playground)
        add("GET", tuple(playground.FILES), self._file)
        # Clients add their own /v1 to a base that has one already.
        once_more = [
            Route(f"/v1{route.path}", route.endpoint, methods=["POST"])
            for route in found
            if route.methods == {"POST"} and "{" not in route.path
        ]
        return [*found, *once_more]

    # What every request goes through

    def _endpoint(
        self, route: str, handler: _Handler, dialect: ApiDialect, *, open_: bool
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
            raise Problem("unavailable", "the service stops; try again elsewhere", retry_after=1.0)

    def _admit(self, call: _Call) -> None:
        if len(self._under_way) > self._limits.connections:
            said = (
                f"{self._limits.connections} requests are being served, the most; try again later"
            )
            raise Problem("unavailable", said, retry_after=1.0)
        settings, headers = self._settings, call.request.headers
        if settings.hosts or (settings.loopback and not settings.keys):
            # A page whose name was made to lead here has that name as its host.
            host = headers.get("host", "")
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name.lower() not in {*_LOOPBACK_NAMES, settings.host, *settings.hosts}:
                raise Problem(
                    "forbidden",
                    f"the service is not addressed as {name[:100]!r}; the operator can add that "
                    "to hosts",
                )
        if settings.keys:
            given = headers.get("authorization") or f"Bearer {headers.get('api-key', '')}"
            holder = holder_of(given, settings.keys)
            if holder is None:
                raise Problem("no_key", "invalid api token: send Authorization: Bearer KEY")
            call.holder = holder

    def _refused(self, call: _Call, error: Exception) -> Response:
        """Answer with an error; the log has its details."""
        problem = problem_of(error)
        call.about.append(plain(problem.message, 200))
        if problem.kind == "internal":
            logger.error("%s: unexpected %r", call.route, error, exc_info=error)
        elif problem is not error and problem.ours:
            logger.warning("%s: %s: %s", call.route, type(error).__name__, error)
        headers = problem.headers
        if problem.kind == "no_key" and call.route in _OPENED_BY_BROWSERS:
            headers["WWW-Authenticate"] = 'Basic realm="mcranker", charset="UTF-8"'
        return _json(call.dialect.problem(problem), call.dialect.status_of(problem), headers)

    def _answered(self, call: _Call, status: int) -> None:
        self._metrics.request(call.route, status, call.seconds)
        about = [
            f"{call.seconds:.3f} s",
            *call.about,
            *([f"key {call.holder}"] * bool(call.holder)),
        ]
        level = logging.DEBUG if call.route in _PROBES and status == 200 else logging.INFO
        asked = f"{call.request.method} {plain(call.request.url.path, 200)}"
        access.log(level, "%s %d %s", asked, status, ", ".join(about))

    async def no_route(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.url.path[:200]
        call = _Call(request, "other")
        if error.status_code == 405:
            allowed = (error.headers or {}).get("Allow")
            problem = Problem("method", f"{path!r} takes {allowed}, not {request.method[:20]!r}")
        else:
            near = difflib.get_close_matches(path, (*ROUTES, "/v1/rank", "/v1/rank/stream"), n=1)
            instead = f"did you mean {near[0]!r}?" if near else f"rerank clients ask {ROUTES[0]}"
            problem = Problem("not_found", f"there is no route {path!r}; {instead}")
        headers = {**(error.headers or {}), **problem.headers}
        self._answered(call, error.status_code)
        return _json(GENERAL.problem(problem), error.status_code, headers)

    # Routes

    async def _rerank(self, call: _Call, dialect: ApiDialect | None = None) -> Response:
        def read(body: dict[str, Any]) -> tuple[RerankRequest, tuple[Passage, ...]]:
            call.dialect = dialect or dialect_of((*body, *call.request.headers))
            request = RerankRequest.read(body, self._limits)
            return request, request.passages()

        request, passages = await read_body(call.request, self._limits, read)
        served = self.rankers.find(request.model)
        policy = served.settings.unscored
        if policy == "error" and not served.ranker.absolute:
            raise Problem("invalid", f"the ranker {served.name!r}: {NOT_ABSOLUTE}")
        ranker, warnings = served.ranker, request.warnings
        if request.max_tokens:
            if cutting := served.cutting(request.max_tokens):
                ranker = cutting
            else:
                passages, cut = cut_to_bytes(passages, request.max_tokens)
                warnings += cut
        seconds = self._seconds(call, request.timeout)
        job = Job(
            ranker,
            as_query(request.query),
            passages,
            seconds,
            request.top_n,
            instruction=request.instruction,
            reasons=request.reasons,
        )
        call.about += [served.name, counted(len(passages), "document")]
        name, ranking = await _unless_gone(call.request, lambda: self._ranked(call, served, job))
        scored = scores_of(ranking, policy, raw=request.raw)
        warnings = (*warnings_of(ranking, request.reasons), *scored.warnings, *warnings)
        meta = meta_of(ranking, scored, warnings)
        response = RerankResponse(
            name, served.name, request, ranking, scored.scores, call.seconds, meta
        )
        headers = headers_of(name, ranking, scored.unscored, warnings)
        return _json(call.dialect.answer(response), 200, headers)

    async def _rank(self, call: _Call) -> Response:
        served, job = await self._job(call)
        name, ranking = await _unless_gone(call.request, lambda: self._ranked(call, served, job))
        whole = await anyio.to_thread.run_sync(_whole, served, name, ranking, job.reasons)
        unscored, warnings = whole["meta"]["unscored"], whole["meta"].get("warnings", ())
        return _json(whole, 200, headers_of(name, ranking, unscored, warnings))

    async def _stream(self, call: _Call) -> Response:
        served, job = await self._job(call)
        queue = EventQueue()

        async def emit(event: Event) -> None:
            if not isinstance(event, RankingDone):  # it is sent as a whole, with its reasons
                queue.put(*event_data(event))

        async def rank() -> None:
            try:
                with self._stoppable():
                    ranked = await self._ranked(call, served, job, emit)
                    whole = await anyio.to_thread.run_sync(_whole, served, *ranked, job.reasons)
                queue.put("ranking_done", whole)
            except Exception as error:  # noqa: BLE001 - the reader gets it
                if not queue.refuse(self._refused(call, error)):
                    queue.put("error", GENERAL.problem(problem_of(error)))
            finally:
                queue.end()

        ended = partial(self._answered, call)
        return EventStream(queue, rank, stalled=self._limits.reader, ended=ended)

    async def _models(self, _: _Call) -> Response:
        data = [self._described(served, served.name) for served in self.rankers.all]
        # Cohere's client reads `models`, all others `data`.
        models = [{"name": each["id"], "endpoints": ["rerank"]} for each in data]
        return _json({"object": "list", "data": data, "models": models}, 200)

    async def _model(self, call: _Call) -> Response:
        uid = call.request.path_params["uid"]
        return _json(self._described(self.rankers.find(uid), uid), 200)

    def _described(self, served: ServedRanker, uid: str) -> dict[str, Any]:
        """Describe a ranker to OpenAI's and Xinference's clients."""
        openai = {"id": uid, "object": "model", "created": self._began, "owned_by": "mcranker"}
        return {**openai, "model_type": "rerank", "model_name": served.name, "model_uid": uid}

    async def _info(self, _: _Call) -> Response:
        """Describe the service to TEI's clients."""
        limits = self._limits
        return _json(
            {
                "model_id": self.rankers.all[0].name,
                "model_type": {"reranker": {"id2label": {"0": "0"}, "label2id": {"0": 0}}},
                "max_concurrent_requests": limits.rankings,
                "max_client_batch_size": limits.documents,
                "version": __version__,
            },
            200,
        )

    async def _teams(self, _: _Call) -> Response:
        of_library = [
            {"name": name, "team": library.team(name).model_dump(mode="json")}
            for name in library.team_names()
        ]
        of_rankers = [
            {"ranker": served.name, "team": team.model_dump(mode="json")}
            for served in self.rankers.all
            if (team := getattr(served.ranker, "team", None)) is not None
        ]
        found = {"library": of_library, "members": _members(), "rankers": of_rankers}
        return _json(found, 200)

    async def _playground(self, _: _Call) -> Response:
        examples = await anyio.to_thread.run_sync(playground.examples)
        rankers = [playground.ranker_of(served) for served in self.rankers.all]
        return _json({"rankers": rankers, "members": _members(), "examples": examples}, 200)

    async def _file(self, call: _Call) -> Response:
        _, kind = playground.FILES[call.route]
        headers = _HEADERS | playground.HEADERS
        return Response(playground.file_of(call.route), headers=headers, media_type=kind)

    async def _explain(self, call: _Call) -> Response:
        ranking = self._kept.get(call.request.path_params["id"], call.holder)
        page = await anyio.to_thread.run_sync(
            lambda: render_inspection(public_form(ranking), footer=ReportFooter(__version__))
        )
        return HTMLResponse(page, headers=_HEADERS)

    async def _show_metrics(self, _: _Call) -> Response:
        return Response(self._metrics.text(), headers=_HEADERS, media_type=CONTENT_TYPE)

    async def _alive(self, _: _Call) -> Response:
        return _json({"status": "ok"}, 200)

    async def _readiness(self, _: _Call) -> Response:
        return _json(
            {"status": "ready" if self._ready else "stopping"}, 200 if self._ready else 503
        )

    async def _needs_keys(self, _: _Call) -> Response:
        """Answer Xinference's clients, which send a key only if this asks for one."""
        return _json({"auth": bool(self._settings.keys)}, 200)

    # A ranking

    async def _job(self, call: _Call) -> tuple[ServedRanker, Job]:
        def read(body: dict[str, Any]) -> tuple[dict[str, Any], Query, tuple[Passage, ...]]:
            found = read_fields(body, RANK_FIELDS, self._limits, strict=True)
            for name in ("query", "documents"):
                if name not in found:
                    raise Problem("invalid", f"invalid request: {name!r} is missing")
            return found, as_query(found.pop("query")), as_passages(found.pop("documents"))

        found, query, passages = await read_body(call.request, self._limits, read)
        served = self.rankers.find(found.pop("ranker", None))
        ranker = served.with_options(found.pop("options", {}))
        seconds = self._seconds(call, found.pop("timeout", None))
        call.about += [served.name, counted(len(passages), "document")]
        return served, Job(ranker, query, passages, seconds, **found)

    def _seconds(self, call: _Call, timeout: float | None) -> float:
        """Seconds allowed to a ranking: the body's, the header's or the operator's."""
        header = call.request.headers.get("x-timeout")
        if timeout is None and header is not None:
            with contextlib.suppress(orjson.JSONDecodeError):
                header = orjson.loads(header)
            timeout = read_fields({"timeout": header}, RANK_FIELDS, self._limits).get("timeout")
        most = self._limits.deadline
        return most if timeout is None else min(timeout, most)

    async def _ranked(
        self, call: _Call, served: ServedRanker, job: Job, emit: Emit | None = None
    ) -> tuple[str, Ranking]:
        """Rank, count and keep it; return its id too."""
        try:
            ranking = await served.rank(job, emit)
        except Problem as problem:
            if problem.kind == "timeout":
                self._metrics.not_ranked(served.name, cancelled=False)
            raise
        except BaseException as error:
            gone = isinstance(error, anyio.get_cancelled_exc_class())
            self._metrics.not_ranked(served.name, cancelled=gone)
            raise
        self._metrics.ranked(served.name, ranking)
        call.about.append(counted(ranking.usage.calls, "model call"))
        return self._kept.put(ranking, call.holder), ranking


def _members() -> list[dict[str, Any]]:
    return [library.member(name).model_dump(mode="json") for name in library.member_names()]


def _json(value: Any, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        orjson.dumps(value),
        status_code=status,
        headers={**_HEADERS, **(headers or {})},
        media_type="application/json",
    )


def _whole(served: ServedRanker, name: str, ranking: Ranking, reasons: int) -> dict[str, Any]:
    """Everything a ranking holds."""
    return {
        "id": name,
        "ranker": served.name,
        "returned": ranking.ids,
        "meta": meta_of(ranking, scores_of(ranking, "null"), warnings_of(ranking, reasons)),
        "ranking": public_form(ranking),
    }


async def _unless_gone(request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of the work, which is cancelled if the client disconnects."""
    results: list[T] = []
    async with task_group() as group:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        results.append(await work())
        group.cancel_scope.cancel()
    if not results:
        raise ClientDisconnected
    return results[0]
