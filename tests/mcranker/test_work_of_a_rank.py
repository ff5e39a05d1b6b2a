"""The code that runs for one ranking: how many functions and files, and calls for each score."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

import mcranker
import personas
from mcranker import MCRanker
from tests.support.scripted import scripted

OWN = tuple(str(Path(str(package.__file__)).parent) for package in (mcranker, personas))
TEAM = ["Ann", "Ben"]
FUNCTIONS, FILES, CALLS_A_SCORE = 155, 28, 42.5  # what is reached; lower them with the code


def calls_of_a_rank(passages: int) -> Counter[CodeType]:
    """Calls by function of ours, in all threads; each turn of a coroutine is a call."""
    counted: Counter[CodeType] = Counter()
    ended = threading.Event()  # what closes the ranker afterwards is another matter

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # Comprehensions and generators have code of their own, but are no functions.
        if code.co_filename.startswith(OWN) and not code.co_name.endswith(("comp>", "genexpr>")):
            counted[code] += event == "call" and not ended.is_set()

    before = sys.getprofile(), threading.getprofile()
    with MCRanker(team=TEAM, criteria="none", model=scripted(), ledger=None) as ranker:
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            ranker.rank("masks", [f"text {number}" for number in range(passages)])
        finally:
            ended.set()
            sys.setprofile(before[0])
            threading.setprofile(before[1])
    return +counted


def test_the_code_that_a_rank_runs() -> None:
    few, many = calls_of_a_rank(10), calls_of_a_rank(110)
    assert len(many) <= FUNCTIONS
    assert len({each.co_filename for each in many}) <= FILES
    # 100 passages more are 200 scores of two judges more.
    assert (many.total() - few.total()) / 200 <= CALLS_A_SCORE
