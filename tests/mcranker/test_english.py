"""The check of texts, as `make check` runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECK = Path(__file__).parents[2] / ".ci/english.py"

MODULE = '''"""What a module is for."""

nobody = "the name of a variable is no text"

LIMIT = 3
"""Whether it is near."""


def answer() -> str:
    """Return the text for whoever asks."""
    # asked anew by `whoever`
    # english: sent to models
    allowed = "made anew"
    allowed += "anew"  # english: sent to models

    return f"somebody answers {nobody} {allowed}"
'''


def test_planted_words_are_found_and_reasons_are_taken(tmp_path: Path) -> None:
    git = ["git", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "page.md").write_text("How it works\n\nNobody answers.\n")
    (tmp_path / "personas/prompts").mkdir(parents=True)
    (tmp_path / "personas/prompts/a.md").write_text("Nobody answers.\n")
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    command = (sys.executable, str(CHECK), str(tmp_path))
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    found = [line.partition(" -> ")[0] for line in done.stdout.splitlines()]
    assert found == [
        "module.py:1: a question word",
        "module.py:6: a question word",
        "module.py:10: 'whoever'",
        "module.py:11: 'anew'",
        "module.py:16: 'somebody'",
        "page.md:3: 'Nobody'",
    ]
    for name in ("module.py", "page.md"):
        (tmp_path / name).write_text("")
    assert subprocess.run(command, check=False).returncode == 0
