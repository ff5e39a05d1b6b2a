"""The routes of the service, as an ASGI application."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import anyio
import anyio.to_thread
import orjson
from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from mcranker import __version__
from mcranker.events import RankingDone
from mcranker.hit import Hit
from mcranker.inputs import as_passages, as_query
from mcranker.logs import safe_logger
from mcranker.rankers import Ranker
from mcranker.ranking import Ranking
from mcranker.runtime.bridge import task_group
from mcranker.serve import playground
from mcranker.serve.bodies import Gone, read_object, timeout_of
from mcranker.serve.documents import cut, passages_of
from mcranker.serve.events import CLIENT_GONE, EventQueue, EventStream, event_data
from mcranker.serve.explanations import Explanations
from mcranker.serve.keys import Keys
from mcranker.serve.metrics import CONTENT_TYPE, Metrics
from mcranker.serve.offers import ORDER_ALONE, Offer, Offers, notes_of
from mcranker.serve.problems import STATUS, Problem, problem_of
from mcranker.serve.settings import GRACE, Settings
from mcranker.serve.shapes import (
    COHERE_V2,
    OWN,
    SHARED,
    TEI,
    Answered,
    Asked,
    Errors,
    Result,
    Shape,
    checked,
    shape_of,
)
from mcranker.types import Passage, Query
from personas import library
from personas.report import render_inspection

T = TypeVar("T")
logger = safe_logger("mcranker.serve")

BY_RANK = (
    "scores are by rank, 1 for the first: documents were compared with one another, not scored"
)
"""What a client is told where an order has no scores of its own."""

_SHORTEST = 0.001  # seconds
_LOOPBACK_NAMES = {"localhost", "127.0.0.1", "[::1]"}
_OPENED_BY_BROWSERS = {"/v1/explain/{id}", *playground.FILES}
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class _RankQuery(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    text: str
    id: str = ""


class _RankBody(BaseModel):
    """A request to ``/v1/rank`` and ``/v1/rank/stream``."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    query: str | _RankQuery
    documents: list[Any] | dict[str, Any]
    ranker: str | None = Field(None, max_length=500)
    options: dict[str, Any] = Field(default_factory=dict)
    top_n: int | None = Field(None, ge=1)
    min_relevance: float | None = Field(None, ge=0, le=1)
    timeout: float | None = Field(None, gt=0, allow_inf_nan=False)


@dataclass(slots=True)
class _Call:
    """A request on its way: who makes it, and how its errors are told."""

    request: Request
    route: str
    errors: Errors
    holder: str = ""
    began: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True)
class _Job:
    """A ranking to be made, by `ranker`, which is `offer`'s or a variant of it."""

    offer: Offer
    ranker: Ranker
    query: Query
    passages: tuple[Passage, ...]
    seconds: float
    holder: str
    top_n: int | None = None
    min_relevance: float | None = None


class _Ranked(NamedTuple):
    id: str
    ranking: Ranking


_Handler = Callable[[_Call], Awaitable[Response]]


def create_app(settings: Settings | None = None) -> FastAPI:
    """The service as an ASGI application; its rankers are made at once, and close with it.

    Args:
        settings: what it offers; None for one MCRanker with its defaults.

    Returns:
        The application. Its ``state.give_up()`` cancels all rankings, tells their clients so, and
        returns how many there were.

    Raises:
        MCRankerError, PersonasError: a ranker cannot be made as it is set up.
    """
    service = _Service(settings or Settings())
    app = FastAPI(
        title="MCRanker",
        version=__version__,
        description="Passages ranked by a team of LLM personas, in the shapes of other rerankers.",
        lifespan=service.lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    service.add_routes(app)
    app.state.give_up = service.give_up
    return app


class _Service:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limits = settings.limits
        self._keys = Keys(settings.keys)
        self._metrics = Metrics()
        self._offers = Offers.open(settings, self._metrics)
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
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        self._ready = True
        try:
            yield
        finally:
            self._ready = False
            await self._offers.aclose()

    def add_routes(self, app: FastAPI) -> None:
        posts: tuple[tuple[str, Errors, _Handler], ...] = (
            ("/v2/rerank", COHERE_V2, lambda call: self._rerank(call, COHERE_V2)),
            ("/v1/rerank", SHARED, self._rerank),
            ("/rerank", TEI, self._rerank),
            ("/v1/rank", OWN, self._rank),
            ("/v1/rank/stream", OWN, self._stream),
        )
        gets: tuple[tuple[str, _Handler], ...] = (
            ("/v1/models", self._models),
            ("/v1/teams", self._teams),
            ("/v1/explain/{id}", self._explain),
            ("/metrics", self._show_metrics),
            ("/playground.json", self._playground),
            *((route, self._file) for route in playground.FILES),
        )
        for path, errors, handler in posts:
            app.add_api_route(path, self._endpoint(path, errors, handler), methods=["POST"])
        for path, handler in gets:
            is_open = path == "/metrics" and self._settings.open_metrics
            endpoint = self._endpoint(path, OWN, handler, open_=is_open)
            app.add_api_route(path, endpoint, methods=["GET"])
        for path, handler in (("/healthz", self._health), ("/readyz", self._readiness)):
            endpoint = self._endpoint(path, OWN, handler, open_=True)
            app.add_api_route(path, endpoint, methods=["GET"])
        app.add_exception_handler(HTTPException, self._no_route)

    # What every request goes through

    def _endpoint(
        self, route: str, errors: Errors, handler: _Handler, *, open_: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            call = _Call(request, route, errors)
            try:
                if not open_:
                    self._admit(call)
                response = await handler(call)
            except Gone:
                response = Response(status_code=CLIENT_GONE)
            except Exception as error:  # noqa: BLE001 - the supervisor reports whatever it was
                response = self._refused(call, error)
            if not isinstance(response, EventStream):  # which tells its end by itself
                self._answered(call, response.status_code)
            return response

        return endpoint

    def _admit(self, call: _Call) -> None:
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
            holder = self._keys.holder(headers.get("authorization", ""))
            if holder is None:
                raise Problem("no_key", "invalid api token: send Authorization: Bearer KEY")
            call.holder = holder

    def _refused(self, call: _Call, error: Exception) -> Response:
        """What the client is told of an error; the log has all of it."""
        problem = problem_of(error)
        if problem.kind == "internal":
            logger.error("%s: unexpected %r", call.route, error, exc_info=error)
        elif problem is not error and problem.ours:
            logger.warning("%s: %s: %s", call.route, type(error).__name__, error)
        status = call.errors.status_of(problem)
        headers = problem.headers
        if problem.kind == "no_key" and call.route in _OPENED_BY_BROWSERS:
            headers["WWW-Authenticate"] = 'Basic realm="mcranker", charset="UTF-8"'
        return _json(call.errors.problem(problem, status), status, headers)

    def _answered(self, call: _Call, status: int) -> None:
        seconds = time.perf_counter() - call.began
        self._metrics.request(call.route, status, seconds)
        logger.info("%s %d in %.3f s", call.route, status, seconds)

    async def _no_route(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        found = error.status_code == 405
        problem = (
            Problem("method", f"the method {request.method[:20]!r} is not for this route")
            if found
            else Problem("not_found", "there is no such route; see docs/serve.md for all")
        )
        self._metrics.request("other", error.status_code, 0.0)
        headers = {**(error.headers or {}), **problem.headers}
        return _json(OWN.problem(problem, error.status_code), error.status_code, headers)

    # Routes

    async def _rerank(self, call: _Call, shape: Shape | None = None) -> Response:
        body = await self._body(call)
        shape = shape_of(body) if shape is None else shape
        call.errors = shape
        asked = shape.read(body)
        if not asked.documents:
            raise Problem("empty", "invalid request: list of documents must not be empty")
        self._check_size(asked.query, len(asked.documents))
        offer = self._offers.find(asked.model)
        by_rank = not offer.ranker.absolute
        if by_rank and not offer.settings.rank_scores:
            raise Problem("invalid", f"the ranker {offer.name!r}: {ORDER_ALONE}")
        ranker, passages, notes = _cut(offer, passages_of(asked), asked.max_tokens)
        top_n = None if asked.top_n is None else min(asked.top_n, len(passages))
        seconds = self._seconds(call, asked.timeout)
        job = _Job(offer, ranker, Query(asked.query), passages, seconds, call.holder, top_n)
        ranked = await _unless_gone(call.request, lambda: self._ranked(job))
        notes = (*notes_of(ranked.ranking), *((BY_RANK,) if by_rank else ()), *notes, *asked.notes)
        answer = shape.answer(_answer(asked, ranked, offer.name, notes, by_rank=by_rank))
        return _json(answer, 200, _headers(ranked, notes))

    async def _rank(self, call: _Call) -> Response:
        job = self._job(call, await self._body(call))
        ranked = await _unless_gone(call.request, lambda: self._ranked(job))
        return _json(_whole(job.offer, ranked), 200, _headers(ranked, notes_of(ranked.ranking)))

    async def _stream(self, call: _Call) -> Response:
        job = self._job(call, await self._body(call))
        queue = EventQueue()

        async def rank() -> None:
            try:
                ranked = await self._ranked(job, queue)
                queue.put("ranking_done", _whole(job.offer, ranked))
            except Exception as error:  # noqa: BLE001 - the reader is told
                if not queue.refuse(self._refused(call, error)):
                    problem = problem_of(error)
                    queue.put("error", OWN.problem(problem, STATUS[problem.kind]))
            finally:
                queue.end()

        def ended(status: int) -> None:
            self._answered(call, status)

        return EventStream(queue, rank, stalled=self._limits.reader, ended=ended)

    async def _models(self, _: _Call) -> Response:
        names = [offer.name for offer in self._offers.all]
        data = [
            {"id": name, "object": "model", "created": self._began, "owned_by": "mcranker"}
            for name in names
        ]
        # Cohere's client reads `models`, all others `data`.
        models = [{"name": name, "endpoints": ["rerank"]} for name in names]
        return _json({"object": "list", "data": data, "models": models}, 200)

    async def _teams(self, _: _Call) -> Response:
        of_library = [
            {"name": name, "team": library.team(name).model_dump(mode="json")}
            for name in library.team_names()
        ]
        of_rankers = [
            {"ranker": offer.name, "team": team.model_dump(mode="json")}
            for offer in self._offers.all
            if (team := getattr(offer.ranker, "team", None)) is not None
        ]
        members = [library.member(name).model_dump(mode="json") for name in library.member_names()]
        return _json({"library": of_library, "members": members, "rankers": of_rankers}, 200)

    async def _playground(self, _: _Call) -> Response:
        examples = await anyio.to_thread.run_sync(playground.examples)
        members = [library.member(name).model_dump(mode="json") for name in library.member_names()]
        rankers = [playground.ranker_of(offer) for offer in self._offers.all]
        return _json({"rankers": rankers, "members": members, "examples": examples}, 200)

    async def _file(self, call: _Call) -> Response:
        _, kind = playground.FILES[call.route]
        headers = _HEADERS | playground.HEADERS
        return Response(playground.file_of(call.route), headers=headers, media_type=kind)

    async def _explain(self, call: _Call) -> Response:
        kept = self._kept.get(call.request.path_params["id"], call.holder)
        if kept is None:
            raise Problem(
                "not_found", "there is no such ranking, or it was made too long ago to be kept"
            )

        def render() -> str:
            return render_inspection(kept.offer.stored(kept.ranking))

        page = await anyio.to_thread.run_sync(render)
        return HTMLResponse(page, headers=_HEADERS)

    async def _show_metrics(self, _: _Call) -> Response:
        return Response(self._metrics.text(), headers=_HEADERS, media_type=CONTENT_TYPE)

    async def _health(self, _: _Call) -> Response:
        return _json({"status": "ok"}, 200)

    async def _readiness(self, _: _Call) -> Response:
        return _json(
            {"status": "ready" if self._ready else "stopping"}, 200 if self._ready else 503
        )

    # A ranking

    async def _body(self, call: _Call) -> dict[str, Any]:
        limits = self._limits
        return await read_object(call.request, most=limits.body, seconds=limits.body_seconds)

    def _job(self, call: _Call, body: Mapping[str, Any]) -> _Job:
        asked: _RankBody = checked(_RankBody, body)
        given = asked.query
        query = Query(given) if isinstance(given, str) else Query(given.text, given.id)
        self._check_size(query.text, len(asked.documents))
        offer = self._offers.find(asked.ranker)
        return _Job(
            offer,
            offer.with_options(asked.options),
            as_query(query),
            as_passages(asked.documents),
            self._seconds(call, asked.timeout),
            call.holder,
            None if asked.top_n is None else min(asked.top_n, max(1, len(asked.documents))),
            asked.min_relevance,
        )

    def _check_size(self, query: str, documents: int) -> None:
        limits = self._limits
        if not query.strip():
            raise Problem("invalid", "invalid request: query must not be empty")
        if len(query) > limits.query:
            raise Problem(
                "too_large", f"the query has {len(query)} characters; give up to {limits.query}"
            )
        if documents > limits.documents:
            raise Problem(
                "too_large",
                f"there are {documents} documents; send up to {limits.documents} at once",
            )

    def _seconds(self, call: _Call, timeout: float | None) -> float:
        given = timeout_of(call.request) if timeout is None else timeout
        most = self._limits.deadline
        return most if given is None else min(given, most)

    async def _ranked(self, job: _Job, queue: EventQueue | None = None) -> _Ranked:
        """What `_rank_in_place` makes, unless the service gives up."""
        with anyio.CancelScope() as scope:
            self._under_way.add(scope)
            try:
                return await self._rank_in_place(job, queue)
            finally:
                self._under_way.discard(scope)
        raise Problem("unavailable", "the service stops; try again elsewhere", retry_after=1.0)

    async def _rank_in_place(self, job: _Job, queue: EventQueue | None) -> _Ranked:
        """Wait for a place; rank, with events if there is a queue for them; count and keep it."""
        began = time.monotonic()
        name = job.offer.name
        async with job.offer.places.one(within=job.seconds):
            left = max(job.seconds - (time.monotonic() - began), _SHORTEST)
            try:
                with anyio.fail_after(left + GRACE):
                    ranking = await _ranking(job, left, queue)
            except TimeoutError:
                self._metrics.not_ranked(name, cancelled=False)
                late = f"there is no ranking after {job.seconds:g} seconds"
                raise Problem("timeout", late) from None
            except BaseException as error:
                gone = isinstance(error, anyio.get_cancelled_exc_class())
                self._metrics.not_ranked(name, cancelled=gone)
                raise
        self._metrics.ranked(name, ranking)
        ranked = _Ranked(uuid.uuid4().hex, ranking)
        self._kept.put(ranked.id, ranking, job.offer, job.holder)
        return ranked


async def _ranking(job: _Job, seconds: float, queue: EventQueue | None) -> Ranking:
    """The ranking, partial at the deadline where the ranker may give such."""
    deadline = None if job.ranker.config.missing == "fail" else seconds
    if queue is None:
        return await job.ranker.arank(
            job.query,
            job.passages,
            top_n=job.top_n,
            min_relevance=job.min_relevance,
            deadline=deadline,
        )
    events = job.ranker.astream(
        job.query,
        job.passages,
        top_n=job.top_n,
        min_relevance=job.min_relevance,
        deadline=deadline,
    )
    async with events:
        async for event in events:
            if isinstance(event, RankingDone):
                return event.ranking
            queue.put(*event_data(event))
    raise AssertionError("a stream of events ended without a ranking")


def _cut(
    offer: Offer, passages: tuple[Passage, ...], tokens: int | None
) -> tuple[Ranker, tuple[Passage, ...], tuple[str, ...]]:
    """Who ranks which passages if so many tokens of each are judged, and notes for the client."""
    if tokens is None:
        return offer.ranker, passages, ()
    if ranker := offer.cutting(tokens):
        return ranker, passages, ()
    return offer.ranker, *cut(passages, tokens)


def _json(value: Any, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        orjson.dumps(value),
        status_code=status,
        headers={**_HEADERS, **(headers or {})},
        media_type="application/json",
    )


def _headers(ranked: _Ranked, notes: tuple[str, ...]) -> dict[str, str]:
    headers = {"X-Ranking-Id": ranked.id}
    if notes:  # not every shape has a place for them
        headers["X-Notes"] = "; ".join(notes)
    if ranked.ranking.partial:
        headers["X-Partial"] = "deadline"
    if missing := len(ranked.ranking.missing):
        headers["X-Missing-Scores"] = str(missing)
    return headers


def _score(hit: Hit, ranking: Ranking, *, raw: bool, by_rank: bool) -> float | None:
    """The score of a document; None if it was not judged."""
    if not by_rank:
        return hit.score if raw else hit.relevance
    depth = ranking.config.get("depth")
    compared = len(ranking.passages[: depth if isinstance(depth, int) else None])
    judged = hit.rank <= compared and not ranking.failure
    return (compared + 1 - hit.rank) / compared if judged else None


def _answer(
    asked: Asked, ranked: _Ranked, name: str, notes: tuple[str, ...], *, by_rank: bool
) -> Answered:
    documents = asked.documents
    usage = ranked.ranking.usage
    return Answered(
        id=ranked.id,
        model=name,
        results=[
            Result(
                hit.index,
                _score(hit, ranked.ranking, raw=asked.raw, by_rank=by_rank),
                documents[hit.index] if asked.return_documents else None,
            )
            for hit in ranked.ranking
        ],
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        notes=notes,
    )


def _whole(offer: Offer, ranked: _Ranked) -> dict[str, Any]:
    """Everything a ranking holds."""
    return {
        "id": ranked.id,
        "ranker": offer.name,
        "returned": ranked.ranking.ids,
        "notes": notes_of(ranked.ranking),
        "ranking": offer.stored(ranked.ranking).to_dict(),
    }


async def _unless_gone(request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """The result of the work, which is cancelled if the client hangs up.

    Raises:
        Gone: it has.
    """
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
        raise Gone
    return results[0]
