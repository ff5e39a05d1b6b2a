"""The three commands in this process, and what must hold of whatever they print."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from beir_eval.cli.group import VERBS as EVAL_VERBS
from mcranker.cli.group import PERSONAS, VERBS, LazyVerb, Verbs

__all__ = ["COMMANDS", "HOSTILE", "call", "refused", "unsafe", "written"]

COMMANDS = {
    "mcranker": Verbs(
        "mcranker",
        {
            **VERBS,
            "inspect": LazyVerb("beir_eval.cli.inspect", ""),
            "compare": LazyVerb("beir_eval.cli.compare", ""),
        },
    ),
    "beir-eval": Verbs("beir-eval", EVAL_VERBS),
    "personas": Verbs(
        "personas",
        {
            **PERSONAS,
            "report": LazyVerb("beir_eval.cli.persona_report", ""),
        },
    ),
}
"""With the verbs that entry points add, whatever is installed."""

HOSTILE = "a\x1b[31mred\x07\x9b2J\u202erev\u2066\u200f\u2028\x7f\U000e0041[bold]z"
"""Steers a terminal and turns text around; has no white space of the C locale."""

_UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def call(command: str, *args: object, **more: Any) -> Result:
    """Run ``command ARGS``."""
    return CliRunner().invoke(COMMANDS[command], [str(arg) for arg in args], **more)


def refused(command: str, *args: object, **more: Any) -> str:
    """The one line on standard error of a command that must fail, and know why it does."""
    result = call(command, *args, **more)
    errors = [line for line in result.stderr.splitlines() if f"{command}: error: " in line]
    whole = f"{command} {args!r}: exit code {result.exit_code}\n{result.stderr}"
    assert result.exit_code in (1, 2), whole
    assert isinstance(result.exception, SystemExit), whole
    assert len(errors) == 1, whole
    assert result.stderr.splitlines()[-1] == errors[0], whole
    assert f"{command}: error: unexpected" not in errors[0], whole
    assert "Traceback" not in result.stderr, whole
    assert not unsafe(result.stderr), whole
    return errors[0].removeprefix(f"{command}: error: ")


def unsafe(text: str) -> set[str]:
    """The characters that steer a terminal or turn text around; line ends aside."""
    return {char for char in text if unicodedata.category(char) in _UNSAFE} - set("\n\u200c\u200d")


def written(path: Path, content: str | bytes) -> Path:
    """A file with that content; folders above it are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
