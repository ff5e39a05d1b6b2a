"""Synchronous calls in a process that is forked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, os
from mcranker import MCRanker, MCRankerError, ScriptedChat

def made():
    chat = ScriptedChat(lambda request: '{"Score": 5}')
    return MCRanker(team=["Ann"], criteria="none", model=chat, ledger=None)

used, unused = made(), made()
used.rank("q", ["text"])
child = os.fork()
if not child:
    for rank in (used.rank, lambda *args: asyncio.run(used.arank(*args))):
        try:
            rank("q", ["text"])
        except MCRankerError as error:
            assert "used before the process was forked" in str(error)
        else:
            os._exit(1)
    unused.rank("q", ["text"])
else:
    assert os.waitpid(child, 0)[1] == 0
    used.rank("q", ["text"])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX")
def test_a_ranker_used_before_a_fork_is_refused_in_the_child() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
