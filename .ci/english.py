#!/usr/bin/env python3
"""Finds words that texts here avoid, and docstrings that start like questions.

python .ci/english.py [FOLDER]      lists what it finds; exit code 1 if there is any

`english.txt` has the words. Texts are comments and strings of Python, and whole files of the other
kinds; words of prompts, personas and data sets are left alone, since scores depend on them.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
KINDS = {".py", ".md", ".html", ".js", ".css", ".toml", ".sh"}
DATA = re.compile(r"(tests|personas/(prompts|library)|beir_eval/collections/mini)/|CHANGELOG\.md")
QUESTION = re.compile(r"(What|Whom?|Whose|Whether|How|That)\b")
CODE = re.compile(r"`[^`]*`|\{[^{}]*\}")
ALLOWED = re.compile(r"english: \w")
# Python 3.12 has tokens of their own for the texts in f-strings.
TEXTS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def main(root: Path) -> None:
    words = [
        (re.compile(pattern, re.IGNORECASE), instead)
        for line in (HERE / "english.txt").read_text().splitlines()
        if line and not line.startswith("#")
        for pattern, instead in [line.split(" -> ")]
    ]
    listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True)
    found = 0
    for name in listed.stdout.decode().split("\n"):
        path = root / name
        if path.suffix not in KINDS or DATA.match(name) or not path.is_file():
            continue
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        hits = [(n, "a question word -> a verb or noun") for n in _questions(path, source)]
        for n, text in _texts(path, source):
            for pattern, instead in words:
                if hit := pattern.search(CODE.sub("", text)):
                    hits.append((n, f"{hit[0]!r} -> {instead}"))
        for n, problem in sorted(set(hits)):
            if not ALLOWED.search("".join(lines[max(n - 2, 0) : n])):
                found += 1
                print(f"{name}:{n}: {problem}")
    sys.exit(found > 0)


def _questions(path: Path, source: str) -> Iterator[int]:
    """Lines of docstrings, also of attributes, that start with a question word."""
    for node in ast.walk(ast.parse(source)) if path.suffix == ".py" else ():
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))) if QUESTION.match(text):
                yield node.lineno


def _texts(path: Path, source: str) -> Iterator[tuple[int, str]]:
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in TEXTS:
            yield from enumerate(token.string.splitlines(), token.start[0])


main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent)
