"""Files that mean harm: bounded work, bounded messages, and files that stay as they were."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from beir_eval.errors import SuiteError
from beir_eval.experiment.suite_form import read_form
from personas import PromptError, PromptSet, SchemaError, Team, load
from personas.files import DEEPEST, LARGEST, MOST_VALUES, load_any

LONGEST_MESSAGE = 2_500


def nested_aliases(levels: int, top: str = "members: *a{}") -> str:
    lines = ["a0: &a0 [x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join([*lines, top.format(levels - 1)]) + "\n"


def nested_merges(levels: int) -> str:
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, levels):
        merged = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} {{<<: [{merged}]}}")
    return "\n".join([*lines, f"members: *a{levels - 1}"]) + "\n"


HOSTILE = {
    "aliases": nested_aliases(10),
    "merges": nested_merges(9),
    "a loop": "members: &a [*a]",
    "deep list": "members: " + "[" * 100_000,
    "deep mapping": "members:\n" + "".join(" " * place + "a:\n" for place in range(900)),
    "many members": "members: [" + "{}, " * 60_000 + "]",
    "a long word": "members: " + "x" * 900_000,
    "a long key": "x" * 900 + ": 1\nmembers: []",
    "a long binary": "members: !!binary '" + "\U0001f600" * 200_000 + "'",
    "objects": "members: !!python/object/apply:os.system ['true']",
    "many documents": "--- a\n" * 100_000,
    "anchors": "members: [" + "&a x, " * 90_000 + "]",
    "control characters": "members: " + "\x00" * 900_000,
    "huge weights": "criteria: [{name: a, weight: 1.0e+308}, {name: b, weight: 1.0e+308}]",
    "no weight": "criteria: [{name: a, weight: .nan}, {name: b, weight: .inf}]",
}
HOSTILE_JSON = {
    "deep list": '{"members": ' + "[" * 400_000,
    "deep objects": '{"members": ' * 70_000,
    "many members": '{"members": [' + "{}, " * 300_000 + "{}]}",
    "the same key late": "{" + "".join(f'"k{p}": 1, ' for p in range(60_000)) + '"k9": 1}',
    "a huge weight": '{"criteria": [{"name": "a", "weight": ' + "9" * 30 + "}]}",
    "half a pair": '{"name": "\\ud800"}',
}


def refused(text: str, format: str, tmp_path: Path) -> str:  # noqa: A002
    """The error of loading the file, which took little time and memory."""
    path = tmp_path / f"team.{format}"
    path.write_text(text, encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    with pytest.raises(SchemaError) as caught:
        load_any(path)
    # Seconds and megabytes; where aliases are not counted, some of these take all there is.
    assert time.process_time() - start < 10
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 500
    return str(caught.value)


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_yaml_is_refused_in_a_few_words(kind: str, tmp_path: Path) -> None:
    message = refused(HOSTILE[kind], "yaml", tmp_path)
    assert len(message) < LONGEST_MESSAGE
    assert message.startswith(str(tmp_path))


@pytest.mark.parametrize("kind", HOSTILE_JSON)
def test_hostile_json_is_refused_in_a_few_words(kind: str, tmp_path: Path) -> None:
    assert len(refused(HOSTILE_JSON[kind], "json", tmp_path)) < LONGEST_MESSAGE


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &a [1]\nmembers: *a", ":1: not YAML: an alias (*name); write out what it means"),
        ("members: [" + "1," * MOST_VALUES + "]", f"holds more than {MOST_VALUES:,} values"),
        ("members:\n " + "[" * 60, f":2: not YAML: nested more than {DEEPEST} levels deep"),
        ("members: " + "9" * 5000, "cannot be parsed: Exceeds the limit"),
        ("x" * LARGEST + "x", "longer than 1 MB; make it smaller"),
        (
            "members:\n" + "".join(f"- persona: {{name: p{n}}}\n" for n in range(101)),
            "must have at most 100 items",
        ),
    ],
)
def test_limits_are_named(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SchemaError) as caught:
        load(Team, tmp_path / "team.yaml")
    assert problem in str(caught.value)


def test_files_without_an_end_are_not_read_to_it(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").symlink_to("/dev/zero")
    with pytest.raises(SchemaError, match="longer than 1 MB; make it smaller"):
        load(Team, tmp_path / "team.yaml")
    PromptSet.load("paper").save(tmp_path / "prompts")
    (tmp_path / "prompts" / "repair.txt").unlink()
    (tmp_path / "prompts" / "repair.txt").write_text("{{problem}}" + " " * LARGEST)
    with pytest.raises(PromptError, match=r"repair\.txt: longer than 1 MB"):
        PromptSet.load(tmp_path / "prompts")


HOSTILE_SUITES = {
    "deep lists": "title = " + "[" * 300_000,
    "deep tables": "title = " + "{a = " * 50_000,
    "a deep key": "a" + ".a" * 300_000 + " = 1",
    "a long number": "depth = " + "9" * 300_000,
    "a long key": "x" * 300_000 + " = 1",
    "a key twice": "[" + "x" * 300_000 + "]\n[" + "x" * 300_000 + "]",
    "many rankers": 'title = "t"\ndatasets = ["d"]\n' + "[[rankers]]\n" * 30_000,
}


@pytest.mark.parametrize("kind", HOSTILE_SUITES)
def test_hostile_suites_are_refused_in_a_few_words(kind: str) -> None:
    start = time.process_time()
    with pytest.raises(SuiteError) as caught:
        read_form(HOSTILE_SUITES[kind], "suite.toml")
    assert len(str(caught.value)) < LONGEST_MESSAGE
    assert time.process_time() - start < 10
