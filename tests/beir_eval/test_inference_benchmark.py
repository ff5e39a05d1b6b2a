"""The simulation of intervals and marks runs, and finds what it is there to find."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest


def test_ties_make_differences_of_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    program = importlib.import_module("inference")
    arguments = ["--population", "60", "--experiments", "20", "--queries", "40"]
    monkeypatch.setattr(sys, "argv", ["inference.py", *arguments])
    program.main()
    found = json.loads(capsys.readouterr().out)["by_queries"]["40"]
    assert found["ties"]["as ranked"] > 0.5 > found["ties"]["by lot"]
    assert found["coverage"]["Student"] > 0.5
    assert found["daggers"]["comparisons"] <= found["daggers"]["experiments"] < 0.5
