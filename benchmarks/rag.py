"""Time, calls, failures and memory of each preset over questions with documents.

    python benchmarks/rag.py DOCUMENTS questions.jsonl --out rag-runs --extract
    python benchmarks/rag.py DOCUMENTS questions.jsonl --out rag-runs --limit 10 --preset rebel

`DOCUMENTS` is what `mcranker index` reads; a line of the questions has ``id``, ``question`` and
perhaps ``golden_answers``. Each preset runs in a process of its own. The folder of `--out` gets an
index for each kind of chunks, the ledger, a line for each answered question, and ``table.md``:
started again, a run goes on behind the last line, and pays for no reply that the ledger has.

"Reference in context" is the mean share of the reference's words (of four letters or more) that
the passages shown to the writer hold, a rough sign that the right passages are found; it says
nothing about the answer.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean, median
from typing import Any, get_args

from mcranker.rag import PipelineConfig, RAGPipeline
from mcranker.rag.config import Preset
from mcranker.rag.result import RAGResult

HEADER = (
    "| preset | questions | s a question (median) | calls | from the ledger | no answer | "
    "abstained | failed stages | quotes found | reference in context | MiB |"
)


def row_of(result: RAGResult, references: list[str], seconds: float) -> dict[str, Any]:
    """Return the figures of one answered question."""
    wanted = [set(words(reference)) for reference in references]
    shown = set(words(" ".join(passage.text for passage in result.context)))
    shares = [len(each & shown) / len(each) for each in wanted if each]
    return {
        "id": result.id,
        "seconds": round(seconds, 3),
        "calls": sum(stage.calls for stage in result.stages),
        "reused": sum(stage.reused for stage in result.stages),
        "kind": result.kind,
        "failure": result.failure,
        "failed": {stage.name: stage.failure for stage in result.stages if stage.failure},
        "quotes": [len(result.citations), len(result.all_citations)],
        "in_context": max(shares) if shares else None,
        "stages": {stage.name: round(stage.seconds, 3) for stage in result.stages},
        "text": result.text,
        "warnings": result.warnings,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def words(text: str) -> list[str]:
    """Return the words of four letters or more, in lower case."""
    return re.findall(r"\w{4,}", text.lower())


def run(preset: str, given: argparse.Namespace) -> None:
    """Answer the questions that have no line yet."""
    with given.questions.open(encoding="utf-8") as lines:
        questions = [json.loads(line) for line in lines if line.strip()][: given.limit]
    out = given.out / f"{name_of(preset, given)}.jsonl"
    done = {each["id"] for each in rows_of(out)}
    left = [each for each in questions if each["id"] not in done]
    if not left:
        return
    changes: dict[str, Any] = {"answer": {"style": "extract"}} if given.extract else {}
    config = PipelineConfig.load(preset, **changes)
    started = time.perf_counter()
    pipeline = RAGPipeline.from_documents(
        given.documents,
        config,
        index=given.out / config.chunks,
        model=given.model,
        ledger=given.out / "ledger.sqlite",
    )
    with pipeline, out.open("a", encoding="utf-8") as file:
        print(f"{preset}: ready after {time.perf_counter() - started:.1f} s", file=sys.stderr)
        for place, each in enumerate(left, len(done) + 1):
            started = time.perf_counter()
            result = pipeline.answer(each["question"]).model_copy(update={"id": each["id"]})
            seconds = time.perf_counter() - started
            row = row_of(result, each.get("golden_answers", []), seconds)
            print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
            print(f"{preset}: {place} of {len(questions)}, {seconds:.1f} s", file=sys.stderr)


def table(given: argparse.Namespace) -> str:
    """Return a row for each preset that answered something."""
    lines = [HEADER, "|---" * HEADER.count(" |") + "|"]
    for preset in given.preset:
        if not (rows := rows_of(given.out / f"{name_of(preset, given)}.jsonl")):
            continue
        found, quotes = (sum(row["quotes"][place] for row in rows) for place in (0, 1))
        shares = [row["in_context"] for row in rows if row["in_context"] is not None]
        cells = [
            name_of(preset, given),
            len(rows),
            f"{median(row['seconds'] for row in rows):.2f}",
            sum(row["calls"] for row in rows),
            sum(row["reused"] for row in rows),
            sum(row["kind"] == "none" for row in rows),
            sum(row["kind"] == "abstained" for row in rows),
            sum(len(row["failed"]) for row in rows),
            f"{found} of {quotes}",
            f"{mean(shares):.2f}" if shares else "-",
            max(row["mib"] for row in rows),
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def name_of(preset: str, given: argparse.Namespace) -> str:
    """Return the name of a run: two of the same preset may differ in the answer."""
    return f"{preset}, extract" if given.extract else preset


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines that were written, without one that a kill cut short."""
    if not path.exists():
        return []
    text = path.read_text("utf-8")
    if text and not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
        path.write_text(text, "utf-8")
    return [json.loads(line) for line in text.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("documents", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--preset", nargs="+", choices=get_args(Preset), default=get_args(Preset))
    parser.add_argument("--extract", action="store_true", help="cite sentences, ask no writer")
    parser.add_argument("--limit", type=int, help="only the first questions")
    parser.add_argument("--model", help="chat model; the embedded one by default")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if len(given.preset) == 1:
        run(given.preset[0], given)
    else:
        for preset in given.preset:
            options = ["--preset", preset, "--out", str(given.out)]
            options += ["--extract"] if given.extract else []
            options += [] if given.limit is None else ["--limit", str(given.limit)]
            options += [] if given.model is None else ["--model", given.model]
            subprocess.run(
                [sys.executable, __file__, str(given.documents), str(given.questions), *options],
                check=False,
            )
    (given.out / "table.md").write_text(made := table(given), "utf-8")
    print(made)


if __name__ == "__main__":
    main()
