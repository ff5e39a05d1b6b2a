"""Time of `beir-eval report` over many runs, as a process of its own.

    python benchmarks/report.py --datasets 8 --rankers 12 --queries 300

Writes run folders with made-up values into a temporary folder and reports on them, start-up
included: wall time and processor time of the process, the best of several runs, for each form.
Then, in this process, how long each phase takes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[1]
# The maker of run folders is shared with the tests.
sys.path.insert(0, str(ROOT))

from tests.support.run_folder_files import PAPER_QUERIES  # noqa: E402
from tests.support.run_folders import make_run_folders  # noqa: E402

Result = TypeVar("Result")

LABELS = (
    "DIRECT(0,10)",
    "DIRECT(0,20)",
    "MC: NLP scientist",
    "MC: 1 recruit",
    "MC: 2 recruits",
    "MC: NLP scientist + 1 recruit",
    "MC: NLP scientist + 2 recruits",
)
COMMAND = "import sys; from beir_eval.cli.group import main; sys.argv[0] = 'beir-eval'; main()"


def timed(arguments: list[str], times: int) -> dict[str, float]:
    """The least wall time and processor time that the command takes, in seconds."""
    walls, processor = [], []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        walls.append(time.perf_counter() - started)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"wall_s": round(min(walls), 2), "processor_s": round(min(processor), 2)}


def phases(folder: Path) -> dict[str, float]:
    """Processor time of each phase in this process, in seconds; imports come with the first use."""
    took: dict[str, float] = {}

    def phase(name: str, work: Callable[[], Result]) -> Result:
        started = time.process_time()
        result = work()
        took[name] = round(time.process_time() - started, 3)
        return result

    from beir_eval.experiment.run_folder import find_runs
    from beir_eval.report.as_json import render_json
    from beir_eval.report.build import build_report
    from beir_eval.report.html import render_html
    from beir_eval.report.texts import render_latex, render_markdown

    runs = phase("find and read manifests", lambda: find_runs([folder]))
    phase("read metrics", lambda: [run.metrics() for run in runs])
    report = phase("build, metrics included", lambda: build_report(runs))
    phase("markdown", lambda: render_markdown(report))
    phase("latex", lambda: render_latex(report))
    phase("json", lambda: render_json(report, per_query=True))
    phase("html", lambda: render_html(report))
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of 'beir-eval report'.")
    parser.add_argument("--datasets", type=int, default=8)
    parser.add_argument("--rankers", type=int, default=12)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    names = [*PAPER_QUERIES, *(f"set{number}" for number in range(given.datasets))]
    labels = [*LABELS, *(f"Ranker {number}" for number in range(given.rankers))][: given.rankers]
    with tempfile.TemporaryDirectory() as temporary:
        folder, out = Path(temporary, "runs"), Path(temporary, "out")
        make_run_folders(
            folder,
            datasets=names[: given.datasets],
            labels=labels,
            queries=given.queries,
            passages=1,
            rankings=False,
        )
        result = {
            "runs": given.datasets * given.rankers,
            "queries": given.queries,
            "nothing (--help)": timed(["report", "--help"], given.times),
            "markdown": timed(["report", str(folder)], given.times),
            "all forms": timed(["report", str(folder), "--out", str(out)], given.times),
            "phases, processor_s": phases(folder),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
