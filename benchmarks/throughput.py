"""Cost of ranking on top of the model: the whole pipeline against a server of fixed latency.

    python benchmarks/throughput.py
    python benchmarks/throughput.py --latency 0.05 --concurrency 256 --only ours-url
    python benchmarks/throughput.py --queued 100000

Side by side, for equal requests: the ideal (calls x latency / concurrency), aiohttp and the
providers' own libraries bare, and `MCRanker` through a URL and through those libraries. Each
run has a process of its own, the contenders take turns, and the figures are medians over the
rounds. "x aiohttp" and "x openai" compare the throughput with bare aiohttp and with OpenAI's
library as it comes; the CPU time is that of the client's process alone.

With --queued: one query with that number of passages, left after the first results; the seconds to
the first score, and how much the process grew by then beyond the passages themselves.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from contenders import NAMES, OURS, PERSONAS, TEAM, Load, Timing, loop_runner, time_contender
from fixed_latency_server import answered, serving

from mcranker import MCRanker, PassageScored

T = TypeVar("T")

PASSAGES = 100  # of one query
SCENARIOS = [(128, 0.2), (256, 0.05)]  # calls in flight at once, seconds of latency
RESULTS = 2000  # with --queued: taken before the ranking is left
MIB = 2**20
RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def compare(load: Load, names: list[str], *, rounds: int, ledger: bool) -> dict[str, Any]:
    """All contenders under one load, in turns.

    Returns:
        The load, the ideal in seconds, and for each contender the medians of: wall seconds,
        share of the ideal throughput, CPU milliseconds a call, and throughput relative to
        bare aiohttp and to OpenAI's library, where those ran.
    """
    timings: dict[str, list[Timing]] = {name: [] for name in names}
    with serving(load.latency) as port:
        for _ in range(rounds):
            for name in names:
                before = answered(port)
                timings[name].append(alone(time_contender, name, port, load, ledger=ledger))
                if answered(port) - before < load.calls:
                    raise SystemExit(f"{name}: not every call reached the server")
    seconds = {name: statistics.median(t.seconds for t in timings[name]) for name in names}
    results = {
        name: {
            "seconds": round(seconds[name], 3),
            "of_ideal": round(load.ideal / seconds[name], 3),
            "x_aiohttp": _ratio(seconds.get("aiohttp"), seconds[name]),
            "x_openai": _ratio(seconds.get("openai"), seconds[name]),
            "cpu_ms_a_call": round(
                statistics.median(t.cpu for t in timings[name]) / load.calls * 1e3, 3
            ),
        }
        for name in names
    }
    return {
        "calls": load.calls,
        "concurrency": load.concurrency,
        "latency": load.latency,
        "rounds": rounds,
        "ledger": ledger,
        "loop": timings[names[0]][0].loop,
        "ideal_seconds": round(load.ideal, 3),
        "results": results,
    }


def queue_up(port: int, passages: int, concurrency: int, *, ledger: bool) -> dict[str, Any]:
    """Seconds to the first score of one long query, and the growth of the process in MiB."""
    with tempfile.TemporaryDirectory() as folder, loop_runner() as runner:
        kept = Path(folder) / "ledger.sqlite" if ledger else None
        return runner.run(_queue_up(port, passages, concurrency, kept))


def alone(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run the function in a fresh process and return its result."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(function, *args, **kwargs).result()


async def _queue_up(
    port: int, passages: int, concurrency: int, ledger: Path | None
) -> dict[str, Any]:
    options = OURS["ours-url"](port, concurrency)
    ((query, docs),) = Load(1, passages, concurrency, 0.0).work()
    async with MCRanker(team=TEAM, concurrency=concurrency, ledger=ledger, **options) as ranker:
        await ranker.arank("warm up", docs[:PASSAGES])
        before, start = _peak(), time.perf_counter()
        first = 0.0
        results = 0
        async with ranker.astream(query, docs) as events:
            async for event in events:
                if isinstance(event, PassageScored):
                    first = first or time.perf_counter() - start
                    results += 1
                if results == min(RESULTS, PERSONAS * passages):
                    break
            grown = _peak() - before
    return {
        "queued": passages,
        "concurrency": concurrency,
        "ledger": ledger is not None,
        "results": results,
        "seconds_to_first": round(first, 3),
        "added_mib": round(grown / MIB, 1),
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT


def _ratio(base: float | None, seconds: float) -> float | None:
    return None if base is None else round(base / seconds, 3)


def _table(outcome: dict[str, Any]) -> str:
    head = (
        f"{outcome['calls']} calls, {outcome['concurrency']} at once x "
        f"{outcome['latency'] * 1e3:g} ms, ideal {outcome['ideal_seconds']} s, median of "
        f"{outcome['rounds']}, {outcome['loop']}, ledger {'on' if outcome['ledger'] else 'off'}"
    )
    columns = ("seconds", "of_ideal", "x_aiohttp", "x_openai", "cpu_ms_a_call")
    lines = [head, f"{'':15}" + "".join(f"{column:>15}" for column in columns)]
    for name, result in outcome["results"].items():
        cells = ["-" if result[each] is None else f"{result[each]:.2f}" for each in columns]
        lines.append(f"{name:15}" + "".join(f"{cell:>15}" for cell in cells))
    return "\n".join(lines) + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What ranking costs on top of the model.")
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--concurrency", type=int, help="calls in flight at once")
    parser.add_argument("--latency", type=float, help="of the server, in seconds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ledger", choices=["fresh", "none"], default="fresh")
    parser.add_argument("--only", choices=NAMES, action="append", help="may be repeated")
    parser.add_argument("--queued", type=int, help="passages of one long query")
    parser.add_argument("--output", choices=["text", "json"], default="text")
    arguments = parser.parse_args()
    if arguments.calls < PERSONAS:
        parser.error(f"--calls {arguments.calls}: a passage takes {PERSONAS} calls")
    return arguments


def main() -> None:
    arguments = _arguments()
    ledger = arguments.ledger == "fresh"
    if arguments.queued:
        with serving(arguments.latency or 0.0) as port:
            concurrency = arguments.concurrency or SCENARIOS[0][0]
            print(json.dumps(alone(queue_up, port, arguments.queued, concurrency, ledger=ledger)))
        return
    scenarios = SCENARIOS
    if arguments.concurrency or arguments.latency:
        concurrency, latency = SCENARIOS[0]
        scenarios = [(arguments.concurrency or concurrency, arguments.latency or latency)]
    passages = min(PASSAGES, arguments.calls // PERSONAS)
    for concurrency, latency in scenarios:
        load = Load(arguments.calls // (PERSONAS * passages), passages, concurrency, latency)
        outcome = compare(
            load, arguments.only or list(NAMES), rounds=arguments.rounds, ledger=ledger
        )
        print(json.dumps(outcome) if arguments.output == "json" else _table(outcome), flush=True)


if __name__ == "__main__":
    main()
