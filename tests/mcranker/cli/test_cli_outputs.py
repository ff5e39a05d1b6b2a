"""Outputs that would replace inputs, or each other, or cannot be written: nothing is lost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mcranker.cli.flags import Reads, Writes
from tests.support.cli_support import Connected, scripted
from tests.support.commands import COMMANDS, call, refused

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc, /dev/fd and /dev/full")


def verbs() -> Iterator[tuple[str, click.Command]]:
    """Every verb of the three commands, by its words."""

    def walk(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group):
            yield words, command
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from walk(f"{words} {name}", found)

    for name, command in COMMANDS.items():
        yield from walk(name, command)


WRITING = {
    words: command
    for words, command in verbs()
    if any(isinstance(param.type, Writes) for param in command.params)
}
"""The verbs that write files, but for those that fill folders of their own."""

PAIRS = [
    (words, output.name or "", source.name or "")
    for words, command in WRITING.items()
    for output in command.params
    for source in command.params
    if isinstance(output.type, Writes)
    and isinstance(source.type, Reads)
    and not isinstance(source.type, Writes)
]
"""Every output of every verb, with every input of the same verb."""


def refusal(words: str, given: dict[str, str]) -> str:
    """The error of a command line with these values, and something for what else it needs."""
    args = words.split()[1:]
    for param in WRITING[words].params:
        value = given.get(param.name or "", "other" if param.required else None)
        if value is not None:
            args += [value] if isinstance(param, click.Argument) else [param.opts[0], value]
    return refused(words.split()[0], *args)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.mark.parametrize(("words", "output", "source"), PAIRS)
def test_no_output_replaces_an_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, output: str, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path, link, hard = Path("input.json"), Path("link.json"), Path("hard.json")
    path.write_text("kept")
    link.symlink_to(path)
    hard.hardlink_to(path)
    before = contents(tmp_path)
    for other in (path, link, hard, Path("..", tmp_path.name, "input.json")):
        message = refusal(words, {output: str(other), source: str(path)})
        assert "would replace an input (" in message
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "command",
    [
        ("mcranker", "rank", "q", "--docs", "docs", "--save"),
        ("mcranker", "ask", "q", "--docs", "docs", "--report"),
    ],
    ids=lambda command: command[1],
)
def test_no_output_replaces_a_file_of_an_input_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs", "more").mkdir(parents=True)
    inside = Path("docs", "more", "queries.jsonl")
    inside.write_text("kept")
    link = Path("link.jsonl")
    link.symlink_to(inside)
    for output in (inside, link):
        assert "would replace a file of " in refused(*command, output)
    assert inside.read_text() == "kept"


@pytest.mark.parametrize("verb", ["retrieve", "attack"])
def test_no_output_replaces_a_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny", "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        inside = Path("tiny", name)
        inside.write_text("kept")
        assert "would replace an input (DATASET " in refused(
            "beir-eval", verb, "tiny", "--out", inside
        )
        assert inside.read_text() == "kept"


@pytest.mark.parametrize("side", ["", "-wal", "-shm", "-journal"])
def test_no_output_replaces_what_was_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    ledger = tmp_path / "l.sqlite"
    given = {"out": f"{ledger}{side}"}
    for words in ("mcranker rank", "mcranker recruit"):
        assert "an input (--ledger '" in refusal(words, {"ledger": str(ledger), **given})
    monkeypatch.setenv("MCRANKER_LEDGER", str(ledger))
    assert "an input (--ledger '" in refusal("mcranker rank", given)
    assert contents(tmp_path) == {}


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"

    def one_file(first: Path, second: Path) -> bool:
        message = refusal("mcranker rank", {"out": str(first), "save": str(second)})
        return "are one file; name two" in message

    assert one_file(one, one)
    assert one_file(one, tmp_path / "ONE.json")  # neither is there: for many systems it is one file
    assert not one_file(one, two)
    two.symlink_to(one)
    assert one_file(one, two)


def test_places_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = scripted(monkeypatch, tmp_path)
    (tmp_path / "file").write_text("kept")
    for name, problem in [
        (tmp_path / "file" / "below", "file is no folder"),
        (tmp_path / "gone" / "file", "its folder does not exist"),
        (tmp_path, "is a folder; name a file in it"),
        (tmp_path / ("x" * 300), "File name too long"),
    ]:
        assert problem in refused("mcranker", "rank", "q", "a", "--save", name)
    assert models.asked == []
    assert contents(tmp_path) == {str(tmp_path / "file"): b"kept"}


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connected:
    """A scripted model; the disk of what is called ``full`` has no room."""
    connected = scripted(monkeypatch, tmp_path)
    for name in ("full", "full.yaml"):
        (tmp_path / name).symlink_to("/dev/full")
    return connected


@linux
@pytest.mark.parametrize("full", ["--out", "--save", "--report"])
def test_a_full_disk_at_the_end_takes_nothing_else_along(
    tmp_path: Path, models: Connected, full: str
) -> None:
    files = {flag: tmp_path / flag.strip("-") for flag in ("--out", "--save", "--report")}
    places = files | {full: tmp_path / "full"}
    args = ["rank", "q", "a", "bb", "--ledger", tmp_path / "ledger.sqlite"]
    result = call("mcranker", *args, *(part for pair in places.items() for part in pair))
    assert result.exit_code == 1
    assert f"error: '{places[full]}': No space left on device; answers are kept in" in result.stderr
    assert {flag for flag, path in files.items() if path.exists()} == files.keys() - {full}
    asked = len(models.requests)
    assert call("mcranker", *args).exit_code == 0
    assert len(models.requests) == asked  # what was paid for is there
