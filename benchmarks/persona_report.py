"""Time and memory of `personas report` over many queries, as a command.

    python benchmarks/persona_report.py --queries 250 --queries 1000 --queries 2000

Writes run folders of a team and of DIRECT with made-up scores and texts into a temporary folder
and reports on them: wall time and processor time of the command, start-up included; the peak
memory of the first process and of the largest worker, and the sum of all peaks, which is at
least the peak of all together (Linux only); the number of pages, and the largest one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from beir_eval.experiment.run_folder import (  # noqa: E402
    DataManifest,
    FirstStageNote,
    Metrics,
    RunManifest,
    TieBounds,
)
from beir_eval.files import write_form  # noqa: E402

COMMAND = "from beir_eval.cli.persona_report import command; command()"
WORDS_A_PASSAGE = 200
RECRUITS = 60
MODEL, MEASURE = "scripted:by-chance", "nDCG@10"
CONFIG = {"preset": "paper", "ensemble": "sum", "scoring": "integer", "scale": 10}
MIB = 1 << 20


def make_runs(out: Path, queries: int, passages: int, seed: int = 0) -> Path:
    """Folders of a team of three and of DIRECT over the same queries; every passage is new.

    Returns:
        The team's folder.
    """
    chance = random.Random(seed)
    words = ["".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 11))) for _ in range(8000)]
    common = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))  # Zipf's law
    data, team, direct = (out / "made-up" / name for name in ("data", "team", "direct"))
    for folder in (data, team, direct):
        folder.mkdir(parents=True)
    with (
        (data / "queries.jsonl").open("wb") as query_lines,
        (data / "passages.jsonl").open("wb") as passage_lines,
        (data / "qrels.tsv").open("w", encoding="utf-8") as qrels,
        (team / "rankings.jsonl").open("wb") as by_team,
        (direct / "rankings.jsonl").open("wb") as by_direct,
    ):
        qrels.write("query-id\tcorpus-id\tscore\n")
        for number in range(queries):
            query = {"_id": f"q{number}", "text": " ".join(chance.choices(words, k=8))}
            query_lines.write(orjson.dumps(query) + b"\n")
            ids = [f"d{number * passages + place}" for place in range(passages)]
            for doc_id in ids:
                drawn = chance.choices(words, cum_weights=common, k=WORDS_A_PASSAGE + 8)
                text = {"title": " ".join(drawn[:8]), "text": " ".join(drawn[8:])}
                passage_lines.write(orjson.dumps({"_id": doc_id, **text}) + b"\n")
            for doc_id in chance.sample(ids, min(5, passages)):
                qrels.write(f"q{number}\t{doc_id}\t{chance.randint(0, 2)}\n")
            members = [_member("NLP scientist", "fixed", chance)]
            members += [
                _member(f"Recruit {name}", "recruited", chance)
                for name in chance.sample(range(RECRUITS), 2)
            ]
            by_team.write(orjson.dumps(_ranking(query, ids, members, chance)) + b"\n")
            by_direct.write(orjson.dumps(_ranking(query, ids, [], chance)) + b"\n")
    write_form(data / "metrics.json", _metrics(queries, chance))
    content = hashlib.sha256(f"{queries} {passages} {seed}".encode()).hexdigest()
    write_form(
        data / "manifest.json",
        DataManifest(
            dataset="made-up",
            split="test",
            documents=queries * passages,
            queries=queries,
            queries_in_full=queries,
            depth=passages,
            first_stage=FirstStageNote(name="BM25", settings={}),
            content=content,
        ),
    )
    for folder, label in ((team, "MC: NLP scientist + 2 recruits"), (direct, "DIRECT(0,10)")):
        write_form(folder / "metrics.json", _metrics(queries, chance))
        manifest = RunManifest(
            label=label,
            ranker="direct" if folder is direct else "mcranker",
            options={},
            config=CONFIG,
            models={"scoring": MODEL},
            prompt_hashes={},
            versions={},
            data=content,
            finished=True,
        )
        write_form(folder / "manifest.json", manifest)
    return team


def _metrics(queries: int, chance: random.Random) -> Metrics:
    values = {f"q{number}": chance.random() for number in range(queries)}
    mean = sum(values.values()) / queries
    ties = {MEASURE: TieBounds(worst=mean, best=mean, by_lot=mean)}
    return Metrics(
        measures=(MEASURE,), means={MEASURE: mean}, per_query={MEASURE: values}, ties=ties
    )


def measure(arguments: Sequence[str]) -> dict[str, float]:
    """Seconds and MiB that the report takes, as a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        peaks: dict[int, int] = {}
        while process.poll() is None:
            for pid in _family(process.pid):
                peaks[pid] = max(peaks.get(pid, 0), _peak_bytes(pid))
            time.sleep(0.02)
        wall = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"the report ended with exit code {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    first = peaks.pop(process.pid, 0)
    return {
        "wall_s": round(wall, 2),
        "processor_s": round(
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2
        ),
        "first_process_mib": round(first / MIB, 1),
        "largest_worker_mib": round(max(peaks.values(), default=0) / MIB, 1),
        "sum_of_peaks_mib": round((first + sum(peaks.values())) / MIB, 1),
    }


def pages(out: Path) -> dict[str, float]:
    """Return the number of pages and their size."""
    sizes = [path.stat().st_size for path in out.rglob("*.html")]
    return {
        "pages": len(sizes),
        "largest_page_kb": round(max(sizes) / 1000, 1),
        "all_pages_mb": round(sum(sizes) / 1e6, 1),
    }


def _member(name: str, origin: str, chance: random.Random) -> dict[str, Any]:
    weights = [40.0, 25.0, 20.0, 15.0]
    return {
        "persona": {
            "name": name,
            "description": f"{name} reads much about the matter and wants it to be right.",
            "topics": ["one matter", "another matter"],
            "reason": "The query is about the matter.",
        },
        "rubric": {
            "criteria": [
                {
                    "name": f"Criterion {chance.randint(1, 50)}-{place}",
                    "description": "The passage says what the query asks for, and says it in full.",
                    "weight": weight,
                }
                for place, weight in enumerate(weights)
            ],
            "reason": "These are what matters.",
        },
        "origin": origin,
    }


def _ranking(
    query: dict[str, str], ids: Sequence[str], members: Sequence[Any], chance: random.Random
) -> dict[str, Any]:
    names = [member["persona"]["name"] for member in members] or ["DIRECT"]
    leaning = [chance.randint(0, 7) for _ in ids]
    scores = [{name: lean + chance.randint(0, 3) for name in names} for lean in leaning]
    order = sorted(range(len(ids)), key=lambda row: -sum(scores[row].values()))
    calls = {
        "calls": len(names) * len(ids),
        "input_tokens": 400 * len(names) * len(ids),
        "cached_input_tokens": 0,
        "output_tokens": 6 * len(names) * len(ids),
        "cost": 0.0,
    }
    return {
        "version": 1,
        "query": {"text": query["text"], "id": query["_id"]},
        "ranker": "mcranker" if members else "direct",
        "team": {"members": members, "query": query["text"]} if members else None,
        "personas": names,
        "hits": [
            {
                "rank": rank,
                "doc_id": ids[row],
                "score": float(sum(scores[row].values())),
                "scores": {name: float(score) for name, score in scores[row].items()},
                "missing": {},
                "criteria": {},
                "first_stage_rank": row + 1,
                "first_stage_score": float(len(ids) - row),
            }
            for rank, row in enumerate(order, start=1)
        ],
        "config": CONFIG,
        "models": {"scoring": MODEL},
        "prompt_hashes": {},
        "usage": {
            **calls,
            "by_stage": [{**calls, "stage": "score", "persona": "", "model": MODEL}],
            "reused": [],
        },
        "seconds": {"total": 1.0},
    }


def _family(pid: int) -> Iterator[int]:
    """The process and all below it."""
    yield pid
    try:
        children = [
            int(child)
            for tasks in Path(f"/proc/{pid}/task").glob("*/children")
            for child in tasks.read_text().split()
        ]
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return
    for child in children:
        yield from _family(child)


def _peak_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = next((line for line in status.splitlines() if line.startswith("VmHWM:")), "VmHWM: 0 kB")
    return int(found.split()[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of 'personas report'.")
    parser.add_argument("--queries", type=int, action="append")
    parser.add_argument("--passages", type=int, default=100)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--times", type=int, default=1)
    given = parser.parse_args()
    more = [] if given.processes is None else ["--processes", str(given.processes)]
    for queries in given.queries or (250, 1000, 2000):
        with tempfile.TemporaryDirectory() as temporary:
            out = Path(temporary, "report")
            team = make_runs(Path(temporary, "runs"), queries, given.passages)
            found = [
                measure([str(team), "--out", str(out), "--quiet", *more])
                for _ in range(given.times)
            ]
            best = min(found, key=lambda each: each["wall_s"])
            row = {"queries": queries, "passages": given.passages, **best, **pages(out)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
