"""Judgements of people with a model's where they have none, and the file that marks these.

The judgements are in BEIR's form, which any tool reads. Beside them lies ``NAME.judge.jsonl``: an
object about the judge in the first line, then a line for each pair that it judged or could not.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beir_eval.data.qrels import MARKS
from beir_eval.judging.judge import Judged
from beir_eval.judging.pairs import Pairs, Qrels
from personas.io.atomic import write_whole
from personas.sanitize import json_text


def write_filled(path: str, people: Qrels, judged: Judged, fill: Pairs) -> dict[str, Any]:
    """Write people's judgements, and the judge's of those pairs of `fill` that have none.

    Returns:
        The first line of the file beside it.

    Raises:
        OSError: a file cannot be written.
    """
    known = {query_id: dict(grades) for query_id, grades in people.items()}
    marks = []
    for query_id, doc_ids in fill.items():
        for doc_id in doc_ids:
            grade = judged.grades[query_id][doc_id]
            if doc_id in people.get(query_id, {}):
                continue
            if grade.value is not None:
                known.setdefault(query_id, {})[doc_id] = grade.value
            about = {"grade": grade.value, "score": grade.score, "reason": grade.reason}
            about |= {"judge": judged.judge, "model": judged.models["scoring"]}
            marks.append({"query": query_id, "document": doc_id, **about})
    filled = sum(each["grade"] is not None for each in marks)
    head = asdict(judged)
    del head["grades"]
    counts = {"people": sum(map(len, people.values())), "filled": filled}
    counts["missing"] = len(marks) - filled
    date = datetime.now(UTC).isoformat(timespec="seconds")
    head |= {"date": date, **counts, "reasons": judged.reasons(fill)}
    lines = ["query-id\tcorpus-id\tscore"]
    for query_id, grades in known.items():
        lines += [f"{query_id}\t{doc_id}\t{grade}" for doc_id, grade in grades.items()]
    # First the marks: no file with a model's judgements is without them.
    write_whole(Path(f"{path}{MARKS}"), "".join(f"{json_text(each)}\n" for each in (head, *marks)))
    write_whole(path, "".join(f"{each}\n" for each in lines))
    return head
