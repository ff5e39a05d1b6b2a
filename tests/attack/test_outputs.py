"""Outputs that would replace inputs, or each other, or cannot be written: nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from beir_eval.experiment.run_folder import DATA_FILES, RUN_FILES
from mcranker.cli.files import Reads, Writes
from personas.io.atomic import write_whole
from tests.attack.commands import COMMANDS, call, refused
from tests.support.cli_support import Connected, scripted

SIDES = ("", "-wal", "-shm", "-journal", "-claims")
WAYS = ("name", "other name", "link", "hard link")
IS_LINUX = sys.platform == "linux"
linux = pytest.mark.skipif(not IS_LINUX, reason="/proc, /dev/fd and /dev/full")


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
    if isinstance(output.type, Writes) and isinstance(source.type, Reads)
]
"""Every output of every verb, with every input of the same verb."""


def args_of(words: str, given: dict[str, str]) -> list[str]:
    """A command line with these values, and with something for what else the verb needs."""
    args = words.split()[1:]
    for param in WRITING[words].params:
        value = given.get(param.name or "", "other" if param.required else None)
        if value is not None:
            args += [value] if isinstance(param, click.Argument) else [param.opts[0], value]
    return args


def refusal(words: str, given: dict[str, str]) -> str:
    return refused(words.split()[0], *args_of(words, given))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_every_verb_says_which_files_it_reads_and_writes() -> None:
    outputs = {
        (words, param.name): param.type
        for words, command in verbs()
        for param in command.params
        if param.name in ("out", "save", "report", "html")
    }
    folders = {("beir-eval run", "out"), ("personas report", "out")}
    assert {key for key, kind in outputs.items() if not isinstance(kind, Writes)} == folders
    assert len(outputs) == 14 + len(folders)
    assert [
        (words, param.name)
        for words, command in WRITING.items()
        for param in command.params
        if any(each in (param.metavar or "") for each in ("FILE", "FOLDER", "RUN"))
        and not isinstance(param.type, Reads | Writes)
    ] == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("words", "output", "source"), PAIRS)
def test_no_output_replaces_an_input(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    output: str,
    source: str,
    way: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path, other = Path("input.json"), Path("other.json")
    path.write_text("kept")
    match way:
        case "name":
            other = path
        case "other name":
            other = Path("..", tmp_path.name, "input.json")
        case "link":
            other.symlink_to(path)
        case "hard link":
            other.hardlink_to(path)
    spelled = {
        "option": f"members=bm25,{path}",
        "run_files": f"dense={path}",
        "model": f"local:{path}",
    }
    before = contents(tmp_path)
    message = refusal(words, {output: str(other), source: spelled.get(source, str(path))})
    assert "would replace an input (" in message
    assert contents(tmp_path) == before


def test_files_beside_an_input_are_free(tmp_path: Path) -> None:
    """Files in the folders that are read may be replaced, unless they are read themselves."""
    (tmp_path / "why.html").write_text("a page of before")
    (tmp_path / "bm25.trec").write_text("a run of before")
    for words, given in [
        ("mcranker inspect", {"file": tmp_path, "html": tmp_path / "why.html"}),
        ("mcranker compare", {"before": tmp_path, "html": tmp_path / "why.html"}),
        ("beir-eval retrieve", {"dataset": tmp_path, "out": tmp_path / "bm25.trec"}),
        ("beir-eval report", {"runs": tmp_path, "out": tmp_path}),
    ]:
        message = refusal(words, {name: str(value) for name, value in given.items()})
        assert "would replace" not in message


INSIDE = [
    ("mcranker rank", "option", "score.txt"),
    ("mcranker compare", "before", "a.jsonl"),
    ("mcranker compare", "after", "a.json"),
    ("beir-eval retrieve", "dataset", "corpus.jsonl.gz"),
    ("beir-eval retrieve", "dataset", "topics.xml"),
    ("beir-eval compare", "dataset", "qrels/test.tsv"),
    ("beir-eval compare", "before", "../data/qrels.tsv"),
    ("beir-eval report", "runs", "scifact/direct/metrics.json"),
    *(("mcranker inspect", "file", name) for name in ("manifest.json", *RUN_FILES)),
    *(("mcranker inspect", "file", f"../data/{name}") for name in DATA_FILES),
]


@pytest.mark.parametrize(("words", "source", "inside"), INSIDE)
def test_no_output_replaces_a_file_of_an_input_folder(
    tmp_path: Path, words: str, source: str, inside: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / inside
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("kept")
    link = tmp_path / "page.html"
    link.hardlink_to(path)
    (output, *_) = (name for verb, name, read in PAIRS if (verb, read) == (words, source))
    for name in (path, link):
        given = f"prompts={folder}" if source == "option" else str(folder)
        message = refusal(words, {source: given, output: str(name)})
        assert "would replace an input (" in message
    assert path.read_text() == "kept"


@pytest.mark.parametrize(
    "name", [*(f"l.sqlite{side}" for side in SIDES), "l.sqlite.batches/1.json"]
)
@pytest.mark.parametrize("words", ["mcranker rank", "mcranker recruit", "mcranker ledger export"])
@pytest.mark.parametrize("there", [True, False])
def test_no_output_replaces_what_was_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, name: str, there: bool
) -> None:
    ledger, path = tmp_path / "l.sqlite", tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if there or path.parent != tmp_path:
        path.write_bytes(b"kept")
    before = contents(tmp_path)
    assert "an input (--ledger '" in refusal(words, {"ledger": str(ledger), "out": str(path)})
    monkeypatch.setenv("MCRANKER_LEDGER", str(ledger))
    assert "an input (--ledger '" in refusal(words, {"out": str(path)})
    assert contents(tmp_path) == before


def test_a_run_named_by_its_rankings_is_an_input_as_a_whole(tmp_path: Path) -> None:
    for name in ("rankings.jsonl", "manifest.json"):
        (tmp_path / name).write_text("kept")
    given = {"file": str(tmp_path / "rankings.jsonl"), "html": str(tmp_path / "manifest.json")}
    assert "would replace an input (FILE" in refusal("mcranker inspect", given)


def test_no_output_replaces_kept_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vectors.sqlite"
    monkeypatch.setenv("MCRANKER_VECTORS", str(path))
    for name in (path, f"{path}-wal"):
        message = refusal("mcranker rank", {"save": str(name)})
        assert f"--save '{name}' would replace an input (--model '{name}')" in message


def test_nothing_is_asked_before_an_output_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = scripted(monkeypatch, tmp_path)
    docs = tmp_path / "docs.jsonl"
    docs.write_text('{"id": "a", "text": "one"}\n')
    before = docs.read_bytes()
    for flag in ("--out", "--save", "--report"):
        refused("mcranker", "rank", "q", "--docs", docs, flag, docs)
    assert docs.read_bytes() == before
    assert models.asked == []
    assert call("mcranker", "rank", "q", "--docs", docs, "--out", tmp_path / "x").exit_code == 0


# --- two outputs --------------------------------------------------------------------------------


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
    two.unlink()
    one.write_text("kept")
    two.hardlink_to(one)
    assert one_file(one, two)
    assert one.read_text() == "kept"


def test_two_commands_with_one_output_leave_that_of_one(tmp_path: Path) -> None:
    path = tmp_path / "out"
    texts = ["a" * 300_000, "b" * 200_000]
    start = threading.Barrier(len(texts))

    def write(text: str) -> None:
        start.wait()
        for _ in range(5):
            write_whole(path, text)
            assert path.read_text() in texts

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


# --- standard streams and open files ------------------------------------------------------------


def show(*args: str, **streams: object) -> subprocess.CompletedProcess[str]:
    """``personas show clinician``, with streams that are files."""
    code = (
        "import sys; from mcranker.cli.personas.group import main;"
        "sys.argv = ['personas', 'show', *sys.argv[1:]]; main()"
    )
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **streams)  # type: ignore[call-overload,no-any-return]


@linux
def test_standard_streams_are_inputs_and_outputs(tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    path.write_text("persona: {name: Nurse}\n")
    before = path.read_bytes()
    with path.open("ab") as stdout:
        done = show(str(path), stdout=stdout)
    assert done.returncode == 2
    assert f"standard output would replace an input (NAMES '{path}')" in done.stderr
    with path.open("rb") as stdin, (tmp_path / "page").open("wb") as stdout:
        done = show("clinician", "--html", str(path), stdin=stdin, stdout=stdout)
    assert f"--html '{path}' would replace an input (standard input)" in done.stderr
    with path.open("ab") as stdout:
        done = show("clinician", "--html", str(path), stdout=stdout)
    assert f"standard output and --html '{path}' are one file" in done.stderr
    assert path.read_bytes() == before


@linux
def test_what_is_written_to_dev_stdout_is_added_to_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    with log.open("ab") as stdout:
        assert show("clinician", "--html", "/dev/stdout", stdout=stdout).returncode == 0
    assert log.read_text().startswith("before\n<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [log]


@linux
def test_files_that_are_open(tmp_path: Path) -> None:
    path = tmp_path / "ranking.json"
    path.write_text("kept")
    with path.open("r+b") as file:
        number = f"/dev/fd/{file.fileno()}"
        given = {"file": str(path), "html": number}
        assert f"--html '{number}' would replace" in refusal("mcranker inspect", given)
    with path.open("rb") as file:
        message = refusal("mcranker inspect", {"file": "x", "html": f"/dev/fd/{file.fileno()}"})
        assert "nothing can be written there (Bad file descriptor)" in message
    assert path.read_text() == "kept"


# --- places and disks ---------------------------------------------------------------------------


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
        *([(Path("/proc/file"), "nothing can be written there (")] if IS_LINUX else []),
    ]:
        for flag in ("--out", "--save", "--report"):
            assert problem in refused("mcranker", "rank", "q", "a", flag, name)
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
    files = {
        flag: tmp_path / name
        for flag, name in {
            "--out": "out.txt",
            "--save": "saved.json",
            "--report": "page.html",
        }.items()
    }
    places = files | {full: tmp_path / "full"}
    args = ["rank", "q", "a", "bb", "--ledger", tmp_path / "ledger.sqlite"]
    result = call("mcranker", *args, *(part for pair in places.items() for part in pair))
    assert result.exit_code == 1
    assert f"error: '{places[full]}': No space left on device; answers are kept in" in result.stderr
    assert [flag for flag, path in files.items() if path.exists()] == [
        flag for flag in files if flag != full
    ]
    asked = len(models.requests)
    assert call("mcranker", *args).exit_code == 0
    assert len(models.requests) == asked  # what was paid for is there


@linux
def test_a_full_disk_is_one_error_in_json(tmp_path: Path, models: Connected) -> None:
    for args in (
        ["rank", "q", "a", "--save", tmp_path / "full"],
        ["recruit", "q", "--out", tmp_path / "full.yaml"],
    ):
        result = call("mcranker", *args, "--output", "json")
        whole = json.loads(result.stdout)
        assert (result.exit_code, whole["exit_code"], whole["status"]) == (1, 1, "error")
        assert [error["code"] for error in whole["errors"]] == ["OSError"]
        assert whole.keys() & {"ranking", "team"}
    assert "Virologist" in call("mcranker", "recruit", "q", "--out", tmp_path / "full.yaml").stdout


@linux
def test_a_full_disk_among_many_queries_ends_the_run(tmp_path: Path, models: Connected) -> None:
    queries, run, corpus = (tmp_path / name for name in ("queries.tsv", "run.trec", "corpus.tsv"))
    queries.write_text("1\tone\n")
    run.write_text("1 Q0 a 1 1 x\n")
    corpus.write_text("a\ttext\n")
    args = ["rank", "--queries", queries, "--run", run, "--corpus", corpus, "--output", "trec"]
    args += ["--ledger", tmp_path / "ledger.sqlite", "--out", tmp_path / "out.trec"]
    message = refused("mcranker", *args, "--save", tmp_path / "full")
    assert "No space left on device; answers are kept in" in message
    assert not (tmp_path / "out.trec").exists()
    asked = len(models.requests)
    assert call("mcranker", *args, "--save", tmp_path / "saved.jsonl").exit_code == 0
    assert len(models.requests) == asked
