"""The benchmark of evaluation runs, and all programs find the same value."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "evaluation.py"


def test_ours_beside_others() -> None:
    load = ["--queries", "3", "--passages", "5", "--repeats", "1"]
    options = [*load, "--only", "ours", "--only", "pytrec_eval"]

    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options], check=True, capture_output=True, text=True
    )

    programs = json.loads(done.stdout)["programs"]
    assert list(programs) == ["ours", "pytrec_eval"]
    assert programs["ours"]["ndcg"] == pytest.approx(programs["pytrec_eval"]["ndcg"], abs=1e-12)
    assert 0 < programs["ours"]["ndcg"] < 1
    assert programs["ours"]["seconds"] > 0
