"""A grid that is killed again and again, and ends as one that was left alone."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import shutil
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from beir_eval.experiment.run_folder import find_runs
from beir_eval.report.build import build_report
from beir_eval.report.forms import render_html
from tests.mcranker.cli.test_cli_process import environment
from tests.support.loopback import Answer, Body, Reply, completion, openai_error, serve_in_thread

ROOT = Path(__file__).parents[3]
STUCK = 60  # seconds after which a process counts as stuck
CONCURRENCY, LATENCY, FAULTS = 4, 0.03, 0.05
# Replies on their way, and those that came and are not written yet, may be asked for once more.
UNDER_WAY = 2 * CONCURRENCY
KILLS = (9, 23, 38, 52, 71)
"""Answers of the server after which the process is killed."""

SUITE = """
title = "A grid"
questions = "q.jsonl"
documents = "docs"
judges = ["relevance", "f1"]
judge_model = "openai:judge"
[settings]
model = "openai:writer"
[base]
preset = "naive"
"retrieval.by" = "bm25"
[[factors]]
name = "style"
option = "answer.style"
levels = ["naive", "advanced"]
[[factors]]
name = "documents"
option = "retrieval.documents"
levels = [1, 2]
[[factors]]
name = "tokens"
option = "answer.max_tokens"
levels = [50, 60]
[anova]
formula = "relevance ~ C(style) + C(documents)"
"""
POINTS, QUESTIONS = 8, 5


@dataclass
class Provider:
    """Answers by the prompt alone, and fails in a twentieth of the requests.

    Attributes:
        asked: prompt -> how often it came.
        paid: prompts that a good answer went out to.
        again: prompts that came again after that, since the last kill.
        reached: set at the good answer of the number `stop_at`.
    """

    asked: Counter[str] = field(default_factory=Counter)
    paid: set[str] = field(default_factory=set)
    answers: int = 0
    faults: int = 0
    again: set[str] = field(default_factory=set)
    reached: threading.Event = field(default_factory=threading.Event)
    stop_at: int = 0

    async def __call__(self, body: Body) -> Reply:
        prompt = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        luck = random.Random(f"{prompt} {self.asked[prompt]}").random()
        self.asked[prompt] += 1
        if prompt in self.paid:
            self.again.add(prompt)
        await asyncio.sleep(LATENCY)
        if luck < FAULTS:
            self.faults += 1
            return Answer(503, openai_error("busy"), {"Retry-After-Ms": "1"})
        self.paid.add(prompt)
        self.answers += 1
        if self.answers == self.stop_at:
            self.reached.set()
        grade = int(prompt, 16) % 4 - 1
        if body["model"] == "judge":
            return completion(json.dumps({"evaluation_notes": "n", "relevance_score": grade}))
        return completion(f"purr {prompt[:6]}")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for number in range(QUESTIONS):
        text = f"Cats of kind {number} purr when fed. "
        (tmp_path / "docs" / f"{number}.txt").write_text(text)
    rows = [
        {"id": f"q{n}", "question": f"What do cats of kind {n} do?", "golden_answers": ["purr"]}
        for n in range(QUESTIONS)
    ]
    (tmp_path / "q.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    (tmp_path / "grid.toml").write_text(SUITE)
    return tmp_path


def start(place: Path, url: str, out: str) -> subprocess.Popen[str]:
    given = ("--out", out, "--ledger", f"{out}.sqlite", "--base-url", url, "--output", "json")
    limits = ("-o", f"concurrency={CONCURRENCY}")
    return subprocess.Popen(
        [sys.executable, "-m", "beir_eval", "run", str(place / "grid.toml"), *given, *limits],
        cwd=place,
        env=environment(PYTHONPATH=str(ROOT), OPENAI_API_KEY="k", MCRANKER_CACHE=str(place / "c")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    stdout, stderr = process.communicate(timeout=STUCK)
    assert process.returncode == 0, stdout + stderr


def page(folder: Path) -> str:
    """The report without seconds, which no two runs have alike."""
    for path in folder.glob("*/metrics.json"):
        metrics = json.loads(path.read_text())
        path.write_text(json.dumps({**metrics, "seconds": None, "characters_per_second": None}))
    report = build_report(find_runs([folder], pipelines=True))
    assert report.sections[0].analysis is not None
    sections = (replace(report.sections[0], changed=()),)
    return render_html(replace(report, sections=sections))


def test_a_grid_killed_five_times_pays_nothing_twice(place: Path) -> None:
    provider = Provider()
    with serve_in_thread(provider) as server:
        for stop_at in KILLS:
            provider.reached.clear()
            provider.stop_at, provider.again = stop_at, set()
            with start(place, server.url, "killed") as process:
                assert provider.reached.wait(STUCK), process.communicate()
                process.kill()
            assert len(provider.again) <= UNDER_WAY
            if stop_at == KILLS[2]:  # from here on the ledger alone knows what was answered
                shutil.rmtree(place / "killed")
        provider.again = set()
        finish(start(place, server.url, "killed"))
        assert len(provider.again) <= UNDER_WAY
        # Each point has answers of its own, and a verdict on each of them.
        assert len(provider.paid) == 2 * POINTS * QUESTIONS
        assert provider.faults
    alone = Provider()
    with serve_in_thread(alone) as server:
        finish(start(place, server.url, "alone"))
    assert alone.answers == len(alone.paid) == 2 * POINTS * QUESTIONS
    assert page(place / "killed") == page(place / "alone")
    grids = [(place / name / "grid.csv").read_text() for name in ("killed", "alone")]
    assert grids[0] == grids[1]
