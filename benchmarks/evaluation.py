"""Time the evaluation of a run as a whole process: ours, ir_measures, pytrec_eval and ranx.

    python benchmarks/evaluation.py --queries 1000 --passages 100

Everyone reads the same two TREC files and gives the mean nDCG@10, from the start of Python to
its end. Prints one JSON object: the medians of the repeats in seconds, interleaved so that a
busy machine is busy for all alike, and the value that each has found. Programs that are not
installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OURS = "ours"
_OURS = """\
from beir_eval.cli import main
main()
"""
_PYTREC_EVAL = """\
import sys, pytrec_eval
qrels, run = (open(path) for path in sys.argv[1:])
evaluator = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(qrels), {"ndcg_cut.10"})
values = evaluator.evaluate(pytrec_eval.parse_run(run)).values()
print(sum(each["ndcg_cut_10"] for each in values) / len(values))
"""
_RANX = """\
import sys, warnings
warnings.simplefilter("ignore")
import ranx
qrels, run = ranx.Qrels.from_file(sys.argv[1]), ranx.Run.from_file(sys.argv[2])
print(ranx.evaluate(qrels, run, "ndcg@10"))
"""
_SCORES = 0.01  # between one passage and the next, at least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--passages", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", action="append", help="a program; may be given several times")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        qrels, run = Path(folder, "qrels.trec"), Path(folder, "run.trec")
        write_data(qrels, run, options.queries, options.passages)
        programs = {
            name: command
            for name, command in commands(str(qrels), str(run)).items()
            if not options.only or name in options.only
        }
        times: dict[str, list[float]] = {name: [] for name in programs}
        values: dict[str, float] = {}
        for _ in range(options.repeats + 1):
            for name, command in programs.items():
                started = time.perf_counter()
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                times[name].append(time.perf_counter() - started)
                values[name] = value(name, done.stdout)
    outcome = {
        "queries": options.queries,
        "passages": options.passages,
        "repeats": options.repeats,
        "programs": {
            name: {
                # The first run fills caches of files and of compiled code.
                "first_seconds": round(seconds[0], 3),
                "seconds": round(statistics.median(seconds[1:]), 3),
                "ndcg": values[name],
            }
            for name, seconds in times.items()
        },
    }
    print(json.dumps(outcome, indent=1))


def commands(qrels: str, run: str) -> dict[str, list[str]]:
    """Program -> what to run."""
    python = sys.executable
    evaluate = [python, "-c", _OURS, "evaluate", run, "--qrels", qrels, "--output", "json"]
    found = {OURS: evaluate}
    if importlib.util.find_spec("ir_measures"):
        found["ir_measures"] = [python, "-m", "ir_measures", qrels, run, "nDCG@10", "-p", "12"]
    if importlib.util.find_spec("pytrec_eval"):
        found["pytrec_eval"] = [python, "-c", _PYTREC_EVAL, qrels, run]
    if importlib.util.find_spec("ranx"):
        found["ranx"] = [python, "-c", _RANX, qrels, run]
    return found


def value(name: str, printed: str) -> float:
    """The nDCG@10 that a program has printed."""
    if name == OURS:
        return float(json.loads(printed)["evaluation"]["runs"][0]["means"]["nDCG@10"])
    return float(printed.rsplit(maxsplit=1)[-1])


def write_data(qrels: Path, run: Path, queries: int, passages: int) -> None:
    """Write judgements and a run: seeded, 1 to 5 relevant documents a query, most of them found."""
    draws = random.Random(7)
    with qrels.open("w") as judgements, run.open("w") as found:
        for query in range(queries):
            documents = draws.sample(range(100_000), passages)
            score = draws.uniform(15, 30)
            for rank, document in enumerate(documents, start=1):
                found.write(f"{query} Q0 d{document} {rank} {score!r} benchmark\n")
                score -= _SCORES + draws.random() / 10
            relevant = draws.sample(documents, min(draws.randint(1, 5), passages))
            for document in [*relevant, 100_000 + query]:
                judgements.write(f"{query} 0 d{document} {draws.randint(1, 2)}\n")


if __name__ == "__main__":
    main()
