"""Cost of `mcranker serve`: its overhead, and its throughput beside the Python API's.

    python benchmarks/service.py
    python benchmarks/service.py --seconds 60
    python benchmarks/service.py --hostile

Overhead: one client, one passage, a team of one, a model of 0 ms in the service's process; beside
it a bare Starlette route that reads the same body, and `MCRanker.arank` itself. Milliseconds as a
client sees them, and of the server's processor time.

Load: a loopback model of fixed latency in a process of its own, and as many clients as are asked
for, each with one request after the other; beside it the same rankings by as many tasks of one
process that calls `MCRanker.arank`. The memory is that of the service's process, after a fifth of
the time and at the end.

Hostile: bodies made to stop the service, those of its tests; for each, how long /healthz takes at
most meanwhile, and by how much the memory of the process grows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import anyio
import httpx
from contenders import MODEL, TEAM
from fixed_latency_server import serving

from mcranker import MCRanker, ScriptedChat

WORDS = "a passage of the collection that is to be judged for the query by every persona " * 3
WARM_UP = 50  # requests that are not counted
PAGE = 4096 / 2**20  # MiB of a page of memory, as Linux counts them

_SERVER = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from mcranker import ScriptedChat
from mcranker.serve import RankerSettings, Settings, create_app
if sys.argv[1] == "bare":
    async def rerank(request: Request) -> Response:
        body = await request.json()
        return Response(ANSWER, media_type="application/json")
    app = Starlette(routes=[Route("/v2/rerank", rerank, methods=["POST"])])
    ANSWER = b'{"results":[{"index":0,"relevance_score":0.7}]}'
else:
    model = ScriptedChat(lambda request: '{"Score": 7}')
    options = {"model": model, "team": "clinician", "ledger": None}
    ranker = RankerSettings(options=options, names=("*",), per_request=("team",))
    settings = Settings(rankers=(ranker,), port=int(sys.argv[2]))
    app = create_app(settings)
if sys.argv[1] == "hostile":
    from mcranker.serve.server import Server, listen
    Server(app, settings.limits, int).run([listen(settings)])
else:
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error", access_log=False)
"""


class Overhead(NamedTuple):
    """Milliseconds of each request, and of processor time a request, by contender."""

    times: list[float]
    processor: float
    memory: tuple[float, ...] = ()
    """MiB of the process after a fifth of the requests, and after all."""


def overhead(requests: int) -> dict[str, Overhead]:
    """By contender."""
    found = {}
    for port, kind in enumerate(("bare", "service"), start=18_471):
        with _python("-c", _SERVER, kind, str(port)) as process:
            found[kind] = _timed(f"http://127.0.0.1:{port}", requests, process.pid)
    found["arank"] = anyio.run(_api_times, requests)
    return found


def _timed(address: str, requests: int, pid: int) -> Overhead:
    body = json.dumps({"model": "m", "query": "q", "documents": [WORDS]}).encode()
    headers = {"Content-Type": "application/json"}
    times: list[float] = []
    memory: list[float] = []
    with httpx.Client(base_url=address, timeout=30) as client:
        _wait_for(client)
        for number in range(-WARM_UP, requests):
            if number == 0:
                before = _processor(pid)
                times.clear()
            began = time.perf_counter()
            client.post("/v2/rerank", content=body, headers=headers).raise_for_status()
            times.append(1000 * (time.perf_counter() - began))
            if number + 1 in (requests // 5, requests):
                memory.append(_resident(pid))
    return Overhead(times, 1000 * (_processor(pid) - before) / requests, tuple(memory))


def hostile() -> None:
    """Print what bodies that are made to stop the service do to other requests."""
    sys.path.append(str(Path(__file__).parents[1]))
    from tests.support.hostile_bodies import KINDS

    address = "http://127.0.0.1:18473"
    headers = {"Content-Type": "application/json"}
    with (
        _python("-c", _SERVER, "hostile", "18473") as process,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        _wait_for(client)
        for kind, (path, content, _) in KINDS.items():
            # The peak of the process's memory begins again.
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")
            before, done, longest = _resident(process.pid), threading.Event(), [0.0]
            watch = threading.Thread(target=_probe, args=(address, done, longest))
            watch.start()
            answer = client.post(path, content=content, headers=headers)
            done.set()
            watch.join()
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024
            took, worst = 1000 * answer.elapsed.total_seconds(), 1000 * max(longest)
            print(
                f"{kind:32} {answer.status_code}   {took:6.0f} ms   /healthz {worst:4.0f} ms   "
                f"{max(0.0, peak - before):4.0f} MiB"
            )


def _probe(address: str, done: threading.Event, found: list[float]) -> None:
    with httpx.Client(base_url=address, timeout=60) as client:
        while not done.is_set():
            began = time.perf_counter()
            client.get("/healthz").raise_for_status()
            found.append(time.perf_counter() - began)


async def _api_times(requests: int) -> Overhead:
    model = ScriptedChat(lambda _: '{"Score": 7}')
    times: list[float] = []
    async with MCRanker(model=model, team="clinician", ledger=None) as ranker:
        for number in range(-WARM_UP, requests):
            if number == 0:
                before = time.process_time()
                times.clear()
            began = time.perf_counter()
            await ranker.arank("q", [WORDS])
            times.append(1000 * (time.perf_counter() - began))
    return Overhead(times, 1000 * (time.process_time() - before) / requests)


def load(seconds: float, clients: int, passages: int, latency: float, rounds: int) -> None:
    """Print rankings a second of the service and of the Python API, and the service's memory."""
    docs = [f"{number} {WORDS}" for number in range(passages)]
    services, apis = [], []
    with serving(latency) as port, tempfile.TemporaryDirectory() as folder:
        url = f"http://127.0.0.1:{port}/v1"
        ranker = f'model = "openai:{MODEL}"\nbase_url = "{url}"\nteam = "{TEAM}"\nledger = "none"\n'
        limits = f"[limits]\nrankings = {clients}\n"
        path = Path(folder) / "serve.toml"
        path.write_text(f"{limits}[rankers.team]\n{ranker}", encoding="utf-8")
        for _ in range(rounds):
            with _python(
                "-m", "mcranker", "serve", "--config", str(path), "--port", "0"
            ) as process:
                assert process.stderr is not None
                line = next(each for each in process.stderr if " at http" in each)
                address = re.findall(r"http://\S+", line)[0]
                found = anyio.run(_by_service, address, docs, clients, seconds, process.pid)
            services.append(found)
            apis.append(anyio.run(_by_api, url, docs, clients, seconds))
    for (rate, processor, errors, before, after), (api, own) in zip(services, apis, strict=True):
        print(
            f"service {rate:6.1f} rankings a second, API {api:6.1f}: {rate / api:.2f}; processor "
            f"{processor:.0f} and {own:.0f} ms a ranking; {errors} errors; {before:.1f} MiB after "
            f"a fifth, {after:.1f} MiB at the end"
        )


async def _by_service(
    address: str, docs: list[str], clients: int, seconds: float, pid: int
) -> tuple[float, float, int, float, float]:
    import aiohttp

    numbers, errors = count(), 0
    memory: list[float] = []
    connector = aiohttp.TCPConnector(limit=clients)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def one() -> None:
            nonlocal errors
            body = {"query": f"query {next(numbers)}", "documents": docs}
            async with session.post(f"{address}/v2/rerank", json=body) as answer:
                await answer.read()
                errors += answer.status != 200 or "x-notes" in answer.headers

        async with anyio.create_task_group() as group:

            async def watch() -> None:
                for pause in (seconds / 5, seconds * 0.75):
                    await anyio.sleep(pause)
                    memory.append(_resident(pid))

            group.start_soon(watch)
            before = _processor(pid)
            rate, done = await _rate(one, clients, seconds)
            processor = 1000 * (_processor(pid) - before) / done
    return rate, processor, errors, *memory


async def _by_api(url: str, docs: list[str], clients: int, seconds: float) -> tuple[float, float]:
    numbers = count()
    async with MCRanker(model=f"openai:{MODEL}", base_url=url, team=TEAM, ledger=None) as ranker:

        async def one() -> None:
            await ranker.arank(f"query {next(numbers)}", docs)

        before = time.process_time()
        rate, done = await _rate(one, clients, seconds)
        return rate, 1000 * (time.process_time() - before) / done


async def _rate(
    one: Callable[[], Awaitable[object]], clients: int, seconds: float
) -> tuple[float, int]:
    """Run `one` repeatedly in several tasks; return its rate a second and its count."""
    done, end = 0, time.perf_counter() + seconds
    began = time.perf_counter()

    async def again() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await one()
            done += 1

    async with anyio.create_task_group() as group:
        for _ in range(clients):
            group.start_soon(again)
    return done / (time.perf_counter() - began), done


@contextmanager
def _python(*args: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, *args]
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as process:
        try:
            yield process
        finally:
            process.terminate()


def _wait_for(client: httpx.Client) -> None:
    for _ in range(300):
        try:
            client.get("/healthz")
        except httpx.ConnectError:
            time.sleep(0.05)
        else:
            return


def _processor(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--passages", type=int, default=20)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hostile", action="store_true")
    args = parser.parse_args()
    if args.hostile:
        hostile()
        return
    for name, found in overhead(args.requests).items():
        cuts = statistics.quantiles(found.times, n=100)
        print(
            f"{name:9} p50 {cuts[49]:6.2f} ms   p99 {cuts[98]:6.2f} ms   "
            f"processor {found.processor:5.2f} ms   MiB "
            f"{' -> '.join(f'{each:.1f}' for each in found.memory) or '-'}"
        )
    if args.seconds:
        load(args.seconds, args.clients, args.passages, args.latency, args.rounds)


if __name__ == "__main__":
    main()
