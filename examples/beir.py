"""Rerank a data set with a team and with DIRECT, and print a report.

pip install '.[local,eval]'
python examples/beir.py local            # the embedded model
python examples/beir.py openai           # needs OPENAI_API_KEY
python examples/beir.py anthropic        # needs ANTHROPIC_API_KEY
python examples/beir.py vllm             # a server at http://localhost:8000/v1
python examples/beir.py ollama           # a server at http://localhost:11434/v1

Every answer is kept: after Ctrl-C, run it again and it goes on where it stopped. `--dry-run` shows
calls and cost and sends nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import beir_eval

SERVICES = {
    "local": {"model": "local:minilm"},
    "openai": {"model": "openai:gpt-6-luna"},
    "anthropic": {"model": "anthropic:claude-haiku-5-5"},
    "vllm": {"model": "openai:Qwen/Qwen3-8B", "base_url": "http://localhost:8000/v1"},
    "ollama": {"model": "openai:qwen3", "base_url": "http://localhost:11434/v1"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description="A team and DIRECT on a data set, with a report.")
    parser.add_argument("service", choices=SERVICES)
    parser.add_argument("--dataset", default="mini", help="a name, or a folder in BEIR format")
    parser.add_argument("--model", help="another model than the example's")
    parser.add_argument("--limit", type=int, default=3, help="queries")
    parser.add_argument("--depth", type=int, default=10, help="passages a query")
    parser.add_argument("--out", type=Path, default=Path("runs/example"))
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()

    options = dict(SERVICES[given.service])
    if given.model:
        options["model"] = given.model
    plan = beir_eval.Plan(
        out=given.out / given.service,
        datasets=(beir_eval.DatasetSpec(given.dataset),),
        rankers=("DIRECT(0,10)", "MC: NLP scientist + 2 recruits"),
        limit=given.limit,
        depth=given.depth,
        options=options,
    )
    suite = beir_eval.load_suite("table1")
    if given.dry_run:
        for dataset, label, estimate in beir_eval.Experiment(suite, plan).estimate():
            print(f"{dataset}, {label}: {estimate.calls} calls, US dollars: {estimate.cost}")
        return
    beir_eval.run_suite(suite, plan, watch=show)
    print(beir_eval.render_markdown(beir_eval.build_report(beir_eval.find_runs([plan.out]))))


def show(result: beir_eval.CellResult) -> None:
    calls = f"{result.calls} calls, {result.reused} answers from the ledger"
    print(f"{result.dataset}, {result.label}: {calls}")


if __name__ == "__main__":
    main()
