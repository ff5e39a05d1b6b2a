"""No regular expression of the packages takes more than a moment on a megabyte of anything.

Python's engine takes 2 ms to look through a megabyte for a character, and some 50 ns to try a
place where a match may begin: 50 ms where all do. Time that grows with the square of the length
is hours. The bound lies between, far enough from the first for a machine with much else to do.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import random
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import beir_eval
import mcranker
import personas
from tests.support.scale import scaled

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import sre_constants as kinds
    import sre_parse as parser

PACKAGES = (personas, mcranker, beir_eval)
METHODS = {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"}
WHOLE = 1_000_000
SOME = 10_000
BUDGET = 0.3
"""Seconds of the processor for a megabyte."""
PER_MATCH = 3e-6
PLAIN = [*"aZ09 \n\t\"'*<>[]{}()/\\#|-_.,:;=&%$@!?`~+^é漢½", "\x00", "\u200b", "<|", "\r\n", "1 "]


def modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def held(value: Any) -> Iterator[re.Pattern[str]]:
    """The patterns in a module's value: itself, or what is in its collections."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from held(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from held(each)


class Words(dict[str, Any]):
    """Names of a module; one that is known only in a function stands for a word."""

    def __missing__(self, name: str) -> Any:
        return "word"


def written(module: ModuleType) -> Iterator[tuple[int, re.Pattern[str]]]:
    """The patterns in a module's calls of `re`, those with local names made of words."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in METHODS
        ):
            continue
        text = evaluated(node.args[0], module)
        flags = 0
        for word in node.keywords:
            if word.arg == "flags":
                flags = evaluated(word.value, module)
        if node.func.attr == "compile" and len(node.args) > 1:
            flags = evaluated(node.args[1], module)
        # Of bytes, as the text of the same codes.
        text = text.decode("latin-1") if isinstance(text, bytes) else text
        yield node.lineno, re.compile(text, flags)


def evaluated(node: ast.expr, module: ModuleType) -> Any:
    names = Words({"re": re, "sorted": lambda _: ["word", "other word"], **vars(module)})
    names.pop("__builtins__", None)
    names |= {"str": str, "int": int, "len": len, "map": map}
    return eval(compile(ast.Expression(node), module.__name__, "eval"), {}, names)


def all_patterns() -> dict[str, re.Pattern[str]]:
    found: dict[tuple[str, int], str] = {}
    for module in modules():
        for name, value in vars(module).items():
            for pattern in held(value):
                if isinstance(pattern.pattern, str):
                    found.setdefault((pattern.pattern, pattern.flags), f"{module.__name__}.{name}")
        for line, pattern in written(module):
            found.setdefault((pattern.pattern, pattern.flags), f"{module.__name__}:{line}")
    return {
        ascii(f"{where} {text[:30]}"): re.compile(text, flags)
        for (text, flags), where in found.items()
    }


def one_of(members: Any, rng: random.Random) -> str:
    """A character of a class."""
    categories = {
        kinds.CATEGORY_SPACE: " ",
        kinds.CATEGORY_DIGIT: "7",
        kinds.CATEGORY_WORD: "w",
        kinds.CATEGORY_NOT_SPACE: "x",
        kinds.CATEGORY_NOT_DIGIT: "y",
        kinds.CATEGORY_NOT_WORD: "-",
    }
    chosen = []
    for kind, value in members:
        if kind is kinds.NEGATE:
            text = "".join(chr(each) for each in range(32, 127))
            listed = re.compile(in_class(members[1:]))
            free = [char for char in f"{text}\n\té" if not listed.match(char)]
            return rng.choice(free or ["\u4e00"])
        if kind is kinds.LITERAL:
            chosen.append(chr(value))
        elif kind is kinds.RANGE:
            chosen.append(chr(rng.randint(*value)))
        else:
            chosen.append(categories[value])
    return rng.choice(chosen)


def in_class(members: Any) -> str:
    parts = []
    for kind, value in members:
        if kind is kinds.LITERAL:
            parts.append(re.escape(chr(value)))
        elif kind is kinds.RANGE:
            parts.append(f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}")
        else:
            names = {
                kinds.CATEGORY_SPACE: r"\s",
                kinds.CATEGORY_DIGIT: r"\d",
                kinds.CATEGORY_WORD: r"\w",
                kinds.CATEGORY_NOT_SPACE: r"\S",
                kinds.CATEGORY_NOT_DIGIT: r"\D",
                kinds.CATEGORY_NOT_WORD: r"\W",
            }
            parts.append(names[value])
    return f"[{''.join(parts)}]"


def sample(tree: Any, rng: random.Random, long: int) -> str:
    """A text that the pattern may match, with `long` repeats where there is no end to them."""
    text = ""
    for kind, value in tree:
        if kind is kinds.LITERAL:
            text += chr(value)
        elif kind is kinds.NOT_LITERAL:
            text += "x" if value != ord("x") else "y"
        elif kind is kinds.ANY:
            text += "x"
        elif kind is kinds.IN:
            text += one_of(value, rng)
        elif kind is kinds.BRANCH:
            text += sample(rng.choice(value[1]), rng, long)
        elif kind is kinds.SUBPATTERN:
            text += sample(value[-1], rng, long)
        elif kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT):
            least, most, inner = value
            times = rng.choice([least, min(most, max(least, 1)), min(most, max(least, long))])
            text += "".join(sample(inner, rng, 1) for _ in range(times))
        elif kind is kinds.ASSERT:
            text += sample(value[1], rng, long) if value[0] > 0 else ""
        elif kind is kinds.ATOMIC_GROUP:
            text += sample(value, rng, long)
    return text


def units(pattern: re.Pattern[str], rng: random.Random) -> Iterator[str]:
    """What is repeated to a megabyte: plain characters, and beginnings of matches."""
    yield from PLAIN
    tree = parser.parse(pattern.pattern, pattern.flags)
    for _ in range(scaled(6)):
        match = sample(tree, rng, rng.choice([1, 3, 12]))
        if match:
            end = rng.randint(1, len(match))
            yield match
            yield match[:end]
            yield match[end - 1 :]
            yield match[end - 1]


def slowness() -> float:
    """Return what a plain scan of a megabyte takes now, by 12 ms; 1 or more."""
    plain, text, start = re.compile("[ab]c"), "ab" * (WHOLE // 2), time.process_time()
    plain.search(text)
    return max(1.0, (time.process_time() - start) / 0.012)


def seconds(pattern: re.Pattern[str], text: str, enough: float) -> float:
    """The least of ten tries to find all matches, less what handling the matches takes.

    It is not tried again once it took less than is `enough`; a try after the first goes by what the
    machine does just then.
    """
    least = 60.0
    for attempt in range(10):
        slow = slowness() if attempt else 1.0
        start = time.process_time()
        found = sum(1 for _ in pattern.finditer(text))
        pattern.fullmatch(text)
        took = (time.process_time() - start) / slow
        least = min(least, took - found * PER_MATCH)
        if least < enough:
            break
    return least


def slowest(pattern: re.Pattern[str], rng: random.Random) -> tuple[float, str, str, str]:
    """Seconds for some characters, and what they are: a beginning, what is repeated, an end."""
    opening = sample(parser.parse(pattern.pattern, pattern.flags), rng, 1)
    worst = (-60.0, "", "", "")
    for unit in units(pattern, rng):
        for before, after in (("", ""), (opening, "\x00"), ("x", "!\n")):
            for size, limit in ((500, 0.005), (SOME, 0.012)):
                text = before + unit * (size // len(unit)) + after
                took = seconds(pattern, text, limit)
                assert took < limit, f"{took:.3f} s for {size:,} of {unit[:60]!r}"
            worst = max(worst, (took, before, unit, after))
    return worst


PATTERNS = all_patterns()


def test_all_patterns_are_found() -> None:
    sources = [Path(file) for each in PACKAGES for file in each.__path__]
    text = "".join(file.read_text() for source in sources for file in source.rglob("*.py"))
    # Each is written once, so none is found that is not written, and none is missed.
    assert len(PATTERNS) >= 0.9 * len(re.findall(r"\bre\.compile\(", text))
    assert not re.search(r"^\s*(?:from re import|import re as|import regex)", text, re.MULTILINE)


@pytest.mark.parametrize("where", PATTERNS)
def test_a_pattern_takes_no_time(where: str) -> None:
    pattern = PATTERNS[where]
    _, before, unit, after = slowest(pattern, random.Random(where))
    for size in (WHOLE // 10, WHOLE):  # one after the other: the square of a megabyte is hours
        limit = BUDGET * size / WHOLE
        took = seconds(pattern, before + unit * (size // len(unit)) + after, limit)
        assert took < limit, f"{took:.3f} s for {size:,} of {unit[:60]!r}"
